//! Durations as people write them: `250ms`, `5s`, `1h 30m`, `1d`.
//!
//! The units and their values are those of the `humantime` crate. This file adds the bounds, whole milliseconds, and places for
//! errors. It does not handle the forms of a retry interval.

use std::fmt;
use std::time::Duration;

use super::error::IntervalError;
use super::piece::Piece;

/// The shortest delay. Zero is not allowed, because a failing handler would be called in a loop without a pause.
pub const MIN_DELAY: Duration = Duration::from_millis(1);

/// The longest delay, ten years of 365.25 days. Greater results are reduced to it, so that no due time can overflow.
pub const MAX_DELAY: Duration = Duration::from_secs(10 * 31_557_600);
/// A wait without end.
pub const FOREVER: Duration = Duration::MAX;

pub(crate) const EXPECTED: &str = "a duration such as `5s` or `1h 30m`";

/// Parses a text that is one duration of whole milliseconds from [`MIN_DELAY`] to [`MAX_DELAY`]. The error says what was
/// expected.
///
/// # Errors
/// What was expected instead.
pub fn read(text: &str) -> Result<Duration, String> {
    parse(Piece::new(text)).map_err(|error| match error {
        IntervalError::Malformed { expected, .. } => expected,
        other => other.to_string(),
    })
}

/// Parses a duration of whole milliseconds from [`MIN_DELAY`] to [`MAX_DELAY`].
pub(super) fn parse(piece: Piece<'_>) -> Result<Duration, IntervalError> {
    let mut rest = piece.trim();
    if rest.is_empty() {
        return Err(rest.error(0, EXPECTED));
    }
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        // One number with its unit at a time, because humantime by itself reads `1 0s` as ten seconds and panics on
        // `18446744073709551615s 1000ms`.
        let (number, behind) = rest.take_while(|c| c.is_ascii_digit() || c == '.');
        let (unit, behind) = behind.trim().take_while(char::is_alphabetic);
        if number.is_empty() {
            return Err(rest.error(0, EXPECTED));
        }
        if unit.is_empty() {
            // A zero is no valid duration in most places.
            let example = if number.as_str() == "0" { "1" } else { number.as_str() };
            let expected = format!("a unit behind `{}`, such as `{example}s`", number.as_str());
            return Err(rest.error(0, expected));
        }
        let part = humantime::parse_duration(&format!("{}{}", number.as_str(), unit.as_str()));
        sum = match part {
            Ok(part) => sum.saturating_add(part),
            // Humantime has one error for too precise and too great, but only a fraction can be too precise.
            Err(humantime::DurationError::NumberOverflow) if number.as_str().contains('.') => {
                return Err(rest.error(0, "whole milliseconds"));
            }
            Err(humantime::DurationError::NumberOverflow) => Duration::MAX,
            Err(_) => return Err(rest.error(0, EXPECTED)),
        };
        rest = behind.trim();
    }
    if sum > MAX_DELAY {
        return Err(piece.trim().error(0, "a duration of at most 10 years"));
    }
    if sum < MIN_DELAY {
        return Err(piece.trim().error(0, "a duration of at least 1ms"));
    }
    if !sum.subsec_nanos().is_multiple_of(1_000_000) {
        return Err(piece.trim().error(0, "whole milliseconds"));
    }
    Ok(sum)
}

/// Formats a duration of whole milliseconds so that [`parse`] returns the same one.
///
/// Humantime's own format has months and years, and would turn `90d` into `2months 29days 2h 52m 48s`.
pub(super) struct Written(pub Duration);

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let units = [
            (seconds / 86_400, "d"),
            (seconds / 3_600 % 24, "h"),
            (seconds / 60 % 60, "m"),
            (seconds % 60, "s"),
            (u64::from(self.0.subsec_millis()), "ms"),
        ];
        let mut gap = "";
        for (count, unit) in units.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "{gap}{count}{unit}")?;
            gap = " ";
        }
        // Only a duration that no interval can contain has no unit left.
        if gap.is_empty() { f.write_str("0s") } else { Ok(()) }
    }
}

/// Converts a computed number of milliseconds to a delay, rounded to whole ones; `None` if it is not a number or too short.
pub(super) fn from_millis(millis: f64) -> Option<Duration> {
    if millis.is_nan() || millis < MIN_DELAY.as_millis() as f64 {
        return None;
    }
    // The conversion saturates, also for infinity.
    Some(Duration::from_millis(millis.round() as u64).min(MAX_DELAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, millis, written) in [
            ("250ms", 250, "250ms"),
            ("5s", 5_000, "5s"),
            ("1.5s", 1_500, "1s 500ms"),
            ("90 m", 5_400_000, "1h 30m"),
            ("1h30m", 5_400_000, "1h 30m"),
            (" 1 hour  30 minutes ", 5_400_000, "1h 30m"),
            ("30m 1h", 5_400_000, "1h 30m"),
            ("90d", 7_776_000_000, "90d"),
            ("2w", 1_209_600_000, "14d"),
            ("5000us", 5, "5ms"),
            ("10y", 315_576_000_000, "3652d 12h"),
        ] {
            let duration = parse(Piece::new(text));
            assert_eq!(duration, Ok(Duration::from_millis(millis)), "{text}");
            assert_eq!(Written(Duration::from_millis(millis)).to_string(), written);
        }
    }

    #[test]
    fn wrong_durations_are_refused_at_their_place() {
        for (text, at, wanted) in [
            ("", 0, EXPECTED),
            ("s", 0, EXPECTED),
            ("5x", 0, EXPECTED),
            ("1h 5x", 3, EXPECTED),
            ("1h,", 2, EXPECTED),
            ("1.2.3s", 0, EXPECTED),
            ("5", 0, "a unit behind `5`, such as `5s`"),
            ("0", 0, "a unit behind `0`, such as `1s`"),
            ("1h 30", 3, "a unit behind `30`, such as `30s`"),
            ("1 0s", 0, "a unit behind `1`, such as `1s`"),
            ("0s", 0, "a duration of at least 1ms"),
            ("0.5ms", 0, "a duration of at least 1ms"),
            ("1ms 1ns", 0, "whole milliseconds"),
            ("0.1ns", 0, "whole milliseconds"),
            ("11y", 0, "a duration of at most 10 years"),
            ("99999999999999999999y", 0, "a duration of at most 10 years"),
            ("18446744073709551615s 1000ms", 0, "a duration of at most 10 years"),
        ] {
            assert_eq!(parse(Piece::new(text)), Err(Piece::new(text).error(at, wanted)), "{text}");
        }
    }

    #[test]
    fn computed_delays_stay_within_the_bounds() {
        assert_eq!(from_millis(1.4), Some(MIN_DELAY));
        assert_eq!(from_millis(f64::INFINITY), Some(MAX_DELAY));
        for nothing in [f64::NAN, f64::NEG_INFINITY, -1.0, 0.0, 0.99] {
            assert_eq!(from_millis(nothing), None);
        }
    }
}
