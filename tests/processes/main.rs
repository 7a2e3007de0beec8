//! Processes and servers that are killed, frozen or restarted, and all faults at once: heavy tests, each with programs of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod faults;
mod killed;
mod restarts;
