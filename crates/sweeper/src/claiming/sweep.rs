//! The sweep: looks for due notices, sweeps each definition that has any, and sleeps exactly until the next due time.
//!
//! It sweeps per definition ([`super::slices`]), so that the backlog or pause of one never starves another. What it does after an
//! outage, and after the store's clock was set, is in [`super::recovery`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;
use solid_notify_core::store::{DueSlice, DueTimes};
use tokio::time::Instant;

use super::recovery::{clock_was_set, recover};
use super::slices::sweep_one;
use super::store_clock::{Reading, StoreClock};
use crate::alerts::advance::advance_alerts;
use crate::background::timetable::tick;
use crate::definitions::{Definition, RELOAD_INTERVAL, Ready};
use crate::refusals::Part;
use crate::sleep::{SHORTEST_SLEEP, Swept, pause_after};
use crate::worker::Worker;

/// How long the other definitions wait for the sweep of one.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long to wait for alarms and notices for targets that are on their way.
const FORWARDED: Duration = Duration::from_millis(20);
/// How long to gather free slots when more notices are due than there were slots.
const REFILL: Duration = Duration::from_millis(1);
/// The shortest time between two readings of the definitions.
const RELOAD_PAUSE: Duration = Duration::from_millis(100);
/// Looks and readings that are requested again and again, for instance by each acknowledgement, take at most a tenth of the
/// time.
const SHARE: u32 = 10;
/// Readings that nothing requests take at most a hundredth of it, as far as [`RELOAD_INTERVAL`] allows.
const IDLE_SHARE: u32 = 100;

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
        let reload_interval = RELOAD_INTERVAL.max(IDLE_SHARE * reading).min(2 * RELOAD_INTERVAL);
        worker.health.sweeps();
        let round = async {
            recover(&worker).await?;
            worker.health.sweeps();
            // Applications may wake the sweeper with each commit.
            if worker.has_unread_edits()
                || loaded.elapsed() >= reload_interval
                || (stale && loaded.elapsed() >= reload_pause)
            {
                let began = Instant::now();
                worker.reload_definitions().await?;
                (loaded, stale, reading) = (Instant::now(), false, began.elapsed());
                worker.health.sweeps();
            }
            turn = turn.wrapping_add(1);
            let sleep = sweep(&worker, turn, !stale, &mut looked).await?;
            Ok::<_, StoreError>(if stale { sleep.min(reload_pause) } else { sleep })
        };
        let sleep = match round.await {
            Ok(next) => {
                worker.health.swept(worker.moment());
                failures = 0;
                next
            }
            Err(error) => {
                worker.health.note(&error);
                worker.health.claimed(Some(&error));
                failures = failures.saturating_add(1);
                pause_after(failures - 1)
            }
        };
        if let Some(left) = worker.health.refusals.rest(Part::Sweep) {
            // Until the right or table is there, commits that wake the sweep change nothing.
            worker.signals.pause(left).await;
            continue;
        }
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

