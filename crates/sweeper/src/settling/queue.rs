//! [`OutcomeQueue`]: the outcomes of this node on their way to the store, and [`Settling`], the settle loop's end of the queue, which
//! gathers outcomes for a batch.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use metrics::Histogram;
use parking_lot::Mutex;
use solid_notify_core::built_in::is_built_in;
use solid_notify_core::metrics::SETTLE_BATCH as BATCH_SIZE;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::pending::{Batch, Decided, Outcome, Pending, SETTLE_BATCH};
use crate::series::Series;

/// The pause between two batches, if the second one is not full: a single outcome is written at once, and under load one
/// transaction settles many.
const PACE: Duration = Duration::from_millis(30);
/// The same pause if a producer, or the next notice of an ordering key, waits for an outcome.
const URGENT_PACE: Duration = Duration::from_millis(1);

/// The outcomes on their way to the store. Attempts push them, and the settle loop takes them.
///
/// Each outcome is counted from its push until the settle loop removes it: as unsettled, or, once the store did not accept it
/// although it answers, as delayed for its definition. No outcome is lost: the loop's end of the queue outlives the loop.
pub(crate) struct OutcomeQueue {
    /// `None` once the sweeper accepts no more outcomes.
    sender: Mutex<Option<mpsc::UnboundedSender<Outcome>>>,
    /// The settle loop's end. A loop that is restarted after a panic continues with it.
    settling: tokio::sync::Mutex<Settling>,
    /// The number of outcomes that are not stored yet, without those that are delayed.
    unsettled: AtomicUsize,
    /// By definition: the number of outcomes that could not be stored although the store answers.
    delayed: Mutex<HashMap<i64, usize>>,
    urgency: Urgency,
    totals: Totals,
    /// Counts of outcomes by minute.
    pub(crate) series: Series,
    batch_sizes: Histogram,
}

/// Totals of stored outcomes since the start.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) succeeded: AtomicU64,
    pub(crate) awaiting_ack: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) dead: AtomicU64,
}

impl OutcomeQueue {
    pub(crate) fn new(series: Series) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self {
            sender: Mutex::new(Some(sender)),
            settling: tokio::sync::Mutex::new(Settling::new(receiver)),
            unsettled: AtomicUsize::new(0),
            delayed: Mutex::default(),
            urgency: Urgency::default(),
            totals: Totals::default(),
            series,
            batch_sizes: metrics::histogram!(BATCH_SIZE),
        }
    }

    /// Passes an outcome on to the settle loop.
    pub(crate) fn push(&self, outcome: Outcome, is_urgent: bool) {
        let count = self.unsettled.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(sender) = &*self.sender.lock() {
            // The settle loop ends only after `close`.
            let _ = sender.send(outcome);
        }
        if is_urgent {
            self.urgency.urge();
        } else if count.is_multiple_of(SETTLE_BATCH) {
            self.urgency.hurry();
        }
    }

    /// Accepts no more outcomes: the settle loop ends with the last one.
    pub(crate) fn close(&self) {
        self.sender.lock().take();
    }

    /// Returns true if so many outcomes are not stored that no more of a definition should be claimed, because all of them
    /// would be sent again if this process died. Delayed outcomes count for their own definition only.
    pub(crate) fn is_overloaded(&self, def_id: i64) -> bool {
        self.unsettled.load(Ordering::Relaxed) > 4 * SETTLE_BATCH
            || self.delayed.lock().get(&def_id).is_some_and(|count| *count >= SETTLE_BATCH)
    }

    /// Locks the settle loop's end, for as long as the loop runs.
    pub(super) async fn settling(&self) -> tokio::sync::MutexGuard<'_, Settling> {
        self.settling.lock().await
    }

    pub(super) fn urgency(&self) -> &Urgency {
        &self.urgency
    }

    /// Counts outcomes that could not be stored, although the store answers, as delayed for their definitions.
    pub(super) fn mark_delayed(&self, decided: &mut [Decided]) {
        let mut delayed = self.delayed.lock();
        for decided in decided.iter_mut().filter(|decided| !decided.delayed) {
            decided.delayed = true;
            *delayed.entry(decided.def_id()).or_default() += 1;
            self.unsettled.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Removes an outcome that is stored or can never be stored. Returns true if it was the last delayed one of its definition.
    pub(super) fn remove(&self, decided: &Decided) -> bool {
        if !decided.delayed {
            self.unsettled.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let mut delayed = self.delayed.lock();
        let Some(count) = delayed.get_mut(&decided.def_id()) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            delayed.remove(&decided.def_id());
        }
        is_last
    }

    /// Records the size of a batch that is stored.
    #[allow(clippy::cast_precision_loss)] // At most a few hundred.
    pub(super) fn record_batch(&self, size: usize) {
        self.batch_sizes.record(size as f64);
    }

    /// Counts a stored outcome. Outcomes of alerts and housekeeping are not counted.
    pub(super) fn count(&self, outcome: &Outcome, counter: impl Fn(&Totals) -> &AtomicU64) {
        if !is_built_in(&outcome.ready.policy.name) {
            counter(&self.totals).fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Removes an outcome for which there is no decision.
    pub(super) fn remove_undecided(&self) {
        self.unsettled.fetch_sub(1, Ordering::Relaxed);
    }
}

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
            while self.fresh.len() < SETTLE_BATCH
                && let Ok(outcome) = self.receiver.try_recv()
            {
                self.fresh.push(outcome);
            }
            if urgency.take() {
                pace = URGENT_PACE;
            }
            if self.fresh.len() >= SETTLE_BATCH || self.receiver.is_closed() || last + pace <= Instant::now() {
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
