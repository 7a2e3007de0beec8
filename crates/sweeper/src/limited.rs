//! Which definitions' quotas let nothing through just now, as far as this node knows: they are not asked again before it is worth
//! while, take no slots and no turns of the sweep, and do not keep it from being idle.
//!
//! What a quota lets through is decided by the store, with each claim; this only remembers its answers.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use solid_notify_core::limit::{Hold, Quota};
use solid_notify_core::{HandClock, Policy};
use tokio::time::Instant;

use crate::worker::Worker;

/// What is remembered of the definitions with a quota.
#[derive(Default)]
pub(crate) struct Limited {
    of: Mutex<HashMap<i64, Remembered>>,
}

#[derive(Default)]
struct Remembered {
    held: Option<Held>,
    /// How many attempts of it have ended here.
    ended: u64,
}

struct Held {
    hold: Hold,
    /// The quota that held; another one is asked at once.
    quota: Quota,
    /// Until when not to ask, by the process's clock also where one is turned by hand: that stands still while another node's
    /// attempt ends.
    until: Instant,
    /// What a hand-turned clock showed; where it shows something else, it is asked at once.
    shown: Option<i64>,
}

impl Limited {
    /// How long not to ask for more.
    fn left(&self, policy: &Policy, shown: Option<i64>) -> Option<Duration> {
        let quota = policy.quota?;
        let of = self.lock();
        let held = of.get(&policy.def_id)?.held.as_ref().filter(|held| held.quota == quota && held.shown == shown)?;
        held.until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// How long until more may be let through, by what was last told of it.
    #[cfg(feature = "testkit")]
    pub(crate) fn again_after(&self, policy: &Policy) -> Option<Duration> {
        self.lock().get(&policy.def_id)?.held.as_ref().map(|held| held.hold.again_after())
    }

    /// To be asked before a claim, and told to [`Self::hold`] after it.
    pub(crate) fn ended_so_far(&self, def_id: i64) -> u64 {
        self.lock().get(&def_id).map_or(0, |of| of.ended)
    }

    /// Remembers that the quota of a definition lets nothing more through; false where that may be over already, since an attempt
    /// has ended while the claim was on its way.
    fn hold(&self, def_id: i64, held: Held, ended_before: u64) -> bool {
        let mut of = self.lock();
        let of = of.entry(def_id).or_default();
        let stands = of.ended == ended_before || !held.hold.ends_with_an_attempt();
        of.held = stands.then_some(held);
        stands
    }

    /// An attempt has ended and is stored; true where its definition waited for that.
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
    /// How long not to claim of a definition, since its quota lets nothing through.
    pub(crate) fn held_for(&self, policy: &Policy) -> Option<Duration> {
        policy.quota?;
        self.limited.left(policy, self.shown())
    }

    fn shown(&self) -> Option<i64> {
        self.outbox.hand_clock().map(HandClock::now_millis)
    }

    /// Remembers why the quota lets nothing more through: for as long as that is known to last, and at most for one poll
    /// interval, since another node, or a person, may end it.
    pub(crate) fn hold_back(&self, policy: &Policy, hold: Hold, ended_before: u64) {
        let Some(quota) = policy.quota else { return };
        let until = Instant::now() + hold.again_after().min(self.settings.poll_interval);
        let held = Held { hold, quota, until, shown: self.shown() };
        if !self.limited.hold(policy.def_id, held, ended_before) {
            self.due_soon.notify_one();
        }
    }

    /// Tells the sweep where the end of this attempt may let others through.
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

    fn held(hold: Hold) -> Held {
        Held { hold, quota: policy(3).quota.unwrap(), until: Instant::now() + 10 * SECOND, shown: Some(5) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_quota_is_asked_again_when_its_time_is_over_or_it_or_a_hand_turned_clock_has_changed() {
        let limited = Limited::default();
        assert!(limited.hold(0, held(Hold::Rate { after: SECOND }), 0));
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
        assert!(!limited.ended(0), "nobody waits");
        assert!(limited.hold(0, held(Hold::Total), 1));
        assert!(limited.ended(0));
        assert_eq!(limited.left(&policy(3), Some(5)), None);
        assert!(limited.hold(0, held(Hold::Rate { after: SECOND }), 2));
        assert!(!limited.ended(0), "a rate does not come back by it");
        assert!(limited.left(&policy(3), Some(5)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_ended_while_the_claim_was_on_its_way_is_not_missed() {
        let limited = Limited::default();
        let before = limited.ended_so_far(0);
        limited.ended(0);
        assert!(!limited.hold(0, held(Hold::Total), before));
        assert_eq!(limited.left(&policy(3), Some(5)), None);
    }
}
