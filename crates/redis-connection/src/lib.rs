//! The connection to Redis that the timed tasks and the Redis store of solid-notify share: one server or a cluster, reconnecting by
//! itself, and the scripts that run over it.
//!
//! It knows neither tasks nor notices. What scripts do belongs to the crates `solid-notify-timed` and `solid-notify-redis`; only
//! the protocol of a claim, which is the same in both, is here ([`script::CLAIMING`]). The client crate is `redis`; only its error
//! type is part of this crate's interface.

mod connection;
mod error;
mod line;
mod masters;
mod resolve;
#[doc(hidden)]
pub mod script;

/// The greatest score that scripts compute with, in milliseconds. A score is a double, which stores whole numbers exactly up to
/// 2^53; half of that leaves room for the sum of a time and a duration.
#[doc(hidden)]
pub const MAX_SCORE: i64 = 1 << 52;

pub use connection::{Redis, RedisBuilder};
pub use error::{Error, Result};
pub use redis::RedisError;
#[doc(hidden)]
pub use resolve::Resolve;
