//! Timetables and windows, the sweeper's end: ticks become notices, and what is due waits while its window is closed.
//!
//! What is to be done is decided in `solid_notify_core::definition`, by the store's time. Any sweeper ticks any valid definition,
//! also one whose handler only others have.

use std::sync::PoisonError;
use std::time::{Duration, SystemTime};

use solid_notify_core::definition::Step;
use solid_notify_core::error::FaultKind;
use solid_notify_core::store::{DueTimes, Tick};
use solid_notify_core::{Status, StoreError};

use crate::definitions::{Definition, Ready};
use crate::sweep::SHORTEST;
use crate::worker::Worker;

impl Worker {
    /// Produces the notices of the timetables that have ticked. Returns when to look again, and whether there was something to do.
    pub(crate) async fn tick(&self, due: &DueTimes) -> Result<(Duration, bool), StoreError> {
        let mut sleep = self.settings.poll_interval;
        let mut busy = false;
        for definition in self.definitions().all() {
            let Some(step) = definition.step(due) else { continue };
            let (last, ticks) = match step {
                Step::Produce { last, ticks } => (last, ticks),
                Step::Wait(until) => {
                    let after = until.and_then(|until| until.duration_since(due.now).ok());
                    sleep = after.map_or(sleep, |after| sleep.min(after.max(SHORTEST)));
                    continue;
                }
            };
            if self.stop.is_cancelled() {
                break;
            }
            busy = true;
            match self.store().tick(&definition.tick(due, last, &ticks)).await {
                // What was added is due, and there may be more ticks.
                Ok(true) => sleep = Duration::ZERO,
                // Another node was faster. Or our view of the row is old, and would be so in the next look, too.
                Ok(false) => {
                    self.reload_definitions().await?;
                    sleep = sleep.min(SHORTEST);
                }
                Err(error) if matches!(error.kind, FaultKind::Outage | FaultKind::Unusable) => return Err(error),
                // The others are not to wait for it.
                Err(error) => self.health.mention(&error),
            }
        }
        Ok((sleep, busy))
    }

    /// Whether the window of a definition is closed by the store's time at this moment. Without a window this costs nothing.
    pub(crate) async fn is_closed(&self, ready: &Ready) -> Result<bool, StoreError> {
        let Some(window) = &ready.policy.window else { return Ok(false) };
        let now = self.outbox.operate().nodes(Duration::ZERO).await?.now;
        Ok(!window.is_open(now))
    }
}

impl Definition {
    /// What its timetable asks for. None where it has none, or produces nothing: not enabled, invalid, deleted.
    pub(crate) fn step(&self, due: &DueTimes) -> Option<Step> {
        if self.row.schedule.is_none() && !due.ticks.contains_key(&self.row.id) || self.row.delete_time.is_some() {
            return None;
        }
        let policy = self.policy().filter(|policy| policy.enabled)?;
        let seen = due.ticks.get(&self.row.id).cloned().unwrap_or_default();
        let mut next = self.next_tick.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tick)) = next.as_ref().filter(|(last, tick)| *last == seen && *tick > due.now) {
            return Some(Step::Wait(Some(*tick)));
        }
        let (schedule, missed) = (policy.schedule.as_ref(), policy.schedule_missed);
        let step = Step::of(self.row.schedule.as_deref(), schedule, missed, &seen, due.now);
        if let Step::Wait(Some(tick)) = step {
            *next = Some((seen, tick));
        }
        Some(step)
    }

    fn tick(&self, due: &DueTimes, last: SystemTime, ticks: &[SystemTime]) -> Tick {
        let schedule = self.policy().and_then(|policy| policy.schedule.as_ref());
        Tick {
            def_id: self.row.id,
            schedule: self.row.schedule.clone(),
            seen: due.ticks.get(&self.row.id).cloned().unwrap_or_default(),
            last,
            params: schedule
                .map(|schedule| ticks.iter().map(|tick| schedule.param(*tick)).collect())
                .unwrap_or_default(),
        }
    }

    /// How long notices of a status have to wait for the window to open. Whose sender died, or whose confirmation is overdue, is
    /// judged at any time.
    pub(crate) fn closed_for(&self, status: Status, now: SystemTime) -> Duration {
        match self.policy().and_then(|policy| policy.window.as_ref()) {
            Some(window) if matches!(status, Status::NotSent | Status::Failed) => {
                let opens = window.opens(now);
                opens.map_or(Duration::MAX, |opens| opens.duration_since(now).unwrap_or_default())
            }
            _ => Duration::ZERO,
        }
    }

    /// For how long the window has been open.
    pub(crate) fn open_for(&self, now: SystemTime) -> Duration {
        let window = self.policy().and_then(|policy| policy.window.as_ref());
        window.map_or(Duration::MAX, |window| window.open_for(now))
    }
}
