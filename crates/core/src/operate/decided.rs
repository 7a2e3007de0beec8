//! What a policy decides on retries that already wait, for previews of an edit and for re-timing.

use std::time::Duration;

use chrono::DateTime;

use crate::definition::Policy;
use crate::notice::{ClaimedNotice, ErrorClass, OwnLimits, Status, later};
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
    let before = RetryGroup { failures: failures.max(0), crashes: crashes.max(0), ..group.clone() };
    match decided(policy, &before, &event, unit, Duration::ZERO).next {
        Next::Wait { after, .. } => Some(after),
        Next::Finish { .. } => None,
    }
}

/// Returns the decision of the send path on `event` for notices with these counters and limits of their own, this long after the
/// beginning of their last attempt.
pub(super) fn decided(policy: &Policy, group: &RetryGroup, event: &Event, unit: f64, elapsed: Duration) -> Transition {
    let called = DateTime::UNIX_EPOCH;
    let new = ClaimedNotice::new(0, policy.def_id, Status::Sending, String::new(), called);
    let own = OwnLimits::new(group.max_tries, group.expires_after.and_then(|after| later(called, after)));
    let notice = ClaimedNotice { failures: group.failures, crashes: group.crashes, last_call_time: called, own, ..new };
    transition(policy, &notice, event, &Chance { unit, elapsed, strategy: &|_| Duration::ZERO })
}

impl RetryGroup {
    pub(super) fn tries(&self) -> i64 {
        self.failures.saturating_add(self.crashes)
    }

    /// Returns true if they are expired when their retry is due: it ends them without an attempt.
    pub(super) fn expires_first(&self) -> bool {
        self.expires_after.zip(self.wait).is_some_and(|(expires, wait)| expires <= wait)
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
