//! Edits of definitions by SQL: found by the readings that take place anyway, and kept as versions, once over all nodes.
//!
//! A reading that finds nothing new asks the database for nothing more. They are kept by a loop of its own: where that has to wait
//! (on SQLite for whoever writes), the definitions are read on meanwhile. What a node has not kept, because somebody had the row
//! locked or the database failed, it looks for again.

use std::sync::Arc;

use solid_notify_core::NotifyDef;

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
    /// Whether the definitions are other than at the last reading; at the start they are, since nobody watched before.
    pub(crate) fn are_new(&self, rows: &[NotifyDef]) -> bool {
        let known = self.definitions();
        // Whole rows first: each reading compares them all, and a list of differences is mostly made for nothing.
        let same = |row: &NotifyDef| {
            known.get(row.id).map(|known| &known.row).is_some_and(|known| {
                known == row
                    || (known.differences(row).is_empty() && known.delete_time.is_some() == row.delete_time.is_some())
            })
        };
        // As many as before, and each of them known: none is gone.
        known.all().count() != rows.len() || !rows.iter().all(same)
    }

    /// Keeps what is new, if anything is; false where somebody has to look again.
    async fn keep_versions(&self) -> bool {
        let rows: Vec<NotifyDef> = self.definitions().all().map(|definition| definition.row.clone()).collect();
        let kept = self.outbox.operate().remember(&rows, &self.id).await;
        if let Err(error) = &kept {
            self.health.mention(error);
        }
        kept.unwrap_or(false)
    }
}
