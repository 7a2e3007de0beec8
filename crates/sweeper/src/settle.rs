//! The settle loop: outcomes are judged by the definition as it is now and written in batches. It retries until the
//! database takes them, and splits a batch that can never be written until the culprit is alone.

use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::add::DESCRIPTION_LIMIT;
use solid_notify_core::lane::FirstAttempt;
use solid_notify_core::notice::{AttemptRecord, Claimed, append_attempt, clean_text};
use solid_notify_core::store::{Settle, Settled};
use solid_notify_core::transition::{Chance, Event, Next, Transition, transition};
use solid_notify_core::{ErrorClass, Policy, Status};
use tokio::sync::mpsc;

use crate::definitions::Ready;
use crate::health::Backoff;
use crate::worker::Worker;

/// The most outcomes of one batch.
const BATCH: usize = 500;
/// How long a short batch waits for more while other notices are running: one transaction then settles many.
const LINGER: Duration = Duration::from_millis(3);
/// The longest reason that a notice ends with, in bytes.
const REASON_LIMIT: usize = 4096;
/// How long a shutdown waits for the database to take the last outcomes.
const LAST_TRIES: Duration = Duration::from_secs(10);

/// What came of one attempt, to be settled.
pub(crate) struct Outcome {
    pub(crate) claimed: Claimed,
    /// What the definition was at the claim, should its row be gone or broken when the outcome is judged.
    ready: Ready,
    pub(crate) event: Event,
    pub(crate) duration: Duration,
    /// The error of a failed attempt.
    pub(crate) trouble: Option<(ErrorClass, String)>,
    /// True where the notice is not ours, but overdue.
    pub(crate) overdue: bool,
}

impl Outcome {
    pub(crate) fn new(claimed: Claimed, ready: Ready, event: Event) -> Self {
        Self { claimed, ready, event, duration: Duration::ZERO, trouble: None, overdue: false }
    }
}

/// An outcome with its decision.
struct Decided {
    settle: Settle,
    outcome: Outcome,
    definition: String,
}

/// Runs until no more outcomes can come and all are written.
pub(crate) async fn settle_loop(worker: Arc<Worker>, mut queue: mpsc::UnboundedReceiver<Outcome>) {
    let mut backoff = Backoff::new();
    // Outcomes whose rows somebody else locked.
    let mut again: Vec<Outcome> = Vec::new();
    loop {
        let mut batch = std::mem::take(&mut again);
        if batch.is_empty() {
            match queue.recv().await {
                Some(outcome) => batch.push(outcome),
                None => break,
            }
        }
        gather(&worker, &mut queue, &mut batch).await;
        let decided = batch.into_iter().map(|outcome| worker.decide(outcome)).collect();
        again = worker.write(decided, &mut backoff).await;
        if !again.is_empty() {
            tokio::time::sleep(backoff.next()).await;
        }
    }
}

/// Adds what is waiting, and lingers a moment for more where more is running.
async fn gather(worker: &Worker, queue: &mut mpsc::UnboundedReceiver<Outcome>, batch: &mut Vec<Outcome>) {
    let drain = |queue: &mut mpsc::UnboundedReceiver<Outcome>, batch: &mut Vec<Outcome>| {
        while batch.len() < BATCH {
            match queue.try_recv() {
                Ok(outcome) => batch.push(outcome),
                Err(_) => break,
            }
        }
    };
    drain(queue, batch);
    if batch.len() < BATCH && worker.held().len() > batch.len() {
        tokio::time::sleep(LINGER).await;
        drain(queue, batch);
    }
}

impl Worker {
    /// Judges an outcome by the definition as it is now.
    fn decide(&self, outcome: Outcome) -> Decided {
        let definition = self.definition(outcome.claimed.def_id);
        let (policy, strategy) = match definition.as_deref() {
            Some(definition) => match (definition.ready(), definition.policy()) {
                (Some(ready), _) => (&ready.policy, &ready.strategy),
                (None, Some(policy)) => (policy, &outcome.ready.strategy),
                (None, None) => (&outcome.ready.policy, &outcome.ready.strategy),
            },
            None => (&outcome.ready.policy, &outcome.ready.strategy),
        };
        let chance = Chance { unit: fastrand::f64(), strategy: &**strategy };
        let transition = explain(transition(policy, &outcome.claimed, &outcome.event, &chance), &outcome);
        let settle = to_settle(&outcome, transition, policy);
        Decided { settle, definition: policy.name.clone(), outcome }
    }

    /// Writes a batch, whatever it takes; returns the outcomes whose rows others lock just now.
    async fn write(&self, decided: Vec<Decided>, backoff: &mut Backoff) -> Vec<Outcome> {
        let mut again = Vec::new();
        let mut batches = vec![decided];
        let mut last_try = None;
        while let Some(batch) = batches.pop() {
            let settles: Vec<Settle> = batch.iter().map(|decided| decided.settle.clone()).collect();
            match self.store().settle(&settles).await {
                Ok(answers) => {
                    backoff.reset();
                    let due_soon = |settle: &Settle| matches!(&settle.transition.next, Next::Wait { after, .. } if *after < self.settings.poll_interval);
                    if settles.iter().any(due_soon) {
                        // The sweep did not know of them when it went to sleep.
                        self.due_soon.notify_one();
                    }
                    for (decided, answer) in batch.into_iter().zip(answers) {
                        match answer {
                            Settled::Locked => again.push(decided.outcome),
                            Settled::Done => self.settled(decided),
                            Settled::LostLease => self.lost(decided),
                        }
                    }
                }
                Err(error) if error.is_transient() => {
                    self.health.note(&error);
                    // After the wish to stop, not for ever: leases expire, and others take over.
                    let since =
                        self.abort.is_cancelled().then(|| *last_try.get_or_insert_with(tokio::time::Instant::now));
                    if since.is_some_and(|since| since.elapsed() > LAST_TRIES) {
                        tracing::error!(
                            notices = batch.len(),
                            "stopping without having stored what became of some notices"
                        );
                        for decided in batch {
                            self.release(decided.settle.id, decided.settle.attempt);
                        }
                        continue;
                    }
                    tokio::time::sleep(backoff.next()).await;
                    batches.push(batch);
                }
                Err(error) => batches.extend(self.split(batch, &error)),
            }
        }
        again
    }

