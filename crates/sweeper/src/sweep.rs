//! The sweep: looks for due notices, claims them per definition and queue slice up to the free slots, and sleeps exactly
//! until the next due time.
//!
//! It claims per definition, so that the backlog or pause of one never starves another. It claims per queue slice, so that
//! old retries never delay fresh notices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::error::FaultKind;
use solid_notify_core::store::{Claim, ClaimWhat, DueSlice, DueTimes};
use solid_notify_core::{Policy, Status, StoreError};
use tokio::time::Instant;

use crate::definitions::{Definition, RELOAD_INTERVAL, Ready};
use crate::health::pause_after;
use crate::store_clock::{Reading, StoreClock};
use crate::worker::Worker;

/// The most notices that one claim takes.
pub(crate) const BATCH: usize = 500;
/// The most rounds of full claims of one definition in a row, before the other definitions have their turn. Each turn
/// begins with a look. On Postgres, while a transaction is open elsewhere, a look steps over the entries of notices that
/// were already sent: with 2 rounds instead of 10 the rate then falls to 0.56.
const CLAIMS: usize = 10;
/// How long to gather free slots when more notices are due than there were slots.
const REFILL: Duration = Duration::from_millis(1);
/// The shortest time between two readings of the definitions.
const RELOAD_PAUSE: Duration = Duration::from_millis(100);
/// Looks and readings that are requested again and again, for instance by each acknowledgement, take at most a tenth of the
/// time.
const SHARE: u32 = 10;
/// How long the other definitions wait for the sweep of one.
const PATIENCE: Duration = Duration::from_millis(500);
/// The shortest sleep, because two looks within the same millisecond find the same.
pub(crate) const SHORTEST: Duration = Duration::from_millis(1);

pub(crate) async fn sweep_loop(worker: Arc<Worker>) {
    let mut wakes = worker.outbox.engine().wakes();
    let mut failures = 0_u32;
    let (mut loaded, mut reading) = (Instant::now(), Duration::ZERO);
    let (mut turn, mut stale) = (0_usize, false);
    let mut looked = Looks::default();
    while !worker.stop.is_cancelled() {
        // Subscribed before the look, so that a turn of the clock during the look is not missed.
        let turned = worker.clock_turned();
        if wakes.has_changed().unwrap_or(false) {
            wakes.mark_unchanged();
            stale = true;
            looked.is_due = true;
        }
        // With thousands of definitions a reading takes long. An edit still takes effect within five seconds.
        let reload_pause = RELOAD_PAUSE.max(SHARE * reading).min(RELOAD_INTERVAL);
        let reload_interval = RELOAD_INTERVAL.max(SHARE * reading).min(2 * RELOAD_INTERVAL);
        let round = async {
            worker.recover().await?;
            // Applications may wake the sweeper with each commit.
            if loaded.elapsed() >= reload_interval || (stale && loaded.elapsed() >= reload_pause) {
                let began = Instant::now();
                worker.reload_definitions().await?;
                (loaded, stale, reading) = (Instant::now(), false, began.elapsed());
            }
            turn = turn.wrapping_add(1);
            let sleep = worker.sweep(turn, !stale, &mut looked).await?;
            Ok::<_, StoreError>(if stale { sleep.min(reload_pause) } else { sleep })
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
            // More is due than was claimed, but other tasks of this thread get their turn first.
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep(sleep) => {}
            _ = wakes.changed() => {
                wakes.mark_changed();
                worker.pause(looked.rest().min(worker.settings.poll_interval)).await;
            }
            // A moment later more slots are free, and one claim serves them all.
            () = worker.slots.freed.notified() => tokio::time::sleep(REFILL).await,
            () = worker.due_soon.notified() => {}
            () = turned => {}
            () = worker.stop.cancelled() => {}
        }
    }
}

