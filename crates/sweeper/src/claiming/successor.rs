//! The successor loop: when a notice with an ordering key has ended, it claims the next one of its key at once. That is one
//! search, however many notices wait behind it.
//!
//! Like dispatch it is a hint: the sweep takes the notices that are not claimed here, because they are due.

use std::collections::BTreeSet;
use std::sync::Arc;

use solid_notify_core::store::ClaimWhat;

use super::claim::chunks;
use crate::worker::Worker;

pub(crate) async fn successor_loop(worker: Arc<Worker>) {
    loop {
        let freed = tokio::select! {
            biased;
            () = worker.signals.stopped() => break,
            freed = worker.signals.freed_keys() => freed,
        };
        for (def_id, keys) in freed {
            worker.claim_successors(def_id, keys).await;
        }
    }
}

impl Worker {
    async fn claim_successors(self: &Arc<Self>, def_id: i64, keys: BTreeSet<String>) {
        if let Err(error) = self.read_own_edits().await {
            return self.health.note(&error);
        }
        let Some(definition) = self.definition(def_id) else { return };
        let Some(ready) = definition.ready() else { return };
        if self.admission.quota_closed_for(&ready.policy).is_some() {
            return;
        }
        if self.outcomes.is_overloaded(def_id) {
            return self.admission.want_more_slots();
        }
        let slots = self.admission.take_slots(&ready.policy, keys.len());
        if slots.len() < keys.len() {
            self.admission.want_more_slots();
        }
        for (keys, slots) in chunks(keys, slots) {
            if let Err(error) = self.claim_and_start(&definition, ready, ClaimWhat::Keys(keys), slots, None).await {
                self.health.note_some(&error);
            }
        }
    }
}
