//! What is done now and then: purging history in small windows, telling that this node lives, forgetting producers who
//! stopped waiting.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use solid_notify_core::definition::KeepHistory;
use solid_notify_core::notice::millis_from_time;
use solid_notify_core::store::{Node, Purge};
use solid_notify_core::{Status, StoreError};

use crate::definitions::Definition;
use crate::worker::Worker;

/// The rows of one purge: few, so that nobody waits for it.
const WINDOW: usize = 500;

pub(crate) async fn maintenance_loop(worker: Arc<Worker>) {
    let mut offset = 0;
    while !worker.stop.is_cancelled() {
        // Subscribed before the work, so that a turn of the clock during it is not missed.
        let turned = worker.clock_turned();
        let done = async {
            offset = worker.beat(offset).await?;
            worker.purge().await
        };
        if let Err(error) = done.await {
            worker.health.mention(&error);
        }
        worker.reports().retain(|_, report| report.is_awaited());
        let pause = worker.settings.maintenance_interval;
        tokio::select! {
            () = worker.pause(pause) => {}
            () = turned => {}
        }
    }
}

impl Worker {
    /// Tells that this node lives; returns how far its clock is from the database's, in milliseconds.
    async fn beat(&self, clock_offset_ms: i64) -> Result<i64, StoreError> {
        let mut handlers: Vec<String> = self.handlers.keys().cloned().collect();
        handlers.sort_unstable();
        let asked = SystemTime::now();
        let theirs = self.store().beat(&Node { id: self.id.clone(), handlers, clock_offset_ms }).await?;
        let answered = SystemTime::now();
        Ok(i64::midpoint(millis_from_time(asked), millis_from_time(answered)) - millis_from_time(theirs))
    }

    async fn purge(&self) -> Result<(), StoreError> {
        let definitions = self.definitions();
        let retention = self.settings.dead_letter_retention;
        for definition in definitions.all() {
            let def_id = definition.row.id;
            // A broken row purges nothing: what it says is not known.
            let keep = definition.row.policy().map(|policy| policy.keep_history);
            match keep {
                Ok(KeepHistory::For(keep)) => self.purge_windows(definition, Status::Succeeded, keep).await?,
                Ok(KeepHistory::Never) => self.purge_windows(definition, Status::Succeeded, Duration::ZERO).await?,
                Ok(KeepHistory::Forever) | Err(_) => {}
            }
            self.purge_windows(definition, Status::Cancelled, retention).await?;
            self.purge_windows(definition, Status::DeadLetter, retention).await?;
            if definition.row.delete_time.is_some() {
                let purged = self.store().purge(&Purge::Definition { def_id, older_than: retention }).await?;
                if !purged.is_empty() {
                    tracing::info!(definition = %definition.row.name, def_id, "purged a deleted definition");
                }
            }
        }
        Ok(())
    }

    async fn purge_windows(
        &self,
        definition: &Definition,
        status: Status,
        older_than: Duration,
    ) -> Result<(), StoreError> {
        let window = Purge::History { def_id: definition.row.id, status, older_than, limit: WINDOW };
        while !self.stop.is_cancelled() {
            let ids = self.store().purge(&window).await?;
            if status == Status::DeadLetter {
                for id in &ids {
                    tracing::info!(definition = %definition.row.name, id, "purged a dead letter");
                }
            }
            if ids.len() < WINDOW {
                break;
            }
        }
        Ok(())
    }
}
