//! Timed tasks on Redis: a delayed queue with leases, for programs that need neither notices, definitions nor sweepers.
//!
//! [`TimedTasks`] adds, claims and settles tasks, and [`TimedTasks::run`] calls a handler for each due task. What a task means is left
//! to the handler, and the connection to the crate
//! `solid-notify-redis-connection`.

mod attempt;
mod error;
mod failure;
mod import;
mod looking;
mod model;
mod names;
mod news;
mod run;
mod scripts;
mod tasks;

pub use error::{Error, Result};
pub use failure::{TaskFailure, TaskResult};
pub use import::{Imported, NotImported};
pub use model::{
    ClaimedTask, Damaged, DeadTask, Due, Rescheduled, Task, TaskCounts, TaskLease, TaskOutcome, TaskSettled, When,
};
pub use run::{TaskRun, TaskRunner, TaskTally};
pub use solid_notify_redis_connection::{Error as ConnectionError, Redis, RedisBuilder, RedisError};
pub use tasks::TimedTasks;
