//! The part of solid-notify that a process which *sends* notices needs: handlers, dispatch, the sweeper, settling,
//! timetables and housekeeping.
//!
//! `solid-notify-core` decides what happens to a notice (`transition`), and its stores send the statements; this crate only
//! moves notices between the two. Users name the crate `solid-notify`.

mod alerts;
mod builder;
mod classify;
mod conditions;
mod counts;
mod definitions;
mod first_send;
mod handler;
mod health;
mod held_up;
mod housekeeping;
mod lease;
mod limited;
mod maintenance;
mod meters;
mod node_id;
mod outcome;
mod overdue;
mod pending;
mod recipients;
mod run;
mod settle;
mod settled;
mod slots;
mod span;
mod store_clock;
mod successor;
mod supervise;
mod sweep;
mod sweeper;
mod sweeping;
#[cfg(feature = "testkit")]
pub mod testing;
mod timetable;
mod versions;
mod worker;

pub use builder::{StartError, SweeperBuilder};
pub use classify::HttpStatus;
#[doc(hidden)]
pub use classify::class_by_type;
pub use handler::{Failure, Handler, HandlerResult, Notice};
pub use sweeper::{OutboxExt, Sweeper, Tally};
