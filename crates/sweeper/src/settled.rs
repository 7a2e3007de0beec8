//! Handles the store's answer to an outcome on this node: logs, totals, reports to producers, and releases the claim.

use solid_notify_core::Status;
use solid_notify_core::dispatch::FirstAttempt;
use solid_notify_core::notice::duration_millis;
use solid_notify_core::store::Settled;
use solid_notify_core::transition::{Event, Next};

use crate::pending::Decided;
use crate::supervise::report;
use crate::worker::Worker;

impl Worker {
    pub(crate) fn settled(&self, decided: Decided) {
        let definition = decided.definition();
        let Decided { settle, outcome, .. } = &decided;
        let message = outcome.trouble.as_ref().map_or("", |(_, message)| message.as_str());
        let (id, attempt) = (settle.id, outcome.claimed.attempt());
        report(|| outcome.ready.meters.settled(outcome, settle));
        let told = match &settle.transition.next {
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
        self.let_through(&outcome.ready.policy);
        if let (Next::Finish { .. }, Some(key)) = (&settle.transition.next, &outcome.claimed.ordering_key) {
            self.key_is_free(outcome.claimed.def_id, key);
        }
        // Reported last, so that a producer that began to wait during the attempt gets the report too.
        self.tell(&[id], &told);
    }

    pub(crate) fn lost(&self, decided: &Decided, answer: Settled) {
        let Decided { settle, outcome, .. } = decided;
        self.forget(decided);
        self.let_through(&outcome.ready.policy);
        let told = if answer == Settled::Ended { FirstAttempt::Succeeded } else { FirstAttempt::StillDue };
        self.tell(&[settle.id], &told);
        report(|| self.report_lost(decided, answer));
    }

    fn report_lost(&self, decided: &Decided, answer: Settled) {
        let (definition, Decided { settle, outcome, .. }) = (decided.definition(), decided);
        if answer == Settled::Ended && !outcome.overdue {
            tracing::info!(%definition, id = settle.id, attempt = outcome.claimed.attempt(), "acked or cancelled before this attempt was over");
        } else if outcome.overdue {
            // Another node was faster, or the sender of the notice settled it after all.
            tracing::debug!(%definition, id = settle.id, attempt = outcome.claimed.attempt(), "no longer overdue");
        } else {
            outcome.ready.meters.lease_losses.increment(1);
            tracing::warn!(
                %definition, id = settle.id, attempt = outcome.claimed.attempt(), event = ?outcome.event,
                "the lease was lost before the outcome could be stored; the notice is sent again"
            );
        }
    }
}
