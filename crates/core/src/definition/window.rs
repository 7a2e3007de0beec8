//! [`SendWindow`]: the column `send_window`, the times of day at which the notices of a definition may be sent. Pure: the
//! caller passes the time.
//!
//! ```text
//! window = entry { ";" entry } [ zone ]           zone: of the IANA list, for all entries; UTC where there is none
//! entry  = [ days ] range { "," range }           every day where none are named
//! days   = day [ "-" day ] { "," day [ "-" day ] }    day: mon tue wed thu fri sat sun
//! range  = HH:MM "-" HH:MM                        up to, but not including, the end; 24:00 is the end of the day
//! ```
//!
//! The window is open when a clock on the wall in that zone shows a time of a range. A skipped hour is therefore never open,
//! and a repeated hour is open both times. A range that ends before it begins continues past midnight, and belongs to the day
//! on which it began.

use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use super::schedule::zone_of;
use crate::notice::{millis_from_time, time_from_millis};

/// How many days to search for the next opening. A range of one weekday may fall into a skipped hour, even a skipped day.
const SEARCHED_DAYS: i32 = 22;
const MIDNIGHT: u16 = 24 * 60;
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

const EXPECTED: &str = "time ranges, optionally after weekdays, and optionally a time zone at the end, such as `01:00-06:00 Asia/Shanghai` or \
     `mon-fri 22:00-06:00; sat,sun 00:00-24:00 Europe/Berlin`";

/// The times at which notices may be sent.
///
/// ```
/// use std::time::Duration;
/// use chrono::DateTime;
/// use solid_notify_core::definition::SendWindow;
/// let window: SendWindow = "mon-fri 22:00-06:00 Asia/Shanghai".parse().unwrap();
/// // 1970 began in Shanghai on a Thursday at eight in the morning.
/// assert_eq!(window.opens(DateTime::UNIX_EPOCH), Some(DateTime::UNIX_EPOCH + Duration::from_secs(14 * 3600)));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SendWindow {
    entries: Vec<Entry>,
    zone: TimeZone,
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    /// Monday first.
    days: [bool; 7],
    /// In minutes of the day.
    ranges: Vec<(u16, u16)>,
}

impl SendWindow {
    /// Returns whether notices may be sent at `time`.
    pub fn is_open(&self, time: DateTime<Utc>) -> bool {
        self.is_open_at(timestamp(time))
    }

    /// Returns when notices may be sent next: `time` itself if the window is open then, `None` if it does not open within three
    /// weeks.
    pub fn opens(&self, time: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let now = timestamp(time);
        if self.is_open_at(now) {
            return Some(time);
        }
        let edges = self.edges(now, 0..=SEARCHED_DAYS);
        let next = edges.into_iter().filter(|edge| *edge > now && self.is_open_at(*edge)).min();
        next.map(|next| time_from_millis(next.as_millisecond()))
    }

    /// Returns how long the window has been open at `time`: zero if it is closed, [`Duration::MAX`] if it never closes.
    pub fn open_for(&self, time: DateTime<Utc>) -> Duration {
        let now = timestamp(time);
        if !self.is_open_at(now) {
            return Duration::ZERO;
        }
        let opened = |edge: &Timestamp| {
            let before = edge.saturating_sub(jiff::SignedDuration::from_millis(1)).unwrap_or(Timestamp::MIN);
            *edge <= now && self.is_open_at(*edge) && !self.is_open_at(before)
        };
        let last = self.edges(now, -SEARCHED_DAYS..=0).into_iter().filter(opened).max();
        last.map_or(Duration::MAX, |edge| now.duration_since(edge).unsigned_abs())
    }

    fn is_open_at(&self, time: Timestamp) -> bool {
        let wall = self.zone.to_datetime(time);
        let minute = u16::from(wall.hour().unsigned_abs()) * 60 + u16::from(wall.minute().unsigned_abs());
        let today = usize::from(wall.weekday().to_monday_zero_offset().unsigned_abs());
        let yesterday = (today + 6) % 7;
        self.entries.iter().any(|Entry { days, ranges }| {
            ranges.iter().any(|(from, to)| {
                if from < to {
                    days[today] && (*from..*to).contains(&minute)
                } else {
                    (days[today] && minute >= *from) || (days[yesterday] && minute < *to)
                }
            })
        })
    }

