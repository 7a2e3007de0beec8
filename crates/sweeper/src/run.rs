//! Runs one claimed notice: calls the handler under its time-out, catches panics, and turns the result into an event.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use solid_notify_core::definition::FOREVER;
use solid_notify_core::error::BoxError;
use solid_notify_core::limit::QuotaStop;
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{Claim, ClaimWhat, Claims};
use solid_notify_core::transition::Event;
use solid_notify_core::{ErrorClass, StoreError};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tracing::Instrument;

use crate::alerts::Resolved;
use crate::classify::chain;
use crate::definitions::{Definition, Ready};
use crate::handler::{AfterFailure, Facts};
use crate::held_up::What;
use crate::settle::Outcome;
use crate::slots::Slot;
use crate::span;
use crate::supervise::report;
use crate::worker::Worker;

impl Worker {
    /// Claims notices and starts each with a slot of its own. Returns their ids; slots left over become free.
    ///
    /// `alone` is the permit for a suspect; it is held until the outcome of that notice is stored.
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
        // Until the claimed notices are registered as held, the lease loop must not conclude that a claim was lost.
        let _under_way = self.claims.read().await;
        let Claims { notices: claimed, stopped_by } = match self.store().claim(claim).await {
            Ok(claims) => claims,
            Err(error) => {
                self.claim_unsure();
                return Err(error);
            }
        };
        if claim.quota.is_some() {
            let (def_id, name) = (claim.def_id, &ready.policy.name);
            match stopped_by {
                Some(QuotaStop::Busy { .. }) => self.is_held_up(def_id, name, What::Claims),
                _ => self.goes_on(def_id, name, What::Claims),
            }
        }
        if let Some(hold) = stopped_by {
            self.hold_back(&ready.policy, hold, ended);
        }
        let ids = claimed.iter().map(|notice| notice.id).collect();
        if claimed.len() == claim.limit && !matches!(claim.what, ClaimWhat::Ids(_)) {
            // There may be more: the next freed slot wakes the sweep.
            self.slots.want_more();
        }
        for (claimed, slot) in claimed.into_iter().zip(slots) {
            self.hold(&claimed, &ready.policy);
            let alone = alone.take();
            let (worker, definition, ready) = (Arc::clone(self), Arc::clone(definition), Arc::clone(ready));
            let span = span::of(&ready.policy.name, &claimed);
            self.running.spawn(async move {
                let unsettled = Unsettled { worker: &worker, id: claimed.id, fence: claimed.fence };
                let attempt = attempt(&worker, definition, ready, claimed).instrument(span.clone());
                let ended = AssertUnwindSafe(attempt).catch_unwind().await;
                // A panic of the handler is a failed attempt, so this is a panic of a tracing layer.
                let Ok(mut outcome) = ended.map_err(std::mem::forget) else { return };
                report(|| {
                    span::ended(&span, &outcome);
                    drop(span);
                });
                // The handler has ended: the next one may start while this outcome is being written.
                drop(slot);
                outcome.alone = alone;
                std::mem::forget(unsettled);
                worker.settle(outcome);
            });
        }
        Ok(ids)
    }
}

/// How long to wait before an alert that could not be completed is due again.
const UNRESOLVED: Duration = Duration::from_secs(5);

/// Gives up an attempt that ends without an outcome when dropped: the lease expires and counts a crash.
struct Unsettled<'a> {
    worker: &'a Worker,
    id: i64,
    fence: i64,
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        self.worker.give_up(self.id, self.fence);
        self.worker.let_go(self.id, self.fence);
    }
}

/// Runs one attempt and always returns an outcome. A panic in user code (the handler, an error's text, a drop) is caught
/// and becomes a failed attempt.
async fn attempt(worker: &Worker, definition: Arc<Definition>, ready: Arc<Ready>, claimed: ClaimedNotice) -> Outcome {
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
                // If the row of the alert is gone, no history of this notice is kept either.
                outcome.told = about;
                return outcome;
            }
            Err(error) => {
                // The store failed, which is no failure of the alert's handler.
                report(|| worker.health.mention(&error));
                return Outcome::new(claimed, ready, Event::HandedBack(UNRESOLVED));
            }
        }
    }
    let facts = Facts::new(claimed, definition);
    let judged = AssertUnwindSafe(judge(worker, &ready, &facts)).catch_unwind().await;
    let (event, trouble) = judged.unwrap_or_else(|panic| {
        let message = format!("the handler panicked: {}", panic_text(&*panic));
        // The panic's payload may panic again when it is dropped.
        std::mem::forget(panic);
        (Event::Failed(ErrorClass::Unknown), Some((ErrorClass::Unknown, message)))
    });
    let mut outcome = Outcome::new(facts.without_param(), ready, event);
    outcome.duration = began.elapsed();
    if is_alert && matches!(outcome.event, Event::AwaitAck(_)) {
        outcome.event = Event::Succeeded;
    }
    if is_alert && outcome.event == Event::Succeeded {
        worker.meters.alert_sent(told.as_deref());
    }
    outcome.trouble = trouble;
    outcome.told = told;
    outcome
}

/// Calls the handler and turns its result into an event, with the error of a failed attempt.
async fn judge(worker: &Worker, ready: &Ready, facts: &Arc<Facts>) -> (Event, Option<(ErrorClass, String)>) {
    let call = Arc::clone(&ready.handler).call(Arc::clone(facts));
    let result = tokio::select! {
        // A result that is ready comes before the time-out and before the shutdown.
        biased;
        result = tokio::time::timeout(ready.policy.timeout, call) => result,
        () = worker.abort.cancelled() => return (Event::HandedBack(Duration::ZERO), None),
    };
    match result {
        Ok(Ok(Ok(()))) => {
            let wait = |within: Duration| Event::AwaitAck(if within.is_zero() { FOREVER } else { within });
            (facts.required_ack().map_or(Event::Succeeded, wait), None)
        }
        Ok(Ok(Err(skip))) if skip.next == AfterFailure::Skip => (Event::Skipped(skip.error().to_string()), None),
        Ok(Ok(Err(failure))) => {
            let message = with_causes(failure.error());
            let class = worker.classifier.class_of(&**failure.error(), &message);
            let event = match failure.next {
                AfterFailure::RetryIn(delay) => Event::RetryIn(delay, class),
                AfterFailure::GiveUp => Event::GaveUp(format!("the handler gave up: {message}")),
                AfterFailure::Retry | AfterFailure::Skip => Event::Failed(class),
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

/// Returns the texts of an error and its causes, outermost first. A cause is left out if
/// the text so far already contains it.
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
    fn causes_are_reported_once_each() {
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
