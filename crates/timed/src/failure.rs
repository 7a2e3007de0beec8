//! [`TaskFailure`]: why a handler did not do a task, and what becomes of the task.

use std::any::{Any, type_name};
use std::error::Error as StdError;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

use crate::model::{TaskLease, TaskOutcome, When};

/// The longest default delay of a retry.
const LONGEST_DELAY: Duration = Duration::from_secs(60);

type BoxError = Box<dyn StdError + Send + Sync>;

/// The result of a handler of [`crate::TimedTasks::run`]: `Ok(())` says that the task is done and is deleted.
pub type TaskResult = Result<(), TaskFailure>;

/// Why a handler did not do a task, and what becomes of the task. `?` converts any error into [`TaskFailure::retry`].
///
/// It does not implement `std::error::Error`, because only so can every error be converted into it.
pub struct TaskFailure {
    next: Next,
    error: BoxError,
    /// The type of the error, for the log. Its text may quote a value.
    error_type: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum Next {
    Retry,
    RetryIn(Duration),
    GiveUp,
    Aside,
}

impl TaskFailure {
    fn new<E: Into<BoxError>>(next: Next, error: E) -> Self {
        Self { next, error: error.into(), error_type: type_name::<E>() }
    }

    /// Retries after the delay that [`crate::TaskRun::retry_delay`] returns. The last try makes the task dead.
    pub fn retry(error: impl Into<BoxError>) -> Self {
        Self::new(Next::Retry, error)
    }

    /// Retries after `delay`, at most after [`crate::TaskRun::max_retry_in`]. The last try makes the task dead.
    pub fn retry_in(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self::new(Next::RetryIn(delay), error)
    }

    /// Makes the task dead at once, because no try can succeed.
    pub fn give_up(error: impl Into<BoxError>) -> Self {
        Self::new(Next::GiveUp, error)
    }

    /// Makes a delay that the handler has set no longer than `longest`, and returns the one that it asked for if that was longer.
    pub(crate) fn cut(&mut self, longest: Duration) -> Option<Duration> {
        let Next::RetryIn(delay) = &mut self.next else { return None };
        let asked = *delay;
        *delay = asked.min(longest);
        (asked > longest).then_some(asked)
    }

    /// Puts the task aside, because its value cannot be read.
    pub(crate) fn aside(reason: String) -> Self {
        Self { error_type: "undecodable value", ..Self::new(Next::Aside, reason) }
    }

    /// The handler ran for longer than this.
    pub(crate) fn late(limit: Duration) -> Self {
        Self { error_type: "time limit", ..Self::retry(format!("it ran longer than its time limit, {limit:?}")) }
    }

    /// The handler panicked.
    pub(crate) fn panicked(panic: Box<dyn Any + Send>) -> Self {
        Self { error_type: "panic", ..Self::retry(format!("the handler panicked: {}", panic_text(panic))) }
    }

    /// Returns the type of the error, or a word for its kind: nothing of its text.
    pub(crate) fn error_type(&self) -> &'static str {
        self.error_type
    }

    /// Returns the outcome of a task that was claimed `tries` times. The text of an error, its drop and `delay` are code of the
    /// application: where one of them panics, the task is retried after the default delay.
    pub(crate) fn judged(self, tries: u64, lease: &TaskLease, delay: impl FnOnce(u64) -> Duration) -> TaskOutcome {
        // Not dropped while a panic unwinds, because a second panic would end the process.
        let failure = ManuallyDrop::new(self);
        let judge = move || {
            let outcome = failure.outcome(tries, lease, delay);
            drop(ManuallyDrop::into_inner(failure));
            outcome
        };
        catch_unwind(AssertUnwindSafe(judge)).unwrap_or_else(|panic| {
            let text = format!("the text of an error or `retry_delay` panicked: {}", panic_text(panic));
            Self::retry(text).outcome(tries, lease, default_delay)
        })
    }

