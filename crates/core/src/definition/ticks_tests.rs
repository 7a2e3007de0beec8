//! Ticks, compared with a scan of each minute by the rule of the book, written here once more: three days round each change of the clocks
//! from 2026 to 2036, in every zone. Days are compared with a matcher of their own.
//!
//! `TIMETABLES=50` compares 50 timetables with each change instead of three.

use std::collections::BTreeMap;

use chrono::{DateTime, Datelike, Days, NaiveDate, Utc};
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::Schedule;

const MINUTES_OF_A_DAY: i64 = 1440;

/// One of the first three fields: its text, and the numbers that it means.
struct Field {
    text: String,
    values: Vec<i64>,
    named: bool,
}

/// A field below `end`. Of a `dense` one the numbers are many.
fn field(random: &mut fastrand::Rng, end: i64, favourites: &[i64], named: bool) -> Field {
    let mut number = || if random.bool() { favourites[random.usize(..favourites.len())] } else { random.i64(0..end) };
    let (one, other, third) = (number(), number(), number());
    let (low, high) = (one.min(other), one.max(other));
    let step = random.i64(2..20);
    let stepped = |from: i64, to: i64| (from..to).step_by(usize::try_from(step).unwrap()).collect();
    let kind = random.u8(if named { 0..4 } else { 0..7 });
    let (text, mut values): (String, Vec<i64>) = match kind {
        0 => (format!("{one}"), vec![one]),
        1 => (format!("{one},{other},{third}"), vec![one, other, third]),
        2 => (format!("{low}-{high}"), (low..=high).collect()),
        3 => (format!("{low}-{high},{third}"), (low..=high).chain([third]).collect()),
        4 => ("*".to_owned(), (0..end).collect()),
        5 => (format!("*/{step}"), stepped(0, end)),
        _ => (format!("{low}-{high}/{step}"), stepped(low, high + 1)),
    };
    values.sort_unstable();
    values.dedup();
    Field { text, values, named: kind < 4 }
}

/// A timetable: its text without a zone, and what it means.
struct Pattern {
    text: String,
    hours: Vec<i64>,
    minutes: Vec<i64>,
    seconds: Vec<i64>,
    weekdays: Vec<u32>,
    named: bool,
}

impl Pattern {
    /// A pattern of times near `hour`, where clocks are set.
    fn new(random: &mut fastrand::Rng, hour: i64) -> Self {
        let near: Vec<i64> = (-2..3).map(|hours| (hour + hours).rem_euclid(24)).collect();
        let named = random.bool();
        let second = match random.u8(..4) {
            0 => field(random, 60, &[0, 59], named),
            _ => Field { text: "0".to_owned(), values: vec![0], named: true },
        };
        let (minute, hour) = (field(random, 60, &[0, 15, 30, 45, 59], named), field(random, 24, &near, named));
        let (days, weekdays) = match random.u8(..4) {
            0 => ("sat", vec![6]),
            1 => ("0,1", vec![0, 1]),
            _ => ("*", (0..7).collect()),
        };
        Self {
            text: format!("{} {} {} * * {days}", second.text, minute.text, hour.text),
            named: second.named && minute.named && hour.named,
            hours: hour.values,
            minutes: minute.values,
            seconds: second.values,
            weekdays,
        }
    }

    /// Returns true if this minute of local time, counted from 1970, is one of the pattern.
    fn has(&self, local: i64) -> bool {
        let (day, minute) = (local.div_euclid(MINUTES_OF_A_DAY), local.rem_euclid(MINUTES_OF_A_DAY));
        // 1 January 1970 was a Thursday.
        let weekday = u32::try_from((day + 4).rem_euclid(7)).unwrap();
        self.hours.contains(&(minute / 60)) && self.minutes.contains(&(minute % 60)) && self.weekdays.contains(&weekday)
    }

    /// Returns the ticks of these minutes, in seconds of UTC, by the rule of the book.
    fn ticks(&self, minutes: std::ops::Range<i64>, local: impl Fn(i64) -> i64) -> Vec<i64> {
        let mut ticks = Vec::new();
        let mut shown = local(minutes.start) - 1;
        for minute in minutes {
            let now = local(minute);
            if self.named && now <= shown {
                continue;
            }
            if self.named && (shown + 1..now).any(|skipped| self.has(skipped)) {
                ticks.push(minute * 60);
            }
            if self.has(now) {
                ticks.extend(self.seconds.iter().map(|second| minute * 60 + second));
            }
            shown = now;
        }
        ticks.dedup();
        ticks
    }
}

