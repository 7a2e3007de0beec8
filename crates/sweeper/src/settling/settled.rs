//! Handles the store's reply to an outcome on this node: logs, totals, reports to producers, and releases the claim.

use std::sync::atomic::{AtomicU64, Ordering};

use solid_notify_core::Status;
use solid_notify_core::built_in::is_built_in;
use solid_notify_core::dispatch::FirstAttempt;
use solid_notify_core::notice::duration_millis;
use solid_notify_core::store::Settled;
use solid_notify_core::transition::{Event, Next};

use super::Outcome;
use super::pending::Decided;
use crate::background::locked::Work;
use crate::supervise::report;
use crate::worker::{Totals, Worker};

impl Worker {
    /// Handles an outcome that is stored.
    pub(super) fn settled(&self, decided: Decided) {
        let definition = decided.definition();
        let Decided { settle, outcome, .. } = &decided;
        let message = outcome.trouble.as_ref().map_or("", |(_, message)| message.as_str());
        let (id, attempt) = (settle.id, outcome.claimed.attempt());
        let Outcome { claimed, event, duration, .. } = outcome;
        report(|| outcome.ready.meters.settled(claimed, event, outcome.class(), *duration, &settle.transition.next));
        let first_attempt = match &settle.transition.next {
            Next::Finish { status: Status::DeadLetter, reason, .. } => {
                let reason = reason.as_deref().unwrap_or_default();
                report(|| {
                    tracing::error!(%definition, id, attempt, reason, "a notice finally failed: it is a dead letter");
                });
                self.count(outcome, |totals| &totals.dead);
                FirstAttempt::Failed(if message.is_empty() { reason } else { message }.to_owned())
            }
            Next::Finish { .. } => {
                self.count(outcome, |totals| &totals.succeeded);
                FirstAttempt::Succeeded
            }
            Next::Wait { .. } if matches!(outcome.event, Event::HandedBack(_)) => FirstAttempt::StillDue,
            Next::Wait { status: Status::AwaitingAck, .. } => {
                report(|| tracing::debug!(%definition, id, attempt, "delivered, awaiting its ack"));
                self.count(outcome, |totals| &totals.awaiting);
                FirstAttempt::Succeeded
            }
            Next::Wait { after, .. } => {
                let retry_in_ms = duration_millis(*after);
                report(|| tracing::warn!(%definition, id, attempt, retry_in_ms, error = message, "an attempt failed"));
                self.count(outcome, |totals| &totals.failed);
                FirstAttempt::Failed(message.to_owned())
            }
        };
        // A test may read the totals as soon as no claim is held.
        self.forget(&decided);
        if let (Next::Finish { .. }, Some(key)) = (&settle.transition.next, &outcome.claimed.ordering_key) {
            self.signals.key_freed(outcome.claimed.def_id, key);
        }
        // Reported last, so that a producer that began to wait during the attempt gets the report too.
        self.in_flight.report(&[id], &first_attempt);
    }

    /// Handles an outcome that is not stored, because the notice has changed since its claim.
    pub(super) fn lost(&self, decided: &Decided, reply: Settled) {
        self.forget(decided);
        let first_attempt = match reply {
            Settled::Ended(Status::DeadLetter) => {
                FirstAttempt::Failed("its lease was lost after its last try".to_owned())
            }
            Settled::Ended(_) => FirstAttempt::Succeeded,
            _ => FirstAttempt::StillDue,
        };
        self.in_flight.report(&[decided.settle.id], &first_attempt);
        report(|| report_lost(decided, reply));
    }

    /// Forgets an attempt whose outcome is settled or can never be settled. Other notices may then pass the limits.
    pub(super) fn forget(&self, decided: &Decided) {
        let def_id = decided.def_id();
        if self.outcomes.remove(decided)
            && let Some(definition) = self.definition(def_id)
        {
            self.locked_rows.goes_on(def_id, &definition.row.name, Work::Outcomes);
        }
        self.in_flight.forget(decided.settle.id, decided.settle.fence);
        if self.admission.attempt_settled(&decided.outcome.ready.policy) {
            self.signals.sweep_soon();
        }
    }

    /// Counts an outcome. Outcomes of alerts and housekeeping are not counted.
    fn count(&self, outcome: &Outcome, counter: impl Fn(&Totals) -> &AtomicU64) {
        if !is_built_in(&outcome.ready.policy.name) {
            counter(&self.totals).fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn report_lost(decided: &Decided, reply: Settled) {
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
