//! The decisions of [`super`]: tables, and properties over any order of claims.

use chrono::DateTime;
use proptest::prelude::*;

use super::breaker::fold;
use super::*;
use crate::alarm::{Alarm, Cause};
use crate::notice::{OwnLimits, Status};
use crate::transition::Event;
use crate::{AlertReason, ErrorClass};

const LEASE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(60);
const START: i64 = 1_000_000_000_000;

fn rate(text: &str) -> Quota {
    Quota { rate: Some(text.parse().unwrap()), total: None, breaker: None }
}

fn breaker(failures: u32) -> Breaker {
    Breaker { failures, pause: PAUSE }
}

fn breaking(failures: u32) -> Quota {
    Quota { rate: None, total: None, breaker: Some(breaker(failures)) }
}

/// Begins this many attempts at this time, with arbitrary notices.
fn begun(row: &LimitRow, quota: &Quota, at: i64, count: usize) -> LimitRow {
    begin(row, quota, at, &vec![7; count], LEASE)
}

fn free(row: &LimitRow, quota: &Quota, now: i64) -> Result<usize, u64> {
    allowance(row, quota, now, 0, LEASE).map_err(|hold| u64::try_from(hold.again_after().as_millis()).unwrap())
}

#[test]
fn a_whole_rate_may_begin_at_once_and_comes_back_when_its_time_is_over() {
    let quota = rate("100/1m");
    let row = LimitRow::default();
    assert_eq!(free(&row, &quota, START), Ok(100));
    let row = begun(&row, &quota, START, 70);
    assert_eq!(free(&row, &quota, START + 20_000), Ok(30));
    let row = begun(&row, &quota, START + 20_000, 30);
    assert_eq!(free(&row, &quota, START + 20_000), Err(40_000));
    assert_eq!(free(&row, &quota, START + 59_999), Err(1));
    assert_eq!(free(&row, &quota, START + 60_000), Ok(70));
    assert_eq!(free(&row, &quota, START + 80_000), Ok(100));
}

#[test]
fn a_rate_that_was_lowered_waits_until_enough_of_the_old_one_is_over() {
    let row = begun(&LimitRow::default(), &rate("100/1m"), START, 50);
    let row = begun(&row, &rate("100/1m"), START + 10_000, 10);
    assert_eq!(free(&row, &rate("10/1m"), START + 20_000), Err(50_000), "the ten that came last are the limit");
    assert_eq!(free(&row, &rate("11/1m"), START + 20_000), Err(40_000));
}

#[test]
fn a_clock_that_was_set_back_delays_no_longer_than_the_time_of_the_rate() {
    let quota = rate("10/1m");
    let row = begun(&LimitRow::default(), &quota, START, 10);
    assert_eq!(free(&row, &quota, START - 3_600_000), Ok(10), "an hour back: forgotten");
    assert_eq!(free(&row, &quota, START - 1), Err(60_001), "a moment: two statements of one time");
}

#[test]
fn so_many_may_be_sent_at_once_as_are_not_being_sent() {
    let quota = Quota { rate: None, total: Some(3), breaker: None };
    let of = |sending| allowance(&LimitRow::default(), &quota, START, sending, LEASE);
    assert_eq!((of(0), of(2)), (Ok(3), Ok(1)));
    assert_eq!((of(3), of(9)), (Err(QuotaStop::Total), Err(QuotaStop::Total)), "also where the limit was lowered");
    assert_eq!(QuotaStop::Total.again_after(), FOREVER);
}

#[test]
fn of_several_limits_the_narrowest_holds() {
    let quota = Quota { total: Some(5), ..rate("100/1m") };
    let row = begun(&LimitRow::default(), &quota, START, 98);
    assert_eq!(allowance(&row, &quota, START, 1, LEASE), Ok(2));
    assert_eq!(allowance(&row, &quota, START, 4, LEASE), Ok(1));
}

#[test]
fn failures_in_a_row_open_the_circuit_and_a_success_between_them_does_not() {
    use TargetSign::{None as Nothing, Unwell, Well};
    let outcomes = |signs: &[TargetSign]| {
        let outcomes = (1..).zip(signs.iter().copied());
        fold(&LimitRow::default(), breaker(3), outcomes, START)
    };
    let (row, opened_by) = outcomes(&[Unwell, Unwell, Well, Unwell, Nothing, Unwell]);
    assert_eq!((row.failures, row.open_until, opened_by), (2, None, None));
    let (row, opened_by) = outcomes(&[Unwell, Nothing, Unwell, Unwell, Unwell]);
    assert_eq!((row.failures, row.open_until, opened_by), (3, Some(START + 60_000), Some(3)));
    let (row, opened_by) = outcomes(&[Unwell, Unwell, Unwell, Well]);
    assert_eq!((row, opened_by), (LimitRow::default(), None), "open and closed within one batch");
}

