//! Definitions whose quotas currently let nothing through, as far as this node has seen. The sweeper does not claim from
//! them until it may succeed; until then they take no slots and no turns of the sweep, and the node can be idle.
//!
//! The store decides with each claim what a quota lets through; this module only remembers its answers.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use solid_notify_core::limit::{Quota, QuotaStop};
use solid_notify_core::{HandClock, Policy};
use tokio::time::Instant;

use crate::worker::Worker;

/// The state of the definitions with a quota.
#[derive(Default)]
pub(crate) struct Limited {
    of: Mutex<HashMap<i64, Remembered>>,
}

#[derive(Default)]
struct Remembered {
    held: Option<Stopped>,
    /// How many attempts of the definition have ended on this node.
    ended: u64,
}

struct Stopped {
    hold: QuotaStop,
    /// The quota at that claim; a changed quota is tried at once.
    quota: Quota,
    /// When to try again, by the process's clock even if a test turns the outbox's clock: that one stands still while
    /// another node's attempt ends.
    until: Instant,
    /// The time that a test's clock showed; if it shows another one, the quota is tried at once.
    shown: Option<i64>,
}

impl Limited {
    /// Returns how long not to claim.
    fn left(&self, policy: &Policy, shown: Option<i64>) -> Option<Duration> {
        let quota = policy.quota?;
        let of = self.lock();
        let held = of.get(&policy.def_id)?.held.as_ref().filter(|held| held.quota == quota && held.shown == shown)?;
        held.until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// Returns how long until the quota may let more through, by the store's last answer.
    #[cfg(feature = "testkit")]
    pub(crate) fn again_after(&self, policy: &Policy) -> Option<Duration> {
        self.lock().get(&policy.def_id)?.held.as_ref().map(|held| held.hold.again_after())
    }

    /// Returns the number of ended attempts. The caller reads it before a claim and passes it to [`Self::hold`] after the
    /// claim.
    pub(crate) fn ended_so_far(&self, def_id: i64) -> u64 {
        self.lock().get(&def_id).map_or(0, |of| of.ended)
    }

    /// Records that the quota of a definition lets nothing more through. Returns false if that may be over already, because
    /// an attempt ended during the claim.
    fn hold(&self, def_id: i64, held: Stopped, ended_before: u64) -> bool {
        let mut of = self.lock();
        let of = of.entry(def_id).or_default();
        let stands = of.ended == ended_before || !held.hold.ends_with_an_attempt();
        of.held = stands.then_some(held);
        stands
    }

    /// Records that an attempt has ended and is stored. Returns true if its definition waited for that.
    fn ended(&self, def_id: i64) -> bool {
        let mut of = self.lock();
        let of = of.entry(def_id).or_default();
        of.ended += 1;
        let waited = of.held.as_ref().is_some_and(|held| held.hold.ends_with_an_attempt());
        if waited {
            of.held = None;
        }
        waited
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, Remembered>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worker {
    /// Returns how long not to claim from a definition because its quota lets nothing through.
    pub(crate) fn held_for(&self, policy: &Policy) -> Option<Duration> {
        policy.quota?;
        self.limited.left(policy, self.shown())
    }

    fn shown(&self) -> Option<i64> {
        self.outbox.engine().hand_clock().map(HandClock::now_millis)
    }

    /// Records why the quota lets nothing more through. It applies for as long as the reason is known to last, and at most
    /// for one poll interval, because another node or an operator may end it.
    pub(crate) fn hold_back(&self, policy: &Policy, hold: QuotaStop, ended_before: u64) {
        let Some(quota) = policy.quota else { return };
        let until = Instant::now() + hold.again_after().min(self.settings.poll_interval);
        let held = Stopped { hold, quota, until, shown: self.shown() };
        if !self.limited.hold(policy.def_id, held, ended_before) {
            self.due_soon.notify_one();
        }
    }

    /// Wakes the sweep if the end of this attempt may let other notices through.
    pub(crate) fn let_through(&self, policy: &Policy) {
        if policy.quota.is_some() && self.limited.ended(policy.def_id) {
            self.due_soon.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use solid_notify_core::NotifyDef;

    const SECOND: Duration = Duration::from_secs(1);

    fn policy(total: i64) -> Policy {
        NotifyDef::new("sync").max_concurrency_total(total).policy().unwrap()
    }

    fn held(hold: QuotaStop) -> Stopped {
        Stopped { hold, quota: policy(3).quota.unwrap(), until: Instant::now() + 10 * SECOND, shown: Some(5) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_quota_is_read_again_when_its_time_is_over_or_a_value_changed() {
        let limited = Limited::default();
        assert!(limited.hold(0, held(QuotaStop::Rate { after: SECOND }), 0));
        assert_eq!(limited.left(&policy(3), Some(5)), Some(10 * SECOND));
        assert_eq!(limited.left(&policy(3), Some(6)), None);
        assert_eq!(limited.left(&policy(4), Some(5)), None);
        assert_eq!(limited.left(&NotifyDef::new("sync").policy().unwrap(), Some(5)), None);
        tokio::time::advance(10 * SECOND).await;
        assert_eq!(limited.left(&policy(3), Some(5)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_ends_lets_the_next_through_where_it_was_waited_for() {
        let limited = Limited::default();
        assert!(!limited.ended(0), "no definition waits");
        assert!(limited.hold(0, held(QuotaStop::Total), 1));
        assert!(limited.ended(0));
        assert_eq!(limited.left(&policy(3), Some(5)), None);
        assert!(limited.hold(0, held(QuotaStop::Rate { after: SECOND }), 2));
        assert!(!limited.ended(0), "the end of an attempt does not refill a rate");
        assert!(limited.left(&policy(3), Some(5)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_ended_while_the_claim_was_on_its_way_is_not_missed() {
        let limited = Limited::default();
        let before = limited.ended_so_far(0);
        limited.ended(0);
        assert!(!limited.hold(0, held(QuotaStop::Total), before));
        assert_eq!(limited.left(&policy(3), Some(5)), None);
    }
}
