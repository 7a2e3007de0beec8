//! The successor loop: when a notice with an ordering key has ended, it claims the next one of its key at once. That is one
//! search, however many notices wait behind it.
//!
//! Like dispatch it is a hint: the sweep takes the notices that are not claimed here, because they are due.

use std::collections::BTreeSet;
use std::sync::Arc;

use solid_notify_core::store::ClaimWhat;

use super::claim::{chunks, claim_and_start};
use crate::worker::Worker;

pub(crate) async fn successor_loop(worker: Arc<Worker>) {
    loop {
        let freed = tokio::select! {
            biased;
            () = worker.signals.stopped() => break,
            freed = worker.signals.freed_keys() => freed,
        };
        for (def_id, keys) in freed {
            claim_successors(&worker, def_id, keys).await;
        }
    }
}

async fn claim_successors(worker: &Arc<Worker>, def_id: i64, keys: BTreeSet<String>) {
    if let Err(error) = worker.read_own_edits().await {
        return worker.health.note(&error);
    }
    let Some(definition) = worker.definition(def_id) else { return };
    let Some(ready) = definition.ready() else { return };
    if worker.admission.quota_closed_for(&ready.policy).is_some() {
        return;
    }
    if worker.outcomes.is_overloaded(def_id) {
        return worker.admission.want_more_slots();
    }
    let slots = worker.admission.take_slots(&ready.policy, keys.len());
    if slots.len() < keys.len() {
        worker.admission.want_more_slots();
    }
    for (keys, slots) in chunks(keys, slots) {
        if let Err(error) = claim_and_start(worker, &definition, ready, ClaimWhat::Keys(keys), slots, None).await {
            worker.health.note_some(&error);
        }
    }
}
