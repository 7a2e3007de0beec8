//! For tests with solid-notify: an in-memory store ([`MemoryNotify`]), a hand-turned clock ([`HandClock`]), and the
//! [`conformance`] suite that every store must pass.
//!
//! The memory store keeps every promise of a store but durability, so tests of an application's own logic need no
//! database.

pub mod conformance;
mod memory;
mod memory_tx;

pub use memory_tx::{MemoryNotify, MemoryTx};
pub use solid_notify_core::HandClock;
