//! Versions of definitions in memory, and edits that bypass the store, like edits by SQL.

use chrono::{DateTime, Utc};
use solid_notify_core::definition::{BY_HAND, NotifyDef, StoredVersion, by_hand, unseen};

use super::State;

impl State {
    /// Returns the versions of a definition up to a number, the latest first.
    pub(super) fn versions(&self, def_id: i64, up_to: i64, limit: usize) -> Vec<StoredVersion> {
        let all = self.versions.get(&def_id).map(Vec::as_slice).unwrap_or_default();
        all.iter().rev().filter(|version| version.version <= up_to).take(limit).cloned().collect()
    }

    /// Keeps a version of the row, unless it equals the last version: what was done, and why, if that is known.
    pub(super) fn write_version(
        &mut self,
        row: &NotifyDef,
        (act, reason): (&str, Option<&str>),
        who: &str,
        now: DateTime<Utc>,
    ) {
        let versions = self.versions.entry(row.id).or_default();
        let Some(version) = StoredVersion::after(versions.last(), row, act, who, now) else { return };
        self.audit.extend(version.audit(versions.last(), reason));
        versions.push(version);
    }

    pub(super) fn remember(&mut self, seen_by: &str, now: DateTime<Utc>) {
        let rows: Vec<NotifyDef> = self.definitions.values().cloned().collect();
        let last: Vec<StoredVersion> = self.versions.values().filter_map(|all| all.last().cloned()).collect();
        for def_id in unseen(&rows, &last) {
            let gone = || last.iter().find(|version| version.def_id == def_id).and_then(|version| version.gone(now));
            if let Some(row) = self.definitions.get(&def_id).cloned().or_else(gone) {
                self.write_version(&row, (BY_HAND, None), &by_hand(seen_by), now);
            }
        }
    }

    /// Replaces or deletes a row without keeping a version or waking a sweeper.
    pub(crate) fn change_behind_the_back(&mut self, def_id: i64, row: Option<NotifyDef>) {
        match row {
            Some(row) => drop(self.definitions.insert(def_id, as_read(row))),
            None => drop(self.definitions.remove(&def_id)),
        }
    }
}

/// Returns a row as a reader of the table gets it: numbers of older conventions become words.
fn as_read(row: NotifyDef) -> NotifyDef {
    let Some(mut read) = NotifyDef::from_values(row.id, row.values()) else { return row };
    (read.create_time, read.update_time, read.delete_time) = (row.create_time, row.update_time, row.delete_time);
    read
}
