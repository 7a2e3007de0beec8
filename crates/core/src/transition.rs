//! The next state of a notice: pure functions, `policy + notice + event -> transition`.
//!
//! No input or output, no clock (times are delays from the database's now) and no randomness except what the caller passes.
//! Stores persist the result, guarded by status and fence.

use std::time::Duration;

use crate::definition::{FOREVER, KeepHistory, Policy, Rule};
use crate::notice::{ClaimedNotice, ErrorClass, Status};
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
    /// The attempt failed with this class (an error, a panic, a time-out): retry by the policy.
    Failed(ErrorClass),
    /// The attempt failed with this class, and the handler set the delay of the retry.
    RetryIn(Duration, ErrorClass),
    /// The handler gave up, because no attempt can succeed; the reason.
    GaveUp(String),
    /// It was claimed, but has no try left, because the limit was lowered meanwhile. There was no attempt.
    OutOfTries,
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
    /// Returns the delay of a named strategy before retry number `n`.
    pub strategy: &'a (dyn Fn(u32) -> Duration + Send + Sync),
}

/// The shortest retry delay that a handler can set, so that a zero by mistake causes no hot loop.
pub const SOONEST: Duration = Duration::from_millis(100);

/// Decides the effect of `event` on `notice` under `policy`.
///
/// Tries used are `failures + crashes`, at most `1 + max_retry_times`. The first crash is retried at once, because a killed
/// process usually is a deployment. Later crashes are retried by the retry intervals, so that a notice which kills its process
/// is not retried in a hot loop or, under a limit, without end. If a rule gives crashes an interval, it applies from the first
/// crash on.
///
/// The policy's rules for the class of a failure apply first. A class that is not retried by default is retried if the handler
/// itself sets the delay, but not if a rule of the row forbids it.
pub fn transition(policy: &Policy, notice: &ClaimedNotice, event: &Event, chance: &Chance<'_>) -> Transition {
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
        Event::Skipped(reason) => finish(Status::Cancelled, Some(reason.clone()), true),
        Event::GaveUp(reason) => finish(Status::DeadLetter, Some(reason.clone()), true),
        Event::OutOfTries => finish(Status::DeadLetter, Some(exhausted(tries, crashes)), true),
        Event::HandedBack(after) => {
            Next::Wait { status: if tries == 0 { Status::NotSent } else { Status::Failed }, after: *after }
        }
        Event::Failed(class) if policy.is_exhausted_in(*class, tries) => give_up(policy, *class, tries, crashes),
        Event::RetryIn(_, class) if is_wish_exhausted(policy, *class, tries) => give_up(policy, *class, tries, crashes),
        Event::Crashed if policy.is_exhausted_in(ErrorClass::Crash, tries) => {
            give_up(policy, ErrorClass::Crash, tries, crashes)
        }
        Event::Failed(class) => retry(by_interval(*class, tries)),
        Event::RetryIn(wish, _) => {
            retry(policy.max_interval.map_or(*wish, |cap| cap.min(*wish)).clamp(SOONEST, MAX_DELAY))
        }
        Event::Crashed if matches!(policy.rules.of(ErrorClass::Crash), Some(Rule::Interval(_))) => {
            retry(by_interval(ErrorClass::Crash, crashes))
        }
        Event::Crashed if crashes <= 1 => retry(Duration::ZERO),
        Event::Crashed => retry(by_interval(ErrorClass::Crash, crashes - 1)),
    };
    Transition { next, failures, crashes }
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
        0 => format!("all {tries} tries failed"),
        _ => format!("all {tries} tries used, in {crashes} of them the process died"),
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::NotifyDef;
    use proptest::prelude::*;

    fn policy(def: NotifyDef) -> Policy {
        def.policy().unwrap()
    }

    fn notice(failures: i64, crashes: i64) -> ClaimedNotice {
        ClaimedNotice {
            id: 1,
            def_id: 1,
            param: "null".into(),
            description: None,
            errors: None,
            status: Status::Sending,
            fence: failures + crashes + 1,
            failures,
            crashes,
            worker: "w".into(),
            last_call_time: DateTime::UNIX_EPOCH,
            create_time: DateTime::UNIX_EPOCH,
            trace_context: None,
            ordering_key: None,
        }
    }

    fn decide(policy: &Policy, notice: &ClaimedNotice, event: Event) -> Transition {
        transition(policy, notice, &event, &Chance { unit: 0.0, strategy: &|_| Duration::from_secs(1) })
    }

    fn waits(transition: &Transition) -> Option<(Status, u64)> {
        match &transition.next {
            Next::Wait { status, after } => Some((*status, after.as_secs())),
            Next::Finish { .. } => None,
        }
    }

    fn ends(transition: &Transition) -> Option<(Status, bool)> {
        match &transition.next {
            Next::Finish { status, keep, .. } => Some((*status, *keep)),
            Next::Wait { .. } => None,
        }
    }

    #[test]
    fn failures_walk_the_list_and_then_end_as_a_dead_letter() {
        let policy = policy(NotifyDef::new("a").retry_interval("[5s,5m,1h,1d]"));
        let delays: Vec<_> =
            (0..5).map(|n| waits(&decide(&policy, &notice(n, 0), Event::Failed(ErrorClass::Unknown)))).collect();
        let failed = |secs| Some((Status::Failed, secs));
        assert_eq!(delays, [failed(5), failed(300), failed(3600), failed(86_400), None]);
        let last = decide(&policy, &notice(4, 0), Event::Failed(ErrorClass::Unknown));
        assert_eq!(ends(&last), Some((Status::DeadLetter, true)));
        assert_eq!(last.failures, 5);
    }

    #[test]
    fn a_crash_is_a_try_of_its_own_kind() {
        let policy = policy(NotifyDef::new("a").retry_interval("[5s,5m]"));
        let first = decide(&policy, &notice(0, 0), Event::Crashed);
        assert_eq!((waits(&first), first.failures, first.crashes), (Some((Status::Failed, 0)), 0, 1));
        let second = decide(&policy, &notice(0, 1), Event::Crashed);
        assert_eq!(waits(&second), Some((Status::Failed, 5)), "a second crash backs off");
        assert_eq!(ends(&decide(&policy, &notice(0, 2), Event::Crashed)), Some((Status::DeadLetter, true)));
        assert_eq!(
            ends(&decide(&policy, &notice(1, 1), Event::Failed(ErrorClass::Unknown))),
            Some((Status::DeadLetter, true))
        );
    }

    #[test]
    fn an_untried_notice_counts_nothing() {
        let policy = policy(NotifyDef::new("a"));
        let fresh = decide(&policy, &notice(0, 0), Event::HandedBack(Duration::ZERO));
        assert_eq!((waits(&fresh), fresh.failures, fresh.crashes), (Some((Status::NotSent, 0)), 0, 0));
        let tried = decide(&policy, &notice(1, 1), Event::HandedBack(Duration::ZERO));
        assert_eq!((waits(&tried), tried.failures, tried.crashes), (Some((Status::Failed, 0)), 1, 1));
        let lowered = decide(&policy, &notice(9, 0), Event::OutOfTries);
        assert_eq!((ends(&lowered), lowered.failures), (Some((Status::DeadLetter, true)), 9));
    }

    #[test]
    fn only_successes_may_stay_out_of_history() {
        let policy = policy(NotifyDef::new("a").keep_history("none"));
        assert_eq!(ends(&decide(&policy, &notice(0, 0), Event::Succeeded)), Some((Status::Succeeded, false)));
        assert_eq!(ends(&decide(&policy, &notice(0, 0), Event::GaveUp("x".into()))), Some((Status::DeadLetter, true)));
        assert_eq!(ends(&decide(&policy, &notice(0, 0), Event::Skipped("x".into()))), Some((Status::Cancelled, true)));
    }

    #[test]
    fn a_delivery_that_needs_an_ack_waits_for_it() {
        let policy = policy(NotifyDef::new("a").need_confirm(true).max_confirm_delay("1h"));
        let awaits = |after| Next::Wait { status: Status::AwaitingAck, after };
        let next = |event| decide(&policy, &notice(0, 0), event).next;
        assert_eq!(next(Event::Succeeded), awaits(Duration::from_secs(3600)));
        assert_eq!(next(Event::AwaitAck(Duration::from_secs(5))), awaits(Duration::from_secs(5)));
        assert_eq!(next(Event::AwaitAck(2 * MAX_DELAY)), awaits(MAX_DELAY));
        assert_eq!(next(Event::AwaitAck(FOREVER)), awaits(FOREVER));
    }

    #[test]
    fn the_reason_of_a_dead_letter_names_its_limit() {
        let policy = policy(NotifyDef::new("a").max_retry_times(1));
        let reason = |failures, class| match decide(&policy, &notice(failures, 0), Event::Failed(class)).next {
            Next::Finish { reason, .. } => reason.unwrap_or_default(),
            next @ Next::Wait { .. } => panic!("{next:?}"),
        };
        assert!(reason(0, ErrorClass::Invalid).starts_with("a failure of class invalid is not retried"));
        assert_eq!(reason(1, ErrorClass::Invalid), "all 2 tries failed");
        assert_eq!(reason(1, ErrorClass::Unknown), "all 2 tries failed");
    }

    #[test]
    fn a_wish_of_the_handler_is_capped_and_counted() {
        let policy = policy(NotifyDef::new("a").max_retry_interval("1m"));
        let wished = |delay| Event::RetryIn(delay, ErrorClass::Unknown);
        let wish = decide(&policy, &notice(0, 0), wished(Duration::from_secs(3600)));
        assert_eq!((waits(&wish), wish.failures), (Some((Status::Failed, 60)), 1));
        assert_eq!(ends(&decide(&policy, &notice(4, 0), wished(Duration::ZERO))), Some((Status::DeadLetter, true)));
        let mistaken = decide(&policy, &notice(0, 0), wished(Duration::ZERO));
        assert_eq!(mistaken.next, Next::Wait { status: Status::Failed, after: SOONEST });
    }

    fn any_event() -> impl Strategy<Value = Event> {
        prop_oneof![
            Just(Event::Succeeded),
            Just(Event::Skipped("s".into())),
            Just(Event::Failed(ErrorClass::Unknown)),
            any::<u64>().prop_map(|secs| Event::RetryIn(Duration::from_secs(secs), ErrorClass::Busy)),
            Just(Event::GaveUp("g".into())),
            Just(Event::OutOfTries),
            Just(Event::Crashed),
            Just(Event::HandedBack(Duration::ZERO)),
        ]
    }

    fn any_policy() -> impl Strategy<Value = Policy> {
        let interval = prop_oneof![
            Just("5m"),
            Just("[5s,5m,1h,1d] ~10%"),
            Just("exp(1s, x2, max 1m)"),
            Just("= min(60, 2^(n-1))"),
            Just("strategy:mine")
        ];
        (interval, prop_oneof![Just(None), (-1_i64..6).prop_map(Some)]).prop_map(|(interval, times)| {
            let mut def = NotifyDef::new("a").retry_interval(interval);
            def.max_retry_times = times;
            def.policy().unwrap()
        })
    }

    proptest! {
        #[test]
        fn a_live_notice_always_has_a_way_forward(policy in any_policy(), event in any_event(), failures in 0..9_i64, crashes in 0..9_i64, unit in 0.0..1.0_f64) {
            let before = notice(failures, crashes);
            let after = transition(&policy, &before, &event, &Chance { unit, strategy: &|_| Duration::MAX });
            prop_assert!(after.failures >= failures && after.crashes >= crashes);
            prop_assert!(after.failures + after.crashes <= failures + crashes + 1);
            match after.next {
                Next::Wait { status, after } => {
                    prop_assert!(matches!(status, Status::NotSent | Status::Failed));
                    prop_assert!(after <= crate::retry::MAX_DELAY.mul_f64(2.0));
                }
                Next::Finish { status, keep, .. } => {
                    prop_assert!(status.is_final());
                    prop_assert!(keep || status == Status::Succeeded);
                }
            }
        }

        #[test]
        fn tries_never_exceed_one_more_than_the_retries(policy in any_policy(), events in proptest::collection::vec(any_event(), 1..40)) {
            let mut state = notice(0, 0);
            let mut attempted = 0_i64;
            for event in events {
                // As a worker does: a claimed notice without a try left is ended, not attempted.
                let event = if policy.is_exhausted(state.tries()) { Event::OutOfTries } else { event };
                attempted += i64::from(matches!(event, Event::Failed(_) | Event::RetryIn(..) | Event::GaveUp(_) | Event::Crashed | Event::Succeeded | Event::Skipped(_)));
                let done = transition(&policy, &state, &event, &Chance { unit: 0.5, strategy: &|_| Duration::ZERO });
                if let Some(retries) = policy.max_retries {
                    prop_assert!(attempted <= 1 + i64::from(retries));
                }
                if matches!(done.next, Next::Finish { .. }) {
                    break;
                }
                state.failures = done.failures;
                state.crashes = done.crashes;
                state.fence += 1;
            }
        }
    }
}
