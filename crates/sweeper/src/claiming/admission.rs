//! [`Admission`]: what this node may claim now: slots, the quotas and windows of definitions, slow definitions, crash-looping
//! notices.
//! [`crate::slots`] counts the slots, and [`super::limited`] remembers which quotas are used up.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use solid_notify_core::limit::QuotaStop;
use solid_notify_core::{AnyOutbox, HandClock, Policy, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::limited::{Limited, Stopped};
use crate::slots::{Slot, Slots};

/// A sweep of one definition that takes longer marks it as slow: its own statements are slow, not the node.
const SLOW: Duration = Duration::from_secs(3);

/// The limits of this node's claims.
///
/// A claimed notice has a slot until its attempt ends: there are at most `max_running` slots on this node, and at most
/// `max_concurrency` of one definition. A definition is swept once at a time, and one slow definition at a time. One crash-looping
/// notice is sent at a time. A definition whose quota or window is closed is not claimed from.
///
/// The parts lock for a moment each, never two at once, and never across an await.
pub(crate) struct Admission {
    outbox: AnyOutbox,
    poll_interval: Duration,
    slots: Arc<Slots>,
    /// Definitions whose quotas currently allow no claim.
    limited: Limited,
    /// The definitions that are being swept, and those that are slow.
    sweeping: Arc<Sweeping>,
    crash_loop: Arc<Semaphore>,
}

impl Admission {
    pub(crate) fn new(outbox: AnyOutbox, max_running: usize, poll_interval: Duration) -> Self {
        Self {
            outbox,
            poll_interval,
            slots: Slots::new(max_running),
            limited: Limited::default(),
            sweeping: Arc::default(),
            crash_loop: Arc::new(Semaphore::new(1)),
        }
    }

    /// Returns whether the window and the quota of a definition currently let a claim through, as far as this node knows.
    /// Without a window this costs no query.
    pub(super) async fn lets_through(&self, policy: &Policy) -> Result<bool, StoreError> {
        Ok(self.quota_closed_for(policy).is_none() && !self.is_window_closed(policy).await?)
    }

    /// Returns whether the window of a definition is closed now by the store's time.
    async fn is_window_closed(&self, policy: &Policy) -> Result<bool, StoreError> {
        let Some(window) = &policy.window else { return Ok(false) };
        let now = self.outbox.engine().stores().send.now().await?;
        Ok(!window.is_open(now))
    }

    /// Returns how long not to claim from a definition because its quota lets nothing through.
    pub(super) fn quota_closed_for(&self, policy: &Policy) -> Option<Duration> {
        policy.quota?;
        self.limited.stopped_for(policy, self.shown())
    }

    /// Takes up to `wanted` slots of a definition. If it takes none, the next freed slot wakes the sweep.
    pub(crate) fn take_slots(&self, policy: &Policy, wanted: usize) -> Vec<Slot> {
        self.slots.take(policy.def_id, policy.max_concurrency, wanted)
    }

    /// Records that more is due than there were slots: the next freed slot wakes the sweep.
    pub(super) fn want_more_slots(&self) {
        self.slots.want_more();
    }

    /// Completes when a slot becomes free while a due notice waits for one.
    pub(super) async fn slot_freed(&self) {
        self.slots.freed().await;
    }

    /// Wakes the sweep at once if it wanted more slots.
    pub(crate) fn wake_if_wanted(&self) {
        self.slots.wake_if_wanted();
    }

    /// Returns the permit to send a crash-looping notice, unless one is being sent. It is kept until its outcome is stored.
    pub(super) fn crash_loop_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.crash_loop).try_acquire_owned().ok()
    }

    /// Begins to sweep a definition; `None` if it is being swept, or if it is slow and another slow one is.
    pub(super) fn begin_sweep(&self, def_id: i64) -> Option<Sweep> {
        self.sweeping.begin(def_id)
    }

    /// Records that the sweep of a definition goes on.
    pub(super) fn sweep_goes_on(&self, def_id: i64) {
        if let Some(sign) = self.sweeping.0.lock().now.get_mut(&def_id) {
            *sign = Instant::now();
        }
    }

    /// Returns the sweep whose last sign of life is the oldest: its definition, and how long ago that was.
    pub(crate) fn longest_sweep(&self) -> Option<(i64, Duration)> {
        let state = self.sweeping.0.lock();
        state.now.iter().min_by_key(|(_, sign)| **sign).map(|(def_id, sign)| (*def_id, sign.elapsed()))
    }

    /// Returns how many attempts of a definition with a quota have ended. The caller reads it before a claim and passes it to
    /// [`Self::quota_stopped`] after the claim.
    pub(super) fn attempts_ended(&self, policy: &Policy) -> u64 {
        policy.quota.map_or(0, |_| self.limited.ended_so_far(policy.def_id))
    }

    /// Records why the quota lets nothing more through. It applies for as long as the reason is known to last, and at most
    /// for one poll interval, because another node or an operator may end it. Returns false if it may be over already.
    #[must_use]
    pub(super) fn quota_stopped(&self, policy: &Policy, by: QuotaStop, ended_before: u64) -> bool {
        let Some(quota) = policy.quota else { return true };
        let until = Instant::now() + by.again_after().min(self.poll_interval);
        self.limited.stop(policy.def_id, Stopped { by, quota, until, shown: self.shown() }, ended_before)
    }

    /// Records that the outcome of an attempt is stored. Returns true if that may let other notices through.
    #[must_use]
    pub(crate) fn attempt_settled(&self, policy: &Policy) -> bool {
        policy.quota.is_some() && self.limited.ended(policy.def_id)
    }

    /// Returns how long until the quota may let more through, by the store's last reply.
    #[cfg(feature = "testkit")]
    pub(crate) fn quota_opens_after(&self, policy: &Policy) -> Option<Duration> {
        self.limited.again_after(policy)
    }

    fn shown(&self) -> Option<i64> {
        self.outbox.engine().hand_clock().map(HandClock::now_millis)
    }
}

