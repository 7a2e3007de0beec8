//! Turns an outcome into what the store writes: the decision, the list of failed attempts, and texts that every database
//! accepts.

use solid_notify_core::add::DESCRIPTION_LIMIT;
use solid_notify_core::notice::{AttemptRecord, append_attempt, clean_text};
use solid_notify_core::store::Settle;
use solid_notify_core::transition::{Event, Next, Transition};
use solid_notify_core::{ErrorClass, Policy};

use crate::settle::Outcome;

/// The longest end reason of a notice, in bytes.
const REASON_LIMIT: usize = 4096;

pub(crate) fn to_settle(outcome: &Outcome, transition: Transition, policy: &Policy) -> Settle {
    let claimed = &outcome.claimed;
    let trouble = match &outcome.event {
        Event::Crashed => {
            let held = humantime::format_duration(policy.lease());
            let message = format!("the process died while sending: its lease (about {held}) expired unsettled");
            Some((ErrorClass::Crash, message))
        }
        _ => outcome.trouble.clone(),
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
        def_id: claimed.def_id,
        ordering_key: claimed.ordering_key.clone(),
        fence: claimed.fence,
        from: claimed.status,
        overdue: outcome.overdue,
        transition: explain(transition, outcome),
        errors,
        last_class,
        description: claimed.description.as_deref().map(|text| clean_text(text, DESCRIPTION_LIMIT)),
        alarm: None,
        told: None,
        watched: None,
    }
}

/// Adds the last error to the end reason of a notice whose tries ran out. Reasons come from handlers, so NUL is removed and
/// the length is limited.
fn explain(mut transition: Transition, outcome: &Outcome) -> Transition {
    if let Next::Finish { reason: Some(reason), .. } = &mut transition.next {
        if let (Event::Failed(_) | Event::RetryIn(..), Some((_, message))) = (&outcome.event, &outcome.trouble) {
            reason.push_str("; the last error: ");
            reason.push_str(message);
        }
        *reason = clean_text(reason, REASON_LIMIT);
    }
    transition
}
