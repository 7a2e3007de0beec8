//! Times and durations as people type them: RFC 3339, a day, or a duration before or after now.

use std::time::Duration;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};

/// Parses a time in the past: `2h` is two hours ago.
pub(crate) fn past(text: &str) -> Result<DateTime<Utc>, String> {
    parse(text, Utc::now(), -1)
}

/// Parses a time in the future: `2h` is in two hours.
pub(crate) fn future(text: &str) -> Result<DateTime<Utc>, String> {
    parse(text, Utc::now(), 1)
}

/// Parses a duration such as `90s` or `1h 30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text.trim()).map_err(|error| format!("{error}; expected a duration such as 90s or 1h30m"))
}

fn parse(text: &str, now: DateTime<Utc>, direction: i32) -> Result<DateTime<Utc>, String> {
    let text = text.trim();
    if text == "now" {
        return Ok(now);
    }
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Ok(time.with_timezone(&Utc));
    }
    if let Some(midnight) = text.parse::<NaiveDate>().ok().and_then(|day| day.and_hms_opt(0, 0, 0)) {
        return Ok(midnight.and_utc());
    }
    let moved = humantime::parse_duration(text).ok().and_then(|duration| TimeDelta::from_std(duration).ok());
    let moved = moved.and_then(|delta| now.checked_add_signed(delta * direction));
    moved.ok_or_else(|| {
        "expected a time such as 2026-11-21T12:00:00Z, a day such as 2026-11-21, or a duration such as 2h".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_absolute_or_relative_to_now() {
        let now: DateTime<Utc> = "2026-11-21T12:00:00Z".parse().unwrap();
        let read = |text: &str, direction| parse(text, now, direction).map(|time| time.to_rfc3339());
        assert_eq!(read("2026-11-20T01:00:00+01:00", 1).unwrap(), "2026-11-20T00:00:00+00:00");
        assert_eq!(read(" 2026-11-20 ", 1).unwrap(), "2026-11-20T00:00:00+00:00");
        assert_eq!(read("90m", 1).unwrap(), "2026-11-21T13:30:00+00:00");
        assert_eq!(read("1d", -1).unwrap(), "2026-11-20T12:00:00+00:00");
        for wrong in ["", "soon", "-2h", "2026-13-01", "999999999999999y", "99999999999999999999s"] {
            assert!(read(wrong, 1).is_err() && read(wrong, -1).is_err(), "{wrong}");
        }
    }
}
