//! What callers of the timed tasks see: a task, a claim, an outcome.

use std::time::{Duration, SystemTime};

use solid_notify_core::notice::{duration_millis, millis_from_time};

/// When a task is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum When {
    /// So long after it is added, by Redis's clock.
    After(Duration),
    /// At this time, by Redis's clock.
    At(SystemTime),
}

impl From<Duration> for When {
    fn from(delay: Duration) -> Self {
        Self::After(delay)
    }
}

impl From<SystemTime> for When {
    fn from(time: SystemTime) -> Self {
        Self::At(time)
    }
}

/// The latest time that a score tells exactly, in milliseconds: after that nobody waits for it.
const LATEST: i64 = 1 << 52;

impl When {
    /// As the scripts take it.
    pub(super) fn word(self) -> String {
        match self {
            Self::After(delay) => format!("+{}", duration_millis(delay).min(LATEST)),
            Self::At(time) => millis_from_time(time).clamp(0, LATEST).to_string(),
        }
    }
}

/// A task that is due and was not claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Task<T> {
    /// Its id.
    pub id: String,
    /// Since when it is due.
    pub due: SystemTime,
    /// Its value.
    pub value: T,
    /// How often it was claimed before.
    pub tries: u64,
}

/// A task that this consumer holds until its lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claimed<T> {
    /// Its id.
    pub id: String,
    /// When it was due or, of one whose consumer died, when that one's lease ended.
    pub due: SystemTime,
    /// Its value.
    pub value: T,
    /// How often it was claimed, this time included.
    pub tries: u64,
    /// The number of the claim, of all that was claimed at once: the fence. Whoever claims the task next has a higher one.
    pub fence: u64,
}

impl<T> Claimed<T> {
    /// What became of it, for [`super::TimedTasks::settle`].
    pub fn outcome(&self, outcome: Outcome) -> Settled {
        Settled { id: self.id.clone(), fence: self.fence, outcome }
    }
}

/// How long a claim holds, and how often a task is claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// How long.
    pub time: Duration,
    /// After so many claims a task is dead instead of being claimed once more; none: never. It is what ends a task that kills
    /// its consumers.
    pub max_tries: Option<u32>,
}

impl Lease {
    /// A lease for this time, and any number of tries.
    pub fn of(time: Duration) -> Self {
        Self { time, max_tries: None }
    }

    /// At most so many claims.
    #[must_use]
    pub fn max_tries(mut self, tries: u32) -> Self {
        self.max_tries = Some(tries);
        self
    }
}

/// What is due, and what was found beside it that nobody can use.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Due<T> {
    /// The tasks.
    pub tasks: Vec<T>,
    /// What was put aside.
    pub damaged: Vec<Damaged>,
    /// The ids of those that had no try left and are dead now.
    pub dead: Vec<String>,
}

/// Something that nobody can use and that was put aside: a person finds it with [`super::TimedTasks::aside`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damaged {
    /// Its id.
    pub id: String,
    /// What is wrong with it.
    pub reason: String,
}

/// What became of a claimed task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It is done, and nothing is kept of it.
    Finish,
    /// It is to be claimed again then.
    Retry(When),
    /// It is given up, for this reason.
    Dead(String),
    /// It goes on, with a lease of this length from now on.
    Extend(Duration),
    /// It cannot be used, for this reason, and is kept where a person finds it.
    Aside(String),
}

/// An outcome of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The task.
    pub id: String,
    /// The claim's number.
    pub fence: u64,
    /// What became of it.
    pub outcome: Outcome,
}

impl Settled {
    /// What a run of these begins with: all of the same claim that have the same outcome.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.fence == other.fence && self.outcome == other.outcome
    }

    /// What the script is told of such a run, before their ids.
    pub(super) fn words(run: &[Self]) -> Option<[String; 4]> {
        let first = run.first()?;
        let (what, more) = match &first.outcome {
            Outcome::Finish => ("finish", String::new()),
            Outcome::Retry(when) => ("retry", when.word()),
            Outcome::Dead(reason) => ("dead", reason.clone()),
            Outcome::Extend(lease) => ("lease", duration_millis(*lease).min(LATEST).to_string()),
            Outcome::Aside(reason) => ("aside", reason.clone()),
        };
        Some([format!("{}:", first.fence), what.to_owned(), more, run.len().to_string()])
    }
}

/// What [`super::TimedTasks::reschedule`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rescheduled {
    /// It is due then.
    Done,
    /// A consumer holds it; its outcome decides.
    Held,
    /// No such task waits.
    Unknown,
}

/// How many tasks of a kind there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Waiting for their time, or due.
    pub waiting: u64,
    /// Those that a claim finds now: due, or held under a lease that has ended.
    pub due: u64,
    /// Held by consumers, dead ones included until their lease ends and somebody claims.
    pub held: u64,
    /// Dead.
    pub dead: u64,
    /// Put aside.
    pub aside: u64,
}

/// A task that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadTask {
    /// Its id.
    pub id: String,
    /// When it was given up.
    pub died: SystemTime,
    /// Why.
    pub reason: String,
    /// How often it was claimed.
    pub tries: u64,
    /// Its value, JSON as it is stored.
    pub value: String,
}

/// Id and reason of what was put aside, one after the other.
pub(super) type RawAside = Vec<(String, String)>;
/// Id, score and value of each task, one after the other.
pub(super) type RawTasks = Vec<(String, f64, Vec<u8>)>;
/// The fence, id and score of each task, their values, place (from one on) and tries of those that were claimed before, what was put
/// aside, what has died.
pub(super) type RawClaimed = (u64, Vec<(String, f64)>, Vec<Vec<u8>>, Vec<(usize, u64)>, RawAside, Vec<String>);
pub(super) type RawDead = (String, f64, String, u64, Vec<u8>);
