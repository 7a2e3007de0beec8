//! The sweep: looks for what is due, claims it per definition and lane up to the free slots, and sleeps exactly until
//! the next due time.
//!
//! Per definition, so that the backlog or the pause of one never starves another; per lane, so that old retries never
//! hide fresh notices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::error::FaultKind;
use solid_notify_core::store::{Claim, ClaimWhat, DueLane, DueTimes};
use solid_notify_core::{Policy, Status, StoreError};
use tokio::time::Instant;

use crate::definitions::{Definition, RELOAD_INTERVAL, Ready};
use crate::health::pause_after;
use crate::worker::Worker;

/// The most notices of one claim.
pub(crate) const BATCH: usize = 500;
/// The most rounds of full claims of one definition in a row, before the others have their turn. Each turn begins with a look, which
/// on Postgres steps over what was sent before where a transaction is open elsewhere: with 2 the rate falls to 0.56 then.
const CLAIMS: usize = 10;
/// How long to gather free slots while more is due than there were slots for.
const REFILL: Duration = Duration::from_millis(1);
/// The least time between two readings of the definitions.
const RELOAD_PAUSE: Duration = Duration::from_millis(100);
/// The shortest sleep: two looks within the same millisecond find the same.
pub(crate) const SHORTEST: Duration = Duration::from_millis(1);

pub(crate) async fn sweep_loop(worker: Arc<Worker>) {
    let mut wakes = worker.outbox.wakes();
    let mut failures = 0_u32;
    let mut loaded = Instant::now();
    let (mut turn, mut stale) = (0_usize, false);
    let mut looked = Thorough::default();
    while !worker.stop.is_cancelled() {
        // Subscribed before the look, so that a turn of the clock during it is not missed.
        let turned = worker.clock_turned();
        if wakes.has_changed().unwrap_or(false) {
            wakes.mark_unchanged();
            stale = true;
            looked.is_due = true;
        }
        let round = async {
            worker.recover().await?;
            // Applications may wake us with each commit.
            if loaded.elapsed() >= RELOAD_INTERVAL || (stale && loaded.elapsed() >= RELOAD_PAUSE) {
                worker.reload_definitions().await?;
                (loaded, stale) = (Instant::now(), false);
            }
            turn = turn.wrapping_add(1);
            let sleep = worker.sweep(turn, !stale, &mut looked).await?;
            Ok::<_, StoreError>(if stale { sleep.min(RELOAD_PAUSE) } else { sleep })
        };
        let sleep = match round.await {
            Ok(next) => {
                failures = 0;
                next
            }
            Err(error) => {
                worker.health.note(&error);
                failures = failures.saturating_add(1);
                pause_after(failures - 1)
            }
        };
        if sleep.is_zero() {
            // More is due than was claimed; but let the others of this thread have their turn.
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep(sleep) => {}
            _ = wakes.changed() => { wakes.mark_changed(); }
            // A moment later more slots are free, and one claim takes for all of them.
            () = worker.slots.freed.notified() => tokio::time::sleep(REFILL).await,
            () = worker.due_soon.notified() => {}
            () = turned => {}
            () = worker.stop.cancelled() => {}
        }
    }
}

/// When everything was last looked at, also what may have been committed late. Between two such looks, while claim follows
/// claim, a look begins where the last one found the first notice: what is before that, many databases still have to
/// step over, although it is gone.
struct Thorough {
    is_due: bool,
    at: Instant,
    took: Duration,
}

impl Default for Thorough {
    fn default() -> Self {
        Self { is_due: true, at: Instant::now(), took: Duration::ZERO }
    }
}

impl Thorough {
    async fn look(&mut self, worker: &Worker) -> Result<DueTimes, StoreError> {
        let began = Instant::now();
        // Where it takes long, it is not to take all the time.
        let thorough = self.is_due || self.at.elapsed() >= worker.settings.poll_interval.max(20 * self.took);
        let due = worker.store().due(thorough).await?;
        if thorough {
            *self = Self { is_due: false, at: began, took: began.elapsed() };
        }
        Ok(due)
    }
}

