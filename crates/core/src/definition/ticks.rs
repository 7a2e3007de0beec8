//! [`Ticks`]: the local times that a cron pattern names, and the instants at which they tick in a time zone, also where its clocks are
//! set. `schedule.rs` decides which ticks produce notices.
//!
//! croner parses the fields and decides which days match. Its own search is not used: it treats lists and ranges as if they were steps, and it
//! has no tick where a skipped hour ends on the next day.

use croner::{CronPattern, Weekday};
use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};

/// How far a search for a tick goes: 41 years. The rarest day, 29 February on a given weekday, is at most 40 years away.
const SEARCHED: SignedDuration = SignedDuration::from_hours(41 * 366 * 24);
const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// The ticks of a pattern in a time zone. Each is a whole second.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ticks {
    days: CronPattern,
    hours: Vec<i8>,
    minutes: Vec<i8>,
    seconds: Vec<i8>,
    /// The second, minute and hour are numbers, lists and ranges, without `*` and steps: each time ticks once, at the first second at
    /// which the clock shows it or a later one.
    named: bool,
    zone: TimeZone,
}

/// A time between two changes of the clock. Local time equals UTC plus `offset` in it.
struct Period {
    /// Its first second; `None`: it has no beginning.
    begin: Option<Timestamp>,
    /// The first second of the next one; `None`: it has no end.
    end: Option<Timestamp>,
    offset: Offset,
    /// The offset before `begin`.
    offset_before: Offset,
}

impl Ticks {
    /// The ticks of the parsed `pattern`. `named`: its second, minute and hour have neither `*` nor a step.
    pub(super) fn new(pattern: CronPattern, named: bool, zone: TimeZone) -> Self {
        let numbers = |field: &croner::CronComponent| -> Vec<i8> {
            field.values().into_iter().filter_map(|value| i8::try_from(value).ok()).collect()
        };
        let (hours, minutes, seconds) = (numbers(&pattern.hours), numbers(&pattern.minutes), numbers(&pattern.seconds));
        Self { days: pattern, hours, minutes, seconds, named, zone }
    }

    pub(super) fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Returns the first tick after `second`, or `None` if there is none within 41 years.
    pub(super) fn after(&self, second: Timestamp) -> Option<Timestamp> {
        let until = second.checked_add(SEARCHED).unwrap_or(Timestamp::MAX);
        let mut from = second.checked_add(SECOND).ok()?;
        while from < until {
            let period = self.period(from);
            let begins = period.begin == Some(from);
            let local = period.offset.to_datetime(from);
            let first = match self.first_local(&period) {
                Some(first) if begins => first,
                Some(first) => first.max(local),
                None => local,
            };
            let end = period.end.unwrap_or(until).min(until);
            if let Some(named) = self.first_between(first, period.offset.to_datetime(end)) {
                // A skipped time ticks when its gap ends.
                return Some(period.offset.to_timestamp(named).ok()?.max(from));
            }
            from = end;
        }
        None
    }

    /// Returns the last tick at `second` or before it, or `None` if there is none within 41 years.
    pub(super) fn at_or_before(&self, second: Timestamp) -> Option<Timestamp> {
        let until = second.checked_sub(SEARCHED).unwrap_or(Timestamp::MIN);
        let mut to = second;
        while to >= until {
            let period = self.period(to);
            let earliest = period.offset.to_datetime(until);
            let first = self.first_local(&period).map_or(earliest, |first| first.max(earliest));
            if let Some(named) = self.last_between(first, period.offset.to_datetime(to)) {
                let tick = period.offset.to_timestamp(named).ok()?;
                return Some(period.begin.map_or(tick, |begin| tick.max(begin)));
            }
            to = period.begin?.checked_sub(SECOND).ok()?;
        }
        None
    }

