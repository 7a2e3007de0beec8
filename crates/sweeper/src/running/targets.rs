//! Passes the notices of a definition that has targets on to them. The store inserts a notice for each target in the transaction that
//! stores the outcome, so each target gets each notice once. What is too much for one transaction goes in parts before it, each of which
//! stores how far it is.
//!
//! Which rows are targets, and what they inherit, is left to [`solid_notify_core::definition::in_force`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::definition::{TargetFilter, Unjudged};
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{PassOn, PassedOn};
use solid_notify_core::transition::Event;
use tokio::time::Instant;

use crate::definitions::{Definition, Definitions, Ready};
use crate::settling::Outcome;
use crate::worker::Worker;

/// How many bytes of parameters one transaction inserts for targets, and how many notices.
const PART_BYTES: usize = 1 << 20;
const PART: usize = 500;
/// How long one attempt makes parts. Between attempts a pause and a shutdown take effect.
const WORK: Duration = Duration::from_secs(5);
/// How long a notice waits for the end of a transaction that holds the dedupe key of one of its targets.
const BUSY: Duration = Duration::from_millis(200);

/// Returns the outcome of a notice that is passed on.
pub(super) async fn pass_on(worker: &Worker, ready: Arc<Ready>, claimed: ClaimedNotice) -> Outcome {
    let definitions = worker.definitions();
    let targets = definitions.targets(claimed.def_id);
    let taken = taken(worker, &ready.policy.name, targets, &claimed.param).await;
    let (mut takes, mut leaves) = (Vec::new(), Vec::new());
    for (target, taken) in targets.iter().zip(taken) {
        if taken { takes.push(target) } else { leaves.push(target) }
    }
    let most = (PART_BYTES / claimed.param.len().max(1)).clamp(1, PART);
    let ids: Vec<i64> = takes.iter().map(|target| target.row.id).collect();
    // A claim before may have begun with parts, of which only the store knows.
    let (pass_to, event) = if ids.len() <= most && claimed.fence == 1 {
        let note = note(&definitions, &ids, &leaves);
        (ids, Event::PassedOn(note))
    } else {
        let alive = |target: &&Arc<Definition>| target.row.delete_time.is_none();
        let mut known: Vec<i64> = targets.iter().filter(alive).map(|target| target.row.id).collect();
        known.sort_unstable();
        let (id, def_id, fence) = (claimed.id, claimed.def_id, claimed.fence);
        // In a box, because it is rare.
        let part = PassOn { id, def_id, fence, targets: ids, known, most };
        (Vec::new(), Box::pin(in_parts(worker, part, &leaves)).await)
    };
    let claimed = ClaimedNotice { param: String::new(), ..claimed };
    Outcome { pass_to, ..Outcome::new(claimed, ready, event) }
}

/// Passes a notice on in parts, and not to the targets that it leaves out. Returns what follows for it.
async fn in_parts(worker: &Worker, part: PassOn, leaves: &[&Arc<Definition>]) -> Event {
    let began = Instant::now();
    while began.elapsed() < WORK {
        let passed = tokio::select! {
            biased;
            passed = worker.stores().send.pass_on(&part) => passed,
            () = worker.signals.handlers_cancelled() => break,
        };
        match passed {
            Ok(PassedOn::Part { targets, done }) => {
                worker.not_handed_back(part.def_id);
                worker.signals.sweep_soon();
                if done == targets.len() {
                    return Event::PassedOn(note(&worker.definitions(), &targets, leaves));
                }
            }
            Ok(PassedOn::Changed) => {
                if let Err(error) = worker.reload_definitions().await {
                    worker.health.mention(&error);
                }
                break;
            }
            Ok(PassedOn::Busy) => return Event::HandedBack(BUSY),
            Err(error) => return worker.handed_back(part.def_id, &error),
        }
    }
    Event::HandedBack(Duration::ZERO)
}

/// Returns what people read of a notice that these targets got, and those others not.
fn note(definitions: &Definitions, takes: &[i64], leaves: &[&Arc<Definition>]) -> String {
    let name = |id: &i64| definitions.get(*id)?.row.target_name().map(str::to_owned);
    let names = takes.iter().filter_map(name).collect::<Vec<_>>().join(", ");
    match (takes.len(), leaves.len()) {
        (0, 0) => "passed on to no target".to_owned(),
        (0, _) if leaves.iter().all(|target| !target.row.enabled) => "all its targets are disabled".to_owned(),
        (0, _) => "no target accepted it".to_owned(),
        (1, _) => format!("passed on to the target {names}"),
        (count, _) => format!("passed on to {count} targets: {names}"),
    }
}

/// Returns for each target whether it gets a notice. One whose filter is invalid, or cannot be judged for it, gets it and keeps it until the
/// filter is corrected.
async fn taken(worker: &Worker, definition: &str, targets: &[Arc<Definition>], param: &str) -> Vec<bool> {
    let filter_of = |target: &Arc<Definition>| match target.policy() {
        Some(policy) => policy.filter.clone(),
        None => target.row.filter().and_then(Result::ok).map(Arc::new),
    };
    let filters: Vec<_> = targets.iter().filter(|target| target.row.enabled).filter_map(filter_of).collect();
    let mut judged = judge(worker, definition, &filters, param).await.unwrap_or_default().into_iter();
    let mut accepted = || judged.next().is_none_or(|judged| judged.unwrap_or(true));
    targets.iter().map(|target| target.row.enabled && (filter_of(target).is_none() || accepted())).collect()
}

/// Returns for each filter whether it lets a parameter through. What takes long is judged on a thread that may block.
///
/// # Errors
/// A panic of such a thread.
pub(super) async fn judge(
    worker: &Worker,
    definition: &str,
    filters: &[Arc<TargetFilter>],
    param: &str,
) -> io::Result<Vec<Result<bool, Unjudged>>> {
    let mut judged: Vec<_> = filters.iter().map(|filter| filter.judge_quickly(param)).collect();
    let slow: Vec<_> = filters
        .iter()
        .zip(&judged)
        .filter(|(_, judged)| judged.is_none())
        .map(|(filter, _)| Arc::clone(filter))
        .collect();
    if !slow.is_empty() {
        let param = param.to_owned();
        let work = move || Ok(slow.iter().map(|filter| filter.judge(&param)).collect::<Vec<_>>());
        // In a box, because it is rare.
        let slow = Box::pin(worker.outbox.engine().computing().run(definition, work)).await?;
        judged.iter_mut().filter(|judged| judged.is_none()).zip(slow).for_each(|(judged, slow)| *judged = Some(slow));
    }
    Ok(judged.into_iter().flatten().collect())
}
