//! [`AttemptsInFlight`]: the attempts of this node, from the claim until their outcome is settled, and the producers that wait for
//! a first attempt.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use parking_lot::Mutex;
use solid_notify_core::Policy;
use solid_notify_core::dispatch::{FirstAttempt, FirstAttemptSender};
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{BEAT, Lease};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::handlers::under_way::Call;

/// How long to remember an attempt whose outcome could not be stored.
const GIVEN_UP: Duration = Duration::from_secs(86_400);
/// For how long after a lost answer the server may still carry out the claim.
const LATE_CLAIM: Duration = Duration::from_secs(60);

/// The attempts in flight.
///
/// A notice that the store lists as claimed by this node is in flight here, or given up, or its claim is under way, or the
/// answer to its claim was lost. At most one attempt of a notice is in flight, the one that was claimed last. An attempt that is
/// given up is no longer in flight, so nothing extends its lease. An expired attempt is judged once.
///
/// `claims` is locked first. `state` and `reports` are locked for a moment each, never both, and never across an await.
#[derive(Default)]
pub(crate) struct AttemptsInFlight {
    /// Locked for reading during a claim, until the claimed notices are registered.
    claims: RwLock<()>,
    state: Mutex<State>,
    /// The tasks of attempts and of slow sweeps. A shutdown waits for them.
    pub(crate) tasks: TaskTracker,
    /// The producers that wait for the first attempt of a notice, by its id.
    reports: Mutex<HashMap<i64, FirstAttemptSender>>,
}

#[derive(Default)]
struct State {
    /// By the id of the notice.
    attempts: HashMap<i64, Attempt>,
    /// Attempts without an outcome in any form, by id and fence: their leases expire and count a crash.
    given_up: HashMap<(i64, i64), Instant>,
    /// Attempts that this node judges without having run them, by id and fence.
    judged: HashSet<(i64, i64)>,
    /// When the answer to a claim was last lost.
    answer_lost: Option<Instant>,
    /// The definitions with a call that cannot be cancelled, and one notice of such a call of each.
    stuck: BTreeMap<i64, i64>,
}

/// True from two beats after the end of the time limit, which should have ended the call: it blocks its thread.
fn is_stuck(call: &Call, now: Instant) -> bool {
    now.saturating_duration_since(call.began) >= call.timeout.saturating_add(2 * BEAT)
}

struct Attempt {
    def_id: i64,
    fence: i64,
    lease: Duration,
    /// On the time scale of [`crate::worker::Worker::moment`].
    lease_end: Duration,
    /// When the attempt must have ended by itself. After that only an outcome that waits to be stored keeps the lease,
    /// because a handler that blocks its thread for ever must not.
    overdue_at: Instant,
    timeout: Duration,
    /// When its handler was called. Filters, limits and passing on come before that.
    called: Option<Instant>,
    /// The attempt has ended, and its outcome is not stored yet.
    ended: bool,
}

