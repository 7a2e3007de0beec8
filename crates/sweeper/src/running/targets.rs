//! Passes the notices of a definition that has targets on to them. The store inserts a notice for each target in the transaction that
//! stores the outcome, so each target gets each notice once. What is too much for one transaction goes in parts before it, each of which
//! stores how far it is.
//!
//! Which rows are targets, and what they inherit, is left to [`solid_notify_core::definition::in_force`].

use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::definition::{TargetFilter, Unjudged};
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{DecidedBy, Kept, NamedTarget, PassOn, PassedOn, SeenTarget, passed_on};
use solid_notify_core::transition::Event;
use tokio::time::Instant;

use super::holding::wait;
use crate::definitions::{Definition, Definitions, Ready};
use crate::settling::Outcome;
use crate::worker::Worker;

/// How many bytes of parameters one transaction inserts for targets, and how many notices.
const PART_BYTES: usize = 1 << 20;
const PART: usize = 500;
/// How long one attempt makes parts. Between attempts a pause and a shutdown take effect.
const WORK: Duration = Duration::from_secs(5);
/// How long a notice waits before it is judged again, because a filter takes long and others are before it.
pub(super) const LATER: Duration = Duration::from_secs(2);
/// How long a notice waits for the end of a transaction that holds the dedupe key of one of its targets.
const BUSY: Duration = Duration::from_millis(200);

/// Returns the outcome of a notice that is passed on. `encrypted`: whether its parameter is stored encrypted.
pub(super) async fn pass_on(
    worker: &Worker,
    definition: &Definition,
    ready: Arc<Ready>,
    claimed: ClaimedNotice,
    encrypted: bool,
) -> Outcome {
    let definitions = worker.definitions();
    let targets = definitions.targets(claimed.def_id);
    if targets.is_empty() {
        // The last one was deleted after the claim. The definition is an ordinary one again.
        return Outcome::new(
            ClaimedNotice { param: String::new(), ..claimed },
            ready,
            Event::HandedBack(Duration::ZERO),
        );
    }
    let taken = match taken(worker, &ready, targets, &claimed.param).await {
        Ok(taken) => taken,
        Err(event) => return Outcome::new(ClaimedNotice { param: String::new(), ..claimed }, ready, event),
    };
    let takes: Vec<&Arc<Definition>> =
        targets.iter().zip(taken).filter_map(|(target, takes)| takes.then_some(target)).collect();
    let most = (PART_BYTES / claimed.param.len().max(1)).clamp(1, PART);
    let ids: Vec<i64> = takes.iter().map(|target| target.row.id).collect();
    let known: Vec<SeenTarget> = targets.iter().map(|target| SeenTarget::from(&*target.row)).collect();
    // A plaintext where the row of a target demands encryption, and the definition stores plaintext.
    let demands = |target: &&&Arc<Definition>| target.row.encrypt_param && !definition.row.encrypt_param && !encrypted;
    let owed: Vec<i64> = takes.iter().filter(demands).map(|target| target.row.id).collect();
    // A claim before may have begun with parts, of which only the store knows.
    let (pass_to, decided_by, event) = if owed.is_empty() && ids.len() <= most && claimed.fence == 1 {
        let (targets, decided_by) = (named(&definitions, &ids), Box::new(DecidedBy::Targets(known)));
        let note = passed_on(&targets, &[]);
        (targets, Some(decided_by), Event::PassedOn(note))
    } else {
        let (id, def_id, fence) = (claimed.id, claimed.def_id, claimed.fence);
        // In a box, because it is rare.
        let part = PassOn { id, def_id, fence, targets: ids, known, owed, most };
        (Vec::new(), None, Box::pin(in_parts(worker, definition, part)).await)
    };
    let (passed, claimed) = (claimed.param.len(), ClaimedNotice { param: String::new(), ..claimed });
    Outcome { pass_to, decided_by, passed, ..Outcome::new(claimed, ready, event) }
}

