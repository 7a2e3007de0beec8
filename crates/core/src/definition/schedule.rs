//! [`Schedule`]: the column `schedule`, a cron expression with its time zone. Decides which of its ticks produce notices, and
//! when to check again. Pure: the caller passes the time. `ticks.rs` finds the ticks.
//!
//! [`crate::store::SendStore::tick`] ensures that only one of many nodes produces them.

use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::ticks::Ticks;
use crate::notice::{millis_from_time, time_from_millis};

/// A tick that is found later than this counts as missed.
pub const MISSED_AFTER: Duration = Duration::from_secs(60);
/// The most notices that are produced in one transaction.
pub const TICKS_AT_ONCE: usize = 500;
/// A stored last tick further ahead of the store's clock than this, with another tick in between, was stored by a wrong clock.
const AHEAD: Duration = Duration::from_secs(3600);
/// A timetable must tick within 41 years of this second, 1 January 2026 in UTC.
const FIRST_SEARCHED: i64 = 1_767_225_600;

const EXPECTED: &str = "six cron fields (second minute hour day month weekday) and optionally a time zone after them, such as \
     `0 0 3 * * * Asia/Shanghai`";

/// A timetable: its ticks are whole seconds of a time zone.
///
/// Where clocks are set, the rule depends on the second, minute and hour. If they are numbers, lists and ranges, each time ticks once,
/// at the first second at which the clock shows it or a later one: in a skipped hour with the first second after it, in a repeated hour
/// the first time. If one of them has `*` or a step, each second ticks at which the clock shows a matching time: none in a skipped
/// hour, and both in a repeated one.
///
/// ```
/// use std::time::Duration;
/// use chrono::DateTime;
/// use solid_notify_core::definition::Schedule;
/// let schedule: Schedule = "0 0 3 * * * Asia/Shanghai".parse().unwrap();
/// let tick = schedule.next_after(DateTime::UNIX_EPOCH).unwrap();
/// assert_eq!(tick, DateTime::UNIX_EPOCH + Duration::from_secs(19 * 3600));
/// assert_eq!(schedule.param(tick), r#"{"tick":"1970-01-02T03:00:00+08:00"}"#);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    ticks: Ticks,
}

/// What to do with ticks that are found more than [`MISSED_AFTER`] late: the column `schedule_missed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissedTicks {
    /// One notice, for the latest of them.
    Once,
    /// A notice for each.
    All,
    /// No notice.
    None,
}

/// The progress of a timetable: the columns `last_tick` and `tick_schedule` of a definition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastTick {
    /// The last tick, or when the timetable began.
    pub at: Option<DateTime<Utc>>,
    /// The text of the timetable that it belongs to.
    pub schedule: Option<String>,
}

/// What a node must do about a timetable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Store `last` as the last tick, and insert a notice for each of `ticks` in the same transaction.
    Produce {
        /// The time up to which all ticks are handled.
        last: DateTime<Utc>,
        /// The ticks to produce notices for, at most [`TICKS_AT_ONCE`]; the next check finds more of them.
        ticks: Vec<DateTime<Utc>>,
    },
    /// Nothing until this time; `None`: nothing at all.
    Wait(Option<DateTime<Utc>>),
}

impl Step {
    /// Decides what to do about the timetable `text`, which parses to `schedule`, where the row has `seen`.
    ///
    /// A timetable that is new or edited, or whose last tick was removed by SQL, begins now: earlier ticks produce nothing. A
    /// clock that was set back repeats no tick, unless it was set back by more than an hour and one whole interval of the
    /// timetable. Then the clock was wrong when the last tick was stored, and the timetable begins now.
    pub fn of(
        text: Option<&str>,
        schedule: Option<&Schedule>,
        missed: MissedTicks,
        seen: &LastTick,
        now: DateTime<Utc>,
    ) -> Self {
        let begin = Self::Produce { last: now, ticks: Vec::new() };
        if seen.schedule.as_deref() != text {
            return begin;
        }
        let Some(schedule) = schedule else { return Self::Wait(None) };
        let Some(last) = seen.at.filter(|last| !schedule.is_ahead(*last, now)) else { return begin };
        schedule.due(missed, last, now)
    }
}

