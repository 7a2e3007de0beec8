//! Running one claimed notice: the handler under its time-out, panics caught, the verdict turned into an event.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use solid_notify_core::ErrorClass;
use solid_notify_core::error::BoxError;
use solid_notify_core::notice::Claimed;
use solid_notify_core::transition::Event;
use tokio::time::Instant;

use crate::definitions::{Definition, Ready};
use crate::handler::{Done, Facts, Failure};
use crate::settle::Outcome;
use crate::slots::Slot;
use crate::worker::Worker;

impl Worker {
    /// Starts the claimed notices, each with a slot of its own. Slots left over become free.
    pub(crate) fn start(
        self: &Arc<Self>,
        definition: &Arc<Definition>,
        ready: &Ready,
        claimed: Vec<Claimed>,
        slots: Vec<Slot>,
    ) {
        for (claimed, slot) in claimed.into_iter().zip(slots) {
            self.hold(&claimed, ready.policy.lease());
            let (worker, definition, ready) = (Arc::clone(self), Arc::clone(definition), ready.clone());
            self.running.spawn(async move {
                let outcome = attempt(&worker, &definition, &ready, claimed).await;
                // The handler is done: the next one may start while this outcome is being written.
                drop(slot);
                worker.settle(outcome);
            });
        }
    }
}

/// One attempt, whatever becomes of it.
async fn attempt(worker: &Worker, definition: &Definition, ready: &Ready, claimed: Claimed) -> Outcome {
    let outcome = |claimed, event| Outcome::new(claimed, ready.clone(), event);
    if ready.policy.is_exhausted(claimed.tries()) {
        return outcome(claimed, Event::OutOfTries);
    }
    let began = Instant::now();
    let facts = Facts::new(claimed, definition.row.name.clone(), definition.row.handler_config.clone());
    let handler = Arc::clone(&ready.handler);
    // The call itself is inside: a closure may panic before it returns its future.
    let call = AssertUnwindSafe(async { handler.call(Arc::clone(&facts)).await }).catch_unwind();
    let verdict = tokio::select! {
        verdict = tokio::time::timeout(ready.policy.timeout, call) => verdict,
        () = worker.abort.cancelled() => return outcome(facts.claimed.clone(), Event::HandedBack),
    };
    let duration = began.elapsed();
    let (event, trouble) = match verdict {
        Ok(Ok(Ok(Ok(Done::Ok)))) => (Event::Succeeded, None),
        Ok(Ok(Ok(Ok(Done::Skip(reason))))) => (Event::Skipped(reason), None),
        Ok(Ok(Ok(Err(failure)))) => {
            let message = with_causes(failure.error());
            let event = match failure {
                Failure::Retry(_) => Event::Failed,
                Failure::RetryIn(delay, _) => Event::RetryIn(delay),
                Failure::GiveUp(_) => Event::GaveUp(format!("the handler gave up: {message}")),
            };
            (event, Some((ErrorClass::Unknown, message)))
        }
        Ok(Ok(Err(unreadable))) => (Event::GaveUp(unreadable.clone()), Some((ErrorClass::Invalid, unreadable))),
        Ok(Err(panic)) => {
            (Event::Failed, Some((ErrorClass::Unknown, format!("the handler panicked: {}", panic_text(&*panic)))))
        }
        Err(_) => (Event::Failed, Some((ErrorClass::Timeout, timed_out(ready.policy.timeout)))),
    };
    let mut outcome = outcome(facts.claimed.clone(), event);
    outcome.claimed.description = facts.description();
    outcome.duration = duration;
    outcome.trouble = trouble;
    outcome
}

fn timed_out(limit: Duration) -> String {
    format!("the handler did not return within its timeout of {}", humantime::format_duration(limit))
}

/// An error and what caused it, outermost first; a cause that its error already tells is not repeated.
fn with_causes(error: &BoxError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let own = error.to_string();
        if !text.contains(&own) {
            text.push_str(": ");
            text.push_str(&own);
        }
        cause = error.source();
    }
    text
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
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
