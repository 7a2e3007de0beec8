//! Limits how many notices are sent at the same time: per definition (`max_concurrency`) and on this node in all.
//!
//! Limits may change at any time; a taken slot stays taken until its attempt ends.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The slots of a node.
pub(crate) struct Slots {
    max_running: usize,
    taken: Mutex<Taken>,
    /// Notified when a slot becomes free while a due notice waits for one.
    freed: Notify,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_def: HashMap<i64, usize>,
    /// More notices were due than there were slots.
    wanted_more: bool,
}

impl Slots {
    pub(crate) fn new(max_running: usize) -> Arc<Self> {
        Arc::new(Self { max_running, taken: Mutex::default(), freed: Notify::new() })
    }

    /// Takes up to `wanted` slots of a definition that may have `limit`.
    pub(crate) fn take(self: &Arc<Self>, def_id: i64, limit: usize, wanted: usize) -> Vec<Slot> {
        let mut taken = self.taken.lock();
        let of_def = taken.by_def.get(&def_id).copied().unwrap_or(0);
        let free = limit.saturating_sub(of_def).min(self.max_running.saturating_sub(taken.all));
        let count = free.min(wanted);
        if count == 0 {
            // Set under the same lock, so that a slot freed from now on wakes the sweep.
            taken.wanted_more = true;
        }
        if count > 0 {
            taken.all += count;
            *taken.by_def.entry(def_id).or_default() += count;
        }
        (0..count).map(|_| Slot { slots: Arc::clone(self), def_id }).collect()
    }

    /// Records that more is due than there were slots: the next freed slot wakes the sweep.
    pub(crate) fn want_more(&self) {
        self.taken.lock().wanted_more = true;
    }

    /// Completes when a slot becomes free while a due notice waits for one.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Wakes the sweep at once if it wanted more slots.
    pub(crate) fn wake_if_wanted(&self) {
        if std::mem::take(&mut self.taken.lock().wanted_more) {
            self.freed.notify_one();
        }
    }
}

/// One slot; dropping it frees it.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    def_id: i64,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock();
        taken.all -= 1;
        let left = match taken.by_def.get_mut(&self.def_id) {
            Some(count) => {
                *count -= 1;
                *count
            }
            None => 0,
        };
        if left == 0 {
            taken.by_def.remove(&self.def_id);
        }
        if std::mem::take(&mut taken.wanted_more) {
            self.slots.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_stay_within_the_limits_of_definition_and_node() {
        let slots = Slots::new(5);
        let one = slots.take(1, 3, 10);
        assert_eq!(one.len(), 3);
        let two = slots.take(2, 9, 10);
        assert_eq!(two.len(), 2, "the node's limit");
        assert!(slots.take(1, 3, 1).is_empty());
        drop(one);
        assert_eq!(slots.take(1, 3, 2).len(), 2);
    }

    #[test]
    fn a_lowered_limit_lets_running_notices_end_and_gives_no_new_slot() {
        let slots = Slots::new(100);
        let mut running = slots.take(1, 5, 5);
        running.truncate(3);
        assert!(slots.take(1, 2, 1).is_empty());
        running.truncate(1);
        assert_eq!(slots.take(1, 2, 9).len(), 1);
    }
}