impl Worker {
    /// After an outage: first extends our leases; only then is anything claimed. Our outcomes are being written by then, and
    /// the grace period leaves others the time for theirs.
    async fn recover(&self) -> Result<(), StoreError> {
        if self.health.is_down() {
            // Whatever is left of them. Where nothing is held, this only tells whether the database answers.
            self.extend_leases(Duration::MAX).await?;
            self.reload_definitions().await?;
            self.health.recovered(self.moment());
        }
        Ok(())
    }

    /// One look at everything; returns how long to sleep, zero where more is due already.
    ///
    /// `may_be_idle`: whether it counts as idle to find nothing due.
    async fn sweep(
        self: &Arc<Self>,
        turn: usize,
        may_be_idle: bool,
        looked: &mut Thorough,
    ) -> Result<Duration, StoreError> {
        let due = looked.look(self).await?;
        let (mut sleep, mut any_due) = self.tick(&due).await?;
        let mut by_def: BTreeMap<i64, Vec<DueLane>> = BTreeMap::new();
        let definitions = self.definitions();
        for mut lane in due.lanes {
            if let Some(definition) = definitions.get(lane.def_id) {
                lane.after = lane.after.max(definition.closed_for(lane.status, due.now));
            }
            by_def.entry(lane.def_id).or_default().push(lane);
        }
        // Another definition is first each time, so that the node's limit is shared.
        let first = turn % by_def.len().max(1);
        for (def_id, lanes) in by_def.iter().skip(first).chain(by_def.iter().take(first)) {
            let Some(definition) = definitions.get(*def_id) else { continue };
            let Some(ready) = definition.ready() else { continue };
            if self.stop.is_cancelled() {
                break;
            }
            let (now, later): (Vec<&DueLane>, Vec<&DueLane>) = lanes.iter().partition(|lane| lane.after.is_zero());
            if let Some(next) = later.iter().map(|lane| lane.after).min() {
                sleep = sleep.min(next.max(SHORTEST));
            }
            match self.sweep_one(definition, ready, &now, turn).await {
                Ok((next, busy)) => {
                    sleep = sleep.min(next);
                    any_due |= busy;
                }
                Err(error) if matches!(error.kind, FaultKind::Outage | FaultKind::Unusable) => return Err(error),
                // Perhaps it is this definition's rows; the others are not to wait for it.
                Err(error) => self.health.mention(&error),
            }
        }
        if may_be_idle && !any_due && self.claims_nothing() && self.holds_nothing() {
            self.idle.send_replace(());
        }
        Ok(sleep)
    }

    /// Rescues and claims what is due of one definition; returns when to look again, and whether there was something to do.
    /// (What waits behind another of its ordering key is due as well, and is nobody's to do.)
    async fn sweep_one(
        self: &Arc<Self>,
        definition: &Arc<Definition>,
        ready: &Arc<Ready>,
        due: &[&DueLane],
        turn: usize,
    ) -> Result<(Duration, bool), StoreError> {
        let is_due = |status| due.iter().any(|lane| lane.status == status);
        let mut sleep = self.settings.poll_interval;
        let mut busy = is_due(Status::Sending);
        if busy {
            sleep = sleep.min(self.rescue(definition, ready).await?);
        }
        if is_due(Status::AwaitingConfirm) {
            busy = true;
            sleep = sleep.min(self.judge_unconfirmed(definition, ready).await?);
        }
        if self.is_overloaded() {
            self.slots.want_more();
            return Ok((sleep, true));
        }
        if let Some(left) = self.held_for(&ready.policy) {
            return Ok((sleep.min(left.max(SHORTEST)), busy));
        }
        let late = |status| due.iter().find(|lane| lane.status == status).map(|lane| (status, Some(lane.late)));
        let mut lanes: Vec<(Status, Option<Duration>)> =
            [Status::NotSent, Status::Failed].into_iter().filter_map(late).collect();
        // What a quota lets through may be less than there are slots. Which lane is asked first is chance, lest one waits for ever.
        let suspects_first = ready.policy.quota.is_some() && fastrand::bool();
        if ready.policy.quota.is_some() && fastrand::bool() {
            lanes.reverse();
        }
        if suspects_first && is_due(Status::Failed) {
            busy |= self.claim_suspect(definition, ready).await?;
        }
        let (mut more, mut is_backlog) = (true, false);
        for _ in 0..CLAIMS {
            if !more || self.is_overloaded() || self.stop.is_cancelled() {
                break;
            }
            let mut beside: Vec<_> = lanes.iter().filter(|_| is_backlog).map(|(status, _)| (*status, None)).collect();
            // Neither is given up for an error of the other: it may have claimed something.
            let (claimed, more_claimed) = tokio::join!(
                self.claim_lanes(definition, ready, &mut lanes, turn),
                self.claim_lanes(definition, ready, &mut beside, turn)
            );
            let ((one_more, claimed), (other_more, more_claimed)) = (claimed?, more_claimed?);
            more = one_more || other_more;
            busy |= claimed || more_claimed;
            // While one claim is committed and its notices are started, the next one finds its own. (A quota lets in one at a time.)
            is_backlog = more && ready.policy.quota.is_none();
        }
        if !suspects_first && is_due(Status::Failed) {
            busy |= self.claim_suspect(definition, ready).await?;
        }
        match self.held_for(&ready.policy) {
            Some(left) => sleep = sleep.min(left.max(SHORTEST)),
            None if more => sleep = Duration::ZERO,
            None => {}
        }
        Ok((sleep, busy))
    }

