//! [`Scenario`]: the input of a simulation, and the check of its values.
//!
//! `run` simulates it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use solid_notify_core::{Error, ErrorClass, Policy};

/// The longest time that a scenario may have.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);
/// The most notices that a scenario may add.
pub const MOST_NOTICES: u64 = 10_000_000;
/// How long after the last notice was added a simulation ends by default.
const PATIENCE: Duration = Duration::from_secs(30 * 86_400);

/// The delay of a named strategy before retry number `n`.
pub(super) type Strategy = Arc<dyn Fn(u32) -> Duration + Send + Sync>;

/// The input of a simulation. Times count from the beginning of the scenario.
///
/// Defaults: one notice a second for a minute, one node, attempts that take 100 ms and succeed.
#[derive(Clone)]
pub struct Scenario {
    pub(super) rate: f64,
    pub(super) lasting: Duration,
    pub(super) outages: Vec<Outage>,
    pub(super) failing: Share,
    pub(super) class: ErrorClass,
    pub(super) crashing: Share,
    pub(super) acking: Share,
    pub(super) acked_after: Duration,
    pub(super) attempt: Duration,
    pub(super) nodes: usize,
    pub(super) strategy: Option<Strategy>,
    pub(super) bucket: Option<Duration>,
    pub(super) horizon: Option<Duration>,
    pub(super) starting: DateTime<Utc>,
    pub(super) seed: u64,
}

/// A time in which every attempt fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outage {
    /// When it begins.
    pub from: Duration,
    /// How long it lasts.
    pub lasting: Duration,
    /// The class in which attempts fail during the outage.
    pub class: ErrorClass,
}

impl Outage {
    /// Returns when the outage ends.
    pub fn end(&self) -> Duration {
        self.from.saturating_add(self.lasting)
    }
}

/// A probability, checked before it is used.
type Share = f64;

impl Default for Scenario {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario {
    /// Creates a scenario with one notice a second for a minute, and without failures.
    pub fn new() -> Self {
        Self {
            rate: 1.0,
            lasting: Duration::from_secs(60),
            outages: Vec::new(),
            failing: 0.0,
            class: ErrorClass::Unknown,
            crashing: 0.0,
            acking: 1.0,
            acked_after: Duration::ZERO,
            attempt: Duration::from_millis(100),
            nodes: 1,
            strategy: None,
            bucket: None,
            horizon: None,
            starting: DateTime::UNIX_EPOCH,
            seed: 0,
        }
    }

    /// Sets how many notices are added each second, evenly spaced, the first at the beginning.
    #[must_use]
    pub fn rate(mut self, per_second: f64) -> Self {
        self.rate = per_second;
        self
    }

    /// Sets for how long notices are added.
    #[must_use]
    pub fn lasting(mut self, time: Duration) -> Self {
        self.lasting = time;
        self
    }

    /// Adds an outage: every attempt that begins in this time fails, in this class. With [`ErrorClass::Timeout`] the
    /// receiver does not answer, so attempts take the definition's `timeout`; with another class they take as long as those
    /// that succeed. There may be several; where they overlap, the first one added applies.
    #[must_use]
    pub fn outage(mut self, from: Duration, lasting: Duration, class: ErrorClass) -> Self {
        self.outages.push(Outage { from, lasting, class });
        self
    }

    /// Sets which share of the attempts fails without an outage, from 0 to 1, and in which class.
    #[must_use]
    pub fn failing(mut self, share: f64, class: ErrorClass) -> Self {
        (self.failing, self.class) = (share, class);
        self
    }

    /// Sets in which share of the attempts the process dies, from 0 to 1. The death becomes known when the lease expires.
    /// Other attempts go on, as if each process sent one notice at a time.
    #[must_use]
    pub fn crashing(mut self, share: f64) -> Self {
        self.crashing = share;
        self
    }

    /// For a definition with `need_confirm`: sets which share of the deliveries is acked, from 0 to 1, and how long
    /// after the delivery. By default all are acked at once.
    #[must_use]
    pub fn acking(mut self, share: f64, after: Duration) -> Self {
        (self.acking, self.acked_after) = (share, after);
        self
    }

