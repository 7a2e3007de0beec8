//! Timed tasks on Redis, and the store of solid-notify for work that needs no database transaction.
//!
//! [`TimedTasks`] is a delayed queue with leases that can be used alone. Handlers, definitions and sweepers are in the other
//! crates; they use this one through their `Store` trait.

mod connection;
mod error;
mod line;
mod outbox;
mod store;
mod tasks;

/// The greatest score that scripts compute with, in milliseconds. A score is a double, which stores whole numbers exactly up to
/// 2^53; half of that leaves room for the sum of a time and a duration.
const MAX_SCORE: i64 = 1 << 52;

pub use connection::{Redis, RedisBuilder};
pub use error::{Error, Result};
pub use outbox::{RedisBatch, RedisOutbox, RedisOutboxBuilder};
pub use redis::RedisError;
pub use tasks::{
    ClaimedTask, Damaged, DeadTask, Due, Rescheduled, Task, TaskCounts, TaskLease, TaskOutcome, TaskSettled,
    TimedTasks, When,
};
