//! The next state of a notice: pure functions, `policy + notice + event -> transition`.
//!
//! No input or output, no clock (times are delays from the database's now) and no randomness except what the caller passes.
//! Stores persist the result, guarded by status and fence.

use std::time::Duration;

use crate::definition::{FOREVER, KeepHistory, Policy, Rule};
use crate::notice::{ClaimedNotice, ErrorClass, Status, later, rfc3339};
use crate::retry::MAX_DELAY;

/// Outcome of an attempt, or of a lease or ack timeout.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handler delivered it.
    Succeeded,
    /// The handler delivered it and requires an ack within this time, [`FOREVER`] for no limit.
    AwaitAck(Duration),
    /// The handler skipped it, for this reason.
    Skipped(String),
    /// The filter of its target does not accept it any more; the text names the filter. There was no attempt.
    Refused(String),
    /// It was passed on to the targets of its definition; the text names them. There was no attempt.
    PassedOn(String),
    /// The attempt failed with this class (an error, a panic, a time-out): retry by the policy.
    Failed(ErrorClass),
    /// The attempt failed with this class, and the handler set the delay of the retry.
    RetryIn(Duration, ErrorClass),
    /// The attempt failed with this class, and its definition is paused, because the receiver wants no more notices. It counts no try,
    /// so the notice waits until the definition is enabled again.
    Paused(ErrorClass),
    /// The handler gave up, because no attempt can succeed; the reason.
    GaveUp(String),
    /// It was claimed, but has no try left, because the limit was lowered meanwhile. There was no attempt.
    OutOfTries,
    /// It was claimed after its `expires_at`. There was no attempt.
    Expired,
    /// The lease expired: the process that was sending it died.
    Crashed,
    /// It was claimed but not attempted (shutdown, a lost response, an error of the database). It is released without counting
    /// a try and is due again after this time.
    HandedBack(Duration),
}

/// The next state of a notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// It stays live and is due after `after`, by the database's clock.
    Wait {
        /// Its live state.
        status: Status,
        /// How long until it is due; [`FOREVER`] if it is never due.
        after: Duration,
    },
    /// It has ended.
    Finish {
        /// Its final state.
        status: Status,
        /// Why, for people.
        reason: Option<String>,
        /// Whether it moves to history (dead letters always do).
        keep: bool,
    },
}

impl Next {
    /// Returns the status of that state.
    pub fn status(&self) -> Status {
        match self {
            Self::Wait { status, .. } | Self::Finish { status, .. } => *status,
        }
    }
}

/// A decision: the next state, and the new counters of the notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// The next state.
    pub next: Next,
    /// Failed attempts, this one included.
    pub failures: i64,
    /// Crashes, this one included.
    pub crashes: i64,
}

/// The inputs of a decision that are not in the policy. The caller passes them, so that the decision stays pure.
pub struct Chance<'a> {
    /// A random number in `0.0..1.0` for the jitter.
    pub unit: f64,
    /// How long ago the attempt began, as far as the caller knows.
    pub elapsed: Duration,
    /// Returns the delay of a named strategy before retry number `n`.
    pub strategy: &'a (dyn Fn(u32) -> Duration + Send + Sync),
}

/// The shortest retry delay that a handler can set, so that a zero by mistake causes no hot loop.
pub const SOONEST: Duration = Duration::from_millis(100);

/// The longest retry delay that a handler or a receiver can set where the definition has no `max_retry_interval`, so that a wrong header does
/// not delay a notice for years.
pub const LONGEST_WISH: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the longest retry delay that a handler or a receiver can set.
fn longest_wish(policy: &Policy) -> Duration {
    policy.max_interval.unwrap_or(LONGEST_WISH).clamp(SOONEST, MAX_DELAY)
}

