//! How long to wait before each retry: the language of the `retry_interval` column.
//!
//! This module turns the text that a person wrote into a [`RetryInterval`] and a [`RetryInterval`] into delays. It is
//! pure: the random number for the jitter and the functions behind `strategy:name` are handed in. Deciding *whether* to
//! retry, storing the due time and registering strategies are left to others.
#![doc = include_str!("interval.md")]

pub(crate) mod duration;
mod error;
mod expression;
mod interval;
mod parse;
mod piece;

pub use duration::{MAX_DELAY, MIN_DELAY};
pub use error::IntervalError;
pub use interval::{DEFAULT_RETRIES, RetryInterval};

#[cfg(test)]
mod tests;