/// A change of the clocks: the minute of UTC, and the minutes that local time is ahead before and after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    at: i64,
    before: i64,
    after: i64,
}

/// Returns a zone for each different list of changes from 2026 to 2036.
fn zones() -> BTreeMap<Vec<Change>, (String, TimeZone)> {
    let (begin, end): (Timestamp, Timestamp) =
        ("2026-01-01T00:00:00Z".parse().unwrap(), "2037-01-01T00:00:00Z".parse().unwrap());
    let mut zones = BTreeMap::new();
    for name in TimeZoneDatabase::bundled().available() {
        let zone = TimeZone::get(name.as_str()).unwrap();
        let mut ahead = i64::from(zone.to_offset(begin).seconds()) / 60;
        let mut changes = Vec::new();
        for change in zone.following(begin).take_while(|change| change.timestamp() < end) {
            let (before, after) = (ahead, i64::from(change.offset().seconds()) / 60);
            assert_eq!(change.timestamp().as_second() % 60 + i64::from(change.offset().seconds()) % 60, 0, "{name}");
            changes.push(Change { at: change.timestamp().as_second() / 60, before, after });
            ahead = after;
        }
        zones.entry(changes).or_insert((name.to_string(), zone));
    }
    zones
}

fn time(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(second, 0).unwrap()
}

#[test]
fn ticks_near_every_change_of_the_clocks_follow_the_rule() {
    let timetables = std::env::var("TIMETABLES").ok().map(|count| count.parse::<usize>().unwrap());
    // Most of the time goes by in the search of ticks that no change of the clocks concerns.
    let most = if timetables.is_some() { 20_000 } else { 600 };
    let (mut named, mut elapsed, mut halves, mut next_day) = (0, 0, 0, 0);
    for (changes, (name, _)) in zones() {
        for Change { at, before, after } in changes {
            let mut random = fastrand::Rng::with_seed(at.unsigned_abs() ^ before.unsigned_abs());
            let local = |minute: i64| minute + if minute < at { before } else { after };
            let minutes = at - 3 * MINUTES_OF_A_DAY..at + 3 * MINUTES_OF_A_DAY;
            for _ in 0..timetables.unwrap_or(3) {
                let hour = (at + before).rem_euclid(MINUTES_OF_A_DAY) / 60;
                let pattern = Pattern::new(&mut random, hour);
                let expected = pattern.ticks(minutes.clone(), local);
                if expected.len() > most {
                    continue;
                }
                let text = format!("{} {name}", pattern.text);
                // Only those that never tick are refused.
                let Ok(schedule) = text.parse::<Schedule>() else {
                    assert!(expected.is_empty(), "{text}");
                    continue;
                };
                let (begin, end) = (time(minutes.start * 60), time(minutes.end * 60));
                let forward: Vec<i64> =
                    std::iter::successors(schedule.next_after(begin - chrono::TimeDelta::seconds(1)), |last| {
                        schedule.next_after(*last)
                    })
                    .take_while(|tick| *tick < end)
                    .map(|tick| tick.timestamp())
                    .collect();
                assert_eq!(forward, expected, "{text} from {begin} to {end}");
                let mut backward: Vec<i64> =
                    std::iter::successors(schedule.last_before(end), |next| schedule.last_before(*next))
                        .take_while(|tick| *tick >= begin)
                        .map(|tick| tick.timestamp())
                        .collect();
                backward.reverse();
                assert_eq!(backward, expected, "{text} from {end} back to {begin}");
                *(if pattern.named { &mut named } else { &mut elapsed }) += 1;
                halves += usize::from((after - before) % 60 != 0);
                next_day += usize::from(before < after && (at + after).rem_euclid(MINUTES_OF_A_DAY) == 0);
            }
        }
    }
    let compared = (named, elapsed, halves, next_day);
    assert!(named > 200 && elapsed > 200 && halves > 5 && next_day > 5, "{compared:?}");
}

