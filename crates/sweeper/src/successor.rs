//! The successor loop: when a notice with an ordering key has ended, it claims the next one of its key at once. That is one
//! search, however many notices wait behind it.
//!
//! Like dispatch it is a hint: the sweep takes the notices that are not claimed here, because they are due.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use solid_notify_core::store::{Claim, ClaimWhat};

use crate::first_send::chunks;
use crate::worker::Worker;

pub(crate) async fn successor_loop(worker: Arc<Worker>) {
    loop {
        tokio::select! {
            biased;
            () = worker.stop.cancelled() => break,
            () = worker.key_freed.notified() => {}
        }
        let freed = std::mem::take(&mut *worker.freed_keys.lock().unwrap_or_else(PoisonError::into_inner));
        for (def_id, keys) in freed {
            worker.claim_successors(def_id, keys).await;
        }
    }
}

impl Worker {
    /// Records that a notice of this key has ended.
    pub(crate) fn key_is_free(&self, def_id: i64, key: &str) {
        let mut freed = self.freed_keys.lock().unwrap_or_else(PoisonError::into_inner);
        freed.entry(def_id).or_default().insert(key.to_owned());
        self.key_freed.notify_one();
    }

    async fn claim_successors(self: &Arc<Self>, def_id: i64, keys: BTreeSet<String>) {
        let Some(definition) = self.definition(def_id) else { return };
        let Some(ready) = definition.ready() else { return };
        if self.held_for(&ready.policy).is_some() {
            return;
        }
        if self.is_overloaded(def_id) {
            return self.slots.want_more();
        }
        let slots = self.slots.take(def_id, ready.policy.max_concurrency, keys.len());
        if slots.len() < keys.len() {
            self.slots.want_more();
        }
        for (keys, slots) in chunks(keys, slots) {
            let claim = Claim {
                def_id,
                limit: keys.len(),
                what: ClaimWhat::Keys(keys),
                lease: ready.policy.lease(),
                worker: self.id.clone(),
                quota: ready.policy.quota,
            };
            if let Err(error) = self.claim_and_start(&definition, ready, &claim, slots, None).await {
                self.health.note_some(&error);
            }
        }
    }
}