/// When the last thorough look was, which also finds notices that were committed late. Between two thorough looks a look
/// begins where the last one found the first notice. Many databases still step over the index entries before it, although
/// their notices are gone.
struct Looks {
    is_due: bool,
    at: Instant,
    took: Duration,
    clock: StoreClock,
}

impl Default for Looks {
    fn default() -> Self {
        Self { is_due: true, at: Instant::now(), took: Duration::ZERO, clock: StoreClock::default() }
    }
}

impl Looks {
    /// Returns how long the next thorough look has to wait.
    fn rest(&self) -> Duration {
        (SHARE * self.took).saturating_sub(self.at.elapsed())
    }

    async fn look(&mut self, worker: &Worker) -> Result<DueTimes, StoreError> {
        let (began, asked) = (Instant::now(), worker.moment());
        // A thorough look that takes long must not take all the time.
        let thorough = self.is_due || self.at.elapsed() >= worker.settings.poll_interval.max(20 * self.took);
        let due = worker.store().due(thorough).await?;
        let reading = Reading::new(due.now, asked, worker.moment());
        if thorough {
            (self.is_due, self.at, self.took) = (false, began, began.elapsed());
        }
        if let Some(by) = self.clock.was_set(&reading) {
            worker.clock_was_set(by).await?;
        }
        self.clock.keep(reading);
        Ok(due)
    }
}

impl Worker {
    /// After an outage: extends the leases of this node before it claims anything. Its outcomes are being written by then,
    /// and the grace period gives other nodes the time for theirs.
    async fn recover(&self) -> Result<(), StoreError> {
        if self.health.is_down() {
            // All leases, however long they still last. If no claim is held, this only checks whether the database answers.
            match self.extend_leases(Duration::MAX).await {
                Err(error) if error.kind != FaultKind::Outage => self.health.mention(&error),
                done => done?,
            }
            self.reload_definitions().await?;
            self.health.recovered(self.moment());
            self.beat_now.notify_one();
        }
        Ok(())
    }

    /// After the store's clock was set: extends the leases of this node, and gives other nodes the time to extend theirs.
    async fn clock_was_set(&self, by_ms: i64) -> Result<(), StoreError> {
        self.health.be_careful(self.moment());
        tracing::warn!(
            by_ms,
            "the database's clock was set; this node extends its leases and takes no expired lease of other nodes for a while"
        );
        // A claim under way sets a lease by the old time, so the extension waits until its notices are registered.
        let _no_claims = self.claims.write().await;
        self.extend_leases(Duration::MAX).await?;
        self.beat_now.notify_one();
        Ok(())
    }

    /// Looks once at all definitions and sweeps the due ones. Returns how long to sleep, zero if more is due already.
    ///
    /// `may_be_idle`: whether the node counts as idle if the look finds no due notice.
    async fn sweep(
        self: &Arc<Self>,
        turn: usize,
        may_be_idle: bool,
        looked: &mut Looks,
    ) -> Result<Duration, StoreError> {
        let due = looked.look(self).await?;
        let (mut sleep, mut any_due) = self.tick(&due).await?;
        let mut by_def: BTreeMap<i64, Vec<DueSlice>> = BTreeMap::new();
        let definitions = self.definitions();
        for mut slice in due.slices {
            if let Some(definition) = definitions.get(slice.def_id) {
                slice.after = slice.after.max(definition.closed_for(slice.status, due.now));
            }
            by_def.entry(slice.def_id).or_default().push(slice);
        }
        // A different definition comes first each time, so that definitions share the node's limit.
        let first = turn % by_def.len().max(1);
        for (def_id, slices) in by_def.iter().skip(first).chain(by_def.iter().take(first)) {
            let Some(definition) = definitions.get(*def_id) else { continue };
            let Some(ready) = definition.ready() else { continue };
            if self.stop.is_cancelled() {
                break;
            }
            let (now, later): (Vec<&DueSlice>, Vec<&DueSlice>) = slices.iter().partition(|slice| slice.after.is_zero());
            if let Some(next) = later.iter().map(|slice| slice.after).min() {
                sleep = sleep.min(next.max(SHORTEST));
            }
            let now = now.into_iter().copied().collect();
            match self.sweep_beside(definition, ready, now, turn).await {
                Ok((next, busy)) => {
                    sleep = sleep.min(next);
                    any_due |= busy;
                }
                Err(error) if error.kind == FaultKind::Outage => return Err(error),
                // The error concerns this definition only: a locked row, a missing right, a slow statement.
                Err(error) => self.health.mention(&error),
            }
        }
        if may_be_idle && !any_due && self.claims_nothing() && self.holds_nothing() {
            self.idle.send_replace(());
        }
        Ok(sleep)
    }

