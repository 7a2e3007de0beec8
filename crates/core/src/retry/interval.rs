//! The retry interval itself: its delays, its default number of retries and its canonical text.
//!
//! Parsing the text is left to `parse`, and evaluating expressions to `expression`.

use std::fmt;
use std::time::Duration;

use super::duration::{MAX_DELAY, MIN_DELAY, Written};
use super::expression::Expression;

/// The interval of a definition that has none of its own.
pub const DEFAULT_INTERVAL: &str = "[5s,5m,1h,1d] ~10%";

/// The number of retries if neither `max_retry_times` nor the length of a list determines it.
pub const DEFAULT_RETRIES: u32 = 3;

/// How long to wait before each retry, as written in the `retry_interval` column.
///
/// It is parsed with [`FromStr`](std::str::FromStr) and printed canonically with [`Display`](fmt::Display); parsing the printed text returns an
/// equal value. Two expressions are equal if their texts are.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryInterval {
    pub(super) form: Form,
    /// The maximum jitter added to a delay, in percent: above 0, at most 100.
    pub(super) jitter: Option<f64>,
}

/// The five forms of an interval. All durations are between [`MIN_DELAY`] and [`MAX_DELAY`].
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Form {
    Fixed(Duration),
    /// One to [`super::parse::MAX_ENTRIES`] delays.
    List(Vec<Duration>),
    /// `factor` is finite and at least 1, `max` at least `base`.
    Exponential {
        base: Duration,
        factor: f64,
        max: Duration,
    },
    Expression(Expression),
    Strategy(String),
}

impl RetryInterval {
    /// Returns the number of retries if `max_retry_times` is not set: the length of a list, otherwise [`DEFAULT_RETRIES`].
    pub fn default_retries(&self) -> u32 {
        match &self.form {
            Form::List(delays) => u32::try_from(delays.len()).unwrap_or(u32::MAX),
            _ => DEFAULT_RETRIES,
        }
    }

    /// Returns the name after `strategy:`, for which [`delay`](Self::delay) needs a function.
    pub fn strategy(&self) -> Option<&str> {
        match &self.form {
            Form::Strategy(name) => Some(name),
            _ => None,
        }
    }

    /// Returns the delay before retry `n`, counted from 1; 0 counts as 1.
    ///
    /// * `cap` is `max_retry_interval`: no delay of any form is longer. The jitter comes on top.
    /// * `unit` is a random number from 0 up to, but not including, 1. It scales the jitter; NaN is taken for 0.
    /// * `strategy` is the function behind `strategy:name`. It is not called for other forms.
    ///
    /// Before the cap, results (of strategies, too) are limited to at least [`MIN_DELAY`] and at most [`MAX_DELAY`]. A cap
    /// below [`MIN_DELAY`] applies as well.
    pub fn delay(&self, n: u32, cap: Option<Duration>, unit: f64, strategy: &dyn Fn(u32) -> Duration) -> Duration {
        let n = n.max(1);
        let delay = match &self.form {
            Form::Fixed(delay) => *delay,
            Form::List(delays) => {
                let index = usize::try_from(n - 1).unwrap_or(usize::MAX);
                delays.get(index).or(delays.last()).copied().unwrap_or(MAX_DELAY)
            }
            Form::Exponential { base, factor, max } => exponential(*base, *factor, *max, n),
            Form::Expression(expression) => expression.delay(n),
            Form::Strategy(_) => strategy(n),
        };
        let delay = delay.clamp(MIN_DELAY, MAX_DELAY);
        let delay = cap.map_or(delay, |cap| delay.min(cap));
        delay + self.jitter_of(delay, unit)
    }

    fn jitter_of(&self, delay: Duration, unit: f64) -> Duration {
        let Some(percent) = self.jitter else {
            return Duration::ZERO;
        };
        let unit = if unit.is_nan() { 0.0 } else { unit.clamp(0.0, 1.0) };
        // A delay of ten years has 3.2e17 nanoseconds, so the sum with its jitter is far from any overflow.
        Duration::from_nanos((delay.as_nanos() as f64 * (percent / 100.0) * unit) as u64)
    }
}

/// Returns `base * factor^(n-1)`, at most `max`, rounded to whole milliseconds.
fn exponential(base: Duration, factor: f64, max: Duration, n: u32) -> Duration {
    // A power too great for a float is infinite, and the minimum then returns `max`.
    let millis = base.as_millis() as f64 * factor.powf(f64::from(n - 1));
    Duration::from_millis(millis.min(max.as_millis() as f64).round() as u64)
}

impl fmt::Display for RetryInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.form {
            Form::Fixed(delay) => write!(f, "{}", Written(*delay))?,
            Form::List(delays) => {
                let delays: Vec<_> = delays.iter().map(|delay| Written(*delay).to_string()).collect();
                write!(f, "[{}]", delays.join(","))?;
            }
            Form::Exponential { base, factor, max } => {
                write!(f, "exp({}, x{factor}, max {})", Written(*base), Written(*max))?;
            }
            Form::Expression(expression) => write!(f, "= {}", expression.as_str())?,
            Form::Strategy(name) => write!(f, "strategy:{name}")?,
        }
        match self.jitter {
            Some(percent) => write!(f, " ~{percent}%"),
            None => Ok(()),
        }
    }
}
