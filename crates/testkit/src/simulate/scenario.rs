//! [`Scenario`]: what a definition is to live through, as a person says it, and what makes no sense in it.
//!
//! It decides nothing; what comes of it is left to `run`.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use solid_notify_core::{Error, ErrorClass, Policy};

/// The longest time that a scenario may name.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);
/// The most notices that a scenario may add.
pub const MOST_NOTICES: u64 = 10_000_000;
/// How long after the last notice was added a simulation ends, unless the scenario says otherwise.
const PATIENCE: Duration = Duration::from_secs(30 * 86_400);

/// The delay of a named strategy before retry number `n`.
pub(super) type Strategy = Arc<dyn Fn(u32) -> Duration + Send + Sync>;

/// What is simulated. Times are counted from the beginning of the scenario.
///
/// Unless it says otherwise: one notice a second for a minute, one node, attempts that take 100 ms and succeed.
#[derive(Clone)]
pub struct Scenario {
    pub(super) rate: f64,
    pub(super) lasting: Duration,
    pub(super) outages: Vec<Outage>,
    pub(super) failing: Share,
    pub(super) class: ErrorClass,
    pub(super) crashing: Share,
    pub(super) confirming: Share,
    pub(super) confirmed_after: Duration,
    pub(super) attempt: Duration,
    pub(super) nodes: usize,
    pub(super) strategy: Option<Strategy>,
    pub(super) bucket: Option<Duration>,
    pub(super) horizon: Option<Duration>,
    pub(super) starting: SystemTime,
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
    /// In which way attempts fail meanwhile.
    pub class: ErrorClass,
}

impl Outage {
    /// When it is over.
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
    /// One notice a second for a minute, and nothing fails.
    pub fn new() -> Self {
        Self {
            rate: 1.0,
            lasting: Duration::from_secs(60),
            outages: Vec::new(),
            failing: 0.0,
            class: ErrorClass::Unknown,
            crashing: 0.0,
            confirming: 1.0,
            confirmed_after: Duration::ZERO,
            attempt: Duration::from_millis(100),
            nodes: 1,
            strategy: None,
            bucket: None,
            horizon: None,
            starting: UNIX_EPOCH,
            seed: 0,
        }
    }

    /// How many notices are added each second, evenly spaced, the first at the beginning.
    #[must_use]
    pub fn rate(mut self, per_second: f64) -> Self {
        self.rate = per_second;
        self
    }

    /// For how long notices are added.
    #[must_use]
    pub fn lasting(mut self, time: Duration) -> Self {
        self.lasting = time;
        self
    }

    /// Every attempt that begins in this time fails, in this class. With [`ErrorClass::Timeout`] nobody answers: attempts take
    /// the definition's `timeout`; with another they take as long as those that succeed. There may be several; of those that
    /// overlap the first one named decides.
    #[must_use]
    pub fn outage(mut self, from: Duration, lasting: Duration, class: ErrorClass) -> Self {
        self.outages.push(Outage { from, lasting, class });
        self
    }

    /// Which share of the attempts fails although there is no outage, from 0 to 1, and in which class.
    #[must_use]
    pub fn failing(mut self, share: f64, class: ErrorClass) -> Self {
        (self.failing, self.class) = (share, class);
        self
    }

    /// In which share of the attempts the process dies, from 0 to 1. That is noticed when the lease is over. What else the process was
    /// sending goes on, as where each process sends one at a time.
    #[must_use]
    pub fn crashing(mut self, share: f64) -> Self {
        self.crashing = share;
        self
    }

    /// Of a definition with `need_confirm`: which share of the deliveries is confirmed, from 0 to 1, and how long after the delivery;
    /// unless set, all at once.
    #[must_use]
    pub fn confirming(mut self, share: f64, after: Duration) -> Self {
        (self.confirming, self.confirmed_after) = (share, after);
        self
    }

    /// How long an attempt takes, unless the process dies or nobody answers. With zero a slot is never occupied. One that takes
    /// longer than the definition's `timeout` fails.
    #[must_use]
    pub fn attempt(mut self, time: Duration) -> Self {
        self.attempt = time;
        self
    }

    /// How many nodes send; each sends at most `max_concurrency` notices at the same time.
    #[must_use]
    pub fn nodes(mut self, count: usize) -> Self {
        self.nodes = count;
        self
    }

    /// The function behind `strategy:name`, for a definition whose `retry_interval` names one: the delay before retry `n`,
    /// counted from 1.
    #[must_use]
    pub fn strategy(mut self, delay: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        self.strategy = Some(Arc::new(delay));
        self
    }

    /// How long a piece of the report's series is; twice as long, and so on, where there would be more than 100,000. Unless set,
    /// it is a round time of at least a second, chosen when it is known how long it all took, so that there are at most 240.
    #[must_use]
    pub fn bucket(mut self, time: Duration) -> Self {
        self.bucket = Some(time);
        self
    }

    /// When the simulation ends at the latest; unless set, 30 days after the last notice was added.
    #[must_use]
    pub fn horizon(mut self, time: Duration) -> Self {
        self.horizon = Some(time);
        self
    }

    /// The moment at which the scenario begins, which matters to a `send_window`; the first one of 1970 in UTC (a Thursday's
    /// midnight) unless it is said.
    #[must_use]
    pub fn starting(mut self, at: SystemTime) -> Self {
        self.starting = at;
        self
    }

    /// What chance begins with: failures, crashes, confirmations and jitter are the same whenever the seed is.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How many notices are added.
    pub(super) fn notices(&self) -> u64 {
        (self.rate * self.lasting.as_secs_f64()).ceil() as u64
    }

    /// When the simulation ends at the latest.
    pub(super) fn end(&self) -> Duration {
        self.horizon.unwrap_or(self.lasting + PATIENCE)
    }

    /// Tells of the first thing that makes no sense.
    pub(super) fn check(&self, policy: &Policy) -> Result<(), Error> {
        let wrong = |problem: String| Err(Error::Invalid { what: "the scenario", problem });
        if !(self.rate.is_finite() && self.rate > 0.0) {
            return wrong(format!("rate = {}: expected a number of notices per second above 0", self.rate));
        }
        for (name, share) in [("failing", self.failing), ("crashing", self.crashing), ("confirming", self.confirming)] {
            if !(0.0..=1.0).contains(&share) {
                return wrong(format!("{name} = {share}: expected a share from 0 to 1"));
            }
        }
        let mut times = vec![("lasting", self.lasting, true), ("attempt", self.attempt, false)];
        times.push(("confirming", self.confirmed_after, false));
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
                ErrorClass::Unconfirmed => {
                    return wrong("class unconfirmed: expected `confirming` to say what is not confirmed".to_owned());
                }
                _ => {}
            }
        }
        match policy.interval.strategy() {
            Some(name) if self.strategy.is_none() => wrong(format!(
                "no strategy: expected the function behind strategy:{name}, of which the definition makes use"
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