    /// Sweeps one definition. A sweep that takes long continues in a task of its own, and the other definitions have their
    /// turn.
    async fn sweep_beside(
        self: &Arc<Self>,
        definition: &Arc<Definition>,
        ready: &Arc<Ready>,
        due: Vec<DueSlice>,
        turn: usize,
    ) -> Result<(Duration, bool), StoreError> {
        let poll = self.settings.poll_interval;
        let Some(begun) = self.sweeping.begin(definition.row.id) else { return Ok((poll, true)) };
        let (worker, definition, ready) = (Arc::clone(self), Arc::clone(definition), Arc::clone(ready));
        let mut sweep = Box::pin(async move {
            let swept = worker.sweep_one(&definition, &ready, &due.iter().collect::<Vec<_>>(), turn).await;
            begun.end();
            swept
        });
        if let Ok(swept) = tokio::time::timeout(PATIENCE, &mut sweep).await {
            return swept;
        }
        let worker = Arc::clone(self);
        // Tracked with the running handlers, so that a shutdown waits for its claims.
        self.running.spawn(async move {
            if let Err(error) = sweep.await {
                worker.health.note_some(&error);
            }
            worker.due_soon.notify_one();
        });
        Ok((poll, true))
    }

    /// Rescues and claims the due notices of one definition. Returns when to look again, and whether there was work. (A
    /// notice that waits behind another one of its ordering key is due as well, but is no work.)
    async fn sweep_one(
        self: &Arc<Self>,
        definition: &Arc<Definition>,
        ready: &Arc<Ready>,
        due: &[&DueSlice],
        turn: usize,
    ) -> Result<(Duration, bool), StoreError> {
        let is_due = |status| due.iter().any(|slice| slice.status == status);
        let mut sleep = self.settings.poll_interval;
        let mut busy = is_due(Status::Sending);
        if busy {
            sleep = sleep.min(self.rescue(definition, ready).await?);
        }
        if is_due(Status::AwaitingAck) {
            busy = true;
            sleep = sleep.min(self.judge_unacked(definition, ready).await?);
        }
        if self.is_overloaded(definition.row.id) {
            self.slots.want_more();
            return Ok((sleep, true));
        }
        if let Some(left) = self.held_for(&ready.policy) {
            return Ok((sleep.min(left.max(SHORTEST)), busy));
        }
        let late = |status| due.iter().find(|slice| slice.status == status).map(|slice| (status, Some(slice.late)));
        let mut slices: Vec<(Status, Option<Duration>)> =
            [Status::NotSent, Status::Failed].into_iter().filter_map(late).collect();
        // A quota may let through fewer notices than there are slots. The order of the queue slices is random, so that
        // neither waits for ever.
        let crash_looping_first = ready.policy.quota.is_some() && fastrand::bool();
        if ready.policy.quota.is_some() && fastrand::bool() {
            slices.reverse();
        }
        if crash_looping_first && is_due(Status::Failed) {
            busy |= self.claim_crash_looping(definition, ready).await?;
        }
        let (mut more, mut is_backlog) = (true, false);
        for _ in 0..CLAIMS {
            if !more || self.is_overloaded(definition.row.id) || self.stop.is_cancelled() {
                break;
            }
            let mut beside: Vec<_> = slices.iter().filter(|_| is_backlog).map(|(status, _)| (*status, None)).collect();
            // Both claims finish even if one fails, because the other may have claimed notices.
            let (claimed, more_claimed) = tokio::join!(
                self.claim_slices(definition, ready, &mut slices, turn),
                self.claim_slices(definition, ready, &mut beside, turn)
            );
            let ((one_more, claimed), (other_more, more_claimed)) = (claimed?, more_claimed?);
            more = one_more || other_more;
            busy |= claimed || more_claimed;
            // While one claim commits and its notices start, the next one finds its own. (A quota admits one claim at a
            // time.)
            is_backlog = more && ready.policy.quota.is_none();
        }
        if !crash_looping_first && is_due(Status::Failed) {
            busy |= self.claim_crash_looping(definition, ready).await?;
        }
        match self.held_for(&ready.policy) {
            Some(left) => sleep = sleep.min(left.max(SHORTEST)),
            None if more => sleep = Duration::ZERO,
            None => {}
        }
        Ok((sleep, busy))
    }

