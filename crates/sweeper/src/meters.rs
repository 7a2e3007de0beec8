//! The metrics of a sweeper. Their handles are made once per definition, so that a notice costs no look-up and no label.
//! Without a recorder they do nothing. The names are in [`solid_notify_core::metrics`].

use std::array;
use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Histogram};
use solid_notify_core::metrics as names;
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::operate::NO_CLASS;
use solid_notify_core::transition::{Event, Next};
use solid_notify_core::{ErrorClass, Status};

/// The values of the label `outcome`.
const OUTCOMES: [&str; 5] = ["succeeded", "skipped", "awaiting_ack", "failed", "dead_letter"];
/// All classes of the library, and none.
const CLASSES: usize = ErrorClass::ALL.len() + 1;

/// The metrics of one definition.
pub(crate) struct Meters {
    definition: String,
    /// By outcome and class, each made when first needed, because most never are.
    attempts: [[OnceLock<Counter>; CLASSES]; OUTCOMES.len()],
    pub(crate) lease_losses: Counter,
    delivery: Histogram,
    attempt: Histogram,
    lateness: Histogram,
}

impl Meters {
    pub(crate) fn new(definition: &str) -> Self {
        let name = || definition.to_owned();
        Self {
            definition: name(),
            attempts: array::from_fn(|_| array::from_fn(|_| OnceLock::new())),
            lease_losses: metrics::counter!(names::LEASE_LOSSES, "definition" => name()),
            delivery: metrics::histogram!(names::DELIVERY, "definition" => name()),
            attempt: metrics::histogram!(names::ATTEMPT, "definition" => name()),
            lateness: metrics::histogram!(names::LATENESS, "definition" => name()),
        }
    }

    /// Records how late the first notice of a queue slice was claimed.
    pub(crate) fn claimed(&self, late: Duration) {
        self.lateness.record(late);
    }

    /// Records a stored outcome, and returns its word; `None` for what was no attempt. The duration of an attempt that ended with its process is unknown: zero.
    pub(crate) fn settled(
        &self,
        claimed: &ClaimedNotice,
        event: &Event,
        class: Option<ErrorClass>,
        duration: Duration,
        next: &Next,
    ) -> Option<&'static str> {
        let label = label(event, next)?;
        let counter = || {
            let class = class.map_or(NO_CLASS, ErrorClass::as_str);
            let definition = self.definition.clone();
            metrics::counter!(names::ATTEMPTS, "definition" => definition, "outcome" => OUTCOMES[label], "class" => class)
        };
        let place =
            class.map_or(Some(0), |class| ErrorClass::ALL.iter().position(|one| *one == class).map(|at| at + 1));
        match place {
            Some(place) => self.attempts[label][place].get_or_init(counter).increment(1),
            // A class of the application: failures are rare enough to look the counter up.
            None => counter().increment(1),
        }
        if !duration.is_zero() {
            self.attempt.record(duration);
        }
        if OUTCOMES[label] == "succeeded" || OUTCOMES[label] == "awaiting_ack" {
            self.delivery.record(delivered_after(claimed, duration));
        }
        Some(OUTCOMES[label])
    }
}

/// Returns the time from the insert to the end of this attempt: by the database's clock, except for the attempt itself.
pub(crate) fn delivered_after(claimed: &ClaimedNotice, attempt: Duration) -> Duration {
    (claimed.last_call_time - claimed.create_time).to_std().unwrap_or_default() + attempt
}

/// Returns the index into [`OUTCOMES`]; None for a hand-back, for what is passed on to targets, and for what the filter of a target refuses, which
/// were no attempts.
fn label(event: &Event, next: &Next) -> Option<usize> {
    match next {
        _ if matches!(event, Event::HandedBack(_) | Event::PassedOn(_) | Event::Refused(_)) => None,
        Next::Finish { status: Status::Succeeded, .. } => Some(0),
        Next::Finish { status: Status::DeadLetter, .. } => Some(4),
        Next::Finish { .. } => Some(1),
        Next::Wait { status: Status::AwaitingAck, .. } => Some(2),
        Next::Wait { .. } => Some(3),
    }
}
