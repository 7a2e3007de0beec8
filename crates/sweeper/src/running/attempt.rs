//! One attempt: calls the handler under its time-out, catches panics, and turns the result into an outcome.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use solid_notify_core::ErrorClass;
use solid_notify_core::built_in::is_built_in;
use solid_notify_core::cipher::CipherError;
use solid_notify_core::cipher::NOT_KEPT;
use solid_notify_core::definition::{FOREVER, Mask, TargetFilter};
use solid_notify_core::error::BoxError;
use solid_notify_core::limit::TargetSign;
use solid_notify_core::notice::{ClaimedNotice, Response};
use solid_notify_core::store::Authority;
use solid_notify_core::transition::Event;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tracing::Instrument;

use super::decrypt::decrypt;
use super::in_flight::AttemptsInFlight;
use super::pause::pause;
use super::span;
use super::targets::{judge, pass_on};
use super::waiting::WAIT;
use crate::circuits::AttemptCircuit;
use crate::definitions::{Definition, Ready};
use crate::handlers::classify::{chain, http_status};
use crate::handlers::handler::{AfterFailure, Facts, Failure};
use crate::settling::Outcome;
use crate::slots::Slot;
use crate::supervise::{panic_text, report};
use crate::worker::Worker;

/// Starts the attempt of a claimed notice in a task of its own, and passes its outcome on to the settle loop.
pub(crate) fn start_attempt(
    worker: &Arc<Worker>,
    definition: &Arc<Definition>,
    ready: &Arc<Ready>,
    claimed: ClaimedNotice,
    slot: Slot,
    crash_loop_permit: Option<OwnedSemaphorePermit>,
) {
    let (shared, definition, ready) = (Arc::clone(worker), Arc::clone(definition), Arc::clone(ready));
    let span = span::of(&ready.policy.name, &claimed);
    worker.in_flight.tasks.spawn(async move {
        let without_outcome = WithoutOutcome { in_flight: &shared.in_flight, id: claimed.id, fence: claimed.fence };
        // In a box, because each wrapper of a future, and the spawning, copies all of it.
        let attempt = Box::pin(attempt(&shared, &definition, ready, claimed)).instrument(span.clone());
        let ended = AssertUnwindSafe(attempt).catch_unwind().await;
        // A panic of the handler is a failed attempt, so this is a panic of a tracing layer.
        let Ok(mut outcome) = ended.map_err(std::mem::forget) else { return };
        report(|| {
            span::ended(&span, &outcome);
            drop(span);
        });
        // The handler has ended: the next one may start while this outcome is being written.
        let was_attempted = !matches!(outcome.event, Event::HandedBack(_));
        slot.ended(was_attempted.then(|| outcome.class() == Some(ErrorClass::Timeout)));
        std::mem::forget(without_outcome);
        outcome.crash_loop_permit = crash_loop_permit;
        shared.queue_outcome(outcome);
    });
}

/// Gives up an attempt that ends without an outcome when dropped: the lease expires and counts a crash.
struct WithoutOutcome<'a> {
    in_flight: &'a AttemptsInFlight,
    id: i64,
    fence: i64,
}

impl Drop for WithoutOutcome<'_> {
    fn drop(&mut self) {
        self.in_flight.give_up(self.id, self.fence);
    }
}

