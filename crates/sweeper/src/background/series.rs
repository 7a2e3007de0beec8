//! Stores the series once a minute: the minutes that have changed, each as a whole.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;

use crate::worker::Worker;

/// How often the series is stored.
const EVERY: Duration = Duration::from_secs(60);
/// The most rows of one call.
const AT_ONCE: usize = 500;
/// How long the last write may take, after all outcomes are stored.
const LAST_WRITE: Duration = Duration::from_secs(2);

pub(crate) async fn series_loop(worker: Arc<Worker>) {
    while !worker.signals.is_stopped() {
        worker.signals.pause(EVERY).await;
        worker.write_series().await;
    }
}

impl Worker {
    /// Returns the time of the store's clock, as far as this process knows it, in milliseconds since 1970.
    pub(crate) fn store_millis(&self) -> i64 {
        match self.outbox.engine().hand_clock() {
            Some(clock) => clock.now_millis(),
            None => Utc::now().timestamp_millis() - self.series.offset(),
        }
    }

    /// Stores what has changed. What the store does not take is stored by the next call.
    pub(crate) async fn write_series(&self) {
        let _one_at_a_time = self.series.writing.lock().await;
        for rows in self.series.changed(self.store_millis()).chunks(AT_ONCE) {
            match self.stores().send.write_series(&self.id, rows).await {
                Ok(()) => self.series.stored(rows),
                Err(error) => return self.health.mention(&error),
            }
        }
    }

    /// Stores the last counts, if the store takes them within a moment.
    pub(crate) async fn write_last_series(&self) {
        if tokio::time::timeout(LAST_WRITE, self.write_series()).await.is_err() {
            tracing::warn!("the last minute of the series is not stored");
        }
    }
}