    /// Sets how long an attempt takes, unless the process dies or the receiver does not answer. With zero a slot is never
    /// occupied. An attempt that takes longer than the definition's `timeout` fails.
    #[must_use]
    pub fn attempt(mut self, time: Duration) -> Self {
        self.attempt = time;
        self
    }

    /// Sets how many nodes send; each sends at most `max_concurrency` notices at the same time.
    #[must_use]
    pub fn nodes(mut self, count: usize) -> Self {
        self.nodes = count;
        self
    }

    /// Sets the function for `strategy:name`, if the definition's `retry_interval` names one: the delay before retry `n`,
    /// from 1.
    #[must_use]
    pub fn strategy(mut self, delay: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        self.strategy = Some(Arc::new(delay));
        self
    }

    /// Sets the length of a piece of the report's series; it is doubled while there would be more than 100,000 pieces. By
    /// default it is a round time of at least a second, chosen so that there are at most 240 pieces.
    #[must_use]
    pub fn bucket(mut self, time: Duration) -> Self {
        self.bucket = Some(time);
        self
    }

    /// Sets when the simulation ends at the latest; by default 30 days after the last notice was added.
    #[must_use]
    pub fn horizon(mut self, time: Duration) -> Self {
        self.horizon = Some(time);
        self
    }

    /// Sets the time at which the scenario begins, which matters for a `send_window`; by default the beginning of 1970 in
    /// UTC (midnight of a Thursday).
    #[must_use]
    pub fn starting(mut self, at: DateTime<Utc>) -> Self {
        self.starting = at;
        self
    }

    /// Sets the seed of the random numbers: the same seed gives the same failures, crashes, acks and jitter.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Returns how many notices are added.
    pub(super) fn notices(&self) -> u64 {
        (self.rate * self.lasting.as_secs_f64()).ceil() as u64
    }

    /// Returns when the simulation ends at the latest.
    pub(super) fn end(&self) -> Duration {
        self.horizon.unwrap_or(self.lasting + PATIENCE)
    }

    /// Returns an error for the first invalid value.
    pub(super) fn check(&self, policy: &Policy) -> Result<(), Error> {
        let wrong = |problem: String| Err(Error::Invalid { what: "the scenario", problem });
        if !(self.rate.is_finite() && self.rate > 0.0) {
            return wrong(format!("rate = {}: expected a number of notices per second above 0", self.rate));
        }
        for (name, share) in [("failing", self.failing), ("crashing", self.crashing), ("acking", self.acking)] {
            if !(0.0..=1.0).contains(&share) {
                return wrong(format!("{name} = {share}: expected a share from 0 to 1"));
            }
        }
        let mut times = vec![("lasting", self.lasting, true), ("attempt", self.attempt, false)];
        times.push(("acking", self.acked_after, false));
        times.extend(self.outages.iter().flat_map(|o| [("outage (from)", o.from, false), ("outage", o.lasting, true)]));
        times.extend(self.bucket.map(|bucket| ("bucket", bucket, true)));
        times.extend(self.horizon.map(|horizon| ("horizon", horizon, true)));
        for (name, time, positive) in times {
            if time > LONGEST || (positive && time < Duration::from_millis(1)) {
                let least = if positive { "1ms" } else { "0s" };
                return wrong(format!("{name} = {time:?}: expected a time from {least} to 10 years"));
            }
        }
        if self.notices() > MOST_NOTICES {
            let most = MOST_NOTICES;
            return wrong(format!("rate and lasting make {} notices: expected at most {most}", self.notices()));
        }
        if self.nodes == 0 {
            return wrong("nodes = 0: expected 1 or more".to_owned());
        }
        for class in self.outages.iter().map(|outage| outage.class).chain([self.class]) {
            match class {
                ErrorClass::Crash => {
                    return wrong("class crash: expected `crashing` to say that processes die".to_owned());
                }
                ErrorClass::Unacked => {
                    return wrong("class unacked: expected `acking` to say what is not acked".to_owned());
                }
                _ => {}
            }
        }
        match policy.interval.strategy() {
            Some(name) if self.strategy.is_none() => wrong(format!(
                "no strategy: expected the function behind strategy:{name}, which the definition names for its retries"
            )),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario")
            .field("rate", &self.rate)
            .field("lasting", &self.lasting)
            .field("outages", &self.outages)
            .field("nodes", &self.nodes)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
