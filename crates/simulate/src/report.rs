//! [`Report`]: the result of a simulation, as plain fields for the assertions of tests. `text` prints it and `plot` draws
//! it.

use std::time::Duration;

use serde::Serialize;
use solid_notify_core::Alert;

use super::scenario::Outage;

/// The result of a simulation. [`Display`](std::fmt::Display) prints it and [`Report::to_svg`] draws it. Times count from
/// the beginning of the scenario.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The definition's name.
    pub definition: String,
    /// The seed of the scenario.
    pub seed: u64,
    /// Its outages.
    pub outages: Vec<Outage>,
    /// Why it ended.
    pub ending: Ending,
    /// When the last notice ended, or, if some are live, when the simulation ended.
    pub until: Duration,
    /// The sums over all time.
    pub totals: Totals,
    /// The counts over time, in pieces of the length `bucket` without gaps.
    pub series: Vec<Bucket>,
    /// How long one piece of the series is.
    pub bucket: Duration,
    /// The first of the seconds in which most retries began; None without retries.
    pub peak_retries: Option<Peak>,
    /// When the last notice succeeded.
    pub last_success: Option<Duration>,
    /// How long after the end of the last outage all notices that were added before it had ended (delivered or dead
    /// letters). None without an outage, or if some of them are still live.
    pub drained_after: Option<Duration>,
    /// The alerts that were sent, the first 10,000.
    pub alerts: Vec<SimulatedAlert>,
}

/// Why a simulation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// Every notice ended.
    AllEnded,
    /// The horizon was reached while notices were live.
    Horizon,
    /// The limit [`MOST_ATTEMPTS`](super::MOST_ATTEMPTS) was reached.
    TooManyAttempts,
}

/// The sums over all time. `added = succeeded + dead_letters + live`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Totals {
    /// Notices that were added.
    pub added: u64,
    /// First attempts.
    pub first_sends: u64,
    /// Attempts that were not the first.
    pub retries: u64,
    /// Attempts that failed, crashes and missing acks among them.
    pub failures: u64,
    /// Attempts in which the process died.
    pub crashes: u64,
    /// Notices that were delivered, and acked if required.
    pub succeeded: u64,
    /// Notices that became dead letters.
    pub dead_letters: u64,
    /// Notices that had not ended when the simulation did.
    pub live: u64,
    /// Alerts that were sent, including digests and recoveries.
    pub alerts: u64,
    /// Outcomes that raised no alert of their own because of a cool-down.
    pub suppressed: u64,
}

impl Totals {
    /// All attempts.
    pub fn attempts(&self) -> u64 {
        self.first_sends + self.retries
    }
}

/// The counts of one piece of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bucket {
    /// Notices that were added.
    pub added: u64,
    /// First attempts that began.
    pub first_sends: u64,
    /// Other attempts that began.
    pub retries: u64,
    /// Attempts whose failure became known.
    pub failures: u64,
    /// Notices that succeeded.
    pub successes: u64,
    /// Notices that became dead letters.
    pub dead_letters: u64,
    /// The most notices that were live at any moment of the piece.
    pub live: u64,
    /// The most notices that were due without a slot.
    pub waiting: u64,
}

impl Bucket {
    /// Returns several pieces as one.
    pub(super) fn sum(parts: &[Self]) -> Self {
        parts.iter().fold(Self::default(), |sum, part| Self {
            added: sum.added + part.added,
            first_sends: sum.first_sends + part.first_sends,
            retries: sum.retries + part.retries,
            failures: sum.failures + part.failures,
            successes: sum.successes + part.successes,
            dead_letters: sum.dead_letters + part.dead_letters,
            live: sum.live.max(part.live),
            waiting: sum.waiting.max(part.waiting),
        })
    }
}

/// The second in which an event happened most often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peak {
    /// When it began, in whole seconds.
    pub at: Duration,
    /// How often the event happened in this second.
    pub count: u64,
}

/// An alert that was sent, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimulatedAlert {
    /// When it was sent.
    pub at: Duration,
    /// The alert as its handler receives it; [`Alert::title`] is its first line. Its clock shows 00:00 at the beginning of
    /// the scenario.
    pub alert: Alert,
}
