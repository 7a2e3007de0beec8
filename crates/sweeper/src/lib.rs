//! The part of solid-notify that a process which *sends* notices needs: handlers, the first-send lane, the sweeper,
//! settling, timetables and housekeeping.
//!
//! What happens to a notice is decided in `solid-notify-core` (`transition`), what a database is asked in its stores;
//! this crate only moves notices between the two. Users name the crate `solid-notify`.

mod alerts;
mod builder;
mod classify;
mod conditions;
mod counts;
mod definitions;
mod first_send;
mod handler;
mod health;
mod housekeeping;
mod lease;
mod limited;
mod maintenance;
mod meters;
mod outcome;
mod overdue;
mod run;
mod settle;
mod slots;
mod span;
mod successor;
mod supervise;
mod sweep;
mod sweeper;
#[cfg(feature = "testkit")]
pub mod testing;
mod timetable;
mod versions;
mod worker;

pub use builder::{StartError, SweeperBuilder};
pub use classify::HttpStatus;
pub use handler::{Done, Failure, Handler, HandlerResult, Notice};
pub use sweeper::{Sweeper, Tally};
