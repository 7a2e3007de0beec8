//! Timed tasks on Redis: a delayed queue with leases, for programs that need neither notices, definitions nor sweepers.
//!
//! [`TimedTasks`] adds, claims and settles tasks. What a task means is left to the consumers, and the connection to the crate
//! `solid-notify-redis-connection`.

mod error;
mod model;
mod scripts;
mod tasks;

pub use error::{Error, Result};
pub use model::{
    ClaimedTask, Damaged, DeadTask, Due, Rescheduled, Task, TaskCounts, TaskLease, TaskOutcome, TaskSettled, When,
};
pub use solid_notify_redis_connection::{Error as ConnectionError, Redis, RedisBuilder, RedisError};
pub use tasks::TimedTasks;
