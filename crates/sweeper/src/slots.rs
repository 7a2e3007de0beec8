//! Limits how many notices are sent at the same time: per definition (`max_concurrency`) and on this node in all.
//!
//! Limits may change at any time; a taken slot stays taken until its attempt ends.
//!
//! A receiver that answers late or not at all keeps a slot for long. So the definitions whose latest attempt timed out, or took [`LONG`] or
//! more, share at most half of the node's slots, as long as others wait for one. Where none waits, they have all of them but an eighth: attempts that
//! time out end together, and one that is due next would wait until they time out again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

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
    /// The definitions whose latest attempt kept its slot for long.
    slow: HashSet<i64>,
    /// The other definitions that last got fewer slots than they wanted, because the node had no more.
    waiting: HashMap<i64, Instant>,
}

/// An attempt that took so long counts like one that timed out, whatever its result: a receiver that fails or answers just before the time-out
/// keeps as many slots.
const LONG: Duration = Duration::from_secs(5);

/// A definition that waits for slots asks again sooner.
const WAITS: Duration = Duration::from_secs(5);

impl Taken {
    /// Returns how many of the node's free slots a definition may have.
    fn free_for(&mut self, def_id: i64, max_running: usize) -> usize {
        let free = max_running.saturating_sub(self.all);
        if !self.slow.contains(&def_id) {
            return free;
        }
        self.waiting.retain(|_, since| since.elapsed() < WAITS);
        if self.waiting.is_empty() {
            return free.saturating_sub(max_running / 8);
        }
        let of_slow: usize = self.slow.iter().filter_map(|slow| self.by_def.get(slow)).sum();
        free.min((max_running / 2).max(1).saturating_sub(of_slow))
    }
}

impl Slots {
    pub(crate) fn new(max_running: usize) -> Arc<Self> {
        Arc::new(Self { max_running, taken: Mutex::default(), freed: Notify::new() })
    }

    /// Takes up to `wanted` slots of a definition that may have `limit`.
    pub(crate) fn take(self: &Arc<Self>, def_id: i64, limit: usize, wanted: usize) -> Vec<Slot> {
        let mut taken = self.taken.lock();
        let of_def = taken.by_def.get(&def_id).copied().unwrap_or(0);
        let wanted = limit.saturating_sub(of_def).min(wanted);
        let count = taken.free_for(def_id, self.max_running).min(wanted);
        if !taken.slow.contains(&def_id) {
            if count < wanted {
                taken.waiting.insert(def_id, Instant::now());
            } else {
                taken.waiting.remove(&def_id);
            }
        }
        if count == 0 {
            // Set under the same lock, so that a slot freed from now on wakes the sweep.
            taken.wanted_more = true;
        }
        if count > 0 {
            taken.all += count;
            *taken.by_def.entry(def_id).or_default() += count;
        }
        (0..count).map(|_| Slot { slots: Arc::clone(self), def_id, was_long: None }).collect()
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
    was_long: Option<bool>,
}

impl Slot {
    /// Frees it after an attempt: whether it timed out, and how long it took; `None`: there was none.
    pub(crate) fn ended(mut self, attempt: Option<(bool, Duration)>) {
        self.was_long = attempt.map(|(timed_out, took)| timed_out || took >= LONG);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock();
        taken.all -= 1;
        match self.was_long {
            Some(true) => drop(taken.slow.insert(self.def_id)),
            Some(false) => drop(taken.slow.remove(&self.def_id)),
            None => {}
        }
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

    #[tokio::test(start_paused = true)]
    async fn slow_definitions_share_half_of_the_slots_while_others_wait() {
        let slots = Slots::new(10);
        // A time limit may be short.
        for (def_id, attempt) in [(1, (true, Duration::ZERO)), (2, (false, LONG))] {
            slots.take(def_id, 10, 1).remove(0).ended(Some(attempt));
        }
        // No other one waits.
        let (mut first, second) = (slots.take(1, 10, 6), slots.take(2, 10, 6));
        assert_eq!((first.len(), second.len()), (6, 3));
        let last = slots.take(3, 10, 1);
        assert_eq!(last.len(), 1, "an eighth is left to others");
        assert!(slots.take(3, 10, 4).is_empty(), "it waits now");
        first.truncate(4);
        assert_eq!(slots.take(2, 10, 6).len(), 0, "7 are more than half");
        let third = slots.take(3, 10, 4);
        assert_eq!(third.len(), 2);
        drop(first);
        assert_eq!(slots.take(1, 10, 10).len(), 2, "the last of five");
        // Once the other one has all that it wants, or asks no more, they have what is free, but an eighth.
        let rest = slots.take(3, 10, 2);
        assert_eq!(rest.len(), 2);
        let more = slots.take(1, 10, 10);
        assert_eq!(more.len(), 1);
        drop((more, rest, third, second, last));
        // An attempt that ends in time makes it one of the others again; one that was handed back says nothing.
        slots.take(1, 10, 1).remove(0).ended(None);
        let others = slots.take(3, 10, 10);
        assert_eq!(others.len(), 10);
        assert!(slots.take(4, 10, 1).is_empty());
        drop(others);
        assert_eq!(slots.take(1, 10, 10).len(), 5);
        tokio::time::advance(WAITS).await;
        assert_eq!(slots.take(1, 10, 10).len(), 9);
        slots.take(1, 10, 1).remove(0).ended(Some((false, LONG - Duration::from_millis(1))));
        assert!(!slots.taken.lock().slow.contains(&1));
    }
}
