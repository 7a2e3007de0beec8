//! [`Outcome`]: the result of one attempt, or of an overdue lease or ack.

use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::ErrorClass;
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::transition::Event;
use tokio::sync::OwnedSemaphorePermit;

use crate::definitions::Ready;

/// The result of one attempt, to be settled.
pub(crate) struct Outcome {
    pub(crate) claimed: ClaimedNotice,
    /// The definition at the claim, used if its row is missing or invalid when the outcome is judged.
    pub(crate) ready: Arc<Ready>,
    pub(crate) event: Event,
    pub(crate) duration: Duration,
    /// The error of a failed attempt.
    pub(crate) trouble: Option<(ErrorClass, String)>,
    /// True if this is an overdue notice that this node judges without having claimed it.
    pub(crate) overdue: bool,
    /// The permit for a suspect, released when the outcome is stored.
    pub(crate) suspect_permit: Option<OwnedSemaphorePermit>,
}

impl Outcome {
    pub(crate) fn new(claimed: ClaimedNotice, ready: Arc<Ready>, event: Event) -> Self {
        Self { claimed, ready, event, duration: Duration::ZERO, trouble: None, overdue: false, suspect_permit: None }
    }
    /// Returns the class of its error.
    pub(crate) fn class(&self) -> Option<ErrorClass> {
        match self.event {
            Event::Crashed => Some(ErrorClass::Crash),
            _ => self.trouble.as_ref().map(|(class, _)| *class),
        }
    }
}
