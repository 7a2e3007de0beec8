//! Definitions whose quotas currently let nothing through, as far as this node has seen. The sweeper does not claim from
//! them until it may succeed; until then they take no slots and no turns of the sweep, and the node can be idle.
//!
//! The store decides with each claim what a quota lets through; this module only remembers its replies.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use solid_notify_core::Policy;
use solid_notify_core::limit::{Quota, QuotaStop};
use tokio::time::Instant;

/// The state of the definitions with a quota.
#[derive(Default)]
pub(super) struct Limited {
    of: Mutex<HashMap<i64, QuotaState>>,
}

#[derive(Default)]
struct QuotaState {
    stopped: Option<Stopped>,
    /// How many attempts of the definition have ended on this node.
    ended: u64,
}

/// The reply of the store that a quota lets nothing more through.
pub(super) struct Stopped {
    pub(super) by: QuotaStop,
    /// The quota at that claim; a changed quota is tried at once.
    pub(super) quota: Quota,
    /// When to try again, by the process's clock even if a test turns the outbox's clock: that one stands still while
    /// another node's attempt ends.
    pub(super) until: Instant,
    /// The time that a test's clock showed; if it shows another one, the quota is tried at once.
    pub(super) shown: Option<i64>,
}

impl Limited {
    /// Returns how long not to claim. `shown` is the time that a test's clock shows.
    pub(super) fn stopped_for(&self, policy: &Policy, shown: Option<i64>) -> Option<Duration> {
        let quota = policy.quota?;
        let of = self.of.lock();
        let stopped = of.get(&policy.def_id)?.stopped.as_ref();
        let stopped = stopped.filter(|stopped| stopped.quota == quota && stopped.shown == shown)?;
        stopped.until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// Returns how long until the quota may let more through, by the store's last reply.
    #[cfg(feature = "testkit")]
    pub(super) fn again_after(&self, policy: &Policy) -> Option<Duration> {
        self.of.lock().get(&policy.def_id)?.stopped.as_ref().map(|stopped| stopped.by.again_after())
    }

    /// Returns the number of ended attempts. The caller reads it before a claim and passes it to [`Self::stop`] after the
    /// claim.
    pub(super) fn ended_so_far(&self, def_id: i64) -> u64 {
        self.of.lock().get(&def_id).map_or(0, |of| of.ended)
    }

    /// Records that the quota of a definition lets nothing more through. Returns false if that may be over already, because
    /// an attempt ended during the claim.
    pub(super) fn stop(&self, def_id: i64, stopped: Stopped, ended_before: u64) -> bool {
        let mut of = self.of.lock();
        let of = of.entry(def_id).or_default();
        let applies = of.ended == ended_before || !stopped.by.ends_with_an_attempt();
        of.stopped = applies.then_some(stopped);
        applies
    }

    /// Records that an attempt has ended and is stored. Returns true if its definition waited for that.
    pub(super) fn ended(&self, def_id: i64) -> bool {
        let mut of = self.of.lock();
        let of = of.entry(def_id).or_default();
        of.ended += 1;
        let waited = of.stopped.as_ref().is_some_and(|stopped| stopped.by.ends_with_an_attempt());
        if waited {
            of.stopped = None;
        }
        waited
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

    fn stopped(by: QuotaStop) -> Stopped {
        Stopped { by, quota: policy(3).quota.unwrap(), until: Instant::now() + 10 * SECOND, shown: Some(5) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_quota_is_read_again_when_its_time_is_over_or_a_value_changed() {
        let limited = Limited::default();
        assert!(limited.stop(0, stopped(QuotaStop::Rate { after: SECOND }), 0));
        assert_eq!(limited.stopped_for(&policy(3), Some(5)), Some(10 * SECOND));
        assert_eq!(limited.stopped_for(&policy(3), Some(6)), None);
        assert_eq!(limited.stopped_for(&policy(4), Some(5)), None);
        assert_eq!(limited.stopped_for(&NotifyDef::new("sync").policy().unwrap(), Some(5)), None);
        tokio::time::advance(10 * SECOND).await;
        assert_eq!(limited.stopped_for(&policy(3), Some(5)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_ends_lets_the_next_through_where_it_was_waited_for() {
        let limited = Limited::default();
        assert!(!limited.ended(0), "no definition waits");
        assert!(limited.stop(0, stopped(QuotaStop::Total), 1));
        assert!(limited.ended(0));
        assert_eq!(limited.stopped_for(&policy(3), Some(5)), None);
        assert!(limited.stop(0, stopped(QuotaStop::Rate { after: SECOND }), 2));
        assert!(!limited.ended(0), "the end of an attempt does not refill a rate");
        assert!(limited.stopped_for(&policy(3), Some(5)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_ended_while_the_claim_was_on_its_way_is_not_missed() {
        let limited = Limited::default();
        let before = limited.ended_so_far(0);
        limited.ended(0);
        assert!(!limited.stop(0, stopped(QuotaStop::Total), before));
        assert_eq!(limited.stopped_for(&policy(3), Some(5)), None);
    }
}
