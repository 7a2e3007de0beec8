//! What the sweep does before it claims again after an outage of the store, and after the store's clock was set.

use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;

use crate::background::lease::extend_leases;
use crate::background::maintenance::beat_after_outage;
use crate::refusals::Part;
use crate::worker::Worker;

/// After an outage: extends the leases of this node before it claims anything. Its outcomes are being written by then,
/// and the grace period gives other nodes the time for theirs.
pub(super) async fn recover(worker: &Worker) -> Result<(), StoreError> {
    if worker.health.is_down() {
        // However long they still last. Without attempts in flight this makes no call; the next one checks that the database
        // answers.
        match extend_leases(worker, Duration::MAX).await {
            Err(error) if error.kind != FaultKind::Outage => worker.health.mention(&error),
            done => done?,
        }
        worker.health.sweeps();
        worker.reload_definitions().await?;
        worker.health.sweeps();
        // A server that has become read-only answers all that was called until here.
        match beat_after_outage(worker).await {
            Err(error) if error.kind != FaultKind::Outage => worker.health.failed(Part::Beats, &error),
            done => done?,
        }
        worker.health.recovered(worker.moment());
        worker.signals.check_soon();
    }
    Ok(())
}

/// After the store's clock was set: extends the leases of this node, and gives other nodes the time to extend theirs.
pub(super) async fn clock_was_set(worker: &Worker, by_ms: i64) -> Result<(), StoreError> {
    worker.health.begin_grace(worker.moment());
    tracing::warn!(
        by_ms,
        "the database's clock was set; this node extends its leases and takes no expired lease of other nodes for a while"
    );
    // A claim under way sets a lease by the old time, so the extension waits until its notices are registered.
    let _no_claims = worker.in_flight.without_claims().await;
    extend_leases(worker, Duration::MAX).await?;
    worker.signals.check_soon();
    Ok(())
}
