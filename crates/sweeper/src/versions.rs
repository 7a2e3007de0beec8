//! Edits of definitions by SQL: the regular readings find them, and one of the nodes keeps each as a version.
//!
//! A reading that finds no change sends no more statements. A loop of its own keeps the versions: if it has to wait (on
//! SQLite for another writer), the definitions are still read meanwhile. If a node could not keep a version, because the
//! row was locked or the database failed, it tries again.

use std::sync::{Arc, PoisonError};

use solid_notify_core::definition::StoredVersion;
use solid_notify_core::operate::QueueSlice;
use solid_notify_core::{NotifyDef, Status, StoreError};

use crate::definitions::RELOAD_INTERVAL;
use crate::worker::Worker;

pub(crate) async fn versions_loop(worker: Arc<Worker>) {
    loop {
        tokio::select! {
            biased;
            () = worker.stop.cancelled() => break,
            () = worker.unkept.notified() => {}
        }
        if !worker.keep_versions().await {
            worker.unkept.notify_one();
            worker.pause(RELOAD_INTERVAL).await;
        }
    }
}

impl Worker {
    /// Returns whether the definitions differ from the last reading. The first reading always differs, because edits before
    /// it were not seen.
    pub(crate) fn are_new(&self, rows: &[NotifyDef]) -> bool {
        let known = self.definitions();
        // Compares whole rows first: each reading compares them all, and a list of differences is rarely needed.
        let same = |row: &NotifyDef| {
            known.get(row.id).map(|known| &known.row).is_some_and(|known| {
                known == row
                    || (known.differences(row).is_empty() && known.delete_time.is_some() == row.delete_time.is_some())
            })
        };
        // The count is the same and each row is known, so none is missing.
        known.all().count() != rows.len() || !rows.iter().all(same)
    }

    /// Keeps new versions, if there are any. Returns false if it has to be tried again.
    async fn keep_versions(&self) -> bool {
        let rows: Vec<NotifyDef> = self.definitions().all().map(|definition| definition.row.clone()).collect();
        let kept = self.outbox.engine().operate().remember(&rows, &self.id).await;
        if let Err(error) = &kept {
            self.health.mention(error);
        }
        let known = self.learn_lost(&rows).await;
        if let Err(error) = &known {
            self.health.mention(error);
        }
        kept.unwrap_or(false) && known.is_ok()
    }

    /// Finds the definitions that were deleted by SQL from their versions, because their rows are missing and their notices
    /// wait.
    async fn learn_lost(&self, rows: &[NotifyDef]) -> Result<(), StoreError> {
        let last = self.outbox.engine().operate().last_versions().await?;
        let is_lost = |version: &&StoredVersion| !rows.iter().any(|row| row.id == version.def_id);
        let lost = last.iter().filter(is_lost).filter_map(|version| Some((version.def_id, version.row().ok()?.name)));
        *self.lost_definitions.lock().unwrap_or_else(PoisonError::into_inner) = lost.collect();
        Ok(())
    }

    /// Returns the definitions deleted by SQL that have live notices: id and name.
    pub(crate) async fn without_definition(&self) -> Result<Vec<(i64, String)>, StoreError> {
        let mut waiting = self.lost_definitions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut found = Vec::new();
        for (def_id, name) in waiting.drain(..) {
            for status in Status::LIVE {
                if self.outbox.engine().operate().count(&QueueSlice::of(def_id, status), 1).await? > 0 {
                    found.push((def_id, name));
                    break;
                }
            }
        }
        Ok(found)
    }
}