impl AttemptsInFlight {
    /// Begins a claim. The caller keeps the guard until it has registered the claimed notices.
    pub(crate) async fn begin_claim(&self) -> RwLockReadGuard<'_, ()> {
        self.claims.read().await
    }

    /// Registers a claimed notice; `now` is the moment of the claim.
    pub(crate) fn register(&self, claimed: &ClaimedNotice, policy: &Policy, now: Duration) {
        let lease = policy.lease();
        let lease_end = now.saturating_add(lease);
        // Time-outs run by the process's clock.
        let overdue_at = Instant::now() + lease;
        let (def_id, fence, timeout) = (policy.def_id, claimed.fence, policy.timeout);
        let attempt = Attempt { def_id, fence, lease, lease_end, overdue_at, timeout, called: None, ended: false };
        self.state.lock().attempts.insert(claimed.id, attempt);
    }

    /// Records that the handler of an attempt is called now.
    pub(crate) fn begin_call(&self, id: i64, fence: i64) {
        if let Some(attempt) = self.state.lock().attempt(id, fence) {
            attempt.called = Some(Instant::now());
        }
    }

    /// Records that an attempt has ended: its lease is extended until its outcome is stored.
    pub(crate) fn ended(&self, id: i64, fence: i64) {
        if let Some(attempt) = self.state.lock().attempt(id, fence) {
            attempt.ended = true;
        }
    }

    /// Forgets an attempt whose outcome is settled; with `overdue`, the judgement that this outcome was. A nack can come before the
    /// attempt ends: then the outcome of the attempt is settled while its delivery is being judged.
    pub(crate) fn forget(&self, id: i64, fence: i64, overdue: bool) {
        let mut state = self.state.lock();
        // What is handed back has a judgement, too, and no attempt.
        if overdue || !state.let_go(id, fence) {
            state.judged.remove(&(id, fence));
        }
    }

    /// Gives up an attempt that has no outcome, or one that cannot be stored in any form.
    pub(crate) fn give_up(&self, id: i64, fence: i64) {
        let mut state = self.state.lock();
        // Their leases expired long ago, here or on another node.
        state.given_up.retain(|_, since| since.elapsed() < GIVEN_UP);
        state.given_up.insert((id, fence), Instant::now());
        state.judged.remove(&(id, fence));
        state.let_go(id, fence);
    }

    pub(crate) fn contains(&self, id: i64, fence: i64) -> bool {
        self.state.lock().attempt(id, fence).is_some()
    }

    pub(crate) fn was_given_up(&self, id: i64, fence: i64) -> bool {
        self.state.lock().given_up.contains_key(&(id, fence))
    }

    /// Registers that an expired attempt is being judged; false if it already is.
    pub(crate) fn begin_to_judge(&self, id: i64, fence: i64) -> bool {
        self.state.lock().judged.insert((id, fence))
    }

    /// Returns the calls of the attempts.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let call = |(id, attempt): (&i64, &Attempt)| {
            let began = attempt.called.filter(|_| !attempt.ended)?;
            Some(Call { def_id: attempt.def_id, id: *id, began, timeout: attempt.timeout })
        };
        self.state.lock().attempts.iter().filter_map(call).collect()
    }

    /// Looks for calls that cannot be cancelled among all calls under way. Returns one notice of each definition that has any, and those
    /// that are new.
    pub(crate) fn find_stuck(&self, calls: &[Call]) -> (BTreeMap<i64, i64>, Vec<(i64, i64)>) {
        let now = Instant::now();
        let stuck = calls.iter().filter(|call| is_stuck(call, now)).map(|call| (call.def_id, call.id));
        let stuck: BTreeMap<i64, i64> = stuck.collect();
        let mut state = self.state.lock();
        let is_new = |def_id: &i64| !state.stuck.contains_key(def_id);
        let new = stuck.iter().filter(|(def_id, _)| is_new(def_id)).map(|(def_id, id)| (*def_id, *id)).collect();
        state.stuck.clone_from(&stuck);
        (stuck, new)
    }

    /// Returns true for a definition with a call that cannot be cancelled: each further one would block a thread, too.
    pub(crate) fn is_stuck(&self, def_id: i64) -> bool {
        self.state.lock().stuck.contains_key(&def_id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().attempts.is_empty()
    }

    /// Returns how many attempts run.
    pub(crate) fn running(&self) -> usize {
        self.state.lock().attempts.values().filter(|attempt| !attempt.ended).count()
    }

    /// Returns how many attempts are in flight or given up.
    pub(crate) fn known(&self) -> usize {
        let state = self.state.lock();
        state.attempts.len() + state.given_up.len()
    }

    /// Returns the leases with less than `left` to run, by id. A handler that blocks its thread loses its lease.
    pub(crate) fn leases_to_extend(&self, now: Duration, left: Duration) -> Vec<Lease> {
        let state = self.state.lock();
        let ends_soon = state.attempts.iter().filter(|(_, attempt)| attempt.lease_end < now.saturating_add(left));
        let mut leases: Vec<Lease> = ends_soon
            .filter(|(_, attempt)| attempt.ended || Instant::now() < attempt.overdue_at)
            .map(|(id, attempt)| Lease { id: *id, fence: attempt.fence, lease: attempt.lease })
            .collect();
        drop(state);
        // Sorted by id in every statement, so that two statements never wait for each other.
        leases.sort_unstable_by_key(|lease| lease.id);
        leases
    }

    /// Records that the store has extended these leases at the moment `now`.
    pub(crate) fn extended<'a>(&self, leases: impl Iterator<Item = &'a Lease>, now: Duration) {
        let mut state = self.state.lock();
        for lease in leases {
            if let Some(attempt) = state.attempt(lease.id, lease.fence) {
                attempt.lease_end = now.saturating_add(lease.lease);
            }
        }
    }

    /// Returns true if no claim is under way. Only then are all claimed notices registered.
    pub(crate) fn claims_nothing(&self) -> bool {
        self.claims.try_write().is_ok()
    }

    /// Waits for the claims under way. No claim begins while the caller has the guard.
    pub(crate) async fn without_claims(&self) -> RwLockWriteGuard<'_, ()> {
        self.claims.write().await
    }

    /// Records that the answer to a claim was lost: the store may hold claims that are not registered.
    pub(crate) fn claim_answer_lost(&self) {
        self.state.lock().answer_lost = Some(Instant::now());
    }

    /// Returns true after the answer to a claim was lost, until [`Self::looked_for_lost_claims`] clears it.
    pub(crate) fn may_have_lost_claims(&self) -> bool {
        self.state.lock().answer_lost.is_some()
    }

    /// Records that a look which began at `looked` found no unregistered claim. A look within a minute of the lost answer
    /// does not count, because the server may still carry out the claim later.
    pub(crate) fn looked_for_lost_claims(&self, looked: Instant) {
        let mut state = self.state.lock();
        if state.answer_lost.is_some_and(|since| looked.saturating_duration_since(since) >= LATE_CLAIM) {
            state.answer_lost = None;
        }
    }

    /// Registers a producer that waits for the first attempt of a notice.
    pub(crate) fn await_report(&self, id: i64, report: FirstAttemptSender) {
        self.reports.lock().insert(id, report);
    }

    pub(crate) fn is_report_awaited(&self, id: i64) -> bool {
        self.reports.lock().contains_key(&id)
    }

    /// Reports the first attempt of these notices to the producers that wait for it.
    pub(crate) fn report(&self, ids: &[i64], first_attempt: &FirstAttempt) {
        for id in ids {
            let report = self.reports.lock().remove(id);
            if let Some(report) = report {
                report.tell(first_attempt.clone());
            }
        }
    }

    /// Forgets producers that stopped waiting.
    pub(crate) fn drop_unawaited_reports(&self) {
        self.reports.lock().retain(|_, report| report.is_awaited());
    }

    /// Returns up to ten attempts, as text for a message.
    #[cfg(feature = "testkit")]
    pub(crate) fn examples(&self) -> String {
        let state = self.state.lock();
        let text = |(id, attempt): (&i64, &Attempt)| format!("{id} (fence {})", attempt.fence);
        state.attempts.iter().take(10).map(text).collect::<Vec<_>>().join(", ")
    }
}

