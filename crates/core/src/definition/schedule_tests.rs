//! Timetables: how they are parsed, their ticks where clocks are set, and what happens to missed ticks.

use std::time::Duration;

use chrono::{DateTime, Utc};
use proptest::prelude::*;

use super::{MissedTicks, Schedule, Step, TICKS_AT_ONCE};
use crate::store::LastTick;

fn at(text: &str) -> DateTime<Utc> {
    DateTime::<Utc>::from(humantime::parse_rfc3339_weak(text).unwrap())
}

fn schedule(text: &str) -> Schedule {
    text.parse().unwrap()
}

/// The beginning of a measurement of this thread's processor time, which the other work of a busy machine does not change. Where there
/// is no `/proc`, it measures the elapsed time.
pub(super) struct Began(std::time::Instant, Option<Duration>);

impl Began {
    pub(super) fn now() -> Self {
        Self(std::time::Instant::now(), processor_time())
    }

    pub(super) fn used(&self) -> Duration {
        let processor = processor_time().zip(self.1).map(|(now, began)| now - began);
        processor.unwrap_or_else(|| self.0.elapsed())
    }
}

/// Returns the processor time of this thread: the first field is in nanoseconds.
fn processor_time() -> Option<Duration> {
    let fields = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    fields.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Returns the next `count` ticks after a time, in UTC.
fn ticks(text: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = schedule(text);
    let next = |time: &DateTime<Utc>| schedule.next_after(*time);
    let ticks = std::iter::successors(schedule.next_after(at(after)), next).take(count);
    ticks.map(|tick| humantime::format_rfc3339_seconds((tick).into()).to_string()).collect()
}

#[test]
fn a_schedule_ticks_in_its_zone_and_in_utc_where_none_is_named() {
    assert_eq!(
        ticks("0 0 3 * * * Asia/Shanghai", "2026-11-21T20:00:00Z", 2),
        ["2026-11-22T19:00:00Z", "2026-11-23T19:00:00Z"]
    );
    assert_eq!(ticks("0 0 3 * * *", "2026-11-22T03:00:00Z", 1), ["2026-11-23T03:00:00Z"]);
    assert_eq!(
        ticks("*/20 * * * * *", "2026-11-22T03:00:00.001Z", 2),
        ["2026-11-22T03:00:20Z", "2026-11-22T03:00:40Z"]
    );
    assert_eq!(ticks("0 0 0 29 2 *", "2026-01-01T00:00:00Z", 2), ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]);
    for weekdays in ["mon-fri", "1-5"] {
        assert_eq!(ticks(&format!("0 0 12 * * {weekdays}"), "2026-11-20T12:00:00Z", 1), ["2026-11-23T12:00:00Z"]);
    }
    for sunday in ["sun", "0", "7"] {
        assert_eq!(ticks(&format!("0 0 12 * nov {sunday}"), "2026-11-20T12:00:00Z", 1), ["2026-11-22T12:00:00Z"]);
    }
}

#[test]
fn a_skipped_hour_delays_a_time_and_has_no_tick_of_an_interval() {
    // In Berlin 02:00 became 03:00 on 29 March 2026, which is 01:00 in UTC.
    assert_eq!(
        ticks("0 30 2 * * * Europe/Berlin", "2026-03-28T00:00:00Z", 3),
        ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    );
    assert_eq!(
        ticks("0 */30 * * * * Europe/Berlin", "2026-03-29T00:00:00Z", 3),
        ["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"]
    );
    assert_eq!(ticks("0 */30 2 * * * Europe/Berlin", "2026-03-28T23:00:00Z", 1), ["2026-03-30T00:00:00Z"]);
}

