//! The settle loop: judges outcomes by the definition as it is now and writes them in batches. It retries for as long as
//! the database does not accept them.
//!
//! A batch that fails waits behind the others ([`crate::pending`]). A batch that keeps failing, or can never be written, is
//! halved, so that one row never keeps others from being settled.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{FollowUpResult, Settle, Settled, Shape};
use solid_notify_core::transition::{Chance, Event, Next, transition};
use solid_notify_core::{AlertReason, ErrorClass, Status, StoreError};
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;

use crate::definitions::Ready;
use crate::outcome::to_settle;
use crate::pending::{Batch, Decided, Pending};
use crate::supervise::report;
use crate::worker::Worker;

/// The most outcomes of one batch.
pub(crate) const BATCH: usize = 500;
/// The pause between two batches, if the second one is not full: a single outcome is written at once, and under load one
/// transaction settles many.
const PACE: Duration = Duration::from_millis(30);
/// The same pause if a producer, or the next notice of an ordering key, waits for an outcome.
const URGENT_PACE: Duration = Duration::from_millis(1);
/// How long after the hand-back the last outcomes are retried.
const LAST_TRIES: Duration = Duration::from_secs(9);
/// The end reason of a notice whose outcome the database refuses with its own texts.
const SAFE_REASON: &str = "its outcome could not be stored; see the log of the node that sent it";

/// The result of one attempt, to be settled.
pub(crate) struct Outcome {
    pub(crate) claimed: ClaimedNotice,
    /// The definition at the claim, used if its row is missing or invalid when the outcome is judged.
    pub(crate) ready: Arc<Ready>,
    pub(crate) event: Event,
    pub(crate) duration: Duration,
    /// The error of a failed attempt.
    pub(crate) trouble: Option<(ErrorClass, String)>,
    /// True if this is an overdue notice that this node judges without having claimed it.
    pub(crate) overdue: bool,
    /// For the follow-up of an alert: what it reported, stored if it succeeds.
    pub(crate) told: Option<Box<FollowUpResult>>,
    /// The permit for a suspect, released when the outcome is stored.
    pub(crate) alone: Option<OwnedSemaphorePermit>,
}

impl Outcome {
    pub(crate) fn new(claimed: ClaimedNotice, ready: Arc<Ready>, event: Event) -> Self {
        Self { claimed, ready, event, duration: Duration::ZERO, trouble: None, overdue: false, told: None, alone: None }
    }
}

/// The outcomes to settle. The queue outlives the loop: a loop that is restarted after a panic continues with it.
pub(crate) struct SettleQueue {
    outcomes: mpsc::UnboundedReceiver<Outcome>,
    /// Received but not judged.
    fresh: Vec<Outcome>,
    /// Judged but not written.
    pending: Pending,
    /// The batch that is being written. If it was written before a panic, the store reports that on the next try.
    in_hand: Option<Batch>,
}

impl SettleQueue {
    pub(crate) fn new(outcomes: mpsc::UnboundedReceiver<Outcome>) -> Self {
        Self { outcomes, fresh: Vec::new(), pending: Pending::default(), in_hand: None }
    }

    fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.pending.is_empty()
    }
}

