//! Decisions about a notice, one event at a time and in long rows.

use chrono::DateTime;

use super::*;
use crate::NotifyDef;
use crate::notice::OwnLimits;
use proptest::prelude::*;

fn policy(def: NotifyDef) -> Policy {
    def.policy().unwrap()
}

fn notice(failures: i64, crashes: i64) -> ClaimedNotice {
    let new = ClaimedNotice::new(1, 1, Status::Sending, "null".into(), DateTime::UNIX_EPOCH);
    ClaimedNotice { fence: failures + crashes + 1, failures, crashes, ..new }
}

fn decide(policy: &Policy, notice: &ClaimedNotice, event: Event) -> Transition {
    transition(
        policy,
        notice,
        &event,
        &Chance { unit: 0.0, elapsed: Duration::ZERO, strategy: &|_| Duration::from_secs(1) },
    )
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
fn the_shown_limit_of_tries_is_the_one_that_decides() {
    use ErrorClass::{Auth, Busy, Invalid, Network, Timeout};
    let def = NotifyDef::new("a").max_retry_times(4).retry_rules(r#"{"busy": 9, "auth": "never", "timeout": "5s"}"#);
    let policy = policy(def);
    let wish = |class| Event::RetryIn(Duration::from_secs(1), class);
    for (event, expected) in [
        (Event::Failed(Network), 5),
        (Event::Failed(Busy), 9),
        (Event::Failed(Timeout), 5),
        (Event::Failed(Auth), 3),
        (Event::Failed(Invalid), 3),
        (wish(Invalid), 5),
        (wish(Auth), 3),
        (wish(Busy), 9),
        (Event::Crashed, 5),
        (Event::OutOfTries, 5),
    ] {
        let limit = tries_in_all(&policy, &notice(2, 0), &event, 3);
        assert_eq!(limit, Some(expected), "{event:?}");
        let at = |tries: i64| ends(&decide(&policy, &notice(tries - 1, 0), event.clone())).is_some();
        if expected != 3 && matches!(event, Event::Failed(_) | Event::RetryIn(..)) {
            assert_eq!((at(expected - 1), at(expected)), (false, true), "{event:?}");
        }
    }
    let mut own = notice(2, 0);
    own.own = OwnLimits::new(Some(7), None);
    assert_eq!(tries_in_all(&policy, &own, &Event::Failed(Network), 3), Some(7));
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
    let raised = decide(&policy, &notice(1, 0), Event::OutOfTries);
    assert_eq!((waits(&raised), raised.failures), (Some((Status::Failed, 0)), 1), "the limit was raised since");
}

#[test]
fn a_pause_counts_no_try_and_keeps_the_notice_whatever_the_row_says() {
    let def = || NotifyDef::new("a").retry_interval("[5s,5m]").max_retry_times(1);
    let policy = policy(def().retry_rules(r#"{"not_found": "never"}"#));
    let gone = |failures, crashes| decide(&policy, &notice(failures, crashes), Event::Paused(ErrorClass::NotFound));
    assert_eq!((waits(&gone(0, 0)), gone(0, 0).failures), (Some((Status::Failed, 5)), 0));
    let last = gone(1, 0);
    assert_eq!((waits(&last), last.failures), (Some((Status::Failed, 300)), 1), "it had one try left, and keeps it");
    let mut once = notice(0, 0);
    once.own = OwnLimits::new(Some(1), None);
    assert_eq!(waits(&decide(&policy, &once, Event::Paused(ErrorClass::NotFound))), Some((Status::Failed, 5)));
}

#[test]
fn only_successes_may_stay_out_of_history() {
    let policy = policy(NotifyDef::new("a").keep_history("none"));
    assert_eq!(ends(&decide(&policy, &notice(0, 0), Event::Succeeded)), Some((Status::Succeeded, false)));
    assert_eq!(ends(&decide(&policy, &notice(0, 0), Event::GaveUp("x".into()))), Some((Status::DeadLetter, true)));
    for event in [Event::Skipped("x".into()), Event::Refused("x".into())] {
        assert_eq!(ends(&decide(&policy, &notice(0, 0), event)), Some((Status::Cancelled, true)));
    }
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
fn retry_in_of_a_handler_is_capped_and_counted() {
    let policy = policy(NotifyDef::new("a").max_retry_interval("1m"));
    let wished = |delay| Event::RetryIn(delay, ErrorClass::Unknown);
    let wish = decide(&policy, &notice(0, 0), wished(Duration::from_secs(3600)));
    assert_eq!((waits(&wish), wish.failures), (Some((Status::Failed, 60)), 1));
    assert_eq!(ends(&decide(&policy, &notice(4, 0), wished(Duration::ZERO))), Some((Status::DeadLetter, true)));
    let mistaken = decide(&policy, &notice(0, 0), wished(Duration::ZERO));
    assert_eq!(mistaken.next, Next::Wait { status: Status::Failed, after: SOONEST });
}

#[test]
fn wish_has_a_default_cap_that_a_row_can_raise() {
    let wished = |policy: &Policy, seconds| {
        let event = Event::RetryIn(Duration::from_secs(seconds), ErrorClass::Busy);
        let waits = waits(&decide(policy, &notice(0, 0), event.clone())).map(|(_, seconds)| seconds);
        (waits.unwrap(), cut_wish(policy, &event))
    };
    let (default, raised) = (policy(NotifyDef::new("a")), policy(NotifyDef::new("a").max_retry_interval("7d")));
    let day = 24 * 3600;
    assert_eq!(wished(&default, day), (day, None));
    let text = "a retry after 86401 s was asked for, and 1day is the most: the default where the definition has no \
                `max_retry_interval`";
    assert_eq!(wished(&default, day + 1), (day, Some(text.to_owned())));
    assert_eq!(wished(&raised, 7 * day), (7 * day, None));
    let (waits, text) = wished(&raised, u64::MAX);
    let said = "a retry after 18446744073709551615 s was asked for, and 7days is the most: `max_retry_interval`";
    assert_eq!((waits, text.as_deref()), (7 * day, Some(said)));
    assert_eq!(cut_wish(&default, &Event::Failed(ErrorClass::Busy)), None);
}

#[test]
fn own_tries_replace_the_limit_of_the_row_but_not_of_a_rule() {
    let with = |tries, failures, def: NotifyDef| {
        let limited = ClaimedNotice { own: OwnLimits::new(Some(tries), None), ..notice(failures, 0) };
        ends(&decide(&policy(def), &limited, Event::Failed(ErrorClass::Unknown))).is_some()
    };
    let five = || NotifyDef::new("a").max_retry_times(4);
    assert!(with(1, 0, five()) && !with(2, 0, five()) && with(2, 1, five()), "fewer tries than the row");
    assert!(!with(9, 7, five()) && with(9, 8, five()), "more tries than the row");
    assert!(with(3, 2, NotifyDef::new("a").max_retry_times(-1)));
    assert!(with(9, 1, five().retry_rules(r#"{"unknown": 2}"#)), "the rule");
}

#[test]
fn a_retry_after_the_expiry_is_a_dead_letter_at_once() {
    let policy = policy(NotifyDef::new("a").retry_interval("[5s,5m]"));
    let expires =
        |ms| ClaimedNotice { own: OwnLimits::new(None, Some(crate::notice::time_from_millis(ms))), ..notice(0, 0) };
    let failed = |ms| decide(&policy, &expires(ms), Event::Failed(ErrorClass::Unknown));
    assert_eq!(waits(&failed(5001)), Some((Status::Failed, 5)));
    let late = failed(5000);
    assert_eq!((ends(&late), late.failures), (Some((Status::DeadLetter, true)), 1));
    let reason = |transition: Transition| match transition.next {
        Next::Finish { reason, .. } => reason.unwrap_or_default(),
        next @ Next::Wait { .. } => panic!("{next:?}"),
    };
    assert_eq!(reason(late), "expired at 1970-01-01T00:00:05.000Z: the next retry would be due after that");
    let unsent = decide(&policy, &expires(0), Event::Expired);
    assert_eq!((ends(&unsent), unsent.failures, unsent.crashes), (Some((Status::DeadLetter, true)), 0, 0));
    assert_eq!(reason(unsent), "expired at 1970-01-01T00:00:00.000Z: it was not delivered before");
    let delivered = decide(&policy, &expires(0), Event::Succeeded);
    assert_eq!(ends(&delivered), Some((Status::Succeeded, true)), "an attempt that began in time counts");
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::Succeeded),
        Just(Event::Skipped("s".into())),
        Just(Event::Refused("f".into())),
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
        let after = transition(&policy, &before, &event, &Chance { unit, elapsed: Duration::ZERO, strategy: &|_| Duration::MAX });
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
            let done = transition(&policy, &state, &event, &Chance { unit: 0.5, elapsed: Duration::ZERO, strategy: &|_| Duration::ZERO });
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