/// Returns what the record of an attempt says where [`transition`] makes the delay of its retry shorter than was asked for.
pub fn cut_wish(policy: &Policy, event: &Event) -> Option<String> {
    let Event::RetryIn(wish, _) = event else { return None };
    let longest = longest_wish(policy);
    if *wish <= longest {
        return None;
    }
    let cap = match policy.max_interval {
        Some(_) => "`max_retry_interval`",
        None => "the default where the definition has no `max_retry_interval`",
    };
    let (asked, longest) = (wish.as_secs(), humantime::format_duration(longest));
    Some(format!("a retry after {asked} s was asked for, and {longest} is the most: {cap}"))
}

fn handed_back(tries: i64, after: Duration) -> Next {
    Next::Wait { status: if tries == 0 { Status::NotSent } else { Status::Failed }, after }
}

/// Decides the effect of `event` on `notice` under `policy`.
///
/// Tries used are `failures + crashes`, at most `1 + max_retry_times`. The first crash is retried at once, because a killed
/// process usually is a deployment. Later crashes are retried by the retry intervals, so that a notice which kills its process
/// is not retried in a hot loop or, under a limit, without end. If a rule gives crashes an interval, it applies from the first
/// crash on.
///
/// The policy's rules for the class of a failure apply first. A class that is not retried by default is retried if the handler
/// itself sets the delay, but not if a rule of the row forbids it.
///
/// The notice's own `max_tries` replaces the limit of the row, but not that of a rule. A retry that would be due at its
/// `expires_at` or later is not made: the notice becomes a dead letter at once, so that a person hears of it while there is time.
pub fn transition(policy: &Policy, notice: &ClaimedNotice, event: &Event, chance: &Chance<'_>) -> Transition {
    let policy = &*policy.within(&notice.own);
    let failures =
        notice.failures + i64::from(matches!(event, Event::Failed(_) | Event::RetryIn(..) | Event::GaveUp(_)));
    let crashes = notice.crashes + i64::from(matches!(event, Event::Crashed));
    let tries = failures.saturating_add(crashes);
    let by_interval = |class: ErrorClass, n: i64| {
        let n = u32::try_from(n.max(1)).unwrap_or(u32::MAX);
        policy.interval_in(class).delay(n, policy.max_interval, chance.unit, chance.strategy)
    };
    let next = match event {
        Event::Succeeded if policy.need_confirm => ack(policy.max_confirm_delay),
        Event::AwaitAck(within) => ack(*within),
        Event::Succeeded => finish(Status::Succeeded, None, policy.keep_history != KeepHistory::Never),
        Event::Skipped(reason) | Event::Refused(reason) => finish(Status::Cancelled, Some(reason.clone()), true),
        Event::PassedOn(to) => finish(Status::Succeeded, Some(to.clone()), policy.keep_history != KeepHistory::Never),
        Event::GaveUp(reason) => finish(Status::DeadLetter, Some(reason.clone()), true),
        // The limit was raised after the attempt had found none left.
        Event::OutOfTries if !policy.is_exhausted_in_all(tries) => handed_back(tries, Duration::ZERO),
        Event::OutOfTries => finish(Status::DeadLetter, Some(exhausted(tries, crashes)), true),
        Event::Expired => expired(notice, "it was not delivered before"),
        Event::HandedBack(after) => handed_back(tries, *after),
        Event::Failed(class) if policy.is_exhausted_in(*class, tries) => give_up(policy, *class, tries, crashes),
        Event::RetryIn(_, class) if is_wish_exhausted(policy, *class, tries) => give_up(policy, *class, tries, crashes),
        Event::Crashed if policy.is_exhausted_in(ErrorClass::Crash, tries) => {
            give_up(policy, ErrorClass::Crash, tries, crashes)
        }
        Event::Failed(class) => retry(by_interval(*class, tries)),
        // As after the failure that it is, in case the definition is enabled at once, or could not be paused.
        Event::Paused(class) => retry(by_interval(*class, tries + 1)),
        Event::RetryIn(wish, _) => retry((*wish).clamp(SOONEST, longest_wish(policy))),
        Event::Crashed if matches!(policy.rules.of(ErrorClass::Crash), Some(Rule::Interval(_))) => {
            retry(by_interval(ErrorClass::Crash, crashes))
        }
        Event::Crashed if crashes <= 1 => retry(Duration::ZERO),
        Event::Crashed => retry(by_interval(ErrorClass::Crash, crashes - 1)),
    };
    let next = match next {
        Next::Wait { status: Status::Failed, after }
            if expires_within(notice, chance.elapsed.saturating_add(after)) =>
        {
            expired(notice, "the next retry would be due after that")
        }
        next => next,
    };
    Transition { next, failures, crashes }
}

