//! The times of a definition: the next tick of its timetable, and its window. The store's time counts.

use std::sync::PoisonError;
use std::time::Duration;

use chrono::{DateTime, Utc};
use solid_notify_core::Status;
use solid_notify_core::definition::Step;
use solid_notify_core::store::{DueTimes, LastTick, Tick};

use super::Definition;

/// The result of a search for the next tick of a timetable.
pub(super) struct NextTick {
    /// The last tick of the timetable at the search.
    last: LastTick,
    /// The store's time at the search.
    searched: DateTime<Utc>,
    /// The next tick; `None` if there is none.
    tick: Option<DateTime<Utc>>,
}

impl Definition {
    /// Returns what its timetable requires now. None without a timetable, or if the definition produces nothing: not
    /// enabled, invalid, deleted.
    pub(crate) fn step(&self, due: &DueTimes) -> Option<Step> {
        if self.row.schedule.is_none() && !due.ticks.contains_key(&self.row.id) || self.row.delete_time.is_some() {
            return None;
        }
        let policy = self.policy().filter(|policy| policy.enabled)?;
        let (none, now) = (LastTick::default(), due.now);
        let seen = due.ticks.get(&self.row.id).unwrap_or(&none);
        let mut next = self.next_tick.lock().unwrap_or_else(PoisonError::into_inner);
        // A search made when the clock showed a later time may be wrong now.
        let stands = |next: &&NextTick| next.searched <= now && next.tick.is_none_or(|tick| now < tick);
        if let Some(found) = next.as_ref().filter(|next| next.last == *seen).filter(stands) {
            return Some(Step::Wait(found.tick));
        }
        let (schedule, missed) = (policy.schedule.as_ref(), policy.schedule_missed);
        let step = Step::of(self.row.schedule.as_deref(), schedule, missed, seen, now);
        if let Step::Wait(tick) = step {
            *next = Some(NextTick { last: seen.clone(), searched: now, tick });
        }
        Some(step)
    }

    /// Returns the record of these ticks.
    pub(crate) fn tick(&self, due: &DueTimes, last: DateTime<Utc>, ticks: &[DateTime<Utc>]) -> Tick {
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

    /// Returns how long notices of a status wait for the window to open. Expired leases and overdue acks are
    /// judged at any time.
    pub(crate) fn closed_for(&self, status: Status, now: DateTime<Utc>) -> Duration {
        match self.policy().and_then(|policy| policy.window.as_ref()) {
            Some(window) if matches!(status, Status::NotSent | Status::Failed) => {
                let opens = window.opens(now);
                opens.map_or(Duration::MAX, |opens| (opens - now).to_std().unwrap_or_default())
            }
            _ => Duration::ZERO,
        }
    }

    /// Returns for how long the window has been open.
    pub(crate) fn open_for(&self, now: DateTime<Utc>) -> Duration {
        let window = self.policy().and_then(|policy| policy.window.as_ref());
        window.map_or(Duration::MAX, |window| window.open_for(now))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use solid_notify_core::NotifyDef;
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
        let worker = Worker::new(outbox.sweeper());
        worker.reload_definitions().await.unwrap();
        let definitions = worker.definitions();
        let report = definitions.all().find(|definition| definition.row.name == "report").unwrap();
        let look = |last: u64, now: u64| {
            let time = |hours: u64| DateTime::UNIX_EPOCH + Duration::from_secs(hours * HOUR);
            let last = LastTick { at: Some(time(last)), schedule: Some(text.to_owned()) };
            let due = DueTimes {
                now: time(now),
                alerts: None,
                ticks: BTreeMap::from([(report.row.id, last)]),
                slices: Vec::new(),
            };
            report.step(&due);
            let next = report.next_tick.lock().unwrap();
            let hours = |time: DateTime<Utc>| (time - DateTime::UNIX_EPOCH).to_std().unwrap().as_secs() / HOUR;
            next.as_ref().map(|next| (hours(next.searched), next.tick.map(hours)))
        };
        assert_eq!(look(24, 25), Some((25, Some(48))));
        assert_eq!(look(24, 47), Some((25, Some(48))), "it is remembered");
        assert_eq!(look(24, 24), Some((24, Some(48))), "the clock was set back");
        assert_eq!(look(48, 49), Some((49, Some(72))), "it has ticked");
        report.next_tick.lock().unwrap().as_mut().unwrap().tick = None;
        assert_eq!(look(48, 500), Some((49, None)), "that there is no tick is remembered too");
    }
}
