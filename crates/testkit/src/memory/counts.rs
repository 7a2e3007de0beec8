//! The snapshot of counts in memory.

use std::time::{Duration, SystemTime};

use solid_notify_core::Status;
use solid_notify_core::operate::{Counts, DefinitionCounts, Lane, RECENT, next_count};

use super::State;

/// A row of `notify_count`.
#[derive(Clone)]
pub(super) struct Counted {
    taken: (Counts, SystemTime),
    next: SystemTime,
}

impl State {
    pub(super) fn counted(&self, now: SystemTime) -> Vec<DefinitionCounts> {
        let row = |def: &solid_notify_core::NotifyDef| {
            let counted = self.counts.get(&def.id);
            let (taken, next) = (counted.map(|row| row.taken.clone()), counted.map(|row| row.next));
            DefinitionCounts::new((def.id, def.name.clone()), taken, next, now)
        };
        let mut rows: Vec<DefinitionCounts> = self.definitions.values().map(row).collect();
        rows.sort_by(|a, b| a.definition.cmp(&b.definition));
        rows
    }

    /// One thread counts at a time, so nothing needs to be held meanwhile.
    pub(super) fn count_anew(&mut self, def_id: i64, every: Duration, now: SystemTime) -> bool {
        if self.counts.get(&def_id).is_some_and(|row| row.next > now) {
            return false;
        }
        let count = |lane: &Lane| self.lane(lane).len() as u64;
        let of = |status: Status| count(&Lane::of(def_id, status));
        let waits = |status: &Status| matches!(status, Status::NotSent | Status::Failed);
        let due = self.live.values().filter(|live| live.notice.def_id == def_id && waits(&live.notice.status));
        let mut counts = Counts::default();
        (counts.not_sent, counts.failed) = (of(Status::NotSent), of(Status::Failed));
        (counts.sending, counts.awaiting_confirm) = (of(Status::Sending), of(Status::AwaitingConfirm));
        (counts.dead_letters, counts.cancelled) = (of(Status::DeadLetter), of(Status::Cancelled));
        // The first millisecond that the databases count.
        let from = (now - RECENT) + Duration::from_millis(1);
        counts.recently_succeeded = count(&Lane { from: Some(from), ..Lane::of(def_id, Status::Succeeded) });
        counts.oldest_due = due.filter_map(|live| live.next_call_time).filter(|due| *due <= now).min();
        self.counts.insert(def_id, Counted { taken: (counts, now), next: now + next_count(Duration::ZERO, every) });
        true
    }
}