/// Returns whether the notice is expired `after` its last attempt began. Where the caller knows of less time than has passed, a retry that
/// is due close to the expiry passes here; its claim finds the notice expired.
fn expires_within(notice: &ClaimedNotice, after: Duration) -> bool {
    later(notice.last_call_time, after).is_some_and(|due| notice.own.is_expired(due))
}

fn expired(notice: &ClaimedNotice, why: &str) -> Next {
    let at = notice.own.expires_at.map(rfc3339).unwrap_or_default();
    finish(Status::DeadLetter, Some(format!("expired at {at}: {why}")), true)
}

fn retry(after: Duration) -> Next {
    Next::Wait { status: Status::Failed, after }
}

fn ack(within: Duration) -> Next {
    let after = if within == FOREVER { FOREVER } else { within.min(MAX_DELAY) };
    Next::Wait { status: Status::AwaitingAck, after }
}

fn finish(status: Status, reason: Option<String>, keep: bool) -> Next {
    Next::Finish { status, reason, keep }
}

/// A retry set by a handler overrides the default of a class, but not the row.
fn is_wish_exhausted(policy: &Policy, class: ErrorClass, tries: i64) -> bool {
    match policy.rules.of(class) {
        Some(_) => policy.is_exhausted_in(class, tries),
        None => policy.is_exhausted(tries),
    }
}

/// Returns how many tries a notice has in all, by what [`transition`] compares `tries` with after `event`; `None`: no limit. Where a
/// failure of that class is not retried, these are all.
pub fn tries_in_all(policy: &Policy, notice: &ClaimedNotice, event: &Event, tries: i64) -> Option<i64> {
    let policy = &*policy.within(&notice.own);
    let class = match event {
        Event::Failed(class) if !policy.retries(*class) => return Some(tries),
        Event::RetryIn(_, class) if policy.rules.of(*class) == Some(&Rule::Never) => return Some(tries),
        Event::Failed(class) | Event::RetryIn(_, class) => Some(*class),
        Event::Crashed => Some(ErrorClass::Crash),
        _ => None,
    };
    policy.max_tries_in(class)
}

/// Returns a dead letter, because no try is left for a failure of `class`; the reason names the limit.
fn give_up(policy: &Policy, class: ErrorClass, tries: i64, crashes: i64) -> Next {
    let reason = match policy.rules.of(class) {
        Some(Rule::Never) => format!("a failure of class {class} is not retried (a rule of retry_rules)"),
        Some(Rule::Tries(most)) => {
            format!("{}: {most} are allowed to class {class} (a rule of retry_rules)", exhausted(tries, crashes))
        }
        None if !class.is_retried_by_default() && !policy.is_exhausted(tries) => {
            format!("a failure of class {class} is not retried (unless retry_rules say so)")
        }
        _ => exhausted(tries, crashes),
    };
    finish(Status::DeadLetter, Some(reason), true)
}

fn exhausted(tries: i64, crashes: i64) -> String {
    match crashes {
        0 if tries == 1 => "the only try failed".to_owned(),
        0 => format!("all {tries} tries failed"),
        _ => format!("all {tries} tries used, in {crashes} of them the process died"),
    }
}

#[cfg(test)]
#[path = "transition_tests.rs"]
mod tests;