/// An outcome as a breaker evaluates it; `message` is that of its alarm.
fn for_breaker(sign: TargetSign, failures: u32, message: &str) -> BreakerInput {
    let alarm = Alarm {
        def_id: 7,
        definition: "sync".into(),
        reason: AlertReason::CircuitOpen,
        notice_id: None,
        description: None,
        class: None,
        message: message.into(),
        cause: Cause::default(),
        cooldown: Duration::ZERO,
        alert_def: 1,
        node: "node".into(),
    };
    BreakerInput { def_id: 7, breaker: breaker(failures), sign, alarm: (sign == TargetSign::Unwell).then_some(alarm) }
}

#[test]
fn the_latest_breaker_judges_a_batch_and_its_opener_is_reported() {
    let result = |outcomes: &[(i64, BreakerInput)]| {
        let outcomes: Vec<(i64, &BreakerInput)> = outcomes.iter().map(|(id, input)| (*id, input)).collect();
        let (row, alarm) = end(&LimitRow::default(), &outcomes, START);
        (row.failures, alarm.map(|alarm| alarm.message.clone()))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(result(&[]), (0, None));
    // The row was edited between two outcomes, in one direction and the other.
    assert_eq!(
        result(&[(1, for_breaker(TargetSign::Unwell, 1, "a")), (2, for_breaker(TargetSign::Unwell, 2, "b"))]),
        (2, some("b"))
    );
    assert_eq!(
        result(&[(1, for_breaker(TargetSign::Unwell, 9, "a")), (2, for_breaker(TargetSign::Unwell, 1, "b"))]),
        (1, some("a"))
    );
    // Two attempts of one notice: the second opened it for good.
    let again = [TargetSign::Unwell, TargetSign::Well, TargetSign::Unwell].into_iter().zip(["a", "b", "c"]);
    let again: Vec<(i64, BreakerInput)> = again.map(|(sign, message)| (1, for_breaker(sign, 1, message))).collect();
    assert_eq!(result(&again), (1, some("c")));
    // The first opened it, and the second shows nothing.
    assert_eq!(
        result(&[(1, for_breaker(TargetSign::Unwell, 1, "a")), (1, for_breaker(TargetSign::None, 1, "b"))]),
        (1, some("a"))
    );
}

/// An open circuit whose pause is over, with its probe running.
fn probing() -> LimitRow {
    let open = LimitRow { failures: 3, open_until: Some(START), ..LimitRow::default() };
    begin(&open, &breaking(3), START, &[42], LEASE)
}

#[test]
fn an_open_circuit_lets_one_probe_through_when_its_pause_is_over() {
    let quota = breaking(3);
    let open = LimitRow { failures: 3, open_until: Some(START), ..LimitRow::default() };
    assert_eq!(free(&open, &quota, START - 1), Err(1));
    assert_eq!(free(&open, &quota, START), Ok(1));
    let row = probing();
    assert_eq!(row.probe, Some(42));
    assert_eq!(free(&row, &quota, START), Err(60_000), "one at a time");
    assert_eq!(free(&row, &quota, START + 60_000), Ok(1), "its process died: its lease is over");
}

#[test]
fn open_circuit_follows_its_probe_and_any_success() {
    let after = |id: i64, sign: TargetSign| fold(&probing(), breaker(3), [(id, sign)].into_iter(), START + 5).0;
    assert_eq!(after(41, TargetSign::Unwell), probing());
    assert_eq!(after(41, TargetSign::None), probing());
    let failed = after(42, TargetSign::Unwell);
    assert_eq!((failed.failures, failed.open_until, failed.probe), (4, Some(START + 60_005), None));
    let said_nothing = after(42, TargetSign::None);
    assert_eq!((said_nothing.open_until, said_nothing.probe), (Some(START + 5), None), "another one may probe");
    assert_eq!(after(42, TargetSign::Well), LimitRow::default());
    assert_eq!(after(41, TargetSign::Well), LimitRow::default());
}

#[test]
fn a_shortened_pause_or_a_clock_set_back_keeps_no_circuit_open() {
    let open = LimitRow { open_until: Some(START + 3_600_000), ..LimitRow::default() };
    assert_eq!(free(&open, &breaking(3), START), Ok(1));
    assert_eq!(free(&open, &Quota { breaker: None, ..rate("5/1s") }, START), Ok(5), "a breaker that was taken away");
}

#[test]
fn an_expired_notice_uses_up_no_place() {
    let claimed = |id, expires_at| {
        let mut notice = ClaimedNotice::new(id, 1, Status::Sending, String::new(), DateTime::UNIX_EPOCH);
        notice.own = OwnLimits::new(None, expires_at);
        notice
    };
    let (past, later) = (DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH + PAUSE);
    assert_eq!(attempted(&[claimed(1, None), claimed(2, Some(past)), claimed(3, Some(later))]), [1, 3]);
}

#[test]
fn only_what_lies_with_the_target_is_a_sign_of_it() {
    let unwell = ["network", "timeout", "unavailable", "busy", "auth", "unknown"];
    for class in ErrorClass::ALL {
        let expected = if unwell.contains(&class.as_str()) { TargetSign::Unwell } else { TargetSign::None };
        assert_eq!(TargetSign::of(&Event::Failed(class)), expected, "{class}");
        assert_eq!(TargetSign::of(&Event::RetryIn(Duration::ZERO, class)), expected, "{class}");
    }
    assert_eq!(TargetSign::of(&Event::Succeeded), TargetSign::Well);
    assert_eq!(TargetSign::of(&Event::AwaitAck(FOREVER)), TargetSign::Well);
    for event in [Event::Crashed, Event::HandedBack(Duration::ZERO), Event::OutOfTries, Event::GaveUp("x".into())] {
        assert_eq!(TargetSign::of(&event), TargetSign::None);
    }
}

proptest! {
    #[test]
    fn no_window_exceeds_the_rate_and_a_free_place_is_used_at_once(
        limit in 1_u32..200,
        per in 1_i64..20_000,
        claims in proptest::collection::vec((0_i64..700, 1_usize..300), 1..120),
    ) {
        let quota = rate(&format!("{limit}/{per}ms"));
        let (mut row, mut now) = (LimitRow::default(), START);
        let mut log: Vec<(i64, usize)> = Vec::new();
        for (step, wanted) in claims {
            now += step;
            let within = |time: i64| -> usize {
                log.iter().filter(|(at, _)| at + time > now).map(|(_, count)| count).sum()
            };
            // The second count leaves out what is certainly over, in whichever part it was counted.
            let (in_window, lately) = (within(per), within(per + per / PARTS + 1));
            let limit = usize::try_from(limit).unwrap();
            match allowance(&row, &quota, now, 0, LEASE) {
                Ok(most) => {
                    let taken = wanted.min(most);
                    prop_assert!(in_window + taken <= limit);
                    row = begun(&row, &quota, now, taken);
                    log.push((now, taken));
                }
                Err(hold) => {
                    prop_assert!(lately >= limit, "nothing is held back without need");
                    let after = i64::try_from(hold.again_after().as_millis()).unwrap();
                    prop_assert!(after >= 1 && after <= per);
                    prop_assert!(allowance(&row, &quota, now + after, 0, LEASE).is_ok());
                    prop_assert!(allowance(&row, &quota, now + after - 1, 0, LEASE).is_err(), "to the millisecond");
                }
            }
            prop_assert!(row.begun.len() <= usize::try_from(PARTS).unwrap() + 2);
        }
    }

    #[test]
    fn a_circuit_runs_one_probe_at_a_time_and_closes_in_the_end(
        events in proptest::collection::vec((0_i64..90_000, 0_u8..5), 1..200),
    ) {
        let quota = breaking(3);
        let (mut row, mut now, mut next_id) = (LimitRow::default(), START, 0);
        let mut probe_ends: Option<i64> = None;
        for (step, what) in events {
            now += step;
            if what < 2 {
                if allowance(&row, &quota, now, 0, LEASE).is_ok() {
                    next_id += 1;
                    if row.open_until.is_some() {
                        prop_assert!(probe_ends.is_none_or(|ends| ends <= now));
                        probe_ends = Some(now + 60_000);
                    }
                    row = begin(&row, &quota, now, &[next_id], LEASE);
                }
            } else {
                let sign = [TargetSign::Well, TargetSign::Unwell, TargetSign::None][usize::from(what - 2)];
                if row.probe == Some(next_id) || sign == TargetSign::Well {
                    probe_ends = None;
                }
                row = fold(&row, breaker(3), [(next_id, sign)].into_iter(), now).0;
            }
            prop_assert!(row.open_until.is_none_or(|until| until <= now + 60_000));
            prop_assert!(allowance(&row, &quota, now + 60_000, 0, LEASE).is_ok());
        }
    }
}
