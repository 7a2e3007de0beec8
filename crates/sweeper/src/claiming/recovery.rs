//! What the sweep does before it claims again after an outage of the store, and after the store's clock was set.

use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;

use crate::worker::Worker;

impl Worker {
    /// After an outage: extends the leases of this node before it claims anything. Its outcomes are being written by then,
    /// and the grace period gives other nodes the time for theirs.
    pub(super) async fn recover(&self) -> Result<(), StoreError> {
        if self.health.is_down() {
            // However long they still last. Without attempts in flight this makes no call; the next one checks that the database
            // answers.
            match self.extend_leases(Duration::MAX).await {
                Err(error) if error.kind != FaultKind::Outage => self.health.mention(&error),
                done => done?,
            }
            self.reload_definitions().await?;
            self.health.recovered(self.moment());
            self.signals.beat_soon();
        }
        Ok(())
    }

    /// After the store's clock was set: extends the leases of this node, and gives other nodes the time to extend theirs.
    pub(super) async fn clock_was_set(&self, by_ms: i64) -> Result<(), StoreError> {
        self.health.begin_grace(self.moment());
        tracing::warn!(
            by_ms,
            "the database's clock was set; this node extends its leases and takes no expired lease of other nodes for a while"
        );
        // A claim under way sets a lease by the old time, so the extension waits until its notices are registered.
        let _no_claims = self.in_flight.without_claims().await;
        self.extend_leases(Duration::MAX).await?;
        self.signals.beat_soon();
        Ok(())
    }
}