/// Runs until no more outcomes can come and all are written, or until the last tries after a shutdown are over.
pub(crate) async fn settle_loop(worker: Arc<Worker>, queue: Arc<Mutex<SettleQueue>>) {
    let mut queue = queue.lock().await;
    let queue = &mut *queue;
    if let Some(batch) = queue.in_hand.take() {
        queue.pending.put_back(batch);
    }
    let mut deadline = None;
    let mut written_at = Instant::now();
    loop {
        let ready_at = queue.pending.next_at();
        let wait = async {
            match ready_at {
                Some(moment) => tokio::time::sleep_until(moment).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = std::future::ready(()), if !queue.fresh.is_empty() => {}
            received = queue.outcomes.recv_many(&mut queue.fresh, BATCH) => {
                if received == 0 && queue.is_empty() {
                    break;
                }
                if received == 0 {
                    // The channel is closed: only pending outcomes are left.
                    tokio::time::sleep_until(ready_at.unwrap_or_else(Instant::now)).await;
                }
            }
            () = wait => {}
        }
        if worker.abort.is_cancelled() && *deadline.get_or_insert_with(|| Instant::now() + LAST_TRIES) <= Instant::now()
        {
            let left = queue.fresh.len() + queue.pending.count();
            report(|| tracing::error!(notices = left, "shutdown ends before all outcomes are stored"));
            break;
        }
        if !queue.fresh.is_empty() {
            gather(&worker, &mut queue.outcomes, &mut queue.fresh, written_at).await;
            queue.pending.add(queue.fresh.drain(..).filter_map(|outcome| worker.decide(outcome)));
        }
        // All batches are written, so that the queue does not grow. After a failed batch the loop first
        // checks for new outcomes and for the shutdown.
        let mut stored = true;
        while stored && let Some(batch) = queue.pending.next() {
            queue.in_hand = Some(batch);
            stored = worker.write(queue).await;
            written_at = Instant::now();
        }
    }
}

/// Gathers more outcomes for a batch that is not full, until the pace allows to write it. It does not wake for each
/// outcome, because under load that costs more than the outcome itself.
async fn gather(
    worker: &Worker,
    queue: &mut mpsc::UnboundedReceiver<Outcome>,
    fresh: &mut Vec<Outcome>,
    last: Instant,
) {
    let mut pace = PACE;
    loop {
        while fresh.len() < BATCH
            && let Ok(outcome) = queue.try_recv()
        {
            fresh.push(outcome);
        }
        if worker.hurry.urgent.swap(false, Ordering::Relaxed) {
            pace = URGENT_PACE;
        }
        if fresh.len() >= BATCH || queue.is_closed() || last + pace <= Instant::now() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep_until(last + pace) => {}
            () = worker.hurry.told.notified() => {}
        }
    }
}

/// Ends the gathering of a batch before its pace.
#[derive(Default)]
pub(crate) struct Hurry {
    /// A producer or an ordering key waits for an outcome that was passed on.
    urgent: AtomicBool,
    told: Notify,
}

impl Hurry {
    /// Notes that an outcome was passed on; `count` are under way.
    pub(crate) fn note(&self, urgent: bool, count: usize) {
        if urgent {
            self.urgent.store(true, Ordering::Relaxed);
        }
        if urgent || count.is_multiple_of(BATCH) {
            self.told.notify_one();
        }
    }
}

impl Worker {
    /// Judges an outcome. If the judgement panics, the attempt is given up: its lease expires and counts a crash.
    fn decide(&self, outcome: Outcome) -> Option<Decided> {
        match std::panic::catch_unwind(AssertUnwindSafe(|| self.settle_of(&outcome))) {
            Ok(settle) => Some(Decided { settle, outcome, stuck: false }),
            Err(panic) => {
                std::mem::forget(panic);
                self.unjudged(&outcome);
                None
            }
        }
    }

    /// Judges an outcome by the definition as it is now.
    fn settle_of(&self, outcome: &Outcome) -> Settle {
        let definition = self.definition(outcome.claimed.def_id);
        let now = definition.as_deref();
        let policy = now.and_then(|definition| definition.policy()).unwrap_or(&outcome.ready.policy);
        let strategy =
            now.and_then(|definition| definition.ready()).map_or(&outcome.ready.strategy, |now| &now.strategy);
        let chance = Chance { unit: fastrand::f64(), strategy: &**strategy };
        let transition = transition(policy, &outcome.claimed, &outcome.event, &chance);
        let alarm = self.alarm_of(policy, outcome, &transition);
        let mut settle = to_settle(outcome, transition, policy);
        settle.alarm = alarm;
        settle.watched = self.watched(policy, outcome);
        if let Next::Finish { status: Status::Succeeded, keep, .. } = &mut settle.transition.next {
            settle.told.clone_from(&outcome.told);
            // A follow-up that sent no alert leaves no history.
            *keep &= outcome.told.as_ref().is_none_or(|told| told.notified);
        }
        settle
    }

    /// Returns true if a producer or an ordering key waits for the outcome to be stored.
    pub(crate) fn is_urgent(&self, outcome: &Outcome) -> bool {
        outcome.claimed.ordering_key.is_some() || self.reports().contains_key(&outcome.claimed.id)
    }

