//! [`OutcomeQueue`]: the outcomes of this node on their way to the store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::Outcome;
use super::gathering::{Settling, Urgency};
use super::pending::{BATCH, Decided};

/// The outcomes on their way to the store. Attempts push them, and the settle loop takes them.
///
/// Each outcome is counted from its push until the settle loop removes it: as unsettled, or, once the store did not accept it
/// although it answers, as stuck for its definition. No outcome is lost: the loop's end of the queue outlives the loop.
pub(crate) struct OutcomeQueue {
    /// `None` once the sweeper accepts no more outcomes.
    sender: Mutex<Option<mpsc::UnboundedSender<Outcome>>>,
    /// The settle loop's end. A loop that is restarted after a panic continues with it.
    settling: tokio::sync::Mutex<Settling>,
    /// The number of outcomes that are not stored yet, without those that are stuck.
    unsettled: AtomicUsize,
    /// By definition: the number of outcomes that could not be stored although the store answers.
    stuck: Mutex<HashMap<i64, usize>>,
    urgency: Urgency,
}

impl OutcomeQueue {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self {
            sender: Mutex::new(Some(sender)),
            settling: tokio::sync::Mutex::new(Settling::new(receiver)),
            unsettled: AtomicUsize::new(0),
            stuck: Mutex::default(),
            urgency: Urgency::default(),
        }
    }

    /// Passes an outcome on to the settle loop.
    pub(super) fn push(&self, outcome: Outcome, is_urgent: bool) {
        let count = self.unsettled.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(sender) = &*self.sender.lock() {
            // The settle loop ends only after `close`.
            let _ = sender.send(outcome);
        }
        if is_urgent {
            self.urgency.urge();
        } else if count.is_multiple_of(BATCH) {
            self.urgency.hurry();
        }
    }

    /// Accepts no more outcomes: the settle loop ends with the last one.
    pub(crate) fn close(&self) {
        self.sender.lock().take();
    }

    /// Returns true if so many outcomes are not stored that no more of a definition should be claimed, because all of them
    /// would be sent again if this process died. Stuck outcomes count for their own definition only.
    pub(crate) fn is_overloaded(&self, def_id: i64) -> bool {
        self.unsettled.load(Ordering::Relaxed) > 4 * BATCH
            || self.stuck.lock().get(&def_id).is_some_and(|count| *count >= BATCH)
    }

    /// Locks the settle loop's end, for as long as the loop runs.
    pub(super) async fn settling(&self) -> tokio::sync::MutexGuard<'_, Settling> {
        self.settling.lock().await
    }

    pub(super) fn urgency(&self) -> &Urgency {
        &self.urgency
    }

    /// Counts outcomes that could not be stored, although the store answers, as stuck for their definitions.
    pub(super) fn mark_stuck(&self, decided: &mut [Decided]) {
        let mut stuck = self.stuck.lock();
        for decided in decided.iter_mut().filter(|decided| !decided.stuck) {
            decided.stuck = true;
            *stuck.entry(decided.def_id()).or_default() += 1;
            self.unsettled.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Removes an outcome that is stored or can never be stored. Returns true if it was the last stuck one of its definition.
    pub(super) fn remove(&self, decided: &Decided) -> bool {
        if !decided.stuck {
            self.unsettled.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let mut stuck = self.stuck.lock();
        let Some(count) = stuck.get_mut(&decided.def_id()) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            stuck.remove(&decided.def_id());
        }
        is_last
    }

    /// Removes an outcome for which there is no decision.
    pub(super) fn remove_undecided(&self) {
        self.unsettled.fetch_sub(1, Ordering::Relaxed);
    }
}
