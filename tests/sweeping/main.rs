//! Sweepers over stores that fail, several of them at once, and what operators see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod beats;
mod blocked;
mod bulk_pace;
mod crash_loops;
mod faulty_store;
mod lost_answers;
mod memory_outbox;
mod observing;
mod operating;
mod room;
mod stubborn_store;
mod ten_sweepers;
mod true_health;
mod unread_definitions;
mod virtual_time;
