//! Tools for tests with solid-notify: an in-memory store ([`MemoryOutbox`]), a hand-turned clock ([`HandClock`]), and an
//! assertion on added notices ([`assert_added`]).
//!
//! The memory store keeps every promise of a store except durability, so tests of an application's own logic need no
//! database.

mod expect;
mod memory;
mod memory_tx;

pub use expect::{Expectation, assert_added};
pub use memory_tx::{MemoryOutbox, MemoryOutboxBuilder, MemoryTx};
pub use solid_notify_core::HandClock;