    /// Claims from the due queue slices of one definition. Returns whether a slice has more while a slot is free, and
    /// whether the call claimed something or would have with a free slot.
    async fn claim_slices(
        self: &Arc<Self>,
        definition: &Arc<Definition>,
        ready: &Arc<Ready>,
        slices: &mut [(Status, Option<Duration>)],
        turn: usize,
    ) -> Result<(bool, bool), StoreError> {
        let (mut more, mut busy) = (false, false);
        let both = slices.len() == 2;
        for (nth, (status, late)) in slices.iter_mut().enumerate() {
            let mut slots = self.slots.take(ready.policy.def_id, ready.policy.max_concurrency, BATCH);
            // Two queue slices share the slots: the first gets half of the free ones, the second the rest. If there is one
            // slot, they take turns.
            if both && nth == 0 {
                slots.truncate((slots.len() + turn % 2) / 2);
            }
            if slots.is_empty() {
                busy = true;
                continue;
            }
            let claim = self.claim(ready, ClaimWhat::Slice(*status), slots.len());
            let claimed = self.claim_and_start(definition, ready, &claim, slots, None).await?;
            more |= claimed.len() == claim.limit && (claim.limit == BATCH || both);
            busy |= !claimed.is_empty();
            // For the first claim the look reported since when its first notice was due.
            if let Some(late) = late.take_if(|_| !claimed.is_empty()) {
                ready.meters.claimed(late);
            }
        }
        Ok((more, busy))
    }

    /// Claims one suspect notice (one that may kill its process), unless this node is sending another one. Returns whether
    /// it claimed one, or would have with a free slot.
    async fn claim_crash_looping(
        self: &Arc<Self>,
        definition: &Arc<Definition>,
        ready: &Arc<Ready>,
    ) -> Result<bool, StoreError> {
        let Ok(alone) = Arc::clone(&self.crash_looping).try_acquire_owned() else {
            // The freed slot of the suspect in flight has already woken the sweep; its settle must wake the sweep again.
            self.slots.want_more();
            return Ok(true);
        };
        let slots = self.slots.take(ready.policy.def_id, ready.policy.max_concurrency, 1);
        if slots.is_empty() {
            return Ok(true);
        }
        let claim = self.claim(ready, ClaimWhat::CrashLooping, 1);
        let claimed = self.claim_and_start(definition, ready, &claim, slots, Some(alone)).await?;
        Ok(!claimed.is_empty())
    }

    fn claim(&self, ready: &Ready, what: ClaimWhat, limit: usize) -> Claim {
        let Policy { def_id, quota, .. } = ready.policy;
        Claim { def_id, what, limit, lease: ready.policy.lease(), worker: self.id.clone(), quota }
    }
}
