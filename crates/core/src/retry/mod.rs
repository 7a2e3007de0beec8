//! How long to wait before each retry: the language of the `retry_interval` column.
//!
//! This module parses the text that a person wrote into a [`RetryInterval`], and computes delays from a [`RetryInterval`]. It
//! is pure: the caller passes the random number for the jitter and the functions behind `strategy:name`. Deciding *whether* to
//! retry, storing the due time and registering strategies are left to other modules.
#![doc = include_str!("interval.md")]

pub(crate) mod duration;
mod error;
mod expression;
mod interval;
mod parse;
mod piece;

pub use duration::{MAX_DELAY, MIN_DELAY, read as read_duration};
pub use error::IntervalError;
pub use interval::{DEFAULT_INTERVAL, DEFAULT_RETRIES, RetryInterval};

#[cfg(test)]
mod tests;
