//! Windows: how they are parsed, when they are open and when they open next, also where clocks are set.

use std::time::Duration;

use chrono::{DateTime, Utc};
use proptest::prelude::*;

use super::SendWindow;

fn at(text: &str) -> DateTime<Utc> {
    DateTime::<Utc>::from(humantime::parse_rfc3339_weak(text).unwrap())
}

fn window(text: &str) -> SendWindow {
    text.parse().unwrap()
}

fn opens(text: &str, from: &str) -> String {
    humantime::format_rfc3339((window(text).opens(at(from)).unwrap()).into()).to_string()
}

#[test]
fn a_window_is_open_from_its_beginning_up_to_its_end() {
    let night = window("01:00-06:00 Asia/Shanghai");
    // 17:00 to 22:00 in UTC.
    for (time, open) in [
        ("2026-11-22T16:59:59.999Z", false),
        ("2026-11-22T17:00:00Z", true),
        ("2026-11-22T21:59:59.999Z", true),
        ("2026-11-22T22:00:00Z", false),
    ] {
        assert_eq!(night.is_open(at(time)), open, "{time}");
    }
    assert_eq!(opens("01:00-06:00 Asia/Shanghai", "2026-11-22T22:00:00Z"), "2026-11-23T17:00:00Z");
    assert_eq!(opens("01:00-06:00 Asia/Shanghai", "2026-11-22T18:00:00Z"), "2026-11-22T18:00:00Z", "it is open");
    assert_eq!(opens("01:00-06:00", "2026-11-22T00:59:59.001Z"), "2026-11-22T01:00:00Z", "UTC where no zone is named");
}

#[test]
fn a_window_past_midnight_belongs_to_the_day_on_which_it_began() {
    let weeknights = window("mon-fri 22:00-06:00");
    // 20 November 2026 is a Friday.
    for (time, open) in [
        ("2026-11-20T05:59:59Z", true),
        ("2026-11-20T06:00:00Z", false),
        ("2026-11-20T22:00:00Z", true),
        ("2026-11-21T05:59:59Z", true),
        ("2026-11-21T22:00:00Z", false),
        ("2026-11-23T05:00:00Z", false),
        ("2026-11-23T22:00:00Z", true),
    ] {
        assert_eq!(weeknights.is_open(at(time)), open, "{time}");
    }
    assert_eq!(opens("mon-fri 22:00-06:00", "2026-11-21T06:00:00Z"), "2026-11-23T22:00:00Z");
}

#[test]
fn ranges_and_weekdays_add_up() {
    let text = "mon-wed,fri 08:00-12:00, 13:00-18:00; SAT,sun 00:00-24:00 Europe/Berlin";
    let all = window(text);
    for (time, open) in [
        ("2026-11-20T10:59:00Z", true),
        ("2026-11-20T11:00:00Z", false),
        ("2026-11-20T12:00:00Z", true),
        ("2026-11-19T10:00:00Z", false),
        ("2026-11-21T03:00:00Z", true),
        ("2026-11-22T22:59:59Z", true),
        ("2026-11-22T23:00:00Z", false),
    ] {
        assert_eq!(all.is_open(at(time)), open, "{time}");
    }
    assert!(window("sat-mon 10:00-11:00").is_open(at("2026-11-22T10:30:00Z")), "over the end of the week");
    assert!(!window("sat-mon 10:00-11:00").is_open(at("2026-11-20T10:30:00Z")));
}

#[test]
fn an_hour_that_is_skipped_is_never_open() {
    // In Berlin 02:00 became 03:00 on 29 March 2026, which is 01:00 in UTC.
    let berlin = "02:00-03:00 Europe/Berlin";
    assert_eq!(opens(berlin, "2026-03-28T02:00:00Z"), "2026-03-30T00:00:00Z");
    assert_eq!(opens("02:30-04:00 Europe/Berlin", "2026-03-29T00:30:00Z"), "2026-03-29T01:00:00Z", "from 03:00 on");
    assert_eq!(opens("sun 02:00-03:00 Europe/Berlin", "2026-03-23T00:00:00Z"), "2026-04-05T00:00:00Z");
}