    /// Halves a batch that cannot be written; one alone becomes a dead letter without any text of its own.
    fn split(&self, mut batch: Vec<Decided>, error: &solid_notify_core::StoreError) -> Vec<Vec<Decided>> {
        if batch.len() > 1 {
            let half = batch.split_off(batch.len() / 2);
            return vec![batch, half];
        }
        let Some(mut culprit) = batch.pop() else { return Vec::new() };
        tracing::error!(definition = %culprit.definition, id = culprit.settle.id, %error, "an outcome cannot be stored");
        let safe = "its outcome could not be stored; see the log of the node that sent it";
        if matches!(&culprit.settle.transition.next, Next::Finish { reason: Some(reason), .. } if reason == safe) {
            // Not even so. The lease will expire and count as a crash, so the notice runs out of tries in the end.
            self.give_up(culprit.settle.id, culprit.settle.attempt);
            return Vec::new();
        }
        culprit.settle.transition.next =
            Next::Finish { status: Status::DeadLetter, reason: Some(safe.to_owned()), keep: true };
        culprit.settle.errors = None;
        culprit.settle.description = None;
        culprit.settle.last_class = Some(ErrorClass::Invalid.as_str().to_owned());
        vec![vec![culprit]]
    }

    fn settled(&self, decided: Decided) {
        let Decided { settle, outcome, definition } = decided;
        self.release(settle.id, settle.attempt);
        let message = outcome.trouble.as_ref().map_or("", |(_, message)| message.as_str());
        let (id, attempt) = (settle.id, settle.attempt);
        let told = match &settle.transition.next {
            Next::Finish { status: Status::DeadLetter, reason, .. } => {
                let reason = reason.as_deref().unwrap_or_default();
                tracing::error!(%definition, id, attempt, reason, error = message, "a notice finally failed: it is a dead letter");
                self.count(|counts| &counts.dead);
                FirstAttempt::Failed(if message.is_empty() { reason } else { message }.to_owned())
            }
            Next::Finish { .. } => {
                self.count(|counts| &counts.succeeded);
                FirstAttempt::Succeeded
            }
            Next::Wait { .. } if outcome.event == Event::HandedBack => FirstAttempt::StillDue,
            Next::Wait { after, .. } => {
                let retry_in_ms = crate::worker::millis(*after);
                tracing::warn!(%definition, id, attempt, retry_in_ms, error = message, "an attempt failed");
                self.count(|counts| &counts.failed);
                FirstAttempt::Failed(message.to_owned())
            }
        };
        // Only now: whoever began to wait while the attempt was running is told, too.
        self.tell(&[id], &told);
    }

    fn lost(&self, decided: Decided) {
        let Decided { settle, outcome, definition } = decided;
        self.release(settle.id, settle.attempt);
        self.tell(&[settle.id], &FirstAttempt::StillDue);
        if outcome.overdue {
            // Somebody else was faster, or its sender settled it after all.
            tracing::debug!(%definition, id = settle.id, attempt = settle.attempt, "no longer overdue");
        } else {
            tracing::warn!(
                %definition, id = settle.id, attempt = settle.attempt, event = ?outcome.event,
                "the lease was lost before the outcome could be stored; the notice is sent again"
            );
        }
    }
}

fn to_settle(outcome: &Outcome, transition: Transition, policy: &Policy) -> Settle {
    let claimed = &outcome.claimed;
    let trouble = match (&outcome.event, &outcome.trouble) {
        (Event::Crashed, _) => {
            let held = humantime::format_duration(policy.lease());
            Some((
                ErrorClass::Crash,
                format!("the process died while sending: its lease (about {held}) expired unsettled"),
            ))
        }
        (_, trouble) => trouble.clone(),
    };
    let (errors, last_class) = match trouble {
        None => (claimed.errors.clone(), None),
        Some((class, message)) => {
            let record = AttemptRecord::new(claimed, outcome.duration, class, &message);
            (Some(append_attempt(claimed.errors.as_deref(), record)), Some(class.as_str().to_owned()))
        }
    };
    Settle {
        id: claimed.id,
        attempt: claimed.attempt,
        from: claimed.status,
        overdue: outcome.overdue,
        transition,
        errors,
        last_class,
        description: claimed.description.as_deref().map(|text| clean_text(text, DESCRIPTION_LIMIT)),
    }
}

/// Adds the last error to the reason of a notice whose tries ran out. Reasons come from handlers: without NUL, and not
/// endless.
fn explain(mut transition: Transition, outcome: &Outcome) -> Transition {
    if let Next::Finish { reason: Some(reason), .. } = &mut transition.next {
        if let (Event::Failed | Event::RetryIn(_), Some((_, message))) = (&outcome.event, &outcome.trouble) {
            reason.push_str("; the last error: ");
            reason.push_str(message);
        }
        *reason = clean_text(reason, REASON_LIMIT);
    }
    transition
}
