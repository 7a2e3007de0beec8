//! [`Schedule`]: the column `schedule`, a cron expression and the time zone in which it is read; which of its ticks are to
//! produce notices, and when to look again. Pure: the caller says what time it is.
//!
//! That of many nodes one produces them is left to [`crate::Store::tick`].

use std::str::FromStr;
use std::time::{Duration, SystemTime};

use croner::parser::{CronParser, Seconds, Year};
use croner::{Cron, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::notice::{millis_from_time, time_from_millis};
use crate::store::LastTick;

/// A tick that is found later than this counts as missed.
pub const MISSED_AFTER: Duration = Duration::from_secs(60);
/// The most notices that are produced in one transaction.
pub const TICKS_AT_ONCE: usize = 500;

const EXPECTED: &str = "six cron fields (second minute hour day month weekday) and perhaps a time zone behind them, such as \
     `0 0 3 * * * Asia/Shanghai`";

/// A timetable: its ticks are whole seconds of a time zone.
///
/// Where clocks are set, the rule is that of [croner](https://docs.rs/croner): a time that is given by numbers alone ticks once
/// on such a day, in a skipped hour with the first second behind it, in a repeated hour the first time. One with `*` or a step in
/// its second, minute or hour does not tick in a skipped hour, and ticks both times in a repeated one.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use solid_notify_core::definition::Schedule;
/// let schedule: Schedule = "0 0 3 * * * Asia/Shanghai".parse().unwrap();
/// let tick = schedule.next_after(UNIX_EPOCH).unwrap();
/// assert_eq!(tick, UNIX_EPOCH + Duration::from_secs(19 * 3600));
/// assert_eq!(schedule.param(tick), r#"{"tick":"1970-01-02T03:00:00+08:00"}"#);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    cron: Cron,
    zone: TimeZone,
}

/// What becomes of ticks that are found more than [`MISSED_AFTER`] late: the column `schedule_missed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissedTicks {
    /// One notice, for the latest of them.
    Once,
    /// A notice for each.
    All,
    /// Nothing.
    None,
}

/// What a node is to do about a timetable that it has just looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Store `last` as the last tick, and with it a notice for each of `ticks`.
    Produce {
        /// Up to when the timetable is done.
        last: SystemTime,
        /// The ticks to produce notices for, at most [`TICKS_AT_ONCE`]; more of them are found by the next look.
        ticks: Vec<SystemTime>,
    },
    /// There is nothing to do before this time; none: not at all.
    Wait(Option<SystemTime>),
}

impl Step {
    /// What is to be done about the timetable `text`, which reads as `schedule`, where the row has `seen`.
    ///
    /// A timetable that is new or was edited begins now: what it would have ticked before is nobody's. So is one whose last
    /// tick somebody removed.
    pub fn of(
        text: Option<&str>,
        schedule: Option<&Schedule>,
        missed: MissedTicks,
        seen: &LastTick,
        now: SystemTime,
    ) -> Self {
        let begin = Self::Produce { last: now, ticks: Vec::new() };
        if seen.schedule.as_deref() != text {
            return begin;
        }
        let Some(schedule) = schedule else { return Self::Wait(None) };
        let Some(last) = seen.at else { return begin };
        schedule.due(missed, last, now)
    }
}

impl Schedule {
    /// The first tick after `time`, if there is one before the year 5000.
    pub fn next_after(&self, time: SystemTime) -> Option<SystemTime> {
        let from = self.second_of(millis_from_time(time))?;
        let next = self.cron.find_next_occurrence(&from, false).ok()?;
        (next > from).then(|| time_from_millis(next.timestamp().as_millisecond()))
    }

    /// The last tick before `time`.
    pub fn last_before(&self, time: SystemTime) -> Option<SystemTime> {
        let from = self.second_of(millis_from_time(time) - 1)?;
        let last = self.cron.find_previous_occurrence(&from, true).ok()?;
        (last <= from).then(|| time_from_millis(last.timestamp().as_millisecond()))
    }