impl State {
    fn attempt(&mut self, id: i64, fence: i64) -> Option<&mut Attempt> {
        self.attempts.get_mut(&id).filter(|attempt| attempt.fence == fence)
    }

    /// Returns false if there is no such attempt.
    fn let_go(&mut self, id: i64, fence: i64) -> bool {
        self.attempt(id, fence).is_some() && self.attempts.remove(&id).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_of_an_attempt_ends_no_judgement_of_its_delivery() {
        let in_flight = AttemptsInFlight::default();
        let attempt = Attempt {
            def_id: 1,
            fence: 1,
            lease: Duration::ZERO,
            lease_end: Duration::ZERO,
            overdue_at: Instant::now(),
            timeout: Duration::ZERO,
            called: None,
            ended: true,
        };
        in_flight.state.lock().attempts.insert(1, attempt);
        assert!(in_flight.begin_to_judge(1, 1));
        in_flight.forget(1, 1, false);
        assert!(!in_flight.contains(1, 1) && !in_flight.begin_to_judge(1, 1), "the same failure would count twice");
        in_flight.forget(1, 1, true);
        assert!(in_flight.begin_to_judge(1, 1));
        // Handed back.
        in_flight.forget(1, 1, false);
        assert!(in_flight.begin_to_judge(1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn attempt_that_was_given_up_is_forgotten_after_a_day() {
        let in_flight = AttemptsInFlight::default();
        in_flight.give_up(1, 1);
        tokio::time::advance(GIVEN_UP).await;
        in_flight.give_up(2, 1);
        assert!(in_flight.was_given_up(2, 1) && in_flight.known() == 1);
    }
}
