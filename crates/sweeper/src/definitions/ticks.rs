//! [`Ticks`]: when a timetable ticks next. The store's time counts.

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use solid_notify_core::definition::Step;
use solid_notify_core::store::{DueTimes, LastTick};
use solid_notify_core::{NotifyDef, Policy};

/// The result of a search for the next tick of a timetable.
struct Search {
    /// The last tick of the timetable at the search.
    last: LastTick,
    /// The store's time at the search.
    at: DateTime<Utc>,
    /// The next tick; `None` if there is none.
    tick: Option<DateTime<Utc>>,
}

/// The last search for a tick of a timetable, so that there is one search per tick.
#[derive(Default)]
pub(super) struct Ticks(Mutex<Option<Search>>);

impl Ticks {
    /// Returns what the timetable of a definition requires now.
    pub(super) fn step(&self, row: &NotifyDef, policy: &Policy, due: &DueTimes) -> Step {
        let (none, now) = (LastTick::default(), due.now);
        let seen = due.ticks.get(&row.id).unwrap_or(&none);
        let mut last = self.0.lock();
        // A search made when the clock showed a later time may be wrong now.
        let is_current = |search: &&Search| search.at <= now && search.tick.is_none_or(|tick| now < tick);
        if let Some(search) = last.as_ref().filter(|search| search.last == *seen).filter(is_current) {
            return Step::Wait(search.tick);
        }
        let step = Step::of(row.schedule.as_deref(), policy.schedule.as_ref(), policy.schedule_missed, seen, now);
        if let Step::Wait(tick) = step {
            *last = Some(Search { last: seen.clone(), at: now, tick });
        }
        step
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use solid_notify_testkit::MemoryOutbox;

    use super::*;
    use crate::OutboxExt;
    use crate::worker::Worker;

    const HOUR: u64 = 3600;

    #[tokio::test]
    async fn search_for_a_tick_is_repeated_only_where_it_may_find_another() {
        let outbox = MemoryOutbox::new();
        let text = "0 0 0 * * *";
        outbox.define_if_missing(NotifyDef::new("report").schedule(text)).await.unwrap();
        let worker = Worker::new(outbox.sweeper().setup);
        worker.reload_definitions().await.unwrap();
        let definitions = worker.definitions();
        let report = definitions.all().find(|definition| definition.row.name == "report").unwrap();
        let look = |last: u64, now: u64| {
            let time = |hours: u64| DateTime::UNIX_EPOCH + Duration::from_secs(hours * HOUR);
            let last = LastTick { at: Some(time(last)), schedule: Some(text.to_owned()) };
            let ticks = BTreeMap::from([(report.row.id, last)]);
            let due = DueTimes { now: time(now), ticks, ..DueTimes::default() };
            report.step(&due);
            let next = report.ticks.0.lock();
            let hours = |time: DateTime<Utc>| (time - DateTime::UNIX_EPOCH).to_std().unwrap().as_secs() / HOUR;
            next.as_ref().map(|next| (hours(next.at), next.tick.map(hours)))
        };
        assert_eq!(look(24, 25), Some((25, Some(48))));
        assert_eq!(look(24, 47), Some((25, Some(48))), "it is remembered");
        assert_eq!(look(24, 24), Some((24, Some(48))), "the clock was set back");
        assert_eq!(look(48, 49), Some((49, Some(72))), "it has ticked");
        report.ticks.0.lock().as_mut().unwrap().tick = None;
        assert_eq!(look(48, 500), Some((49, None)), "that there is no tick is remembered too");
    }
}