/// A field of days: its text, and whether it contains a date.
type DayField = (String, Box<dyn Fn(NaiveDate) -> bool>);

fn length_of_month(date: NaiveDate) -> u32 {
    u32::from(date.num_days_in_month())
}

fn is_weekend(date: NaiveDate) -> bool {
    date.weekday().num_days_from_monday() >= 5
}

/// Returns the working day that is nearest to this day of its month, in the same month.
fn nearest_working_day(date: NaiveDate) -> NaiveDate {
    let in_month = |days: i64| {
        let other = date + chrono::TimeDelta::days(days);
        (other.month() == date.month() && !is_weekend(other)).then_some(other)
    };
    [0, -1, 1, -2, 2].into_iter().find_map(in_month).unwrap()
}

fn days_of_month(random: &mut fastrand::Rng) -> DayField {
    let (one, other) = (random.u32(1..32), random.u32(1..32));
    let (low, high) = (one.min(other), one.max(other));
    match random.u8(..6) {
        0 => (one.to_string(), Box::new(move |date| date.day() == one)),
        1 => (format!("{one},{other}"), Box::new(move |date| [one, other].contains(&date.day()))),
        2 => (format!("{low}-{high}"), Box::new(move |date| (low..=high).contains(&date.day()))),
        3 => ("L".to_owned(), Box::new(|date| date.day() == length_of_month(date))),
        4 => {
            let near = move |date: NaiveDate| date.with_day(one).is_some_and(|day| nearest_working_day(day) == date);
            (format!("{one}W"), Box::new(near))
        }
        _ => ("*".to_owned(), Box::new(|_| true)),
    }
}

fn weekdays(random: &mut fastrand::Rng) -> DayField {
    let (one, other, nth) = (random.u32(..7), random.u32(..7), random.u32(1..6));
    let (low, high) = (one.min(other), one.max(other));
    let of = |date: NaiveDate| date.weekday().num_days_from_sunday();
    match random.u8(..6) {
        0 => (one.to_string(), Box::new(move |date| of(date) == one)),
        1 => (format!("{one},{other}"), Box::new(move |date| [one, other].contains(&of(date)))),
        2 => (format!("{low}-{high}"), Box::new(move |date| (low..=high).contains(&of(date)))),
        3 => (format!("{one}#{nth}"), Box::new(move |date| of(date) == one && date.day().div_ceil(7) == nth)),
        4 => (format!("{one}#L"), Box::new(move |date| of(date) == one && date.day() + 7 > length_of_month(date))),
        _ => ("*".to_owned(), Box::new(|_| true)),
    }
}

#[test]
fn days_of_a_timetable_are_those_of_a_matcher_of_its_own() {
    let mut random = fastrand::Rng::with_seed(1);
    let begin = NaiveDate::from_ymd_opt(2026, 1, 1).unwrap();
    let mut compared = 0;
    for _ in 0..300 {
        let ((month_days, in_month), (week_days, in_week)) = (days_of_month(&mut random), weekdays(&mut random));
        let month = random.u32(1..13);
        let both = random.bool() && week_days != "*";
        let text = format!("0 0 12 {month_days} {month}-12 {}{week_days}", if both { "+" } else { "" });
        let matches = |date: &NaiveDate| {
            let day = match (month_days.as_str(), week_days.as_str()) {
                ("*", _) | (_, "*") => in_month(*date) && in_week(*date),
                _ if both => in_month(*date) && in_week(*date),
                _ => in_month(*date) || in_week(*date),
            };
            day && date.month() >= month
        };
        let days = (0..4018).filter_map(|days| begin.checked_add_days(Days::new(days)));
        let expected: Vec<NaiveDate> = days.filter(matches).collect();
        let Ok(schedule) = text.parse::<Schedule>() else {
            assert!(expected.is_empty(), "{text}");
            continue;
        };
        let midnight = begin.and_time(chrono::NaiveTime::MIN).and_utc();
        let ticks = std::iter::successors(schedule.next_after(midnight), |last| schedule.next_after(*last));
        let ticks: Vec<NaiveDate> = ticks.map(|tick| tick.date_naive()).take_while(|date| date.year() < 2037).collect();
        assert_eq!(ticks, expected, "{text}");
        compared += 1;
    }
    assert!(compared > 250, "{compared}");
}