    /// Claims from the due lanes of one definition; tells whether one of them has more and a slot is free, and whether
    /// something was claimed, or would have been with a slot.
    async fn claim_lanes(
        self: &Arc<Self>,
        definition: &Arc<Definition>,
        ready: &Arc<Ready>,
        lanes: &mut [(Status, Option<Duration>)],
        turn: usize,
    ) -> Result<(bool, bool), StoreError> {
        let (mut more, mut busy) = (false, false);
        let both = lanes.len() == 2;
        for (nth, (status, late)) in lanes.iter_mut().enumerate() {
            let mut slots = self.slots.take(ready.policy.def_id, ready.policy.max_concurrency, BATCH);
            // Two lanes share the slots: the first gets half of what is free, the second the rest; where there is one
            // slot they take turns.
            if both && nth == 0 {
                slots.truncate((slots.len() + turn % 2) / 2);
            }
            if slots.is_empty() {
                busy = true;
                continue;
            }
            let claim = self.claim(ready, ClaimWhat::Lane(*status), slots.len());
            let claimed = self.claim_and_start(definition, ready, &claim, slots, None).await?;
            more |= claimed.len() == claim.limit && (claim.limit == BATCH || both);
            busy |= !claimed.is_empty();
            // Of the first claim it is known since when its first notice was due.
            if let Some(late) = late.take_if(|_| !claimed.is_empty()) {
                ready.meters.claimed(late);
            }
        }
        Ok((more, busy))
    }

    /// Claims one notice that may be what kills its processes, unless another such one is being sent here; tells whether it
    /// did, or would have.
    async fn claim_suspect(
        self: &Arc<Self>,
        definition: &Arc<Definition>,
        ready: &Arc<Ready>,
    ) -> Result<bool, StoreError> {
        let Ok(alone) = Arc::clone(&self.suspect).try_acquire_owned() else {
            // The slot that its holder freed has woken the sweep already; its settle is to do so again.
            self.slots.want_more();
            return Ok(true);
        };
        let slots = self.slots.take(ready.policy.def_id, ready.policy.max_concurrency, 1);
        if slots.is_empty() {
            return Ok(true);
        }
        let claim = self.claim(ready, ClaimWhat::Suspects, 1);
        let claimed = self.claim_and_start(definition, ready, &claim, slots, Some(alone)).await?;
        Ok(!claimed.is_empty())
    }

    fn claim(&self, ready: &Ready, what: ClaimWhat, limit: usize) -> Claim {
        let Policy { def_id, quota, .. } = ready.policy;
        Claim { def_id, what, limit, lease: ready.policy.lease(), worker: self.id.clone(), quota }
    }
}
