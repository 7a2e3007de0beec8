//! Timetables on the sweeper's side: ticks become notices.
//!
//! `solid_notify_core::definition` decides what to do, by the store's time. Any sweeper ticks any valid definition, even
//! one whose handler only other nodes have.

use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::definition::Step;
use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::rfc3339;
use solid_notify_core::store::{Advanced, DueTimes};

use crate::alerts::locked::Work;
use crate::refusals::Part;
use crate::sleep::{SHORTEST_SLEEP, Swept};
use crate::worker::Worker;

/// Inserts the notices of the timetables that have ticked.
pub(crate) async fn tick(worker: &Worker, due: &DueTimes) -> Result<Swept, StoreError> {
    let mut sleep = worker.settings.poll_interval;
    let mut busy = false;
    for definition in worker.definitions().all() {
        let Some(step) = definition.step(due) else { continue };
        let (last, ticks) = match step {
            Step::Produce { last, ticks } => (last, ticks),
            Step::Wait(until) => {
                let after = until.and_then(|until| (until - due.now).to_std().ok());
                sleep = after.map_or(sleep, |after| sleep.min(after.max(SHORTEST_SLEEP)));
                continue;
            }
        };
        if worker.signals.is_stopped() {
            break;
        }
        let part = Part::Ticks(definition.row.id);
        if let Some(left) = worker.health.refusals.rest(part) {
            sleep = sleep.min(left);
            continue;
        }
        busy = true;
        worker.health.sweeps();
        if let Some(seen) = due.ticks.get(&definition.row.id).and_then(|seen| seen.at).filter(|seen| *seen > last) {
            tracing::error!(
                definition = %definition.row.name, last_tick = %rfc3339(seen),
                now = %rfc3339(due.now),
                "last_tick lies ahead of the database's clock, which was wrong then; the timetable begins now"
            );
        }
        let ticked = worker.stores().send.tick(&definition.tick(due, last, &ticks)).await;
        if ticked.is_ok() {
            worker.health.works(part, worker.moment());
        }
        match ticked {
            // The new notices are due, and there may be more ticks.
            Ok(Advanced::Stored) => {
                worker.alarms.locked_rows.goes_on(definition.row.id, &definition.row.name, Work::Ticks);
                sleep = Duration::ZERO;
            }
            // Another node was faster, or this node's view of the row is outdated and would be so at the next look too.
            Ok(Advanced::Changed) => {
                worker.alarms.locked_rows.goes_on(definition.row.id, &definition.row.name, Work::Ticks);
                worker.reload_definitions().await?;
                sleep = sleep.min(SHORTEST_SLEEP);
            }
            // Tried again with the next poll: another node is just recording the tick, or an editor has locked the row
            // for long.
            Ok(Advanced::Locked) => {
                worker.alarms.locked_rows.waits(definition.row.id, &definition.row.name, Work::Ticks)
            }
            Err(error) if error.kind == FaultKind::Outage => return Err(error),
            // The other definitions do not wait for it.
            Err(error) => worker.health.failed(part, &error),
        }
    }
    Ok(Swept { again_in: sleep, busy })
}
