//! The lease loop: leases that end soon are extended in one statement, on a connection that waits behind nothing.
//!
//! A lease is longer than its attempt may take, so this is for outcomes that the database did not take in time.

use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::store::Lease;

use crate::worker::Worker;

/// How often to look.
const TICK: Duration = Duration::from_secs(5);
/// A lease with less left than this is extended.
const SOON: Duration = Duration::from_secs(20);

pub(crate) async fn lease_loop(worker: Arc<Worker>) {
    let mut turned = worker.clock_turned();
    loop {
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            () = turned => {}
        }
        // Subscribed before the work, so that a turn of the clock during it is not missed.
        turned = worker.clock_turned();
        if let Err(error) = worker.extend_leases(SOON).await {
            worker.health.note(&error);
        }
    }
}

impl Worker {
    /// Extends every lease with less than `left` to run.
    pub(crate) async fn extend_leases(&self, left: Duration) -> Result<(), StoreError> {
        let now = self.moment();
        let mut leases: Vec<Lease> = self
            .held()
            .iter()
            .filter(|(_, held)| held.lease_end < now.saturating_add(left))
            .map(|(id, held)| Lease { id: *id, attempt: held.attempt, lease: held.lease })
            .collect();
        if leases.is_empty() {
            return Ok(());
        }
        // In one order everywhere, so that two statements never wait for each other.
        leases.sort_unstable_by_key(|lease| lease.id);
        self.store().extend(&leases).await?;
        let mut held = self.held();
        for lease in &leases {
            if let Some(held) = held.get_mut(&lease.id).filter(|held| held.attempt == lease.attempt) {
                held.lease_end = now.saturating_add(lease.lease);
            }
        }
        Ok(())
    }
}