    /// Returns all times at which it may open, on days counted from that of `now`: each time a clock in the zone shows the
    /// beginning of a range (the first and the second time), and each change of the clocks.
    fn edges(&self, now: Timestamp, days: std::ops::RangeInclusive<i32>) -> Vec<Timestamp> {
        let today = self.zone.to_datetime(now).date();
        let day = |n: i32| today.checked_add(Span::new().days(n)).ok();
        let (first, last) = (day(*days.start()), day(*days.end()));
        let mut edges = Vec::new();
        for date in days.filter_map(day) {
            for (from, _) in self.entries.iter().flat_map(|entry| &entry.ranges) {
                let shown = self.zone.to_ambiguous_timestamp(at_minute(date, *from));
                edges.extend([shown.earlier(), shown.later()].into_iter().flatten());
            }
        }
        let bound = |day: Option<Date>, or| {
            let midnight = day.map(|day| self.zone.to_ambiguous_timestamp(day.at(0, 0, 0, 0)).later());
            midnight.and_then(Result::ok).unwrap_or(or)
        };
        let (first, last) = (bound(first, now), bound(last, now));
        let set = self.zone.following(first).map(|set| set.timestamp()).take_while(|set| *set <= last);
        edges.extend(set);
        edges
    }
}

fn timestamp(time: DateTime<Utc>) -> Timestamp {
    Timestamp::from_millisecond(millis_from_time(time)).unwrap_or(Timestamp::MAX)
}

fn at_minute(date: Date, minute: u16) -> jiff::civil::DateTime {
    let part = |number: u16| i8::try_from(number).unwrap_or(0);
    date.at(part(minute / 60), part(minute % 60), 0, 0)
}

impl FromStr for SendWindow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pieces: Vec<&str> = text.split(';').collect();
        let (mut entries, mut zone) = (Vec::new(), TimeZone::UTC);
        for (nth, piece) in pieces.iter().enumerate() {
            // Weekdays, then times, then the zone. Only the times begin with a digit and contain no letters.
            let times = piece.find(|c: char| c.is_ascii_digit()).ok_or_else(|| wrong(piece, "has no time range"))?;
            let (days, rest) = piece.split_at(times);
            let (times, name) = rest.split_at(rest.find(char::is_alphabetic).unwrap_or(rest.len()));
            if name.contains(':') {
                return Err(wrong(piece, "names weekdays behind a range; they begin with a `;`"));
            }
            if !name.trim().is_empty() {
                if nth + 1 < pieces.len() {
                    return Err(wrong(piece, "has a time zone that is not at the end; there is one, for all ranges"));
                }
                zone = zone_of(name.trim())?;
            }
            entries
                .push(Entry { days: read_days(days)?, ranges: times.split(',').map(range).collect::<Result<_, _>>()? });
        }
        Ok(Self { entries, zone })
    }
}

fn wrong(piece: &str, why: &str) -> String {
    format!("{EXPECTED}; `{}` {why}", piece.trim())
}

fn read_days(text: &str) -> Result<[bool; 7], String> {
    if text.trim().is_empty() {
        return Ok([true; 7]);
    }
    let day = |name: &str| {
        let found = DAYS.iter().position(|day| day.eq_ignore_ascii_case(name.trim()));
        found.ok_or_else(|| wrong(name, "is none of mon, tue, wed, thu, fri, sat, sun"))
    };
    let mut days = [false; 7];
    for piece in text.split(',') {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        let (first, last) = (day(first)?, day(last)?);
        // `sat-mon` continues over the end of the week.
        let length = (last + 7 - first) % 7;
        (0..=length).for_each(|n| days[(first + n) % 7] = true);
    }
    Ok(days)
}

fn range(text: &str) -> Result<(u16, u16), String> {
    let (from, to) = text.split_once('-').ok_or_else(|| wrong(text, "is no range such as `22:00-06:00`"))?;
    let (from, to) = (minute(from)?, minute(to)?);
    match (from, to) {
        (MIDNIGHT, _) => Err(wrong(text, "begins at the end of the day")),
        (from, to) if from == to => Err(wrong(text, "is empty; the whole day is 00:00-24:00")),
        range => Ok(range),
    }
}

/// Parses a time of the day into minutes, up to 24:00.
fn minute(text: &str) -> Result<u16, String> {
    let text = text.trim();
    let number = |part: &str, most: u16| {
        let digits = (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse().ok()).flatten().filter(|number: &u16| *number <= most)
    };
    let parts = text.split_once(':').filter(|(_, minute)| minute.len() == 2);
    let minutes = parts.and_then(|(hour, minute)| Some(number(hour, 24)? * 60 + number(minute, 59)?));
    minutes.filter(|minutes| *minutes <= MIDNIGHT).ok_or_else(|| wrong(text, "is no time from 00:00 to 24:00"))
}