/// Runs one attempt and always returns an outcome. A panic in user code (the handler, an error's text, a drop) is caught
/// and becomes a failed attempt.
async fn attempt(worker: &Worker, definition: &Definition, ready: Arc<Ready>, mut claimed: ClaimedNotice) -> Outcome {
    if claimed.is_expired() {
        return Outcome::new(claimed, ready, Event::Expired);
    }
    let encrypted = match decrypt(worker, definition, &mut claimed) {
        Ok(encrypted) => encrypted,
        Err(CipherError::Altered) => {
            let message = format!("its parameter cannot be decrypted: {}", CipherError::Altered);
            let mut outcome = Outcome::new(claimed, ready, Event::GaveUp(message.clone()));
            outcome.trouble = Some((ErrorClass::Invalid, message));
            return outcome;
        }
        Err(error) => {
            let problem = format!("encrypt_param: the parameter of notice {} cannot be decrypted: {error}", claimed.id);
            let event = wait(worker, definition, claimed.id, &problem);
            return Outcome::new(claimed, ready, event);
        }
    };
    if definition.has_targets {
        return pass_on(worker, ready, claimed).await;
    }
    if let Some(filter) = &ready.policy.filter
        && let Some(event) = Box::pin(kept_by_filter(worker, definition, filter, &claimed)).await
    {
        claimed.param = String::new();
        return Outcome::new(claimed, ready, event);
    }
    if ready.policy.within(&claimed.own).is_exhausted_in_all(claimed.tries()) {
        // In a box, as `pause` below.
        let event = Box::pin(out_of_tries(worker, definition.row.id)).await;
        return Outcome::new(claimed, ready, event);
    }
    // In a box, as above.
    let authority = match is_built_in(&definition.row.name) || is_built_in(&ready.policy.handler) {
        true => match Box::pin(authority_of(worker, definition, &claimed)).await {
            Ok(authority) => Some(authority),
            Err(refused) => {
                let mut outcome = Outcome::new(claimed, ready, refused.event);
                outcome.trouble = refused.trouble;
                return outcome;
            }
        },
        false => None,
    };
    let began = Instant::now();
    let circuit = AttemptCircuit::new(&worker.circuits, &ready.policy);
    let (row, outbox) = (Arc::clone(&definition.row), worker.outbox.clone());
    let facts = Facts::new(claimed, row, (&ready.policy, circuit), outbox, encrypted, authority);
    let result = AssertUnwindSafe(call_handler(worker, &ready, &facts)).catch_unwind().await;
    let Called { event, trouble, error_type } = result.unwrap_or_else(|panic| {
        let message = match facts.encrypted {
            true => format!("the handler panicked; {NOT_KEPT}"),
            false => ready.without_masked(facts.param(), format!("the handler panicked: {}", panic_text(&*panic))),
        };
        // The panic's payload may panic again when it is dropped.
        std::mem::forget(panic);
        Called::failed(ErrorClass::Unknown, message)
    });
    let mut claimed = facts.without_param();
    // The description of the application is as public as it chose. What a handler made from an encrypted parameter is not kept.
    if facts.encrypted {
        claimed.description.clone_from(&facts.claimed.description);
    }
    claimed.description = claimed.description.map(|text| ready.without_masked(facts.param(), text));
    let mut outcome = Outcome::new(claimed, ready, event);
    outcome.duration = began.elapsed();
    outcome.is_one_of_many = facts.count_for_receiver(TargetSign::of(&outcome.event), outcome.duration);
    (outcome.trouble, outcome.error_type) = (trouble, error_type);
    if !matches!(outcome.event, Event::HandedBack(_)) {
        outcome.response = facts.response().map(|response| shown(&outcome.ready, &facts, response));
    }
    if matches!(outcome.event, Event::Paused(_)) {
        // In a box, because it is rare, and its size would be that of each attempt. The next attempt repeats a pause that took too long.
        let left = outcome.ready.policy.timeout.saturating_sub(outcome.duration);
        if let Ok(event) = tokio::time::timeout(left, Box::pin(pause(worker, definition, &outcome))).await {
            outcome.event = event;
        }
    }
    outcome
}

/// Returns the event of a notice that the filter of its target does not let through. One that the filter cannot judge waits.
async fn kept_by_filter(
    worker: &Worker,
    definition: &Definition,
    filter: &Arc<TargetFilter>,
    claimed: &ClaimedNotice,
) -> Option<Event> {
    let name = &definition.row.name;
    let judged = judge(worker, name, std::slice::from_ref(filter), &claimed.param).await;
    match judged.ok().and_then(|judged| judged.into_iter().next()) {
        Some(Ok(true)) => None,
        Some(Ok(false)) => Some(Event::Refused(format!("the target does not accept it: {filter}"))),
        Some(Err(unjudged)) => {
            let problem =
                format!("target_filter: it cannot be judged for the parameter of notice {}: {unjudged}", claimed.id);
            Some(wait(worker, definition, claimed.id, &problem))
        }
        // A panic, which the log has.
        None => Some(Event::HandedBack(worker.settings.poll_interval)),
    }
}

/// Records and reports that a notice waits. `problem` begins with the column that it is about.
fn wait(worker: &Worker, definition: &Definition, id: i64, problem: &str) -> Event {
    let (def_id, name) = (definition.row.id, definition.row.name.as_str());
    if let Some(text) = worker.waiting.note((def_id, name), id, worker.moment(), problem) {
        tracing::error!(definition = %name, notice = id, "{text}");
        worker.signals.check_soon();
    }
    Event::HandedBack(WAIT)
}

/// Returns the event of a notice that has no try left by the row that this node knows. The definitions are read first, because an
/// operator may have just raised the limit: without an attempt, the edit is the notice's only chance. By the row that was read, the
/// transition hands back a notice that has a try after all.
async fn out_of_tries(worker: &Worker, def_id: i64) -> Event {
    let knows_all = tokio::select! {
        biased;
        knows_all = worker.knows_all_edits() => knows_all,
        () = worker.signals.handlers_cancelled() => false,
    };
    if !knows_all {
        return Event::HandedBack(worker.settings.poll_interval);
    }
    // Tries mean nothing to a notice of a definition that now has targets, is paused or was deleted.
    let takes_attempts = |definition: &Arc<Definition>| definition.ready().is_some() && !definition.has_targets;
    match worker.definition(def_id).is_some_and(|definition| takes_attempts(&definition)) {
        true => Event::OutOfTries,
        false => Event::HandedBack(Duration::ZERO),
    }
}