#[test]
fn an_hour_that_is_repeated_is_open_both_times() {
    // In Berlin 03:00 became 02:00 on 25 October 2026, which is 01:00 in UTC.
    let quarter = "02:30-02:45 Europe/Berlin";
    assert_eq!(opens(quarter, "2026-10-24T22:00:00Z"), "2026-10-25T00:30:00Z");
    assert_eq!(opens(quarter, "2026-10-25T00:45:00Z"), "2026-10-25T01:30:00Z");
    assert_eq!(opens(quarter, "2026-10-25T01:45:00Z"), "2026-10-26T01:30:00Z");
    assert_eq!(window(quarter).open_for(at("2026-10-25T01:40:00Z")), Duration::from_secs(600));
    // It opens again when clocks are set back into it.
    assert_eq!(opens("01:30-02:15 Europe/Berlin", "2026-10-25T00:20:00Z"), "2026-10-25T01:00:00Z");
}

#[test]
fn the_time_since_a_window_opened_is_returned() {
    let open_for = |text: &str, time: &str| window(text).open_for(at(time)).as_secs();
    assert_eq!(open_for("22:00-06:00", "2026-11-22T05:00:00Z"), 7 * 3600);
    assert_eq!(open_for("22:00-06:00; 06:00-08:00", "2026-11-22T07:00:00Z"), 9 * 3600, "without a pause between");
    assert_eq!(open_for("22:00-06:00", "2026-11-22T06:00:00Z"), 0);
    assert_eq!(window("00:00-24:00").open_for(at("2026-11-22T06:00:00Z")), Duration::MAX);
}

#[test]
fn a_wrong_window_is_reported_with_the_correction() {
    for (text, why) in [
        ("at night", "`at night` has no time range"),
        ("01:00-06:00;", "`` has no time range"),
        ("01:00", "`01:00` is no range"),
        ("01:00-25:00", "`25:00` is no time"),
        ("1:0-2:00", "`1:0` is no time"),
        ("24:00-06:00", "begins at the end of the day"),
        ("06:00-06:00", "is empty; the whole day is 00:00-24:00"),
        ("monday 01:00-02:00", "`monday` is none of mon"),
        ("01:00-06:00 Middle/Earth", "not `Middle/Earth`"),
        ("01:00-02:00 UTC; 03:00-04:00", "has a time zone that is not at the end"),
        ("mon 08:00-12:00, tue 10:00-12:00", "names weekdays behind a range"),
    ] {
        let error = text.parse::<SendWindow>().unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in prop_oneof![".*", "[a-z0-9:;, -]{0,40}", "((mon|sat)(-fri)? )?[0-2][0-9]:[0-5][0-9]-[0-2][0-9]:00( UTC)?"]) {
        if let Ok(window) = text.parse::<SendWindow>() {
            let now = at("2026-11-22T03:30:00Z");
            let opens = window.opens(now);
            prop_assert!(opens.is_some_and(|opens| opens >= now && window.is_open(opens)), "{text}");
            prop_assert!(window.is_open(now) || window.open_for(now).is_zero(), "{text}");
        }
    }

    #[test]
    fn window_opens_at_the_first_minute_that_is_open(
        (from, to) in (0_u32..1440, 1_u32..1440).prop_filter("not empty", |(from, to)| from != to),
        start in prop_oneof![Just("2026-03-28T12:00:00Z"), Just("2026-10-24T12:00:00Z"), Just("2026-11-22T00:00:00Z")],
        minutes in 0_u64..2880,
    ) {
        let clock = |minute: u32| format!("{:02}:{:02}", minute / 60, minute % 60);
        let window = window(&format!("{}-{} Europe/Berlin", clock(from), clock(to)));
        let time = at(start) + Duration::from_secs(60 * minutes);
        let opens = window.opens(time).unwrap();
        let walked = (0..).map(|n| time + Duration::from_secs(60 * n)).find(|time| window.is_open(*time));
        prop_assert_eq!(Some(opens), walked);
    }
}
