//! [`TaskFailure`]: why a handler did not do a task, and what becomes of the task.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::model::{TaskLease, TaskOutcome, When};

type BoxError = Box<dyn StdError + Send + Sync>;

/// The result of a handler of [`crate::TimedTasks::run`]: `Ok(())` says that the task is done and is deleted.
pub type TaskResult = Result<(), TaskFailure>;

/// Why a handler did not do a task, and what becomes of the task. `?` converts any error into [`TaskFailure::retry`].
///
/// It does not implement `std::error::Error`, because only so can every error be converted into it.
pub struct TaskFailure {
    next: Next,
    error: BoxError,
}

#[derive(Debug, Clone, Copy)]
enum Next {
    Retry,
    RetryIn(Duration),
    GiveUp,
    Aside,
}

impl TaskFailure {
    fn new(next: Next, error: impl Into<BoxError>) -> Self {
        Self { next, error: error.into() }
    }

    /// Retries after the delay that [`crate::TaskRun::retry_delay`] returns. The last try makes the task dead.
    pub fn retry(error: impl Into<BoxError>) -> Self {
        Self::new(Next::Retry, error)
    }

    /// Retries after `delay`. The last try makes the task dead.
    pub fn retry_in(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self::new(Next::RetryIn(delay), error)
    }

    /// Makes the task dead at once, because no try can succeed.
    pub fn give_up(error: impl Into<BoxError>) -> Self {
        Self::new(Next::GiveUp, error)
    }

    /// Puts the task aside, because its value cannot be read.
    pub(crate) fn aside(reason: String) -> Self {
        Self::new(Next::Aside, reason)
    }

    /// Returns the outcome of a task that was claimed `tries` times.
    pub(crate) fn outcome(&self, tries: u64, lease: &TaskLease, delay: impl FnOnce(u64) -> Duration) -> TaskOutcome {
        let text = self.to_text();
        match (self.next, lease.limit()) {
            (Next::Aside, _) => TaskOutcome::Aside(text),
            (Next::GiveUp, _) => TaskOutcome::Dead(format!("the handler gave up: {text}")),
            (_, Some(max)) if tries >= u64::from(max) => {
                TaskOutcome::Dead(format!("all {max} tries used; in the last one: {text}"))
            }
            (Next::RetryIn(delay), _) => TaskOutcome::Retry(When::After(delay)),
            (Next::Retry, _) => TaskOutcome::Retry(When::After(delay(tries))),
        }
    }

    /// Returns the texts of the error and its causes, outermost first. A cause is left out if the text so far contains it.
    pub(crate) fn to_text(&self) -> String {
        let mut text = self.error.to_string();
        let mut cause = self.error.source();
        while let Some(error) = cause {
            let own = error.to_string();
            if !text.contains(&own) {
                text = format!("{text}: {own}");
            }
            cause = error.source();
        }
        text
    }
}

impl<E: Into<BoxError>> From<E> for TaskFailure {
    fn from(error: E) -> Self {
        Self::retry(error)
    }
}

impl fmt::Debug for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskFailure").field("next", &self.next).field("error", &self.error).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_last_try_makes_a_task_dead() {
        let lease = TaskLease::of(SECOND).max_tries(3);
        let outcome = |failure: TaskFailure, tries| failure.outcome(tries, &lease, |tries| SECOND * tries as u32);
        assert_eq!(outcome(TaskFailure::retry("busy"), 2), TaskOutcome::Retry((2 * SECOND).into()));
        assert_eq!(outcome(TaskFailure::retry_in(9 * SECOND, "busy"), 2), TaskOutcome::Retry((9 * SECOND).into()));
        let dead = TaskOutcome::Dead("all 3 tries used; in the last one: busy".to_owned());
        assert_eq!(outcome(TaskFailure::retry("busy"), 3), dead);
        assert_eq!(outcome(TaskFailure::retry_in(SECOND, "busy"), 3), dead);
        let gave_up = TaskOutcome::Dead("the handler gave up: no such number".to_owned());
        assert_eq!(outcome(TaskFailure::give_up("no such number"), 1), gave_up);
        assert_eq!(outcome(TaskFailure::aside("{".to_owned()), 3), TaskOutcome::Aside("{".to_owned()));
        let any = TaskFailure::retry("busy").outcome(1000, &TaskLease::of(SECOND), |_| SECOND);
        assert_eq!(any, TaskOutcome::Retry(SECOND.into()));
    }

    #[test]
    fn causes_are_reported_once_each() {
        #[derive(Debug)]
        struct Outer(std::io::Error);
        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("sending failed")
            }
        }
        impl StdError for Outer {
            fn source(&self) -> Option<&(dyn StdError + 'static)> {
                Some(&self.0)
            }
        }
        let failure = TaskFailure::from(Outer(std::io::Error::other("connection refused")));
        assert_eq!(failure.to_text(), "sending failed: connection refused");
    }
}