/// Returns what lets a notice of a built-in definition act. Without it the notice was not added by the library, and ends.
async fn authority_of(worker: &Worker, definition: &Definition, claimed: &ClaimedNotice) -> Result<Authority, Called> {
    let (id, name) = (claimed.id, &definition.row.name);
    match worker.stores().send.use_authority(claimed).await {
        Ok(Some(authority)) => {
            worker.not_handed_back(claimed.def_id);
            Ok(authority)
        }
        Ok(None) => {
            let why = "it has no authority: the definition is built in, and solid-notify did not add this notice";
            tracing::error!(definition = %name, id, "a notice of a built-in definition is refused: {why}");
            let trouble = Some((ErrorClass::Invalid, why.to_owned()));
            Err(Called { event: Event::GaveUp(why.to_owned()), trouble, error_type: None })
        }
        Err(error) => Err(Called::well(worker.handed_back(claimed.def_id, &error))),
    }
}

/// Result of a call of a handler.
struct Called {
    event: Event,
    /// The class and the message of a failed attempt.
    trouble: Option<(ErrorClass, String)>,
    /// The name of the error's type.
    error_type: Option<&'static str>,
}

impl Called {
    fn well(event: Event) -> Self {
        Self { event, trouble: None, error_type: None }
    }

    fn failed(class: ErrorClass, message: String) -> Self {
        Self { event: Event::Failed(class), trouble: Some((class, message)), error_type: None }
    }
}

/// Calls the handler and turns its result into an event, with the error of a failed attempt.
async fn call_handler(worker: &Worker, ready: &Ready, facts: &Arc<Facts>) -> Called {
    worker.in_flight.begin_call(facts.claimed.id, facts.claimed.fence);
    let call = Arc::clone(&ready.handler).call(Arc::clone(facts));
    let result = tokio::select! {
        // A result that is ready comes before the time-out and before the shutdown.
        biased;
        result = tokio::time::timeout(ready.policy.timeout, call) => result,
        () = worker.signals.handlers_cancelled() => return Called::well(Event::HandedBack(Duration::ZERO)),
    };
    match result {
        Ok(Ok(Ok(()))) => {
            let wait = |within: Duration| Event::AwaitAck(if within.is_zero() { FOREVER } else { within });
            Called::well(facts.required_ack().map_or(Event::Succeeded, wait))
        }
        Ok(Ok(Err(skip))) if skip.next == AfterFailure::Skip => {
            Called::well(Event::Skipped(kept(ready, facts, &skip, skip.error().to_string())))
        }
        Ok(Ok(Err(failure @ Failure { next: AfterFailure::HandBack(delay), .. }))) => {
            tracing::debug!(reason = %failure.error(), ?delay, "the attempt is handed back");
            Called::well(Event::HandedBack(delay))
        }
        Ok(Ok(Err(failure))) => {
            let class = worker.known.registered.classifier.class_of(&**failure.error());
            facts.respond_if_unset(|| http_status(&**failure.error()).map(Response::new));
            let message = kept(ready, facts, &failure, with_causes(failure.error()));
            let event = match failure.next {
                AfterFailure::RetryIn(delay) => Event::RetryIn(delay, class),
                AfterFailure::Pause => Event::Paused(class),
                AfterFailure::GiveUp => Event::GaveUp(format!("the handler gave up: {message}")),
                AfterFailure::Retry | AfterFailure::Skip | AfterFailure::HandBack(_) => Event::Failed(class),
            };
            Called { event, trouble: Some((class, message)), error_type: failure.error_type }
        }
        Ok(Err(unreadable)) => Called::failed(ErrorClass::Invalid, unreadable),
        Err(_) => Called::failed(ErrorClass::Timeout, timed_out(ready.policy.timeout)),
    }
}

/// Returns the text of a failure without the values of the parameter that people must not see. Where the parameter is encrypted, a text that
/// may contain anything made from it is not kept at all. All such texts pass here before they are stored, logged, or part of an alert.
fn kept(ready: &Ready, facts: &Facts, failure: &Failure, text: String) -> String {
    if !facts.encrypted {
        return ready.without_masked(facts.param(), text);
    }
    if failure.free_of_values {
        return Mask::whole().without_values_of(facts.param(), text);
    }
    match facts.response().and_then(|response| response.code()) {
        Some(code) => format!("the receiver answered {code}; {NOT_KEPT}"),
        None => NOT_KEPT.to_owned(),
    }
}

/// Returns a response without what people must not see. All responses pass here before they are stored.
fn shown(ready: &Ready, facts: &Facts, response: Response) -> Response {
    match &ready.policy.mask {
        _ if facts.encrypted => response.code_only(),
        Some(mask) => mask.masked_response(facts.param(), response),
        None => response,
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
