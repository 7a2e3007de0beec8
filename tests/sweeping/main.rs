//! Sweepers: what they promise on every store, also over stores that fail, several of them at once, what operators see, and the ready
//! handlers of alerts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ack_http;
#[cfg(all(services, any(mariadb, mysql, postgres, sqlite)))]
mod any_language;
mod channels;
mod crash_loops;
mod faulty_store;
mod lost_answers;
mod memory_outbox;
mod observing;
mod operating;
mod receivers;
mod sending;
mod stubborn_store;
mod ten_sweepers;
mod unread_definitions;
