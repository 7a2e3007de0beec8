//! [`Settling`]: the settle loop's end of the queue. It gathers outcomes for a batch.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::Outcome;
use super::pending::{BATCH, Batch, Pending};

/// The pause between two batches, if the second one is not full: a single outcome is written at once, and under load one
/// transaction settles many.
const PACE: Duration = Duration::from_millis(30);
/// The same pause if a producer, or the next notice of an ordering key, waits for an outcome.
const URGENT_PACE: Duration = Duration::from_millis(1);

/// The settle loop's end of the queue.
pub(super) struct Settling {
    pub(super) receiver: mpsc::UnboundedReceiver<Outcome>,
    /// Received but not judged.
    pub(super) fresh: Vec<Outcome>,
    /// Judged but not written.
    pub(super) pending: Pending,
    /// The batch that is being written. If it was written before a panic, the store reports that on the next try.
    pub(super) in_hand: Option<Batch>,
}

impl Settling {
    pub(super) fn new(receiver: mpsc::UnboundedReceiver<Outcome>) -> Self {
        Self { receiver, fresh: Vec::new(), pending: Pending::default(), in_hand: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.pending.is_empty()
    }

    /// Gathers more outcomes for a batch that is not full, until the pace allows to write it. It does not wake for each
    /// outcome, because under load that costs more than the outcome itself.
    pub(super) async fn gather(&mut self, urgency: &Urgency, last: Instant) {
        let mut pace = PACE;
        loop {
            while self.fresh.len() < BATCH
                && let Ok(outcome) = self.receiver.try_recv()
            {
                self.fresh.push(outcome);
            }
            if urgency.take() {
                pace = URGENT_PACE;
            }
            if self.fresh.len() >= BATCH || self.receiver.is_closed() || last + pace <= Instant::now() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(last + pace) => {}
                () = urgency.hurried() => {}
            }
        }
    }
}

/// What ends the gathering early.
#[derive(Default)]
pub(super) struct Urgency {
    /// A producer or an ordering key waits for an outcome that was pushed.
    urgent: AtomicBool,
    /// Notified of outcomes that must not wait for the pace of the settle loop.
    hurry: Notify,
}

impl Urgency {
    /// Records an outcome that a producer or an ordering key waits for.
    pub(super) fn urge(&self) {
        self.urgent.store(true, Ordering::Relaxed);
        self.hurry();
    }

    /// Lets the settle loop look at what was pushed.
    pub(super) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Returns true, once, if an urgent outcome was pushed.
    fn take(&self) -> bool {
        self.urgent.swap(false, Ordering::Relaxed)
    }

    /// Completes when outcomes were pushed that must not wait for the pace of the settle loop.
    async fn hurried(&self) {
        self.hurry.notified().await;
    }
}
