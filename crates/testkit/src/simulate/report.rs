//! [`Report`]: what came of a simulation, as plain fields for the assertions of tests. How it is printed and plotted is left to
//! `text` and `plot`.

use std::time::Duration;

use solid_notify_core::Alert;

use super::scenario::Outage;

/// What came of a simulation. It is printed with [`Display`](std::fmt::Display) and plotted with [`Report::to_svg`]. Times are counted
/// from the beginning of the scenario.
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
    /// When the last notice ended, or, where some are live, when the simulation ended.
    pub until: Duration,
    /// The sums over all time.
    pub totals: Totals,
    /// What happened over time, in pieces of the length `bucket` without gaps.
    pub series: Vec<Bucket>,
    /// How long one piece of the series is.
    pub bucket: Duration,
    /// The second in which most retries began, the first of them; none where nothing was retried.
    pub peak_retries: Option<Peak>,
    /// When the last notice succeeded.
    pub last_success: Option<Duration>,
    /// How long after the end of the last outage all notices that had been added before it had ended: delivered or given up. None
    /// where there was no outage, or some of them are still live.
    pub drained_after: Option<Duration>,
    /// What people were told, the first 10,000.
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
    /// There were [`MOST_ATTEMPTS`](super::MOST_ATTEMPTS).
    TooManyAttempts,
}

/// The sums over all time. `added = succeeded + dead_letters + live`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Notices that were added.
    pub added: u64,
    /// First attempts.
    pub first_sends: u64,
    /// Attempts that were not the first.
    pub retries: u64,
    /// Attempts that failed, crashes and missing confirmations among them.
    pub failures: u64,
    /// Attempts in which the process died.
    pub crashes: u64,
    /// Notices that were delivered, and confirmed where asked.
    pub succeeded: u64,
    /// Notices that were given up.
    pub dead_letters: u64,
    /// Notices that had not ended when the simulation did.
    pub live: u64,
    /// Alerts that people got, digests and the news that it is over among them.
    pub alerts: u64,
    /// Outcomes that a cool-down kept from being an alert of their own.
    pub held_back: u64,
}

impl Totals {
    /// All attempts.
    pub fn attempts(&self) -> u64 {
        self.first_sends + self.retries
    }
}

/// What happened in one piece of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bucket {
    /// Notices that were added.
    pub added: u64,
    /// First attempts that began.
    pub first_sends: u64,
    /// Other attempts that began.
    pub retries: u64,
    /// Attempts that turned out to have failed.
    pub failures: u64,
    /// Notices that succeeded.
    pub successes: u64,
    /// Notices that were given up.
    pub dead_letters: u64,
    /// The most notices that were live at any moment of it.
    pub live: u64,
    /// The most notices that were due and had no slot.
    pub waiting: u64,
}

impl Bucket {
    /// What several pieces are as one.
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

/// The second in which most of something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peak {
    /// When it began, in whole seconds.
    pub at: Duration,
    /// How often it happened in this second.
    pub count: u64,
}

/// What a person was told, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimulatedAlert {
    /// When.
    pub at: Duration,
    /// What, as its handler gets it: [`Alert::title`] is its first line. Its clock shows 00:00 where the scenario begins.
    pub alert: Alert,
}
