//! [`Rate`]: a number per period: of attempts that `rate_limit` allows, or of notices that a bulk retry makes due.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::retry::duration;

/// A number of notices per period: `100/1m`, `5` (per second), or all at once.
///
/// ```
/// # use std::time::Duration;
/// use solid_notify_core::operate::Rate;
///
/// let rate: Rate = "100/1m".parse()?;
/// assert_eq!(rate.offset(50), Duration::from_secs(30));
/// assert_eq!(Rate::per_second(5).offset(10), Duration::from_secs(2));
/// assert_eq!(Rate::AT_ONCE.offset(1_000_000), Duration::ZERO);
/// assert!("0/1m".parse::<Rate>().is_err());
/// # Ok::<(), solid_notify_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    count: u32,
    per: Duration,
}

/// The text of [`Rate::AT_ONCE`].
const AT_ONCE: &str = "at once";

impl Rate {
    /// Not spread: all are due at once, and the sweepers' `max_concurrency` is the only limit.
    pub const AT_ONCE: Rate = Rate { count: 1, per: Duration::ZERO };

    /// Creates a rate per second; zero counts as one.
    pub fn per_second(count: u32) -> Self {
        Self { count: count.max(1), per: Duration::from_secs(1) }
    }

    /// Returns the number per period.
    pub(crate) fn count(self) -> u32 {
        self.count
    }

    /// Returns the period.
    pub(crate) fn per(self) -> Duration {
        self.per
    }

    /// Returns how many notices are due within `time` after the first one, which is one of them.
    pub(crate) fn within(self, time: Duration) -> usize {
        let all = time.as_millis().saturating_mul(u128::from(self.count)).checked_div(self.per.as_millis());
        all.map_or(usize::MAX, |all| usize::try_from(all).unwrap_or(usize::MAX).saturating_add(1))
    }

    /// Returns how long after the first notice number `n` is due, counted from 0.
    pub fn offset(&self, n: u64) -> Duration {
        let millis = u128::from(n).saturating_mul(self.per.as_millis()) / u128::from(self.count);
        Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)).min(crate::retry::MAX_DELAY)
    }
}

impl serde::Serialize for Rate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Rate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for Rate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |problem: &str| Error::Invalid { what: "rate", problem: format!("{text:?}: {problem}") };
        if text.trim() == AT_ONCE {
            return Ok(Self::AT_ONCE);
        }
        let (count, per) = match text.split_once('/') {
            Some((count, per)) => (count, duration::read(per.trim()).map_err(|error| wrong(&error.to_string()))?),
            None => (text, Duration::from_secs(1)),
        };
        match count.trim().parse::<u32>() {
            Ok(count) if count > 0 => Ok(Self { count, per }),
            _ => Err(wrong(
                "expected a number of at least 1, optionally with a period: `100/1m`, `5` (per second), or `at once`",
            )),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.per.is_zero() {
            true => f.write_str(AT_ONCE),
            false => write!(f, "{}/{}", self.count, humantime::format_duration(self.per)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_says_what_is_wrong_with_it() {
        for wrong in ["", "0", "-1/1s", "1/0s", "1/soon", "many/1m"] {
            let error = wrong.parse::<Rate>().unwrap_err().to_string();
            assert!(error.starts_with("rate"), "{error}");
        }
        assert_eq!("100/1m".parse::<Rate>().unwrap().to_string(), "100/1m");
        assert_eq!(Rate::per_second(3).to_string(), "3/1s");
        assert_eq!(Rate::AT_ONCE.to_string().parse::<Rate>().unwrap(), Rate::AT_ONCE);
    }

    #[test]
    fn the_spread_is_even_and_never_overflows() {
        let rate: Rate = "3/1s".parse().unwrap();
        let offsets: Vec<u128> = (0..4).map(|n| rate.offset(n).as_millis()).collect();
        assert_eq!(offsets, [0, 333, 666, 1000]);
        let within = |rate: Rate, seconds| rate.within(Duration::from_secs(seconds));
        assert_eq!((within(rate, 0), within(rate, 1), within(Rate::AT_ONCE, 0)), (1, 4, usize::MAX));
        assert_eq!("1/10y".parse::<Rate>().map(|rate| rate.offset(u64::MAX)).unwrap(), crate::retry::MAX_DELAY);
    }
}
