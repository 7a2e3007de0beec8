//! Turns an outcome into what the store writes: the decision by the definition as it is now, the list of failed attempts,
//! and texts that every database accepts.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use solid_notify_core::add::DESCRIPTION_LIMIT;
use solid_notify_core::notice::{
    AttemptRecord, ClaimedNotice, LastResponse, MESSAGE_LIMIT, Response, append_attempt, clean_text,
};
use solid_notify_core::store::{REASON_LIMIT, Settle};
use solid_notify_core::transition::{Chance, Event, Next, Transition, cut_wish, transition};

use super::alarm::{alarm_of, breaker_input};
use super::pending::{Decided, Outcome};
use crate::worker::Worker;

/// The longest name of an error's type, in bytes. The name of a generic type can be long.
const ERROR_TYPE_LIMIT: usize = 200;

/// Judges an outcome. If the judgement panics, the attempt is given up: its lease expires and counts a crash.
pub(super) fn decide(worker: &Worker, outcome: Outcome) -> Option<Decided> {
    match std::panic::catch_unwind(AssertUnwindSafe(|| settle_of(worker, &outcome))) {
        Ok(settle) => Some(Decided::new(settle, outcome)),
        Err(panic) => {
            std::mem::forget(panic);
            worker.outcomes.remove_undecided();
            worker.in_flight.give_up(outcome.claimed.id, outcome.claimed.fence);
            None
        }
    }
}

/// Judges an outcome by the definition as it is now.
fn settle_of(worker: &Worker, outcome: &Outcome) -> Settle {
    let definition = worker.definition(outcome.claimed.def_id);
    let now = definition.as_deref();
    let policy = now.and_then(|definition| definition.policy()).unwrap_or(&outcome.ready.policy);
    let strategy = now.and_then(|definition| definition.ready()).map_or(&outcome.ready.strategy, |now| &now.strategy);
    let elapsed = outcome.duration.saturating_add(outcome.waited);
    let chance = Chance { unit: fastrand::f64(), elapsed, strategy: &**strategy };
    let transition = transition(policy, &outcome.claimed, &outcome.event, &chance);
    let alarm = alarm_of(&worker.alarms, policy, outcome, &transition);
    let mut settle = to_settle(outcome, transition, cut_wish(policy, &outcome.event));
    settle.alarm = alarm;
    settle.for_breaker = breaker_input(&worker.alarms, policy, outcome);
    settle
}

/// `cut`: that the retry comes sooner than was asked for.
fn to_settle(outcome: &Outcome, transition: Transition, cut: Option<String>) -> Settle {
    let claimed = &outcome.claimed;
    let (errors, last_class) = match &outcome.trouble {
        // Without an attempt, the class of the last failure stays.
        None if matches!(outcome.event, Event::Expired | Event::OutOfTries | Event::HandedBack(_)) => {
            (claimed.errors.clone(), claimed.last_record().map(|last| last.class))
        }
        None => (claimed.errors.clone(), None),
        Some((class, message)) => {
            let mut record = AttemptRecord::new(claimed, outcome.duration, *class, message);
            if let Some(cut) = cut {
                record.message = format!("{}; {cut}", clean_text(message, MESSAGE_LIMIT - 2 - cut.len()));
            }
            record.error_type = outcome.error_type.map(|name| clean_text(name, ERROR_TYPE_LIMIT));
            record.response.clone_from(&outcome.response);
            (Some(append_attempt(claimed.errors.as_deref(), record)), Some(class.as_str().to_owned()))
        }
    };
    let mut settle = Settle {
        id: claimed.id,
        def_id: claimed.def_id,
        ordering_key: claimed.ordering_key.clone(),
        fence: claimed.fence,
        from: claimed.status,
        overdue: outcome.overdue,
        transition: with_last_error(transition, outcome),
        errors,
        last_class,
        description: claimed.description.as_deref().map(|text| clean_text(text, DESCRIPTION_LIMIT)),
        response: outcome.response.as_ref().and_then(|response| stored(claimed, outcome.duration, response)),
        error_group: None,
        alarm: None,
        for_breaker: None,
        pass_to: outcome.pass_to.clone(),
        decided_by: outcome.decided_by.clone(),
    };
    settle.regroup();
    settle
}

/// Returns a response as the notice keeps it.
fn stored(claimed: &ClaimedNotice, duration: Duration, response: &Response) -> Option<String> {
    let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let (attempt, fence, time) = (claimed.attempt(), claimed.fence, claimed.last_call_time);
    LastResponse::new(attempt, fence, time, duration_ms, response.clone()).to_stored()
}

/// Adds the last error to the end reason of a notice whose tries ran out. Reasons come from handlers, so NUL is removed and
/// the length is limited.
fn with_last_error(mut transition: Transition, outcome: &Outcome) -> Transition {
    if let Next::Finish { reason: Some(reason), .. } = &mut transition.next {
        let last = match (&outcome.event, &outcome.trouble) {
            (Event::Failed(_) | Event::RetryIn(..), Some((_, message))) => Some(message.clone()),
            (Event::Expired | Event::OutOfTries, _) => outcome.claimed.last_record().map(|last| last.message),
            _ => None,
        };
        if let Some(message) = last {
            reason.push_str("; the last error: ");
            reason.push_str(&message);
        }
        *reason = clean_text(reason, REASON_LIMIT);
    }
    transition
}