/// Looks once at all definitions and sweeps the due ones. Returns how long to sleep, zero if more is due already.
///
/// `may_be_idle`: whether the node counts as idle if the look finds no due notice.
async fn sweep(
    worker: &Arc<Worker>,
    turn: usize,
    may_be_idle: bool,
    looked: &mut Looks,
) -> Result<Duration, StoreError> {
    let due = looked.look(worker).await?;
    worker.health.sweeps();
    let (ticked, alerts) = (tick(worker, &due).await?, advance_alerts(worker, &due).await?);
    let (mut sleep, mut any_due) =
        (ticked.again_in.min(alerts.again_in), ticked.busy || alerts.busy || due.is_forwarding);
    if due.is_forwarding {
        sleep = sleep.min(FORWARDED);
    }
    let mut by_def: BTreeMap<i64, Vec<DueSlice>> = BTreeMap::new();
    let definitions = worker.definitions();
    for mut slice in due.slices {
        if let Some(definition) = definitions.get(slice.def_id) {
            slice.after = slice.after.max(definitions.closed_for(definition, slice.status, due.now));
        }
        by_def.entry(slice.def_id).or_default().push(slice);
    }
    let (mut any_swept, mut problem) = (false, None);
    // A different definition comes first each time, so that definitions share the node's limit.
    let first = turn % by_def.len().max(1);
    for (def_id, slices) in by_def.iter().skip(first).chain(by_def.iter().take(first)) {
        let Some(definition) = definitions.get(*def_id) else { continue };
        let Some(ready) = definition.ready() else { continue };
        if worker.signals.is_stopped() {
            break;
        }
        if let Some(left) = worker.health.refusals.rest(Part::Claims(*def_id)) {
            sleep = sleep.min(left);
            continue;
        }
        let (now, later): (Vec<&DueSlice>, Vec<&DueSlice>) = slices.iter().partition(|slice| slice.after.is_zero());
        if let Some(next) = later.iter().map(|slice| slice.after).min() {
            sleep = sleep.min(next.max(SHORTEST_SLEEP));
        }
        let now = now.into_iter().copied().collect();
        // With many definitions whose statements are slow a round takes long.
        worker.health.sweeps();
        match sweep_beside(worker, definition, ready, now, turn).await {
            Ok(swept) => {
                any_swept = true;
                sleep = sleep.min(swept.again_in);
                any_due |= swept.busy;
            }
            Err(error) if error.kind == FaultKind::Outage => return Err(error),
            // The error concerns this definition only: a locked row, a missing right, a slow statement.
            Err(error) => {
                worker.health.mention(&error);
                problem = Some(error);
            }
        }
    }
    worker.health.claimed(problem.as_ref().filter(|_| !any_swept));
    if may_be_idle && !any_due && worker.in_flight.claims_nothing() && worker.in_flight.is_empty() {
        worker.signals.report_idle();
    }
    Ok(sleep)
}

/// Sweeps one definition. A sweep that takes long continues in a task of its own, and the other definitions have their
/// turn.
async fn sweep_beside(
    worker: &Arc<Worker>,
    definition: &Arc<Definition>,
    ready: &Arc<Ready>,
    due: Vec<DueSlice>,
    turn: usize,
) -> Result<Swept, StoreError> {
    let later = Swept { again_in: worker.settings.poll_interval, busy: true };
    let Some(begun) = worker.admission.begin_sweep(definition.row.id) else { return Ok(later) };
    let (shared, definition, ready) = (Arc::clone(worker), Arc::clone(definition), Arc::clone(ready));
    let mut sweep = Box::pin(async move {
        let swept = sweep_one(&shared, &definition, &ready, &due.iter().collect::<Vec<_>>(), turn).await;
        begun.end();
        swept
    });
    if let Ok(swept) = tokio::time::timeout(PATIENCE, &mut sweep).await {
        return swept;
    }
    let shared = Arc::clone(worker);
    // Tracked with the running handlers, so that a shutdown waits for its claims.
    worker.in_flight.tasks.spawn(async move {
        if let Err(error) = sweep.await {
            shared.health.note_some(&error);
        }
        shared.signals.sweep_soon();
    });
    Ok(later)
}

/// When the last thorough look was, which also finds notices that were committed late. Between two thorough looks a look
/// begins where the last one found the first notice. Many databases still step over the index entries before it, although
/// their notices are gone.
struct Looks {
    /// A thorough look is due.
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
    /// Makes the next look a thorough one.
    fn be_thorough(&mut self) {
        self.is_due = true;
    }

    /// Returns how long the next thorough look has to wait.
    fn rest(&self) -> Duration {
        (SHARE * self.took).saturating_sub(self.at.elapsed())
    }

    /// Looks at what is due.
    async fn look(&mut self, worker: &Worker) -> Result<DueTimes, StoreError> {
        let (began, asked) = (Instant::now(), worker.moment());
        // A thorough look that takes long must not take all the time.
        let thorough = self.is_due || self.at.elapsed() >= worker.settings.poll_interval.max(20 * self.took);
        let due = worker.stores().send.due(thorough).await?;
        worker.health.forwards(&due.not_forwarded);
        let reading = Reading::new(due.now, asked, worker.moment());
        if thorough {
            (self.is_due, self.at, self.took) = (false, began, began.elapsed());
        }
        if let Some(by) = self.clock.was_set(&reading) {
            clock_was_set(worker, by).await?;
        }
        self.clock.keep(reading);
        Ok(due)
    }
}
