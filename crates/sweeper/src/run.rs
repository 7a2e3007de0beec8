//! Running one claimed notice: the handler under its time-out, panics caught, the verdict turned into an event.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use solid_notify_core::definition::FOREVER;
use solid_notify_core::error::BoxError;
use solid_notify_core::notice::Claimed;
use solid_notify_core::store::{Claim, ClaimWhat, Claims};
use solid_notify_core::transition::Event;
use solid_notify_core::{ErrorClass, StoreError};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tracing::Instrument;

use crate::alerts::Resolved;
use crate::classify::chain;
use crate::definitions::{Definition, Ready};
use crate::handler::{Done, Facts, Failure};
use crate::settle::Outcome;
use crate::slots::Slot;
use crate::span;
use crate::worker::Worker;

impl Worker {
    /// Claims and starts what was claimed, each with a slot of its own; returns the ids. Slots left over become free.
    ///
    /// `alone` is held until the outcome of the one notice is stored.
    pub(crate) async fn claim_and_start(
        self: &Arc<Self>,
        definition: &Arc<Definition>,
        ready: &Arc<Ready>,
        claim: &Claim,
        slots: Vec<Slot>,
        mut alone: Option<OwnedSemaphorePermit>,
    ) -> Result<Vec<i64>, StoreError> {
        if self.is_closed(ready).await? || self.held_for(&ready.policy).is_some() {
            return Ok(Vec::new());
        }
        let ended = claim.quota.map_or(0, |_| self.limited.ended_so_far(claim.def_id));
        // Until it is registered as held, nobody may conclude that a claim was forgotten.
        let _under_way = self.claims.read().await;
        let Claims { notices: claimed, held } = match self.store().claim(claim).await {
            Ok(claims) => claims,
            Err(error) => {
                self.claim_unsure();
                return Err(error);
            }
        };
        if let Some(hold) = held {
            self.hold_back(&ready.policy, hold, ended);
        }
        let ids = claimed.iter().map(|notice| notice.id).collect();
        if claimed.len() == claim.limit && !matches!(claim.what, ClaimWhat::Ids(_)) {
            // Perhaps there is more: the next slot that becomes free is told of.
            self.slots.want_more();
        }
        for (claimed, slot) in claimed.into_iter().zip(slots) {
            self.hold(&claimed, &ready.policy);
            let alone = alone.take();
            let (worker, definition, ready) = (Arc::clone(self), Arc::clone(definition), Arc::clone(ready));
            let span = span::of(&ready.policy.name, &claimed);
            self.running.spawn(async move {
                let mut outcome = attempt(&worker, definition, ready, claimed).instrument(span.clone()).await;
                span::ended(&span, &outcome);
                drop(span);
                // The handler is done: the next one may start while this outcome is being written.
                drop(slot);
                outcome.alone = alone;
                worker.settle(outcome);
            });
        }
        Ok(ids)
    }
}

/// One attempt, whatever becomes of it. Whatever of the user's panics (a handler, an error's text, something dropped), it
/// ends in an outcome.
async fn attempt(worker: &Worker, definition: Arc<Definition>, ready: Arc<Ready>, claimed: Claimed) -> Outcome {
    if ready.policy.is_exhausted_in_all(claimed.tries()) {
        return Outcome::new(claimed, ready, Event::OutOfTries);
    }
    let began = Instant::now();
    let mut claimed = claimed;
    let mut told = None;
    let is_alert = definition.is_alerts();
    if is_alert {
        match worker.resolve(&claimed).await {
            Ok(Resolved::Send(param, about)) => (claimed.param, told) = (param, about),
            Ok(Resolved::Nothing(about)) => {
                let mut outcome = Outcome::new(claimed, ready, Event::Succeeded);
                // Where its row is gone nothing is kept of it either.
                outcome.told = about;
                return outcome;
            }
            Err(error) => {
                let mut outcome = Outcome::new(claimed, ready, Event::Failed(ErrorClass::Unavailable));
                outcome.trouble = Some((ErrorClass::Unavailable, error.to_string()));
                return outcome;
            }
        }
    }
    let facts = Facts::new(claimed, definition);
    let judged = AssertUnwindSafe(judge(worker, &ready, &facts)).catch_unwind().await;
    let (event, trouble) = judged.unwrap_or_else(|panic| {
        let message = format!("the handler panicked: {}", panic_text(&*panic));
        // What was thrown may panic again when it is dropped.
        std::mem::forget(panic);
        (Event::Failed(ErrorClass::Unknown), Some((ErrorClass::Unknown, message)))
    });
    let mut outcome = Outcome::new(facts.without_param(), ready, event);
    outcome.duration = began.elapsed();
    if is_alert && matches!(outcome.event, Event::AwaitConfirm(_)) {
        outcome.event = Event::Succeeded;
    }
    if is_alert && outcome.event == Event::Succeeded {
        worker.meters.alert_sent(told.as_deref());
    }
    outcome.trouble = trouble;
    outcome.told = told;
    outcome
}

/// Calls the handler and turns its verdict into an event, with the error of a failed attempt.
async fn judge(worker: &Worker, ready: &Ready, facts: &Arc<Facts>) -> (Event, Option<(ErrorClass, String)>) {
    let call = Arc::clone(&ready.handler).call(Arc::clone(facts));
    let verdict = tokio::select! {
        // A handler that need not wait is not kept for its time-out, nor for the wish to stop.
        biased;
        verdict = tokio::time::timeout(ready.policy.timeout, call) => verdict,
        () = worker.abort.cancelled() => return (Event::HandedBack, None),
    };
    match verdict {
        Ok(Ok(Ok(Done::Ok))) => (Event::Succeeded, None),
        Ok(Ok(Ok(Done::AwaitConfirm(within)))) => {
            (Event::AwaitConfirm(if within.is_zero() { FOREVER } else { within }), None)
        }
        Ok(Ok(Ok(Done::Skip(reason)))) => (Event::Skipped(reason), None),
        Ok(Ok(Err(failure))) => {
            let message = with_causes(failure.error());
            let class = worker.classifier.class_of(&**failure.error(), &message);
            let event = match failure {
                Failure::Retry(_) => Event::Failed(class),
                Failure::RetryIn(delay, _) => Event::RetryIn(delay, class),
                Failure::GiveUp(_) => Event::GaveUp(format!("the handler gave up: {message}")),
            };
            (event, Some((class, message)))
        }
        Ok(Err(unreadable)) => (Event::Failed(ErrorClass::Invalid), Some((ErrorClass::Invalid, unreadable))),
        Err(_) => (Event::Failed(ErrorClass::Timeout), Some((ErrorClass::Timeout, timed_out(ready.policy.timeout)))),
    }
}

fn timed_out(limit: Duration) -> String {
    format!("the handler did not return within its timeout of {}", humantime::format_duration(limit))
}

/// An error and what caused it, outermost first; a cause that its error already tells is not repeated.
fn with_causes(error: &BoxError) -> String {
    let mut text = error.to_string();
    for cause in chain(&**error).skip(1) {
        let own = cause.to_string();
        if !text.contains(&own) {
            text.push_str(": ");
            text.push_str(&own);
        }
    }
    text
}

pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_once_each() {
        #[derive(Debug)]
        struct Outer(std::io::Error);
        impl std::fmt::Display for Outer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("sending failed")
            }
        }
        impl std::error::Error for Outer {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let error: BoxError = Box::new(Outer(std::io::Error::other("connection refused")));
        assert_eq!(with_causes(&error), "sending failed: connection refused");
        let plain: BoxError = "busy".into();
        assert_eq!(with_causes(&plain), "busy");
    }
}
