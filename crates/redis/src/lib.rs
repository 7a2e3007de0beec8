//! Timed tasks on Redis, and the store of solid-notify for work that needs no database transaction.
//!
//! [`TimedTasks`] is a delayed queue with leases that stands by itself. Handlers, definitions and sweepers are left to the other
//! crates; they use what is here through their `Store` trait.

mod connection;
mod error;
mod line;
mod notify;
mod store;
mod tasks;

pub use connection::{Redis, RedisBuilder};
pub use error::{Error, Result};
pub use notify::{RedisBatch, RedisNotify};
pub use redis::RedisError;
pub use tasks::{
    Claimed, Counts, Damaged, DeadTask, Due, Lease, Outcome, Rescheduled, Settled, Task, TimedTasks, When,
};
