//! The settle loop: takes outcomes from the queue, has them judged, and writes them in batches. It retries for as long as
//! the database does not accept them. For a stored outcome it logs, counts, reports to the producer, and releases the claim.
//!
//! A batch that fails waits behind the others ([`super::pending`]). A batch that keeps failing, or can never be written, is
//! halved, so that one row never keeps others from being settled.

use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::built_in::is_built_in;
use solid_notify_core::dispatch::FirstAttempt;
use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::duration_millis;
use solid_notify_core::store::{Settle, Settled, Shape};
use solid_notify_core::transition::{Event, Next};
use solid_notify_core::{Status, StoreError};
use tokio::time::Instant;

use super::decide::decide;
use super::pending::{Batch, Decided, Outcome, Pending, SETTLE_BATCH};
use super::queue::Settling;
use super::refused::split;
use crate::alerts::locked::Work;
use crate::supervise::report;
use crate::worker::Worker;

/// How long after the hand-back the last outcomes are retried.
const LAST_TRIES: Duration = Duration::from_secs(9);

/// Runs until no more outcomes can come and all are written, or until the last tries after a shutdown are over.
pub(crate) async fn settle_loop(worker: Arc<Worker>) {
    let mut settling = worker.outcomes.settling().await;
    let settling = &mut *settling;
    if let Some(batch) = settling.in_hand.take() {
        settling.pending.put_back(batch);
    }
    let mut deadline = None;
    let mut written_at = Instant::now();
    loop {
        let ready_at = settling.pending.next_at();
        let wait = async {
            match ready_at {
                Some(moment) => tokio::time::sleep_until(moment).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = std::future::ready(()), if !settling.fresh.is_empty() => {}
            received = settling.receiver.recv_many(&mut settling.fresh, SETTLE_BATCH) => {
                if received == 0 && settling.is_empty() {
                    break;
                }
                if received == 0 {
                    // The channel is closed: only pending outcomes are left.
                    tokio::time::sleep_until(ready_at.unwrap_or_else(Instant::now)).await;
                }
            }
            () = wait => {}
        }
        if worker.signals.are_handlers_cancelled()
            && *deadline.get_or_insert_with(|| Instant::now() + LAST_TRIES) <= Instant::now()
        {
            let left = settling.fresh.len() + settling.pending.count();
            report(|| tracing::error!(notices = left, "shutdown ends before all outcomes are stored"));
            break;
        }
        if !settling.fresh.is_empty() {
            settling.gather(worker.outcomes.urgency(), written_at).await;
            if let Err(error) = worker.read_own_edits().await {
                report(|| worker.health.note_some(&error));
            }
            settling.pending.add(settling.fresh.drain(..).filter_map(|outcome| decide(&worker, outcome)));
        }
        // All batches are written, so that the queue does not grow. After a failed batch the loop first
        // checks for new outcomes and for the shutdown.
        let mut stored = true;
        while stored && let Some(batch) = settling.pending.next() {
            settling.in_hand = Some(batch);
            stored = write(&worker, settling).await;
            written_at = Instant::now();
        }
    }
}

/// Writes the batch in hand; outcomes that could not be written go back to `pending`. Returns false if the call failed.
async fn write(worker: &Worker, settling: &mut Settling) -> bool {
    let Some(batch) = &settling.in_hand else { return true };
    let settles: Vec<Settle> = batch.decided.iter().map(|decided| decided.settle.clone()).collect();
    worker.health.writes();
    let replies = worker.stores().send.settle(&settles).await;
    worker.health.wrote(&settles, replies.as_ref().err());
    let Some(batch) = settling.in_hand.take() else { return true };
    match replies {
        Ok(replies) => {
            written(worker, batch, &settles, replies, &mut settling.pending);
            true
        }
        Err(error) => {
            not_written(worker, batch, &error, &mut settling.pending);
            false
        }
    }
}

/// Handles the store's replies to a batch, one for each outcome.
fn written(worker: &Worker, mut batch: Batch, settles: &[Settle], replies: Vec<Settled>, pending: &mut Pending) {
    report(|| worker.outcomes.record_batch(settles.len()));
    let poll = worker.settings.poll_interval;
    let due_soon = |settle: &Settle| matches!(settle.transition.next, Next::Wait { after, .. } if after < poll);
    if settles.iter().any(|settle| due_soon(settle) || settle.shape() == Shape::Full) {
        // The sweep did not know of these due times when it went to sleep.
        worker.signals.sweep_soon();
    }
    let (mut locked, mut changed) = (Vec::new(), Vec::new());
    for (decided, reply) in std::mem::take(&mut batch.decided).into_iter().zip(replies) {
        match reply {
            Settled::Stored => settled(worker, decided, None),
            Settled::PassedOn(reason) => settled(worker, decided, Some(reason)),
            Settled::Locked if !decided.outcome.overdue => locked.push(decided),
            Settled::Changed if !decided.outcome.overdue => changed.push(decided.outcome.judged_again()),
            Settled::Locked | Settled::Changed | Settled::LostLease | Settled::Ended(_) => {
                lost(worker, &decided, &reply)
            }
        }
    }
    if let Some(def_id) = batch.of {
        pending.goes_on(def_id);
    }
    if !locked.is_empty() {
        mark_delayed(worker, &mut locked);
        pending.put_back(batch.with(locked).again());
    }
    if !changed.is_empty() {
        // Nothing is claimed or judged before the definitions are read again.
        worker.outbox.engine().edited();
        pending.add(changed.into_iter().filter_map(|outcome| decide(worker, outcome)));
    }
    // Claims or a wait for idleness may depend on this settle.
    worker.admission.wake_if_wanted();
    if worker.signals.is_idle_awaited() && worker.in_flight.is_empty() {
        worker.signals.sweep_soon();
    }
}

/// Puts back a batch after a call that failed, or splits it if it can never be written.
fn not_written(worker: &Worker, mut batch: Batch, error: &StoreError, pending: &mut Pending) {
    if !error.is_transient() {
        if let Some(def_id) = batch.of {
            pending.goes_on(def_id);
        }
        if let Some(culprit) = split(batch.decided, error, pending) {
            // Its lease expires and counts a crash, so the notice finally runs out of tries.
            worker.in_flight.give_up(culprit.settle.id, culprit.settle.fence);
            forget(worker, &culprit);
        }
        return;
    }
    report(|| worker.health.note_some(error));
    if matches!(error.kind, FaultKind::Outage | FaultKind::Busy) {
        pending.put_back(batch.again());
    } else {
        mark_delayed(worker, &mut batch.decided);
        pending.put_back_apart(batch.again());
    }
}

/// Counts outcomes that could not be stored, although the store answers, and reports their definitions if that lasts.
fn mark_delayed(worker: &Worker, decided: &mut [Decided]) {
    worker.outcomes.mark_delayed(decided);
    for same in decided.chunk_by(|one, next| one.def_id() == next.def_id()) {
        if let Some(first) = same.first() {
            worker.alarms.locked_rows.waits(first.def_id(), first.definition(), Work::Outcomes);
        }
    }
}

/// Handles an outcome that is stored, with the end reason that the store gave it instead of the decided one, if it did.
fn settled(worker: &Worker, decided: Decided, instead: Option<String>) {
    let definition = decided.definition();
    let Decided { settle, outcome, .. } = &decided;
    let message = outcome.trouble.as_ref().map_or("", |(_, message)| message.as_str());
    let (id, attempt) = (settle.id, outcome.claimed.attempt());
    measure(worker, &decided);
    let first_attempt = match &settle.transition.next {
        Next::Finish { status: Status::DeadLetter, reason, .. } => {
            let reason = reason.as_deref().unwrap_or_default();
            report(|| {
                tracing::error!(%definition, id, attempt, reason, "a notice finally failed: it is a dead letter");
            });
            worker.outcomes.count(outcome, |totals| &totals.dead);
            FirstAttempt::Failed(if message.is_empty() { reason } else { message }.to_owned())
        }
        Next::Finish { reason, .. } => {
            worker.outcomes.count(outcome, |totals| &totals.succeeded);
            match &outcome.event {
                Event::PassedOn(_) => FirstAttempt::PassedOn(instead.or_else(|| reason.clone()).unwrap_or_default()),
                _ => FirstAttempt::Succeeded,
            }
        }
        Next::Wait { .. } if matches!(outcome.event, Event::HandedBack(_)) => FirstAttempt::StillDue,
        Next::Wait { status: Status::AwaitingAck, .. } => {
            report(|| tracing::debug!(%definition, id, attempt, "delivered, awaiting its ack"));
            worker.outcomes.count(outcome, |totals| &totals.awaiting_ack);
            FirstAttempt::Succeeded
        }
        Next::Wait { after, .. } => {
            let retry_in_ms = duration_millis(*after);
            report(|| tracing::warn!(%definition, id, attempt, retry_in_ms, error = message, "an attempt failed"));
            worker.outcomes.count(outcome, |totals| &totals.failed);
            FirstAttempt::Failed(message.to_owned())
        }
    };
    // A test may read the totals as soon as no claim is held.
    forget(worker, &decided);
    if let (Next::Finish { .. }, Some(key)) = (&settle.transition.next, &outcome.claimed.ordering_key) {
        worker.signals.key_freed(outcome.claimed.def_id, key);
    }
    // Reported last, so that a producer that began to wait during the attempt gets the report too.
    worker.in_flight.report(&[id], &first_attempt);
}

/// Counts an attempt in the metrics and in the series.
fn measure(worker: &Worker, decided: &Decided) {
    let Decided { settle, outcome, .. } = decided;
    let Outcome { claimed, event, duration, .. } = outcome;
    report(|| {
        if let Some(word) =
            outcome.ready.meters.settled(claimed, event, outcome.class(), *duration, &settle.transition.next)
            && !is_built_in(decided.definition())
        {
            worker.outcomes.series.settled(worker.clock_millis(), outcome, word);
        }
    });
}

/// Handles an outcome that is not stored, because the notice has changed since its claim.
fn lost(worker: &Worker, decided: &Decided, reply: &Settled) {
    let is_acked = is_acked_delivery(decided, reply);
    if is_acked {
        measure(worker, decided);
        worker.outcomes.count(&decided.outcome, |totals| &totals.awaiting_ack);
    }
    forget(worker, decided);
    let first_attempt = match reply {
        Settled::Ended(Status::DeadLetter) => FirstAttempt::Failed("its lease was lost after its last try".to_owned()),
        Settled::Ended(_) => FirstAttempt::Succeeded,
        _ => FirstAttempt::StillDue,
    };
    worker.in_flight.report(&[decided.settle.id], &first_attempt);
    report(|| if is_acked { report_acked(decided) } else { report_lost(decided, reply) });
}

/// Forgets an attempt whose outcome is settled or can never be settled. Other notices may then pass the limits.
fn forget(worker: &Worker, decided: &Decided) {
    let def_id = decided.def_id();
    if worker.outcomes.remove(decided)
        && let Some(definition) = worker.definition(def_id)
    {
        worker.alarms.locked_rows.goes_on(def_id, &definition.row.name, Work::Outcomes);
    }
    worker.in_flight.forget(decided.settle.id, decided.settle.fence, decided.outcome.overdue);
    if worker.admission.attempt_settled(&decided.outcome.ready.policy) {
        worker.signals.sweep_soon();
    }
}

/// Whether the ack of a delivery came before the delivery was stored, as that of a fast receiver often does.
fn is_acked_delivery(decided: &Decided, reply: &Settled) -> bool {
    let awaits_ack = matches!(decided.settle.transition.next, Next::Wait { status: Status::AwaitingAck, .. });
    *reply == Settled::Ended(Status::Succeeded) && awaits_ack && !decided.outcome.overdue
}

fn report_acked(decided: &Decided) {
    let (definition, id, attempt) = (decided.definition(), decided.settle.id, decided.outcome.claimed.attempt());
    tracing::debug!(%definition, id, attempt, "delivered, and acked already");
}

fn report_lost(decided: &Decided, reply: &Settled) {
    let (definition, Decided { settle, outcome, .. }) = (decided.definition(), decided);
    let then = match reply {
        Settled::Ended(Status::DeadLetter) => "the notice had no try left: it is a dead letter",
        _ => "the notice is sent again",
    };
    if matches!(reply, Settled::Ended(Status::Succeeded | Status::Cancelled)) && !outcome.overdue {
        tracing::info!(%definition, id = settle.id, attempt = outcome.claimed.attempt(), "acked or cancelled before this attempt was over");
    } else if outcome.overdue {
        // Another node was faster, or the sender of the notice settled it after all.
        tracing::debug!(%definition, id = settle.id, attempt = outcome.claimed.attempt(), "no longer overdue");
    } else {
        outcome.ready.meters.lease_losses.increment(1);
        tracing::warn!(
            %definition, id = settle.id, attempt = outcome.claimed.attempt(), event = ?outcome.event,
            "the lease was lost before the outcome could be stored; {then}"
        );
    }
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
