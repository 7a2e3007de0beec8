//! The settle loop: outcomes are judged by the definition as it is now and written in batches, however long the database
//! takes to accept them.
//!
//! A batch that fails waits its turn behind the others, and is halved where it keeps failing or can never be written, so
//! that one row never keeps others from being settled.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use solid_notify_core::lane::FirstAttempt;
use solid_notify_core::notice::{Claimed, duration_millis};
use solid_notify_core::store::{Settle, Settled, Shape, Told};
use solid_notify_core::transition::{Chance, Event, Next, transition};
use solid_notify_core::{AlertReason, ErrorClass, Status, StoreError};
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;

use crate::definitions::Ready;
use crate::health::pause_after;
use crate::outcome::to_settle;
use crate::worker::Worker;

/// The most outcomes of one batch.
pub(crate) const BATCH: usize = 500;
/// The most text of one batch, in bytes: below the smallest packet or statement limit that servers have by default.
const BATCH_BYTES: usize = 2 << 20;
/// The pause between one batch and the next that is not full: what ends alone is written at once, and under load one
/// transaction settles many.
const PACE: Duration = Duration::from_millis(30);
/// The same where somebody waits for an outcome: a producer, or the next notice of an ordering key.
const URGENT_PACE: Duration = Duration::from_millis(1);
/// After so many failures that may pass, a batch is halved: perhaps it is one row, or the size.
const PATIENCE: u32 = 3;
/// How long a shutdown waits for the database to take the last outcomes.
const LAST_TRIES: Duration = Duration::from_secs(10);
/// The end reason of a notice whose outcome cannot be stored with any text of its own.
const SAFE_REASON: &str = "its outcome could not be stored; see the log of the node that sent it";

/// What came of one attempt, to be settled.
pub(crate) struct Outcome {
    pub(crate) claimed: Claimed,
    /// What the definition was at the claim, should its row be gone or broken when the outcome is judged.
    pub(crate) ready: Arc<Ready>,
    pub(crate) event: Event,
    pub(crate) duration: Duration,
    /// The error of a failed attempt.
    pub(crate) trouble: Option<(ErrorClass, String)>,
    /// True where the notice is not ours, but overdue.
    pub(crate) overdue: bool,
    /// Of an alert's follow-up: what it has told, where it ends well.
    pub(crate) told: Option<Box<Told>>,
    /// Given back when the outcome is stored.
    pub(crate) alone: Option<OwnedSemaphorePermit>,
}

impl Outcome {
    pub(crate) fn new(claimed: Claimed, ready: Arc<Ready>, event: Event) -> Self {
        Self { claimed, ready, event, duration: Duration::ZERO, trouble: None, overdue: false, told: None, alone: None }
    }
}

/// An outcome with its decision.
struct Decided {
    settle: Settle,
    outcome: Outcome,
}

impl Decided {
    /// The name of its definition, as it was when the attempt began.
    fn definition(&self) -> &str {
        &self.outcome.ready.policy.name
    }
}

/// Decisions that are written together.
struct Batch {
    decided: Vec<Decided>,
    failures: u32,
    not_before: Instant,
}

impl Batch {
    fn new(decided: Vec<Decided>) -> Self {
        Self { decided, failures: 0, not_before: Instant::now() }
    }
}