#[test]
fn a_repeated_hour_ticks_once_for_a_time_and_twice_for_an_interval() {
    // In Berlin 03:00 became 02:00 on 25 October 2026, which is 01:00 in UTC.
    assert_eq!(
        ticks("0 30 2 * * * Europe/Berlin", "2026-10-24T12:00:00Z", 2),
        ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
    );
    assert_eq!(
        ticks("0 */30 * * * * Europe/Berlin", "2026-10-24T23:30:00Z", 5),
        [
            "2026-10-25T00:00:00Z",
            "2026-10-25T00:30:00Z",
            "2026-10-25T01:00:00Z",
            "2026-10-25T01:30:00Z",
            "2026-10-25T02:00:00Z"
        ]
    );
    let param = |tick| schedule("0 */30 * * * * Europe/Berlin").param(at(tick));
    assert_eq!(param("2026-10-25T00:30:00Z"), r#"{"tick":"2026-10-25T02:30:00+02:00"}"#);
    assert_eq!(param("2026-10-25T01:30:00Z"), r#"{"tick":"2026-10-25T02:30:00+01:00"}"#);
}

#[test]
fn lists_and_ranges_tick_once_for_each_time_where_clocks_are_set() {
    for (text, after, expected) in [
        // Twice a day; the skipped 02:30 and 02:00 tick at 03:00.
        ("0 30 2,14 * * * Europe/Berlin", "2026-03-28T22:00:00Z", ["2026-03-29T01:00:00Z", "2026-03-29T12:30:00Z"]),
        ("0 0,30 2 * * * Europe/Berlin", "2026-03-28T22:00:00Z", ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]),
        ("0 30 2-3 * * * Europe/Berlin", "2026-03-28T22:00:00Z", ["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"]),
        ("0 30 2,14 * * * Europe/Berlin", "2026-10-24T22:00:00Z", ["2026-10-25T00:30:00Z", "2026-10-25T13:30:00Z"]),
        ("0 0,30 2 * * * Europe/Berlin", "2026-10-25T00:00:00Z", ["2026-10-25T00:30:00Z", "2026-10-26T01:00:00Z"]),
        ("0 30 2-3 * * * Europe/Berlin", "2026-10-24T22:00:00Z", ["2026-10-25T00:30:00Z", "2026-10-25T02:30:00Z"]),
        // `*` and a step follow elapsed time, also beside numbers.
        ("0 30 2-14/12 * * * Europe/Berlin", "2026-03-28T22:00:00Z", ["2026-03-29T12:30:00Z", "2026-03-30T00:30:00Z"]),
        ("0 30 * * * * Europe/Berlin", "2026-10-25T00:00:00Z", ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]),
        // On Saturday 28 March 2026 the clocks of Nuuk skip from 23:00 to Sunday. The day is that of the skipped time.
        ("0 30 23 * * sat America/Nuuk", "2026-03-28T12:00:00Z", ["2026-03-29T01:00:00Z", "2026-04-05T00:30:00Z"]),
        ("0 30 23 28 3 * America/Nuuk", "2026-03-28T12:00:00Z", ["2026-03-29T01:00:00Z", "2027-03-29T00:30:00Z"]),
        ("0 30 23 * * * America/Nuuk", "2026-03-28T12:00:00Z", ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
        // Clocks of Lord Howe are set by half an hour: 02:00 to 02:30 on 4 October, back on 5 April 2026.
        (
            "0 0,15 2 * * * Australia/Lord_Howe",
            "2026-10-03T12:00:00Z",
            ["2026-10-03T15:30:00Z", "2026-10-04T15:00:00Z"],
        ),
        ("0 45 1 * * * Australia/Lord_Howe", "2026-04-04T12:00:00Z", ["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"]),
        // Samoa had no 30 December 2011.
        ("0 0 12 30 12 * Pacific/Apia", "2011-12-01T00:00:00Z", ["2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z"]),
    ] {
        assert_eq!(ticks(text, after, 2), expected, "{text} after {after}");
    }
}

#[test]
fn tick_of_a_skipped_time_can_be_missed_like_any_other() {
    let text = "0 30 2,14 * * * Europe/Berlin";
    let late = |rule| produced(step(text, rule, "2026-03-28T13:30:00Z", "2026-03-29T06:00:00Z")).1;
    for rule in [MissedTicks::Once, MissedTicks::All] {
        assert_eq!(late(rule), ["2026-03-29T01:00:00Z"]);
    }
    assert_eq!(late(MissedTicks::None), [""; 0]);
}

#[test]
fn the_last_tick_before_a_time_is_found_where_clocks_are_set() {
    let last = |text: &str, before| {
        humantime::format_rfc3339_seconds((schedule(text).last_before(at(before)).unwrap()).into()).to_string()
    };
    assert_eq!(last("0 0 3 * * *", "2026-11-22T03:00:00Z"), "2026-11-21T03:00:00Z");
    assert_eq!(last("0 0 3 * * *", "2026-11-22T03:00:00.001Z"), "2026-11-22T03:00:00Z");
    assert_eq!(last("0 30 2 * * * Europe/Berlin", "2026-03-29T12:00:00Z"), "2026-03-29T01:00:00Z");
    assert_eq!(last("0 30 2 * * * Europe/Berlin", "2026-10-25T12:00:00Z"), "2026-10-25T00:30:00Z");
    assert_eq!(last("0 */30 * * * * Europe/Berlin", "2026-10-25T01:10:00Z"), "2026-10-25T01:00:00Z");
    assert_eq!(last("0 0,30 2 * * * Europe/Berlin", "2026-10-25T01:40:00Z"), "2026-10-25T00:30:00Z");
    assert_eq!(last("0 30 23 * * sat America/Nuuk", "2026-03-29T12:00:00Z"), "2026-03-29T01:00:00Z");
}

#[test]
fn a_wrong_schedule_is_reported_with_the_correction() {
    for (text, why) in [
        ("", "there are 0 fields"),
        ("0 3 * * *", "there are 5 fields"),
        ("@daily", "there are 1 fields"),
        ("0 0 3 * * * Asia/Shanghai now", "there are 8 fields"),
        ("0 3 * * * Asia/Shanghai", "six cron fields"),
        ("0 0 25 * * *", "six cron fields"),
        ("0 0 3 * * é", "`é` is no such field"),
        ("0 0 3 * * * Middle/Earth", "not `Middle/Earth`"),
        ("0 0 0 30 2 *", "no such day"),
        ("0 0 0 31 4,6,9,11 *", "no such day"),
        ("0 0 0 30 2 +mon", "no such day"),
        ("10 , * * * *", "`,` has an empty list element"),
        ("0 1, * * * *", "`1,` has an empty list element"),
        ("0 0 ,3 * * *", "`,3` has an empty list element"),
        ("0 0 3 1,,2 * *", "`1,,2` has an empty list element"),
        ("0 0 3 1 * +", "`+` has an empty list element"),
        ("0 0 3 1 * +,", "`+,` has an empty list element"),
    ] {
        let error = text.parse::<Schedule>().unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

fn produced(step: Step) -> (String, Vec<String>) {
    let Step::Produce { last, ticks } = step else { panic!("{step:?}") };
    let text = |time: DateTime<Utc>| humantime::format_rfc3339((time).into()).to_string();
    (text(last), ticks.into_iter().map(text).collect())
}

/// Returns the step at the time `now` for a timetable whose last tick was `last`.
fn step(text: &str, missed: MissedTicks, last: &str, now: &str) -> Step {
    let seen = LastTick { at: Some(at(last)), schedule: Some(text.to_owned()) };
    Step::of(Some(text), Some(&schedule(text)), missed, &seen, at(now))
}

const HOURLY: &str = "0 0 * * * *";

#[test]
fn each_tick_is_produced_once_and_the_next_one_is_waited_for() {
    let once = |last, now| step(HOURLY, MissedTicks::Once, last, now);
    let done = produced(once("2026-11-22T02:00:00Z", "2026-11-22T03:00:00Z"));
    assert_eq!(done, ("2026-11-22T03:00:00Z".to_owned(), vec!["2026-11-22T03:00:00Z".to_owned()]));
    let next = Step::Wait(Some(at("2026-11-22T04:00:00Z")));
    assert_eq!(once("2026-11-22T03:00:00Z", "2026-11-22T03:00:00Z"), next);
    assert_eq!(once("2026-11-22T03:00:00Z", "2026-11-22T03:59:59.999Z"), next);
    // The store's clock was set back: past ticks do not tick again.
    assert_eq!(once("2026-11-22T03:00:00Z", "2026-11-22T02:00:00Z"), next);
}

#[test]
fn timetable_begins_now_where_its_last_tick_is_of_a_wrong_year() {
    let now = "2026-11-22T02:30:00Z";
    let begins = |text: &str, last| {
        let step = step(text, MissedTicks::Once, last, now);
        step == Step::Produce { last: at(now), ticks: Vec::new() }
    };
    assert!(begins(HOURLY, "2027-11-22T02:30:00Z"));
    assert!(begins(HOURLY, "2026-11-22T04:00:00Z"), "two ticks early");
    assert!(!begins(HOURLY, "2026-11-22T03:00:00Z"));
    // A clock that was six hours ahead has run today's only tick: it is not run twice.
    assert!(!begins("0 0 3 * * *", "2026-11-22T03:00:00Z"));
    assert!(begins("0 0 3 * * *", "2026-11-24T03:00:00Z"));
    // A minute of ticks that came early is not repeated; the price is an hour without ticks.
    assert!(!begins("0 * * * * *", "2026-11-22T03:30:00Z"));
    assert!(begins("0 * * * * *", "2026-11-22T03:31:00Z"));
}

#[test]
fn ticks_that_are_more_than_a_minute_late_follow_the_rule() {
    let missed = |rule, now| produced(step(HOURLY, rule, "2026-11-22T00:00:00Z", now)).1;
    let late = "2026-11-22T03:01:00.001Z";
    assert_eq!(missed(MissedTicks::Once, late), ["2026-11-22T03:00:00Z"]);
    assert_eq!(missed(MissedTicks::None, late), [""; 0]);
    let all = ["2026-11-22T01:00:00Z", "2026-11-22T02:00:00Z", "2026-11-22T03:00:00Z"];
    assert_eq!(missed(MissedTicks::All, late), all);
    // The last of them is not yet late.
    let on_time = "2026-11-22T03:01:00Z";
    assert_eq!(missed(MissedTicks::Once, on_time), all[1..]);
    assert_eq!(missed(MissedTicks::None, on_time), all[2..]);
    assert_eq!(missed(MissedTicks::All, on_time), all);
    let (last, _) = produced(step(HOURLY, MissedTicks::None, "2026-11-22T00:00:00Z", late));
    assert_eq!(last, "2026-11-22T03:00:00Z", "and they are done with");
}

#[test]
fn many_missed_ticks_are_produced_some_at_a_time_the_oldest_first() {
    let every_second = "* * * * * *";
    let (last, ticks) = produced(step(every_second, MissedTicks::All, "2026-11-22T00:00:00Z", "2026-11-22T01:00:00Z"));
    assert_eq!((ticks.len(), ticks[0].as_str()), (TICKS_AT_ONCE, "2026-11-22T00:00:01Z"));
    assert_eq!(last, "2026-11-22T00:08:20Z");
    // The search does not step through a year of seconds.
    let (_, ticks) = produced(step(every_second, MissedTicks::Once, "2025-11-22T00:00:00Z", "2026-11-22T01:00:00Z"));
    assert_eq!(ticks.len(), 62, "one for all that were missed, and one for each that is on time");
}

#[test]
fn a_new_edited_or_removed_timetable_begins_now_without_notices() {
    let now = at("2026-11-22T03:30:00Z");
    let begin = Step::Produce { last: now, ticks: Vec::new() };
    let parsed = schedule(HOURLY);
    let of = |text: Option<&str>, seen: &LastTick| Step::of(text, text.map(|_| &parsed), MissedTicks::All, seen, now);
    let seen = |schedule: Option<&str>| LastTick {
        at: Some(at("2026-11-20T00:00:00Z")),
        schedule: schedule.map(str::to_owned),
    };
    assert_eq!(of(Some(HOURLY), &LastTick::default()), begin);
    assert_eq!(of(Some(HOURLY), &seen(Some("0 30 * * * *"))), begin);
    assert_eq!(of(None, &seen(Some(HOURLY))), begin);
    assert_eq!(of(Some(HOURLY), &LastTick { at: None, ..seen(Some(HOURLY)) }), begin, "the time was removed by hand");
    assert_eq!(of(None, &seen(None)), Step::Wait(None));
}

#[test]
fn schedule_whose_time_is_always_skipped_is_refused() {
    // On the last Sunday of March clocks in Berlin go from 2 to 3, on the last Friday of April those in Cairo from 0 to 1.
    for text in ["0 */30 2 * 3 SUN#L Europe/Berlin", "* * 2 * 3 SUN#L Europe/Berlin", "0 */30 0 * 4 FRI#L Africa/Cairo"]
    {
        let began = Began::now();
        let error = text.parse::<Schedule>().unwrap_err();
        assert!(error.contains("clocks always skip that time"), "{text}: {error}");
        assert!(began.used() < Duration::from_secs(5), "{text}: {:?}", began.used());
    }
}

#[test]
fn rarest_day_is_found_forward_and_backward() {
    let text = "0 0 0 29 2 +mon";
    assert_eq!(ticks(text, "2072-03-01T00:00:00Z", 2), ["2112-02-29T00:00:00Z", "2140-02-29T00:00:00Z"]);
    assert_eq!(schedule(text).last_before(at("2112-02-29T00:00:00Z")), Some(at("2072-02-29T00:00:00Z")));
}

/// Texts that are nearly timetables: lists with empty elements, modifiers, rare days, and zones in which clocks are set.
fn nearly_schedules() -> impl Strategy<Value = String> {
    let second = prop_oneof!["\\*", "[0-5]?[0-9]", "\\*/[1-9]", "[0-9]{0,2},[0-9]{0,2}", ",", "[0-5]?[0-9]-59/?[0-9]?"];
    let hour = prop_oneof!["\\*", "[0-3]", "\\*/[1-9]", "[0-9]{0,2},[0-9]{0,2}", "0-3", ","];
    let day =
        prop_oneof!["\\*", "\\?", "[1-3]?[0-9]", "29", "30", "31", "L", "LW", "[1-3]?[0-9]W", "[0-9]{0,2},[0-9]{0,2}"];
    let month = prop_oneof!["\\*", "1?[0-9]", "2", "3,10", "feb", "[0-9]{0,2},[0-9]{0,2}"];
    let weekday = prop_oneof!["\\*", "[0-7]", "[0-7]#[1-5L]", "\\+[0-7](#[1-5L])?", "[0-7]L", "mon-fri", "[+,]{1,2}"];
    let zone = prop_oneof![
        "",
        " Europe/Berlin",
        " America/New_York",
        " Pacific/Apia",
        " Australia/Lord_Howe",
        " Africa/Cairo"
    ];
    (second.clone(), second, hour, day, month, weekday, zone).prop_map(
        |(second, minute, hour, day, month, weekday, zone)| {
            format!("{second} {minute} {hour} {day} {month} {weekday}{zone}")
        },
    )
}

proptest! {
    #[test]
    fn accepted_schedule_ticks_and_answers_within_bounded_time(text in nearly_schedules(), years in 0_u64..80) {
        let began = Began::now();
        let parsed = text.parse::<Schedule>();
        let read = began.used();
        prop_assert!(read < Duration::from_secs(5), "{text}: read in {read:?}");
        if let Ok(schedule) = parsed {
            let now = at("2026-11-22T03:30:00Z") + Duration::from_secs(years * 31_557_600);
            let next = schedule.next_after(now);
            prop_assert!(next.is_some_and(|next| next > now), "{text}");
            prop_assert!(schedule.last_before(now).is_some_and(|last| last < now), "{text}");
            let took = began.used() - read;
            prop_assert!(took < Duration::from_secs(5), "{text}: {took:?}");
        }
    }

    #[test]
    fn no_text_panics_or_is_searched_for_long(text in prop_oneof![
        ".*",
        "[0-9A-Za-z*,/?#+ -]{0,40}",
        "([0-9*]{1,2}(-[0-9]{1,2})?(/[0-9]{1,2})?[LW#]? ){5}([0-7*]#?L?|mon-fri)( Europe/Berlin| UTC)?",
    ]) {
        let began = Began::now();
        if let Ok(schedule) = text.parse::<Schedule>() {
            let now = at("2026-11-22T03:30:00Z");
            let next = schedule.next_after(now);
            prop_assert!(next.is_none_or(|next| next > now), "{text}");
            prop_assert!(schedule.last_before(now).is_none_or(|last| last < now), "{text}");
        }
        prop_assert!(began.used() < Duration::from_secs(2), "{text}: {:?}", began.used());
    }

    #[test]
    fn forward_and_backward_ticks_are_the_same_where_clocks_are_set(
        text in prop_oneof!["0 [0-5]?[0-9] [1-3] \\* \\* \\*", "0 \\*/(7|15|30) \\* \\* \\* \\*", "\\*/17 [0-5]?[0-9] 2 \\* \\* \\*"],
        month in prop_oneof![Just("2026-03-28T20:00:00Z"), Just("2026-10-24T20:00:00Z")],
        seconds in 0_u64..100_000,
    ) {
        let schedule = schedule(&format!("{text} Europe/Berlin"));
        let time = at(month) + Duration::from_secs(seconds);
        let next = schedule.next_after(time).unwrap();
        prop_assert_eq!(schedule.last_before(next + Duration::from_millis(1)), Some(next));
        let last = schedule.last_before(time).unwrap();
        prop_assert!(last < time && schedule.next_after(last).is_some_and(|after| after >= time));
    }
}
