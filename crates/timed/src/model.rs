//! The types of the timed tasks: a task, a claim, an outcome.

use std::time::Duration;

use chrono::{DateTime, Utc};
use solid_notify_redis_connection::MAX_SCORE;

/// When a task is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum When {
    /// This long after it is added, by Redis's clock.
    After(Duration),
    /// At this time, by Redis's clock.
    At(DateTime<Utc>),
}

impl From<Duration> for When {
    fn from(delay: Duration) -> Self {
        Self::After(delay)
    }
}

impl From<DateTime<Utc>> for When {
    fn from(time: DateTime<Utc>) -> Self {
        Self::At(time)
    }
}

impl When {
    /// The time as a word: milliseconds; with a plus sign they count from now.
    pub(crate) fn word(self) -> String {
        match self {
            Self::After(delay) => format!("+{}", duration_millis(delay)),
            Self::At(time) => millis_from_time(time).to_string(),
        }
    }
}

/// A due task that was not claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Task<T> {
    /// Its id.
    pub id: String,
    /// Since when it has been due.
    pub due: DateTime<Utc>,
    /// Its value.
    pub value: T,
    /// How often it was claimed before.
    pub tries: u64,
    /// Its target URL, if it was added with one; see [`crate::TimedTasks::with_target`].
    pub target: Option<String>,
}

/// A task that this consumer holds until its lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimedTask<T> {
    /// Its id.
    pub id: String,
    /// When it was due, or when the lease of a consumer that died ended.
    pub due: DateTime<Utc>,
    /// Its value.
    pub value: T,
    /// How often it was claimed, including this time.
    pub tries: u64,
    /// The number of the claim, shared by all its tasks: the fence. A later claim of the task has a higher number.
    pub fence: u64,
    /// Its target URL, if it was added with one; see [`crate::TimedTasks::with_target`].
    pub target: Option<String>,
}

impl<T> ClaimedTask<T> {
    /// Returns the task with its value read as another type.
    pub(crate) fn read<U>(self, read: impl FnOnce(T) -> serde_json::Result<U>) -> serde_json::Result<ClaimedTask<U>> {
        let Self { id, due, value, tries, fence, target } = self;
        Ok(ClaimedTask { id, due, value: read(value)?, tries, fence, target })
    }

    /// Pairs the task with an outcome, for [`crate::TimedTasks::settle`].
    pub fn outcome(&self, outcome: TaskOutcome) -> TaskSettled {
        TaskSettled { id: self.id.clone(), fence: self.fence, outcome }
    }
}

/// How long a claim lasts, and how often a task is claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskLease {
    /// Duration of the lease.
    pub time: Duration,
    /// Maximum number of claims; after them the task is dead. None: no limit. The limit stops a task that kills its
    /// consumers.
    pub max_tries: Option<u32>,
}

impl TaskLease {
    /// Returns a lease of this duration, with any number of tries.
    pub fn of(time: Duration) -> Self {
        Self { time, max_tries: None }
    }

    /// Returns the maximum number of claims; 0 is no limit, too.
    pub(crate) fn limit(&self) -> Option<u32> {
        self.max_tries.filter(|tries| *tries > 0)
    }

    /// Sets the maximum number of claims.
    #[must_use]
    pub fn max_tries(mut self, tries: u32) -> Self {
        self.max_tries = Some(tries);
        self
    }
}

/// Due tasks, and damage that was found with them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Due<T> {
    /// The tasks.
    pub tasks: Vec<T>,
    /// Tasks that cannot be used and were put aside.
    pub damaged: Vec<Damaged>,
    /// The ids of tasks that had no tries left and are dead now.
    pub dead: Vec<String>,
}

/// A task that cannot be used and was put aside. [`crate::TimedTasks::aside`] lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damaged {
    /// Its id.
    pub id: String,
    /// What is wrong with it.
    pub reason: String,
}

/// The outcome of a claimed task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskOutcome {
    /// It is done and is deleted.
    Finish,
    /// It is due again at this time.
    Retry(When),
    /// It is dead, for this reason.
    Dead(String),
    /// It continues, with a lease of this length from now on.
    Extend(Duration),
    /// It cannot be used, for this reason, and is put aside.
    Aside(String),
    /// It was not done: it is due again at once, and this claim does not count as a try.
    Release,
}

/// The outcome of one claimed task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskSettled {
    /// The task.
    pub id: String,
    /// The claim's fence.
    pub fence: u64,
    /// The outcome.
    pub outcome: TaskOutcome,
}

impl TaskSettled {
    /// True for outcomes of the same claim that are equal: they form one run.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.fence == other.fence && self.outcome == other.outcome
    }
}

/// Result of [`crate::TimedTasks::reschedule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rescheduled {
    /// It is due at the new time.
    Rescheduled,
    /// A consumer holds it, and its outcome decides.
    Claimed,
    /// No task with this id waits.
    Unknown,
}

/// How many tasks of a kind there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskCounts {
    /// Waiting for their time, or due.
    pub waiting: u64,
    /// Tasks that a claim would find now: due, or under an expired lease.
    pub due: u64,
    /// Claimed by consumers, including those whose consumer died, until the next claim after their lease.
    pub claimed: u64,
    /// Dead.
    pub dead: u64,
    /// Put aside.
    pub aside: u64,
}

/// A dead task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadTask {
    /// Its id.
    pub id: String,
    /// When it died.
    pub died: DateTime<Utc>,
    /// The reason.
    pub reason: String,
    /// How often it was claimed.
    pub tries: u64,
    /// Its value as it is stored, in JSON.
    pub value: String,
    /// Its target URL, if it has one.
    pub target: Option<String>,
}

/// Id and reason of each task that was put aside.
pub(crate) type RawAside = Vec<(String, String)>;
/// Id, score and value of each task.
pub(crate) type RawTasks = Vec<(String, f64, Vec<u8>)>;
/// What is due: the tasks, their tries, their target URLs or empty texts, what was put aside, and 1 if there are no more.
pub(crate) type RawDue = (RawTasks, Vec<u64>, Vec<String>, RawAside, u8);
/// The fence, id and score of each task, their values, index (from 1) and tries of those that were claimed before, index and target
/// URL of those that have one, what was put aside, the ids of dead ones.
pub(crate) type RawClaimed =
    (u64, Vec<(String, f64)>, Vec<Vec<u8>>, Vec<(usize, u64)>, Vec<(usize, String)>, RawAside, Vec<String>);
/// Id, time of death, reason, tries, value, and target URL or an empty text.
pub(crate) type RawDead = (String, f64, String, u64, Vec<u8>, String);

/// Converts a duration to milliseconds, rounded up so that no task is due too early, and bounded by what a score can be.
pub(crate) fn duration_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(MAX_SCORE).min(MAX_SCORE)
}

/// Converts a time to milliseconds since 1970, rounded up so that no task is due too early. A time before 1970 is 1970.
pub(crate) fn millis_from_time(time: DateTime<Utc>) -> i64 {
    let begun = i64::from(!time.timestamp_subsec_nanos().is_multiple_of(1_000_000));
    (time.timestamp_millis() + begun).clamp(0, MAX_SCORE)
}

/// Converts a score to a time.
pub(crate) fn time_from_millis(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(ms).unwrap_or(DateTime::<Utc>::MAX_UTC)
}
