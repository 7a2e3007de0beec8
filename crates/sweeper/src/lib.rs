//! The part of solid-notify that a process which *sends* notices needs: handlers, dispatch, the sweeper, settling,
//! timetables and housekeeping.
//!
//! `solid-notify-core` decides what happens to a notice (`transition`), and its stores send the statements; this crate only
//! moves notices between the two. Users name the crate `solid-notify`.
//!
//! A notice goes through three folders: `claiming/` (which notices, and when), `running/` (one attempt), `settling/` (its
//! outcome). `background/` has the loops beside that path. `worker.rs` is what all of them share.

mod alerts;
mod background;
mod builder;
mod circuits;
mod claiming;
mod definitions;
mod handlers;
mod hiding;
mod meters;
mod monitor;
mod reading;
mod refusals;
mod room;
mod running;
mod series;
mod settling;
mod signals;
mod sleep;
mod slots;
#[cfg(test)]
mod subscribed;
mod supervise;
mod sweeper;
#[cfg(feature = "testkit")]
pub mod testing;
mod worker;

pub use builder::{OutboxExt, StartError, SweeperBuilder};
pub use handlers::batch::{Batch, BatchResult};
pub use handlers::classify::HttpStatus;
#[doc(hidden)]
pub use handlers::classify::class_by_type;
pub use handlers::handler::{Failure, Handler, HandlerResult, Notice};
pub use monitor::{SweeperHealth, SweeperMonitor};
pub use solid_notify_core::Response;
pub use sweeper::{Sweeper, Tally};
