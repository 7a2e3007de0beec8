//! The part of solid-notify that a process which *sends* notices needs: handlers, the first-send lane, the sweeper,
//! settling and maintenance.
//!
//! What happens to a notice is decided in `solid-notify-core` (`transition`), what a database is asked in its stores;
//! this crate only moves notices between the two. Users name the crate `solid-notify`.

mod builder;
mod definitions;
mod first_send;
mod handler;
mod health;
mod lease;
mod maintenance;
mod outcome;
mod run;
mod settle;
mod slots;
mod successor;
mod supervise;
mod sweep;
mod sweeper;
mod worker;

pub use builder::{StartError, SweeperBuilder};
pub use handler::{Done, Failure, Handler, HandlerResult, Notice};
pub use sweeper::{Stopped, Sweeper};