impl Schedule {
    /// Returns the first tick after `time`, or `None` if there is none within 41 years.
    pub fn next_after(&self, time: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let next = self.ticks.after(second_of(millis_from_time(time))?)?;
        Some(time_from_millis(next.as_millisecond()))
    }

    /// Returns the last tick before `time`, or `None` if there is none within 41 years.
    pub fn last_before(&self, time: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let last = self.ticks.at_or_before(second_of(millis_from_time(time) - 1)?)?;
        Some(time_from_millis(last.as_millisecond()))
    }

    /// Returns the parameter of a tick's notice, as JSON: the tick's time in the timetable's zone.
    pub fn param(&self, tick: DateTime<Utc>) -> String {
        let time = Timestamp::from_millisecond(millis_from_time(tick)).unwrap_or_default();
        let offset = self.ticks.zone().to_offset(time);
        format!(r#"{{"tick":"{}"}}"#, time.display_with_offset(offset))
    }

    /// Returns true if only a wrong clock can have stored `last`.
    fn is_ahead(&self, last: DateTime<Utc>, now: DateTime<Utc>) -> bool {
        (last - now).to_std().is_ok_and(|ahead| ahead > AHEAD) && self.last_before(last).is_some_and(|tick| tick > now)
    }

    /// Returns the ticks after `last` that produce notices: first the missed ones, then those on time.
    fn due(&self, missed: MissedTicks, last: DateTime<Utc>, now: DateTime<Utc>) -> Step {
        let next = self.next_after(last);
        if next.is_none_or(|next| next > now) {
            return Step::Wait(next);
        }
        let (mut ticks, mut upto) = (Vec::new(), last);
        let late = (missed != MissedTicks::All).then(|| now - MISSED_AFTER);
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
}

/// Returns the second that contains this millisecond.
fn second_of(millis: i64) -> Option<Timestamp> {
    Timestamp::from_second(millis.div_euclid(1000)).ok()
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
        // The characters that a field may contain, so that no other text reaches croner.
        let known = |c: char| c.is_ascii_alphanumeric() || "*,-/?#+".contains(c);
        if let Some(field) = cron.iter().find(|field| !field.chars().all(known)) {
            return Err(format!("{EXPECTED}; `{field}` is no such field"));
        }
        // croner skips an empty element, and a field without any value never ticks. (`+` before the weekday is no element.)
        let elements = |field: &str| field.trim_start_matches('+').split(',').any(str::is_empty);
        if let Some(field) = cron.iter().find(|field| elements(field)) {
            return Err(format!("{EXPECTED}; `{field}` has an empty list element"));
        }
        let parser = CronParser::builder().seconds(Seconds::Required).year(Year::Disallowed).build();
        let named = !cron.iter().take(3).any(|field| field.contains(['*', '/']));
        let cron = parser.parse(&cron.join(" ")).map_err(|error| format!("{EXPECTED}; {error}"))?;
        let schedule = Self { ticks: Ticks::new(cron.pattern, named, zone_of(zone)?) };
        if schedule.next_after(time_from_millis(FIRST_SEARCHED * 1000)).is_none() {
            return Err(
                "a timetable that ticks some day; there is no such day of that month, or clocks always skip that time"
                    .to_owned(),
            );
        }
        Ok(schedule)
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

/// Returns the time zone with this name of the IANA list, which is compiled in: all nodes of a release have the same.
pub(super) fn zone_of(name: &str) -> Result<TimeZone, String> {
    TimeZone::get(name).map_err(|_| format!("an IANA time zone such as `Asia/Shanghai` or `UTC`, not `{name}`"))
}
