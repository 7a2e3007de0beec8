//! Observing: metrics, spans, the snapshot, and the documents that name them.
//!
//! Recorders and subscribers are those of the thread, so each test has its own; its runtime has one thread.

mod documents;
mod gauges;
mod metrics;
pub mod recorded;
mod snapshot;
mod spans;
