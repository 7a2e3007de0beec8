//! One attempt: calls the handler under its time-out, catches panics, and turns the result into an outcome.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use solid_notify_core::ErrorClass;
use solid_notify_core::built_in::is_built_in;
use solid_notify_core::cipher::{CipherError, NOT_KEPT};
use solid_notify_core::definition::{FOREVER, TargetFilter};
use solid_notify_core::limit::TargetSign;
use solid_notify_core::notice::{ClaimedNotice, Response};
use solid_notify_core::store::{Authority, DecidedBy};
use solid_notify_core::transition::Event;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tracing::Instrument;

use super::called::{Called, Message, hide, kept, timed_out};
use super::decrypt::{decrypt, undecryptable};
use super::holding::wait;
use super::in_flight::AttemptsInFlight;
use super::large::read_param;
use super::pause::pause;
use super::span;
use super::targets::{LATER, judge, pass_on};
use crate::circuits::AttemptCircuit;
use crate::definitions::{Definition, Ready};
use crate::handlers::classify::http_status;
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
        slot.ended(was_attempted.then(|| (outcome.class() == Some(ErrorClass::Timeout), outcome.duration)));
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
    let mut _room = None;
    if claimed.param_is_left {
        // In a box, because it is rare.
        match Box::pin(read_param(worker, &mut claimed)).await {
            Ok(taken) => _room = Some(taken),
            Err((event, trouble)) => return Outcome { trouble, ..Outcome::new(claimed, ready, event) },
        }
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
            let problem = undecryptable(worker, definition, claimed.id, &error);
            let key = match &error {
                CipherError::UnknownKey { key, .. } => Some(key.as_str()),
                CipherError::WrongKey { needed, .. } => Some(needed.as_str()),
                _ => None,
            };
            let event = wait(worker, &definition.row, claimed.id, (&problem, key));
            return Outcome::new(claimed, ready, event);
        }
    };
    if definition.has_targets {
        return pass_on(worker, definition, ready, claimed, encrypted).await;
    }
    if let Some(filter) = &ready.policy.filter
        && let Some(event) = Box::pin(kept_by_filter(worker, definition, &ready, filter, &claimed)).await
    {
        claimed.param = String::new();
        let refused = matches!(event, Event::Refused(_));
        let decided_by = refused.then(|| Box::new(DecidedBy::Filter(definition.row.target_filter.clone())));
        return Outcome { decided_by, ..Outcome::new(claimed, ready, event) };
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
                let (event, trouble) = refused.texts_filled_in();
                return Outcome { trouble, ..Outcome::new(claimed, ready, event) };
            }
        },
        false => None,
    };
    let began = Instant::now();
    let circuit = AttemptCircuit::new(&worker.circuits, &ready.policy);
    let (row, outbox) = (Arc::clone(&definition.row), worker.outbox.clone());
    let facts = Facts::new(claimed, row, (&ready.policy, circuit), outbox, encrypted, authority);
    let result = AssertUnwindSafe(call_handler(worker, &ready, &facts)).catch_unwind().await;
    let mut called = result.unwrap_or_else(|panic| {
        let message = match facts.encrypted {
            true => Message::Own(format!("the handler panicked; {NOT_KEPT}")),
            false => Message::OfHandler(format!("the handler panicked: {}", panic_text(&*panic))),
        };
        // The panic's payload may panic again when it is dropped.
        std::mem::forget(panic);
        Called::failed(ErrorClass::Unknown, message)
    });
    let duration = began.elapsed();
    let mut claimed = facts.without_param();
    // The description of the application is as public as it chose. What a handler made from an encrypted parameter is not kept.
    if facts.encrypted {
        claimed.description.clone_from(&facts.claimed.description);
    }
    let mut response = facts.response().filter(|_| !matches!(called.event, Event::HandedBack(_)));
    if ready.policy.mask.is_some() || facts.encrypted {
        // In a box, because it is rare.
        response = Box::pin(hide(worker, &ready, &facts, &mut called, &mut claimed.description, response)).await;
    }
    let error_type = called.error_type;
    let (event, trouble) = called.texts_filled_in();
    let mut outcome = Outcome { duration, trouble, error_type, ..Outcome::new(claimed, ready, event) };
    outcome.is_one_of_many = facts.count_for_receiver(TargetSign::of(&outcome.event), outcome.duration);
    outcome.response = response;
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
    ready: &Ready,
    filter: &Arc<TargetFilter>,
    claimed: &ClaimedNotice,
) -> Option<Event> {
    let judged = match judge(worker, ready, std::slice::from_ref(filter), &claimed.param).await {
        Ok(judged) => judged.into_iter().next(),
        Err(event) => return Some(event),
    };
    match judged {
        Some(Ok(true)) => None,
        Some(Ok(false)) => Some(Event::Refused(format!("the target does not accept it: {filter}"))),
        Some(Err(unjudged)) => {
            let problem =
                format!("target_filter: it cannot be judged for the parameter of notice {}: {unjudged}", claimed.id);
            Some(wait(worker, &definition.row, claimed.id, (&problem, None)))
        }
        None => Some(Event::HandedBack(LATER)),
    }
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
            Err(Called {
                event: Event::GaveUp(String::new()),
                ..Called::failed(ErrorClass::Invalid, Message::Own(why.to_owned()))
            })
        }
        Err(error) => Err(Called::well(worker.handed_back(claimed.def_id, &error))),
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
            let message = Some(kept(facts, &skip, skip.error().to_string()));
            Called { message, ..Called::well(Event::Skipped(String::new())) }
        }
        Ok(Ok(Err(failure @ Failure { next: AfterFailure::HandBack(delay), .. }))) => {
            tracing::debug!(reason = %failure.error(), ?delay, "the attempt is handed back");
            Called::well(Event::HandedBack(delay))
        }
        Ok(Ok(Err(failure @ Failure { next: AfterFailure::Wait, .. }))) => {
            Called::well(wait(worker, &facts.row, facts.claimed.id, (&failure.text(), None)))
        }
        Ok(Ok(Err(failure))) => {
            let class = worker.known.registered.classifier.class_of(&**failure.error());
            facts.respond_if_unset(|| http_status(&**failure.error()).map(Response::new));
            let message = kept(facts, &failure, failure.text());
            let event = match failure.next {
                AfterFailure::RetryIn(delay) => Event::RetryIn(delay, class),
                AfterFailure::Pause => Event::Paused(class),
                AfterFailure::GiveUp => Event::GaveUp("the handler gave up: ".to_owned()),
                AfterFailure::Retry | AfterFailure::Skip | AfterFailure::HandBack(_) | AfterFailure::Wait => {
                    Event::Failed(class)
                }
            };
            Called { event, error_type: failure.error_type, ..Called::failed(class, message) }
        }
        Ok(Err(unreadable)) => Called::failed(ErrorClass::Invalid, Message::Own(unreadable)),
        Err(_) => Called::failed(ErrorClass::Timeout, Message::Own(timed_out(ready.policy.timeout))),
    }
}