    /// Writes the batch in hand; outcomes that could not be written go back to `pending`. Returns false if the call failed.
    async fn write(&self, queue: &mut SettleQueue) -> bool {
        let Some(batch) = &queue.in_hand else { return true };
        let settles: Vec<Settle> = batch.decided.iter().map(|decided| decided.settle.clone()).collect();
        let answer = self.store().settle(&settles).await;
        let Some(mut batch) = queue.in_hand.take() else { return true };
        let pending = &mut queue.pending;
        match answer {
            Ok(answers) => {
                #[allow(clippy::cast_precision_loss)] // At most a few hundred.
                report(|| self.meters.settle_batch.record(settles.len() as f64));
                let poll = self.settings.poll_interval;
                let due_soon =
                    |settle: &Settle| matches!(settle.transition.next, Next::Wait { after, .. } if after < poll);
                if settles.iter().any(|settle| due_soon(settle) || settle.shape() == Shape::Watched) {
                    // The sweep did not know of these due times when it went to sleep.
                    self.due_soon.notify_one();
                }
                let mut locked = Vec::new();
                for (decided, answer) in std::mem::take(&mut batch.decided).into_iter().zip(answers) {
                    match answer {
                        Settled::Done => self.settled(decided),
                        Settled::Locked if !decided.outcome.overdue => locked.push(decided),
                        Settled::Locked | Settled::LostLease | Settled::Ended => self.lost(&decided, answer),
                    }
                }
                if let Some(def_id) = batch.of {
                    pending.goes_on(def_id);
                }
                if !locked.is_empty() {
                    self.count_stuck(&mut locked);
                    pending.put_back(batch.with(locked).again());
                }
                // Claims or a wait for idleness may depend on this settle.
                self.slots.nudge();
                if self.idle.receiver_count() > 0 && self.holds_nothing() {
                    self.due_soon.notify_one();
                }
                true
            }
            Err(error) if error.is_transient() => {
                report(|| self.health.note_some(&error));
                if matches!(error.kind, FaultKind::Outage | FaultKind::Busy) {
                    pending.put_back(batch.again());
                } else {
                    self.count_stuck(&mut batch.decided);
                    pending.put_back_apart(batch.again());
                }
                false
            }
            Err(error) => {
                if let Some(def_id) = batch.of {
                    pending.goes_on(def_id);
                }
                self.split(batch.decided, &error, pending);
                false
            }
        }
    }

    /// Halves a batch that the database can never accept. A single outcome is written with its texts in ASCII, and if the
    /// database refuses that too, as a dead letter without any text of its own.
    fn split(&self, mut decided: Vec<Decided>, error: &StoreError, pending: &mut Pending) {
        if decided.len() > 1 {
            let half = decided.split_off(decided.len() / 2);
            pending.put_first(half);
            pending.put_first(decided);
            return;
        }
        let Some(mut culprit) = decided.pop() else { return };
        let (id, fence) = (culprit.settle.id, culprit.settle.fence);
        report(
            || tracing::error!(definition = %culprit.definition(), id, fence, %error, "the store refused an outcome"),
        );
        if culprit.settle.reduce_to_ascii() {
            pending.put_first(vec![culprit]);
            return;
        }
        let is_safe = matches!(&culprit.settle.transition.next, Next::Finish { reason: Some(reason), .. } if reason == SAFE_REASON);
        if is_safe && let Some(alarm) = culprit.settle.alarm.take() {
            report(|| tracing::error!(?alarm, "the store refused an alert; this log line is its only record"));
            pending.put_first(vec![culprit]);
            return;
        }
        if is_safe {
            // The database refuses even this form. The lease expires and counts a crash, so the notice finally runs out of
            // tries.
            self.give_up(id, fence);
            self.forget(&culprit);
            return;
        }
        let reason = Some(SAFE_REASON.to_owned());
        culprit.settle.transition.next = Next::Finish { status: Status::DeadLetter, reason, keep: true };
        culprit.settle.watched = None;
        culprit.settle.errors = None;
        culprit.settle.description = None;
        if let Some(alarm) = &mut culprit.settle.alarm {
            (alarm.reason, alarm.message) = (AlertReason::FinalFailure, SAFE_REASON.to_owned());
        }
        culprit.settle.last_class = Some(ErrorClass::Invalid.as_str().to_owned());
        pending.put_first(vec![culprit]);
    }
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
