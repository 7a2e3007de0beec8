//! The types of the timed tasks: a task, a claim, an outcome.

use std::time::Duration;

use chrono::{DateTime, Utc};
use solid_notify_core::notice::{duration_millis, millis_from_time};

use crate::MAX_SCORE;

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
    /// The time, in the form that scripts take.
    pub(super) fn word(self) -> String {
        match self {
            Self::After(delay) => format!("+{}", duration_millis(delay).min(MAX_SCORE)),
            Self::At(time) => millis_from_time(time).clamp(0, MAX_SCORE).to_string(),
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
}

impl<T> ClaimedTask<T> {
    /// Pairs the task with an outcome, for [`super::TimedTasks::settle`].
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

/// A task that cannot be used and was put aside. [`super::TimedTasks::aside`] lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damaged {
    /// Its id.
    pub id: String,
    /// What is wrong with it.
    pub reason: String,
}

/// TaskOutcome of a claimed task.
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
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.fence == other.fence && self.outcome == other.outcome
    }

    /// The script's words for such a run, before its ids.
    pub(super) fn words(run: &[Self]) -> Option<[String; 4]> {
        let first = run.first()?;
        let (what, more) = match &first.outcome {
            TaskOutcome::Finish => ("finish", String::new()),
            TaskOutcome::Retry(when) => ("retry", when.word()),
            TaskOutcome::Dead(reason) => ("dead", reason.clone()),
            TaskOutcome::Extend(lease) => ("lease", duration_millis(*lease).min(MAX_SCORE).to_string()),
            TaskOutcome::Aside(reason) => ("aside", reason.clone()),
        };
        Some([format!("{}:", first.fence), what.to_owned(), more, run.len().to_string()])
    }
}

/// Result of [`super::TimedTasks::reschedule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rescheduled {
    /// It is due at the new time.
    Done,
    /// A consumer holds it, and its outcome decides.
    Held,
    /// No task with this id waits.
    Unknown,
}

/// How many tasks of a kind there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskCounts {
    /// Waiting for their time, or due.
    pub waiting: u64,
    /// Tasks that a claim would find now: due, or held under an expired lease.
    pub due: u64,
    /// Held by consumers, including those whose consumer died, until the next claim after their lease.
    pub held: u64,
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
}

/// Id and reason of each task that was put aside.
pub(super) type RawAside = Vec<(String, String)>;
/// Id, score and value of each task.
pub(super) type RawTasks = Vec<(String, f64, Vec<u8>)>;
/// The fence, id and score of each task, their values, index (from 1) and tries of those that were claimed before, what was put
/// aside, the ids of dead ones.
pub(super) type RawClaimed = (u64, Vec<(String, f64)>, Vec<Vec<u8>>, Vec<(usize, u64)>, RawAside, Vec<String>);
pub(super) type RawDead = (String, f64, String, u64, Vec<u8>);
