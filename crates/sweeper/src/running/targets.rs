//! Passes the notices of a definition that has targets on to them. The store inserts a notice for each target in the transaction that
//! stores the outcome, so each target gets each notice once.
//!
//! Which rows are targets, and what they inherit, is left to [`solid_notify_core::definition::in_force`].

use std::borrow::Cow;
use std::sync::Arc;

use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::transition::Event;

use crate::definitions::{Definition, Definitions, Ready};
use crate::settling::Outcome;

/// Returns the outcome of a notice that is passed on.
pub(super) fn pass_on(definitions: &Definitions, ready: Arc<Ready>, claimed: ClaimedNotice) -> Outcome {
    let targets = definitions.targets(claimed.def_id);
    let (takes, leaves): (Vec<_>, Vec<_>) = targets.iter().partition(|target| takes(target, &claimed.param));
    let name = |target: &&Arc<Definition>| target.row.target_name().unwrap_or_default().to_owned();
    let names = takes.iter().map(name).collect::<Vec<_>>().join(", ");
    let note = match (takes.len(), leaves.len()) {
        (0, 0) => "passed on to no target".to_owned(),
        (0, _) if leaves.iter().all(|target| !target.row.enabled) => "all its targets are disabled".to_owned(),
        (0, _) => "no target accepted it".to_owned(),
        (1, _) => format!("passed on to the target {names}"),
        (count, _) => format!("passed on to {count} targets: {names}"),
    };
    let pass_to = takes.iter().map(|target| target.row.id).collect();
    let claimed = ClaimedNotice { param: String::new(), ..claimed };
    Outcome { pass_to, ..Outcome::new(claimed, ready, Event::PassedOn(note)) }
}

/// Returns whether a target gets a notice. One whose filter is invalid, or cannot be judged for it, gets it and keeps it until the filter is corrected.
fn takes(target: &Definition, param: &str) -> bool {
    let filter = match target.policy() {
        Some(policy) => policy.filter.as_deref().map(Cow::Borrowed),
        None => target.row.filter().and_then(Result::ok).map(Cow::Owned),
    };
    target.row.enabled && filter.is_none_or(|filter| filter.judge(param).unwrap_or(true))
}