    /// The parameter of the notice of a tick, as JSON: the tick's time in the timetable's zone.
    pub fn param(&self, tick: SystemTime) -> String {
        let time = Timestamp::from_millisecond(millis_from_time(tick)).unwrap_or_default();
        let offset = self.zone.to_offset(time);
        format!(r#"{{"tick":"{}"}}"#, time.display_with_offset(offset))
    }

    /// The ticks that are to produce notices, `last` having been the last one: first what was missed, then what is on time.
    /// A clock that was set back repeats no tick.
    fn due(&self, missed: MissedTicks, last: SystemTime, now: SystemTime) -> Step {
        let next = self.next_after(last);
        if next.is_none_or(|next| next > now) {
            return Step::Wait(next);
        }
        let (mut ticks, mut upto) = (Vec::new(), last);
        let late = now.checked_sub(MISSED_AFTER).filter(|_| missed != MissedTicks::All);
        if let Some(latest) = late.and_then(|late| self.last_before(late)).filter(|latest| *latest > last) {
            ticks.extend((missed == MissedTicks::Once).then_some(latest));
            upto = latest;
        }
        while ticks.len() < TICKS_AT_ONCE
            && let Some(tick) = self.next_after(upto).filter(|tick| *tick <= now)
        {
            ticks.push(tick);
            upto = tick;
        }
        Step::Produce { last: upto, ticks }
    }

    fn second_of(&self, millis: i64) -> Option<Zoned> {
        Some(Timestamp::from_second(millis.div_euclid(1000)).ok()?.to_zoned(self.zone.clone()))
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let (cron, zone) = match fields.len() {
            6 => (&fields[..], "UTC"),
            7 => (&fields[..6], fields[6]),
            other => return Err(format!("{EXPECTED}; there are {other} fields")),
        };
        // What may stand in a field, so that no other text ever reaches the library.
        let known = |c: char| c.is_ascii_alphanumeric() || "*,-/?#+".contains(c);
        if let Some(field) = cron.iter().find(|field| !field.chars().all(known)) {
            return Err(format!("{EXPECTED}; `{field}` is no such field"));
        }
        let parser = CronParser::builder().seconds(Seconds::Required).year(Year::Disallowed).build();
        let cron = parser.parse(&cron.join(" ")).map_err(|error| format!("{EXPECTED}; {error}"))?;
        let zone = zone_of(zone)?;
        if !has_a_day(&cron) {
            return Err("a timetable that ticks some day; there is no such day of that month".to_owned());
        }
        Ok(Self { cron, zone })
    }
}

impl FromStr for MissedTicks {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "once" => Ok(Self::Once),
            "all" => Ok(Self::All),
            "none" => Ok(Self::None),
            _ => Err("one of once, all, none"),
        }
    }
}

/// The time zone of this name in the IANA list, which is part of the program: the same on every node of a release.
pub(super) fn zone_of(name: &str) -> Result<TimeZone, String> {
    TimeZone::get(name).map_err(|_| format!("an IANA time zone such as `Asia/Shanghai` or `UTC`, not `{name}`"))
}

/// Whether there is a day on which it ticks. A search for a tick that never comes would go through thousands of years.
fn has_a_day(cron: &Cron) -> bool {
    // In these years there is every kind: with and without a leap day, beginning with each weekday.
    let days = jiff::civil::date(2000, 1, 1).series(jiff::Span::new().days(1)).take_while(|day| day.year() < 2028);
    let matches = |day: jiff::civil::Date| {
        let (year, month) = (i32::from(day.year()), day.month().unsigned_abs().into());
        let weekday = Weekday::from_days_from_sunday(day.weekday().to_sunday_zero_offset().unsigned_abs().into());
        let of_month = cron.pattern.month_match(month)?;
        Ok::<_, croner::errors::CronError>(
            of_month && cron.pattern.day_match(year, month, day.day().unsigned_abs().into(), weekday)?,
        )
    };
    days.into_iter().any(|day| matches(day).unwrap_or(false))
}
