//! Stores the series once a minute: the minutes that have changed, each as a whole.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use solid_notify_core::StoreError;
use solid_notify_core::notice::millis_from_time;

use crate::worker::Worker;

/// How often the series is stored.
const EVERY: Duration = Duration::from_secs(60);
/// The most rows of one call.
const AT_ONCE: usize = 500;
/// How long the last write may take, after all outcomes are stored.
pub(super) const LAST_WRITE: Duration = Duration::from_secs(2);

pub(crate) async fn series_loop(worker: Arc<Worker>) {
    while !worker.signals.is_stopped() {
        worker.signals.pause(EVERY).await;
        write_series(&worker).await;
    }
}

/// Stores what has changed. What the store does not take is stored by the next call.
async fn write_series(worker: &Worker) {
    let series = &worker.outcomes.series;
    let _one_at_a_time = series.writing.lock().await;
    if !series.knows_the_offset() {
        // No heartbeat has been answered yet.
        match measured(worker).await {
            Ok(offset_ms) => series.set_offset(offset_ms),
            Err(error) => return worker.health.mention(&error),
        }
    }
    for rows in series.changed(worker.clock_millis()).chunks(AT_ONCE) {
        match worker.stores().send.write_series(&worker.id, rows).await {
            Ok(()) => series.stored(rows),
            Err(error) => return worker.health.mention(&error),
        }
    }
}

async fn measured(worker: &Worker) -> Result<i64, StoreError> {
    let asked = Utc::now();
    let now = worker.stores().send.now().await?;
    Ok(offset_between(asked, now, Utc::now()))
}

/// Returns the offset of this process's clock from the store's, in milliseconds: the store's time is that of the middle between question and reply.
pub(super) fn offset_between(asked: DateTime<Utc>, store: DateTime<Utc>, answered: DateTime<Utc>) -> i64 {
    i64::midpoint(millis_from_time(asked), millis_from_time(answered)) - millis_from_time(store)
}

/// Stores the last counts, if the store takes them within a moment.
pub(crate) async fn write_last_series(worker: &Worker) {
    if tokio::time::timeout(LAST_WRITE, write_series(worker)).await.is_err() {
        tracing::warn!("the last minute of the series is not stored");
    }
}
