//! The snapshot of counts in memory.

use std::time::Duration;

use chrono::{DateTime, Utc};
use solid_notify_core::Status;
use solid_notify_core::store::{DefinitionCounts, NoticeCounts, QueueSlice, RECENT, next_count};

use super::{Counted, State};

impl State {
    pub(super) fn counted(&self, now: DateTime<Utc>) -> Vec<DefinitionCounts> {
        let row = |def: &solid_notify_core::NotifyDef| {
            let counted = self.counts.get(&def.id);
            let (taken, next) = (counted.map(|row| row.taken.clone()), counted.map(|row| row.next));
            DefinitionCounts::new((def.id, def.name.clone()), taken, next, now)
        };
        let mut rows: Vec<DefinitionCounts> = self.definitions.values().map(row).collect();
        rows.sort_by(|a, b| a.definition.cmp(&b.definition));
        rows
    }

    /// Counts again if it is due. The lock of the state lets one thread count at a time, so no row needs a lock.
    pub(super) fn count_anew(&mut self, def_id: i64, every: Duration, now: DateTime<Utc>) -> bool {
        if !every.is_zero() && self.counts.get(&def_id).is_some_and(|row| row.next > now) {
            return false;
        }
        let count = |slice: &QueueSlice| self.slice(slice).len() as u64;
        let of = |status: Status| count(&QueueSlice::of(def_id, status));
        let waits = |status: &Status| matches!(status, Status::NotSent | Status::Failed);
        let due = self.live.values().filter(|live| live.notice.def_id == def_id && waits(&live.notice.status));
        let mut counts = NoticeCounts::default();
        (counts.not_sent, counts.failed) = (of(Status::NotSent), of(Status::Failed));
        (counts.sending, counts.awaiting_ack) = (of(Status::Sending), of(Status::AwaitingAck));
        (counts.dead_letters, counts.cancelled) = (of(Status::DeadLetter), of(Status::Cancelled));
        // The databases count from this millisecond on.
        let from = (now - RECENT) + Duration::from_millis(1);
        counts.recently_succeeded =
            count(&QueueSlice { from: Some(from), ..QueueSlice::of(def_id, Status::Succeeded) });
        counts.oldest_due = due.filter_map(|live| live.next_call_time).filter(|due| *due <= now).min();
        self.counts.insert(def_id, Counted { taken: (counts, now), next: now + next_count(Duration::ZERO, every) });
        true
    }
}
