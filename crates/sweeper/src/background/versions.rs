//! Edits of definitions by SQL: the regular readings find them, and one of the nodes keeps each as a version.
//!
//! A reading that finds no change sends no more statements. A loop of its own keeps the versions: if it has to wait (on
//! SQLite for another writer), the definitions are still read meanwhile. If a node could not keep a version, because the
//! row was locked or the database failed, it tries again.

use std::sync::Arc;

use solid_notify_core::definition::StoredVersion;
use solid_notify_core::store::QueueSlice;
use solid_notify_core::{NotifyDef, Status, StoreError};

use crate::definitions::RELOAD_INTERVAL;
use crate::worker::Worker;

pub(crate) async fn versions_loop(worker: Arc<Worker>) {
    loop {
        tokio::select! {
            biased;
            () = worker.signals.stopped() => break,
            () = worker.signals.versions_requested() => {}
        }
        if !keep_versions(&worker).await {
            worker.signals.keep_versions_soon();
            worker.signals.pause(RELOAD_INTERVAL).await;
        }
    }
}

/// Keeps new versions, if there are any. Returns false if it has to be tried again.
async fn keep_versions(worker: &Worker) -> bool {
    let rows: Vec<NotifyDef> = worker.definitions().all().map(|definition| NotifyDef::clone(&definition.row)).collect();
    let kept = worker.stores().definitions.remember(&rows, &worker.id).await;
    if let Err(error) = &kept {
        worker.health.mention(error);
    }
    let found = find_deleted(worker).await;
    if let Err(error) = &found {
        worker.health.mention(error);
    }
    kept.unwrap_or(false) && found.is_ok()
}

/// Finds the definitions that were deleted by SQL from their versions, because their rows are missing and their notices
/// wait.
async fn find_deleted(worker: &Worker) -> Result<(), StoreError> {
    let store = &worker.stores().definitions;
    let last = store.last_versions().await?;
    // Read after the versions, so that a definition which was created meanwhile has its row.
    let rows = store.definitions().await?;
    let is_deleted = |version: &&StoredVersion| !rows.iter().any(|row| row.id == version.def_id);
    let deleted = last.iter().filter(is_deleted).filter_map(|version| Some((version.def_id, version.row().ok()?.name)));
    worker.known.set_deleted_by_sql(deleted.collect());
    Ok(())
}

/// Returns the definitions deleted by SQL that have live notices: id and name.
pub(crate) async fn without_definition(worker: &Worker) -> Result<Vec<(i64, String)>, StoreError> {
    let mut found = Vec::new();
    for (def_id, name) in worker.known.deleted_by_sql() {
        for status in Status::LIVE {
            if worker.stores().browse.count(&QueueSlice::of(def_id, status), 1).await? > 0 {
                found.push((def_id, name));
                break;
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use solid_notify_testkit::MemoryOutbox;

    use super::*;
    use crate::OutboxExt;

    #[tokio::test]
    async fn a_definition_created_after_the_last_reading_is_not_deleted() {
        let outbox = MemoryOutbox::new();
        let worker = Worker::new(outbox.sweeper().setup);
        worker.reload_definitions().await.unwrap();
        outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
        let last = worker.stores().definitions.last_versions().await.unwrap();
        assert!(last.iter().any(|version| version.row().unwrap().name == "sync"));
        find_deleted(&worker).await.unwrap();
        assert_eq!(worker.known.deleted_by_sql(), []);
    }
}