/// Passes a notice on in parts. Returns what follows for it: it waits while it is owed to a target.
async fn in_parts(worker: &Worker, definition: &Definition, part: PassOn) -> Event {
    let began = Instant::now();
    while began.elapsed() < WORK {
        let passed = tokio::select! {
            biased;
            passed = worker.stores().send.pass_on(&part) => passed,
            () = worker.signals.handlers_cancelled() => break,
        };
        match passed {
            Ok(PassedOn::Part { targets, done, kept }) => {
                worker.not_handed_back(part.def_id);
                worker.signals.sweep_soon();
                let left = targets.get(done..).unwrap_or_default();
                if left.is_empty() {
                    return Event::PassedOn(note(&worker.definitions(), &targets, &kept));
                }
                if left.iter().all(|target| part.owed.contains(target)) {
                    let problem = owed(&worker.definitions(), part.id, left);
                    return wait(worker, &definition.row, part.id, (&problem, None));
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

/// Returns what people read of a notice that was passed on to these targets.
fn note(definitions: &Definitions, takes: &[i64], kept: &[Kept]) -> String {
    passed_on(&named(definitions, takes), kept)
}

/// Returns targets with their names. One that was deleted since then has its id.
fn named(definitions: &Definitions, targets: &[i64]) -> Vec<NamedTarget> {
    let name = |id: i64| definitions.get(id).and_then(|target| target.row.target_name().map(str::to_owned));
    targets.iter().map(|id| NamedTarget::new(*id, name(*id).unwrap_or_else(|| id.to_string()))).collect()
}

/// Returns why a notice waits that these targets cannot get, while the others have it.
fn owed(definitions: &Definitions, id: i64, targets: &[i64]) -> String {
    format!(
        "encrypt_param: notice {id} is owed to {}, whose row demands encryption, and its parameter is stored as plaintext; set encrypt_param \
         also for the definition, or to false for the target; its other targets have it",
        named(definitions, targets).into_iter().map(|target| target.name).collect::<Vec<_>>().join(", ")
    )
}

/// Returns for each target whether it gets a notice. One that is paused gets it, and it waits there. One whose filter is invalid, or cannot be
/// judged for it, gets it and keeps it until the filter is corrected. One whose filter is not judged in time gets it, too, and its filter is judged before its attempt.
///
/// # Errors
/// The event of a notice that is judged later.
async fn taken(worker: &Worker, ready: &Ready, targets: &[Arc<Definition>], param: &str) -> Result<Vec<bool>, Event> {
    let filters: Vec<_> = targets.iter().filter_map(|target| target.filter.clone()).collect();
    let mut judged = judge(worker, ready, &filters, param).await?.into_iter();
    let mut accepted = || judged.next().is_none_or(|judged| judged.unwrap_or(true));
    Ok(targets.iter().map(|target| target.filter.is_none() || accepted()).collect())
}

/// Returns for the first of these filters whether they let a parameter through: for all of them that can be judged within the time-out of an attempt.
/// What takes long is judged on a thread that may block.
///
/// # Errors
/// The event of a notice that is judged later, because others wait for such a thread, or this sweeper shuts down.
pub(super) async fn judge(
    worker: &Worker,
    ready: &Ready,
    filters: &[Arc<TargetFilter>],
    param: &str,
) -> Result<Vec<Result<bool, Unjudged>>, Event> {
    let mut judged = TargetFilter::judge_quickly(filters, param);
    let quick = judged.len();
    if quick < filters.len() {
        // In a box, because it is rare.
        let slowly = Box::pin(judge_slowly(worker, &ready.policy.name, filters, param, &mut judged));
        tokio::select! {
            biased;
            ended = tokio::time::timeout(ready.policy.timeout, slowly) => ended.unwrap_or(Ok(()))?,
            () = worker.signals.handlers_cancelled() => return Err(Event::HandedBack(Duration::ZERO)),
        }
        if judged.len() == quick {
            return Err(Event::HandedBack(LATER));
        }
    }
    Ok(judged)
}

/// Adds to `judged` what the other filters say. Between parts, other definitions have the thread.
async fn judge_slowly(
    worker: &Worker,
    definition: &str,
    filters: &[Arc<TargetFilter>],
    param: &str,
    judged: &mut Vec<Result<bool, Unjudged>>,
) -> Result<(), Event> {
    let param: Arc<str> = param.into();
    let computing = worker.outbox.engine().computing();
    let part = |judged: usize| {
        let (filters, param) = (filters[judged..].to_vec(), Arc::clone(&param));
        move || Ok(TargetFilter::judge_some(&filters, &param))
    };
    let mut some = match computing.run_soon(definition, part(judged.len())).await {
        Some(some) => some,
        None => return Err(Event::HandedBack(LATER)),
    };
    loop {
        // A panic, which the log has.
        judged.extend(some.map_err(|_| Event::HandedBack(worker.settings.poll_interval))?);
        if judged.len() == filters.len() {
            return Ok(());
        }
        some = computing.run(definition, part(judged.len())).await;
    }
}
