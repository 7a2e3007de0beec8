//! What a policy decides on retries that already wait, for previews of an edit and for re-timing.

use std::time::Duration;

use chrono::DateTime;

use crate::definition::Policy;
use crate::notice::{ClaimedNotice, ErrorClass, Status};
use crate::store::RetryGroup;
use crate::transition::{Chance, Event, Next, Transition, transition};

/// Returns the delay of these retries by `policy`, if it differs from their present one. Compared in whole seconds, because an
/// outcome is stored a moment after the attempt, from whose beginning the delay counts.
pub(super) fn moved(policy: &Policy, group: &RetryGroup, unit: f64) -> Option<Duration> {
    let delay = delay_of_last(policy, group, unit).filter(|_| !group.due)?;
    (delay.as_secs() != group.wait?.as_secs()).then_some(delay)
}

/// Returns the delay that `policy` would have given after the last failure of these retries, if there is one.
fn delay_of_last(policy: &Policy, group: &RetryGroup, unit: f64) -> Option<Duration> {
    if group.tries() == 0 {
        return None;
    }
    let event = group.failure();
    let (failures, crashes) = match event {
        Event::Crashed => (group.failures, group.crashes - 1),
        _ => (group.failures - 1, group.crashes),
    };
    match decided(policy, failures.max(0), crashes.max(0), &event, unit).next {
        Next::Wait { after, .. } => Some(after),
        Next::Finish { .. } => None,
    }
}

/// Returns the decision of the send path on `event` for a notice with these counters.
pub(super) fn decided(policy: &Policy, failures: i64, crashes: i64, event: &Event, unit: f64) -> Transition {
    let new = ClaimedNotice::new(0, policy.def_id, Status::Sending, String::new(), DateTime::UNIX_EPOCH);
    let notice = ClaimedNotice { failures, crashes, ..new };
    transition(policy, &notice, event, &Chance { unit, elapsed: Duration::ZERO, strategy: &|_| Duration::ZERO })
}

impl RetryGroup {
    pub(super) fn tries(&self) -> i64 {
        self.failures.saturating_add(self.crashes)
    }

    pub(super) fn error_class(&self) -> ErrorClass {
        self.class.as_deref().and_then(ErrorClass::from_name).unwrap_or(ErrorClass::Unknown)
    }

    /// Returns a failure of the class of the last one.
    pub(super) fn failure(&self) -> Event {
        match self.error_class() {
            ErrorClass::Crash if self.crashes > 0 => Event::Crashed,
            class => Event::Failed(class),
        }
    }
}