/// Runs until no more outcomes can come and all are written, or nobody waits for them any more.
pub(crate) async fn settle_loop(worker: Arc<Worker>, queue: Arc<Mutex<mpsc::UnboundedReceiver<Outcome>>>) {
    let mut queue = queue.lock().await;
    let mut pending: VecDeque<Batch> = VecDeque::new();
    let mut deadline = None;
    let mut written_at = Instant::now();
    loop {
        let mut fresh = Vec::new();
        let ready_at = pending.iter().map(|batch| batch.not_before).min();
        let wait = async {
            match ready_at {
                Some(moment) => tokio::time::sleep_until(moment).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            received = queue.recv_many(&mut fresh, BATCH) => {
                if received == 0 && pending.is_empty() {
                    break;
                }
                if received == 0 {
                    // Closed: only what is pending is left.
                    tokio::time::sleep_until(ready_at.unwrap_or_else(Instant::now)).await;
                }
            }
            () = wait => {}
        }
        if worker.abort.is_cancelled() && *deadline.get_or_insert_with(|| Instant::now() + LAST_TRIES) <= Instant::now()
        {
            let left: usize = fresh.len() + pending.iter().map(|batch| batch.decided.len()).sum::<usize>();
            tracing::error!(notices = left, "stopping without having stored what became of some notices");
            break;
        }
        if !fresh.is_empty() {
            gather(&worker, &mut queue, &mut fresh, written_at).await;
            // What tells a person, or is watched by a circuit breaker, may have to wait for other nodes; the others not for it.
            // And most are successes, which are written with much less work where nothing else is among them.
            let mut shapes = BTreeMap::<Shape, Vec<Decided>>::new();
            for decided in fresh.into_iter().map(|outcome| worker.decide(outcome)) {
                shapes.entry(decided.settle.shape()).or_default().push(decided);
            }
            pending.extend(shapes.into_values().flat_map(|decided| cut(decided.into_iter())));
        }
        // All of them, lest more come than go; after one that failed whoever waits for an end is heard first.
        let mut stored = true;
        while stored
            && let Some(at) = pending.iter().position(|batch| batch.not_before <= Instant::now())
            && let Some(batch) = pending.remove(at)
        {
            stored = worker.write(batch, &mut pending).await;
            written_at = Instant::now();
        }
    }
}

/// Gathers more for a batch that is not full, until the pace allows to write it. It is not woken for each outcome: under load that
/// costs more than the outcome itself.
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

/// What ends the gathering of a batch before its pace.
#[derive(Default)]
pub(crate) struct Hurry {
    /// Somebody waits for an outcome that has been passed on.
    urgent: AtomicBool,
    told: Notify,
}

impl Hurry {
    /// An outcome was passed on; `count` are under way.
    pub(crate) fn note(&self, urgent: bool, count: usize) {
        if urgent {
            self.urgent.store(true, Ordering::Relaxed);
        }
        if urgent || count.is_multiple_of(BATCH) {
            self.told.notify_one();
        }
    }
}

/// Batches of a bounded number and size.
fn cut(decided: impl Iterator<Item = Decided>) -> Vec<Batch> {
    let mut batches = Vec::new();
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for decided in decided {
        let size = 300
            + decided.settle.errors.as_ref().map_or(0, String::len)
            + decided.settle.description.as_ref().map_or(0, String::len);
        if !batch.is_empty() && (batch.len() == BATCH || bytes + size > BATCH_BYTES) {
            batches.push(Batch::new(std::mem::take(&mut batch)));
            bytes = 0;
        }
        bytes += size;
        batch.push(decided);
    }
    if !batch.is_empty() {
        batches.push(Batch::new(batch));
    }
    batches
}

impl Worker {
    /// Judges an outcome by the definition as it is now.
    fn decide(&self, outcome: Outcome) -> Decided {
        let definition = self.definition(outcome.claimed.def_id);
        let now = definition.as_deref();
        let policy = now.and_then(|definition| definition.policy()).unwrap_or(&outcome.ready.policy);
        let strategy =
            now.and_then(|definition| definition.ready()).map_or(&outcome.ready.strategy, |now| &now.strategy);
        let chance = Chance { unit: fastrand::f64(), strategy: &**strategy };
        let transition = transition(policy, &outcome.claimed, &outcome.event, &chance);
        let alarm = self.alarm_of(policy, &outcome, &transition);
        let mut settle = to_settle(&outcome, transition, policy);
        settle.alarm = alarm;
        settle.watched = self.watched(policy, &outcome);
        if let Next::Finish { status: Status::Succeeded, keep, .. } = &mut settle.transition.next {
            settle.told.clone_from(&outcome.told);
            // One that told nobody anything leaves no trace.
            *keep &= outcome.told.as_ref().is_none_or(|told| told.notified);
        }
        Decided { settle, outcome }
    }

    /// True where somebody waits for the outcome to be stored.
    pub(crate) fn is_urgent(&self, outcome: &Outcome) -> bool {
        outcome.claimed.ordering_key.is_some() || self.reports().contains_key(&outcome.claimed.id)
    }

    /// Tries to write a batch; what could not be written goes back to `pending`. False if all of it did.
    async fn write(&self, mut batch: Batch, pending: &mut VecDeque<Batch>) -> bool {
        let settles: Vec<Settle> = batch.decided.iter().map(|decided| decided.settle.clone()).collect();
        match self.store().settle(&settles).await {
            Ok(answers) => {
                #[allow(clippy::cast_precision_loss)] // At most a few hundred.
                self.meters.settle_batch.record(settles.len() as f64);
                let poll = self.settings.poll_interval;
                let due_soon =
                    |settle: &Settle| matches!(settle.transition.next, Next::Wait { after, .. } if after < poll);
                if settles.iter().any(|settle| due_soon(settle) || settle.shape() == Shape::Watched) {
                    // The sweep did not know of them when it went to sleep.
                    self.due_soon.notify_one();
                }
                for (decided, answer) in batch.decided.into_iter().zip(answers) {
                    match answer {
                        Settled::Done => self.settled(decided),
                        Settled::Locked if !decided.outcome.overdue => {
                            let not_before = Instant::now() + pause_after(batch.failures);
                            pending.push_back(Batch {
                                decided: vec![decided],
                                failures: batch.failures + 1,
                                not_before,
                            });
                        }
                        Settled::Locked | Settled::LostLease | Settled::Ended => self.lost(&decided, answer),
                    }
                }
                // Claims may have waited for this, or somebody for idleness.
                self.slots.nudge();
                if self.idle.receiver_count() > 0 && self.holds_nothing() {
                    self.due_soon.notify_one();
                }
                true
            }
            Err(error) if error.is_transient() => {
                self.health.note(&error);
                batch.not_before = Instant::now() + pause_after(batch.failures);
                batch.failures += 1;
                if batch.failures >= PATIENCE && batch.decided.len() > 1 {
                    let half = batch.decided.split_off(batch.decided.len() / 2);
                    let (failures, not_before) = (batch.failures - 1, batch.not_before);
                    pending.push_back(Batch { decided: half, failures, not_before });
                    batch.failures = failures;
                }
                pending.push_back(batch);
                false
            }
            Err(error) => {
                self.split(batch.decided, &error, pending);
                false
            }
        }
    }

    /// Halves a batch that can never be written; one alone becomes a dead letter without any text of its own.
    fn split(&self, mut decided: Vec<Decided>, error: &StoreError, pending: &mut VecDeque<Batch>) {
        if decided.len() > 1 {
            let half = decided.split_off(decided.len() / 2);
            pending.push_front(Batch::new(half));
            pending.push_front(Batch::new(decided));
            return;
        }
        let Some(mut culprit) = decided.pop() else { return };
        let (id, attempt) = (culprit.settle.id, culprit.settle.attempt);
        tracing::error!(definition = %culprit.definition(), id, attempt, %error, "an outcome cannot be stored");
        let is_safe = matches!(&culprit.settle.transition.next, Next::Finish { reason: Some(reason), .. } if reason == SAFE_REASON);
        if is_safe && let Some(alarm) = culprit.settle.alarm.take() {
            tracing::error!(?alarm, "an alert cannot be stored; this line is all there is of it");
            pending.push_front(Batch::new(vec![culprit]));
            return;
        }
        if is_safe {
            // Not even so. The lease will expire and count as a crash, so the notice runs out of tries in the end.
            self.give_up(id, attempt);
            self.forget(&culprit.settle);
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
        pending.push_front(Batch::new(vec![culprit]));
    }

    fn settled(&self, decided: Decided) {
        let definition = decided.definition();
        let Decided { settle, outcome } = &decided;
        let message = outcome.trouble.as_ref().map_or("", |(_, message)| message.as_str());
        let (id, attempt) = (settle.id, settle.attempt);
        outcome.ready.meters.settled(outcome, settle);
        let told = match &settle.transition.next {
            Next::Finish { status: Status::DeadLetter, reason, .. } => {
                let reason = reason.as_deref().unwrap_or_default();
                tracing::error!(%definition, id, attempt, reason, "a notice finally failed: it is a dead letter");
                self.count(outcome, |counts| &counts.dead);
                FirstAttempt::Failed(if message.is_empty() { reason } else { message }.to_owned())
            }
            Next::Finish { .. } => {
                self.count(outcome, |counts| &counts.succeeded);
                FirstAttempt::Succeeded
            }
            Next::Wait { .. } if outcome.event == Event::HandedBack => FirstAttempt::StillDue,
            Next::Wait { status: Status::AwaitingConfirm, .. } => {
                tracing::debug!(%definition, id, attempt, "delivered, awaiting its confirmation");
                self.count(outcome, |counts| &counts.awaiting);
                FirstAttempt::Succeeded
            }
            Next::Wait { after, .. } => {
                let retry_in_ms = duration_millis(*after);
                tracing::warn!(%definition, id, attempt, retry_in_ms, error = message, "an attempt failed");
                self.count(outcome, |counts| &counts.failed);
                FirstAttempt::Failed(message.to_owned())
            }
        };
        // Once nothing is held a test may ask what was counted.
        self.forget(settle);
        self.let_through(&outcome.ready.policy);
        if let (Next::Finish { .. }, Some(key)) = (&settle.transition.next, &outcome.claimed.ordering_key) {
            self.key_is_free(outcome.claimed.def_id, key);
        }
        // Only now: whoever began to wait while the attempt was running is told, too.
        self.tell(&[id], &told);
    }

    fn lost(&self, decided: &Decided, answer: Settled) {
        let definition = decided.definition();
        let Decided { settle, outcome } = decided;
        self.forget(settle);
        self.let_through(&outcome.ready.policy);
        let told = if answer == Settled::Ended { FirstAttempt::Succeeded } else { FirstAttempt::StillDue };
        self.tell(&[settle.id], &told);
        if answer == Settled::Ended && !outcome.overdue {
            tracing::info!(%definition, id = settle.id, attempt = settle.attempt, "confirmed or cancelled before this attempt was over");
        } else if outcome.overdue {
            // Somebody else was faster, or its sender settled it after all.
            tracing::debug!(%definition, id = settle.id, attempt = settle.attempt, "no longer overdue");
        } else {
            outcome.ready.meters.lease_losses.increment(1);
            tracing::warn!(
                %definition, id = settle.id, attempt = settle.attempt, event = ?outcome.event,
                "the lease was lost before the outcome could be stored; the notice is sent again"
            );
        }
    }
}