    /// Returns the outcome of a task that was claimed `tries` times.
    fn outcome(&self, tries: u64, lease: &TaskLease, delay: impl FnOnce(u64) -> Duration) -> TaskOutcome {
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

/// Returns 1 s, 2 s, 4 s and so on, up to a minute.
pub(crate) fn default_delay(tries: u64) -> Duration {
    const DELAYS: ExponentialBuilder = ExponentialBuilder::new()
        .with_min_delay(Duration::from_secs(1))
        .with_max_delay(LONGEST_DELAY)
        .without_max_times();
    // The delays are the longest one long before the hundredth.
    let nth = usize::try_from(tries.saturating_sub(1)).unwrap_or(usize::MAX).min(100);
    DELAYS.build().nth(nth).unwrap_or(LONGEST_DELAY)
}

/// Returns the message of a panic, and drops none of it: its payload may panic again.
fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    std::mem::forget(panic);
    text.unwrap_or_else(|| "no message".to_owned())
}

impl<E: Into<BoxError>> From<E> for TaskFailure {
    fn from(error: E) -> Self {
        Self::retry(error)
    }
}

impl fmt::Debug for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskFailure").field("next", &self.next).field("error", &self.error).finish_non_exhaustive()
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
    fn a_delay_that_a_handler_sets_has_a_cap() {
        let lease = TaskLease::of(SECOND);
        for (wish, cut, delay) in [(9, None, 9), (10, None, 10), (11, Some(11), 10)] {
            let mut failure = TaskFailure::retry_in(wish * SECOND, "busy");
            assert_eq!(failure.cut(10 * SECOND), cut.map(|asked| asked * SECOND));
            let outcome = failure.outcome(1, &lease, |_| SECOND);
            assert_eq!(outcome, TaskOutcome::Retry((delay * SECOND).into()));
        }
        let mut failure = TaskFailure::retry("busy");
        assert_eq!(failure.cut(Duration::ZERO), None);
        assert_eq!(failure.outcome(1, &lease, |_| SECOND), TaskOutcome::Retry(SECOND.into()));
    }

    #[test]
    fn the_default_delay_doubles_up_to_a_minute() {
        let seconds: Vec<u64> = (0..9).map(|tries| default_delay(tries).as_secs()).collect();
        assert_eq!(seconds, [1, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(default_delay(u64::MAX), LONGEST_DELAY);
    }

    /// An error whose text, or whose drop, panics.
    #[derive(Debug)]
    struct Broken {
        text: bool,
    }

    impl fmt::Display for Broken {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            assert!(!self.text, "a text");
            f.write_str("broken")
        }
    }

    impl StdError for Broken {}

    impl Drop for Broken {
        fn drop(&mut self) {
            assert!(self.text, "a drop");
        }
    }

    #[test]
    fn a_panic_in_code_of_the_application_is_a_failure() {
        let lease = TaskLease::of(SECOND).max_tries(3);
        for (failure, panics, expected) in [
            (TaskFailure::retry("busy"), true, "a delay"),
            (TaskFailure::retry(Broken { text: true }), false, "a text"),
            (TaskFailure::retry(Broken { text: false }), false, "a drop"),
        ] {
            let delay = |_| if panics { panic!("{expected}") } else { 9 * SECOND };
            let outcome = failure.judged(2, &lease, delay);
            assert_eq!(outcome, TaskOutcome::Retry((2 * SECOND).into()), "{expected}");
        }
        let outcome = TaskFailure::retry(Broken { text: true }).judged(3, &lease, |_| SECOND);
        assert!(
            matches!(&outcome, TaskOutcome::Dead(text) if text.starts_with("all 3 tries used") && text.ends_with("panicked: a text")),
            "{outcome:?}"
        );
    }

    #[test]
    fn type_of_an_error_has_nothing_of_its_text() {
        let failures = [
            (TaskFailure::from(std::io::Error::other("card 4711")), "std::io::error::Error"),
            (TaskFailure::give_up("card 4711"), "&str"),
            (TaskFailure::panicked(Box::new("card 4711")), "panic"),
            (TaskFailure::aside("card 4711".to_owned()), "undecodable value"),
            (TaskFailure::late(SECOND), "time limit"),
        ];
        for (failure, expected) in failures {
            assert_eq!(failure.error_type(), expected);
        }
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