/// The sweeps under way, by definition. Only one slow definition is swept at a time, so that slow ones do not take all
/// connections.
#[derive(Default)]
struct Sweeping(Mutex<SweepingState>);

#[derive(Default)]
struct SweepingState {
    /// With their last sign of life.
    now: HashMap<i64, Instant>,
    slow: HashSet<i64>,
}

impl Sweeping {
    /// Begins to sweep a definition; None if it is being swept, or if it is slow and another slow one is.
    fn begin(self: &Arc<Self>, def_id: i64) -> Option<Sweep> {
        let mut state = self.0.lock();
        let waits = state.slow.contains(&def_id) && state.slow.iter().any(|slow| state.now.contains_key(slow));
        if waits || state.now.contains_key(&def_id) {
            return None;
        }
        let began = Instant::now();
        state.now.insert(def_id, began);
        Some(Sweep { all: Arc::clone(self), def_id, began })
    }
}

/// The sweep of one definition; dropping it ends it.
pub(super) struct Sweep {
    all: Arc<Sweeping>,
    def_id: i64,
    began: Instant,
}

impl Sweep {
    /// Ends the sweep and records whether its definition is slow.
    pub(super) fn end(self) {
        let mut state = self.all.0.lock();
        if self.began.elapsed() >= SLOW {
            state.slow.insert(self.def_id);
        } else if !state.slow.is_empty() {
            state.slow.remove(&self.def_id);
        }
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        self.all.0.lock().now.remove(&self.def_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn definition_is_swept_once_and_one_slow_one_at_a_time() {
        let sweeping = Arc::new(Sweeping::default());
        let (one, two) = (sweeping.begin(1).unwrap(), sweeping.begin(2).unwrap());
        assert!(sweeping.begin(1).is_none());
        tokio::time::advance(SLOW).await;
        one.end();
        two.end();
        let one = sweeping.begin(1).unwrap();
        assert!(sweeping.begin(2).is_none() && sweeping.begin(3).is_some());
        one.end();
        let _two = sweeping.begin(2).unwrap();
        assert!(sweeping.begin(1).is_some(), "its last sweep was not slow");
    }
}
