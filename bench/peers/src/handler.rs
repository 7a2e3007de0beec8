//! The message that every peer sends, and the handler, which does nothing but count.
//!
//! A process measures one workload once, so the counts are of the process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use riverqueue::JobArgs;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

/// A parameter of about sixty bytes of JSON, the same as that of `bench`.
#[derive(Clone, Debug, Deserialize, JobArgs, Serialize)]
#[river(kind = "bench")]
pub struct Parameter {
    order: i64,
    state: String,
    customer: i64,
    sum: String,
}

impl Parameter {
    /// Returns the parameter of an order.
    pub fn new(order: i64) -> Self {
        Self { order, state: "booked".to_owned(), customer: 4711, sum: "129.90".to_owned() }
    }
}

static HANDLED: AtomicUsize = AtomicUsize::new(0);
static ENTERED: OnceLock<mpsc::UnboundedSender<Instant>> = OnceLock::new();

/// Does nothing with the parameter, which the peer has read.
pub fn handle(parameter: &Parameter) {
    if let Some(entered) = ENTERED.get() {
        // The receiver lives as long as the measurement.
        let _ = entered.send(Instant::now());
    }
    std::hint::black_box(parameter);
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Returns how many messages were handled.
pub fn handled() -> usize {
    HANDLED.load(Ordering::Relaxed)
}

/// Returns a channel with the times at which the handler is entered.
pub fn entered() -> mpsc::UnboundedReceiver<Instant> {
    let (sender, receiver) = mpsc::unbounded_channel();
    // The first call sets it; a process measures one workload.
    let _ = ENTERED.set(sender);
    receiver
}