    /// Returns the period that contains this second.
    fn period(&self, second: Timestamp) -> Period {
        let next = second.checked_add(SECOND).unwrap_or(Timestamp::MAX);
        let begin = self.zone.preceding(next).next().map(|change| change.timestamp());
        let offset = self.zone.to_offset(second);
        let before = begin.and_then(|begin| begin.checked_sub(SECOND).ok());
        Period {
            begin,
            end: self.zone.following(second).next().map(|change| change.timestamp()),
            offset,
            offset_before: before.map_or(offset, |before| self.zone.to_offset(before)),
        }
    }

    /// Returns the first local time whose tick is in this period: with named times, the one that follows the last one of the period before.
    /// So a gap belongs to the period after it, and a repeated time to the period in which the clock shows it first.
    fn first_local(&self, period: &Period) -> Option<DateTime> {
        let offset = if self.named { period.offset_before } else { period.offset };
        period.begin.map(|begin| offset.to_datetime(begin))
    }

    /// Returns the first local time of the pattern from `first` on and before `end`.
    fn first_between(&self, first: DateTime, end: DateTime) -> Option<DateTime> {
        let mut from = first;
        while from < end {
            if !self.month_matches(from.date()) {
                from = from.date().first_of_month().checked_add(1.month()).ok()?.into();
                continue;
            }
            if self.day_matches(from.date())
                && let Some(named) = self.first_in_day(from)
            {
                return (named < end).then_some(named);
            }
            from = from.date().tomorrow().ok()?.into();
        }
        None
    }

    /// Returns the last local time of the pattern from `first` to `last`.
    fn last_between(&self, first: DateTime, last: DateTime) -> Option<DateTime> {
        let end_of = |date: Date| date.at(23, 59, 59, 0);
        let mut to = last;
        while to >= first {
            if !self.month_matches(to.date()) {
                to = end_of(to.date().first_of_month().yesterday().ok()?);
                continue;
            }
            if self.day_matches(to.date())
                && let Some(named) = self.last_in_day(to)
            {
                return (named >= first).then_some(named);
            }
            to = end_of(to.date().yesterday().ok()?);
        }
        None
    }

    /// Returns the first time of the pattern on this day, not before this time.
    fn first_in_day(&self, from: DateTime) -> Option<DateTime> {
        let (date, least) = (from.date(), (from.hour(), from.minute(), from.second()));
        let mut hours = self.hours.iter().filter(|hour| **hour >= least.0);
        hours.find_map(|&hour| {
            let mut minutes = self.minutes.iter().filter(|minute| (hour, **minute) >= (least.0, least.1));
            minutes.find_map(|&minute| {
                let mut seconds = self.seconds.iter();
                let second = seconds.find(|second| (hour, minute, **second) >= least)?;
                Some(date.at(hour, minute, *second, 0))
            })
        })
    }

    /// Returns the last time of the pattern on this day, not after this time.
    fn last_in_day(&self, to: DateTime) -> Option<DateTime> {
        let (date, most) = (to.date(), (to.hour(), to.minute(), to.second()));
        let mut hours = self.hours.iter().rev().filter(|hour| **hour <= most.0);
        hours.find_map(|&hour| {
            let mut minutes = self.minutes.iter().rev().filter(|minute| (hour, **minute) <= (most.0, most.1));
            minutes.find_map(|&minute| {
                let mut seconds = self.seconds.iter().rev();
                let second = seconds.find(|second| (hour, minute, **second) <= most)?;
                Some(date.at(hour, minute, *second, 0))
            })
        })
    }

    fn month_matches(&self, date: Date) -> bool {
        self.days.month_match(u32::from(date.month().unsigned_abs())).unwrap_or(false)
    }

    fn day_matches(&self, date: Date) -> bool {
        let weekday = Weekday::from_days_from_sunday(date.weekday().to_sunday_zero_offset().unsigned_abs().into());
        let (month, day) = (date.month().unsigned_abs().into(), date.day().unsigned_abs().into());
        self.days.day_match(date.year().into(), month, day, weekday).unwrap_or(false)
    }
}
