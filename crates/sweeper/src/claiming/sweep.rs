//! The sweep: looks for due notices, sweeps each definition that has any, and sleeps exactly until the next due time.
//!
//! It sweeps per definition ([`super::slices`]), so that the backlog or pause of one never starves another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;
use solid_notify_core::store::DueSlice;
use tokio::time::Instant;

use super::look::{Looks, SHARE};
use crate::background::health::pause_after;
use crate::definitions::{Definition, RELOAD_INTERVAL, Ready};
use crate::worker::Worker;

/// The most notices that one claim takes.
pub(crate) const BATCH: usize = 500;
/// How long the other definitions wait for the sweep of one.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long to gather free slots when more notices are due than there were slots.
const REFILL: Duration = Duration::from_millis(1);
/// The shortest time between two readings of the definitions.
const RELOAD_PAUSE: Duration = Duration::from_millis(100);
/// The shortest sleep, because two looks within the same millisecond find the same.
pub(crate) const SHORTEST: Duration = Duration::from_millis(1);

pub(crate) async fn sweep_loop(worker: Arc<Worker>) {
    let mut wakes = worker.outbox.engine().wakes();
    let mut failures = 0_u32;
    let (mut loaded, mut reading) = (Instant::now(), Duration::ZERO);
    let (mut turn, mut stale) = (0_usize, false);
    let mut looked = Looks::default();
    while !worker.signals.is_stopped() {
        // Subscribed before the look, so that a turn of the clock during the look is not missed.
        let turned = worker.signals.clock_turned();
        if wakes.has_changed().unwrap_or(false) {
            wakes.mark_unchanged();
            stale = true;
            looked.be_thorough();
        }
        // With thousands of definitions a reading takes long. An edit still takes effect within five seconds.
        let reload_pause = RELOAD_PAUSE.max(SHARE * reading).min(RELOAD_INTERVAL);
        let reload_interval = RELOAD_INTERVAL.max(SHARE * reading).min(2 * RELOAD_INTERVAL);
        let round = async {
            worker.recover().await?;
            // Applications may wake the sweeper with each commit.
            if worker.has_unread_edits()
                || loaded.elapsed() >= reload_interval
                || (stale && loaded.elapsed() >= reload_pause)
            {
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
                worker.signals.pause(looked.rest().min(worker.settings.poll_interval)).await;
            }
            // A moment later more slots are free, and one claim serves them all.
            () = worker.admission.slot_freed() => tokio::time::sleep(REFILL).await,
            () = worker.signals.sweep_requested() => {}
            () = turned => {}
            () = worker.signals.stopped() => {}
        }
    }
}

/// The result of a sweep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Swept {
    /// When to sweep again; zero if more is due already.
    pub(crate) again_in: Duration,
    /// There was work. (A notice that waits behind another one of its ordering key is due as well, but is no work.)
    pub(crate) busy: bool,
}

impl Worker {
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
        let (ticked, alerts) = (self.tick(&due).await?, self.advance_alerts(&due).await?);
        let (mut sleep, mut any_due) = (ticked.again_in.min(alerts.again_in), ticked.busy || alerts.busy);
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
            if self.signals.is_stopped() {
                break;
            }
            let (now, later): (Vec<&DueSlice>, Vec<&DueSlice>) = slices.iter().partition(|slice| slice.after.is_zero());
            if let Some(next) = later.iter().map(|slice| slice.after).min() {
                sleep = sleep.min(next.max(SHORTEST));
            }
            let now = now.into_iter().copied().collect();
            match self.sweep_beside(definition, ready, now, turn).await {
                Ok(swept) => {
                    sleep = sleep.min(swept.again_in);
                    any_due |= swept.busy;
                }
                Err(error) if error.kind == FaultKind::Outage => return Err(error),
                // The error concerns this definition only: a locked row, a missing right, a slow statement.
                Err(error) => self.health.mention(&error),
            }
        }
        if may_be_idle && !any_due && self.in_flight.claims_nothing() && self.in_flight.is_empty() {
            self.signals.report_idle();
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
    ) -> Result<Swept, StoreError> {
        let later = Swept { again_in: self.settings.poll_interval, busy: true };
        let Some(begun) = self.admission.begin_sweep(definition.row.id) else { return Ok(later) };
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
        self.tasks.spawn(async move {
            if let Err(error) = sweep.await {
                worker.health.note_some(&error);
            }
            worker.signals.sweep_soon();
        });
        Ok(later)
    }
}
