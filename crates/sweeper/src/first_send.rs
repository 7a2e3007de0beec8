//! The first-send lane, the sweeper's end: notices that were committed in this process are claimed by their ids, in
//! batches, and run at once.
//!
//! That an id is claimed proves that its transaction was committed; a COMMIT that was answered proves nothing. Whatever
//! is not claimed here is due and left to the sweep.

use std::collections::HashMap;
use std::sync::Arc;

use solid_notify_core::lane::{FirstAttempt, Fresh};
use solid_notify_core::store::{Claim, ClaimWhat};
use solid_notify_core::{NoticeRecord, Status};
use tokio::sync::mpsc;

use crate::definitions::Standing;
use crate::worker::Worker;

/// How many commits may wait for the lane.
pub(crate) const QUEUE: usize = 1024;
/// The most ids of one claim.
const BATCH: usize = 500;

pub(crate) async fn first_send_loop(worker: Arc<Worker>, mut queue: mpsc::Receiver<Vec<Fresh>>) {
    loop {
        let first = tokio::select! {
            biased;
            () = worker.stop.cancelled() => None,
            first = queue.recv() => first,
        };
        let Some(mut fresh) = first else { break };
        while fresh.len() < BATCH {
            match queue.try_recv() {
                Ok(more) => fresh.extend(more),
                Err(_) => break,
            }
        }
        let mut by_def: HashMap<i64, Vec<i64>> = HashMap::new();
        {
            let mut reports = worker.reports();
            for fresh in fresh {
                by_def.entry(fresh.def_id).or_default().push(fresh.id);
                if fresh.report.is_awaited() {
                    reports.insert(fresh.id, fresh.report);
                }
            }
        }
        for (def_id, ids) in by_def {
            worker.first_send(def_id, ids).await;
        }
    }
    // What is still queued is due; dropping the reports says so.
}

impl Worker {
    async fn first_send(self: &Arc<Self>, def_id: i64, ids: Vec<i64>) {
        if self.definition(def_id).is_none()
            && let Err(error) = self.reload_definitions().await
        {
            self.health.note(&error);
        }
        let Some(definition) = self.definition(def_id) else { return };
        let ready = match &definition.standing {
            Standing::Ready(ready) => ready,
            Standing::NotHere(_) => return self.tell(&ids, &FirstAttempt::NotHere),
            Standing::Paused(_) | Standing::Invalid(_) => return self.tell(&ids, &FirstAttempt::StillDue),
        };
        // Without a slot they wait for one; the sweep takes them, and tells whoever still waits.
        let slots = self.slots.take(def_id, ready.policy.max_concurrency, ids.len());
        if slots.len() < ids.len() {
            self.slots.want_more();
        }
        for (ids, slots) in chunks(ids, slots) {
            let claim = Claim {
                def_id,
                what: ClaimWhat::Ids(ids.clone()),
                limit: ids.len(),
                lease: ready.policy.lease(),
                worker: self.id.clone(),
            };
            match self.store().claim(&claim).await {
                Ok(claimed) => {
                    let missed: Vec<i64> =
                        ids.into_iter().filter(|id| !claimed.iter().any(|notice| notice.id == *id)).collect();
                    self.start(&definition, ready, claimed, slots);
                    self.missed(missed).await;
                }
                Err(error) => self.health.note(&error),
            }
        }
    }

    /// Tells the producers of notices that could not be claimed what became of those.
    async fn missed(&self, ids: Vec<i64>) {
        for id in ids {
            if !self.reports().contains_key(&id) {
                continue;
            }
            match self.store().find(id).await {
                // The sweep of this very node was faster; it tells when the attempt has ended.
                Ok(Some(record)) if record.worker.as_deref() == Some(&self.id) && !record.status.is_final() => {}
                Ok(record) => self.tell(&[id], &outcome_of(record.as_ref())),
                Err(error) => {
                    self.health.note(&error);
                    self.tell(&[id], &FirstAttempt::StillDue);
                }
            }
        }
    }

    pub(crate) fn tell(&self, ids: &[i64], outcome: &FirstAttempt) {
        for id in ids {
            let report = self.reports().remove(id);
            if let Some(report) = report {
                report.tell(outcome.clone());
            }
        }
    }
}

/// What a producer is told of a notice that somebody else took, or that does not exist.
fn outcome_of(record: Option<&NoticeRecord>) -> FirstAttempt {
    let Some(record) = record else { return FirstAttempt::RolledBack };
    match record.status {
        Status::Succeeded | Status::Cancelled | Status::AwaitingConfirm => FirstAttempt::Succeeded,
        Status::DeadLetter | Status::Failed => {
            let last = record.errors.last().map(|attempt| attempt.message.clone());
            FirstAttempt::Failed(last.or_else(|| record.end_reason.clone()).unwrap_or_default())
        }
        Status::NotSent | Status::Sending => FirstAttempt::StillDue,
    }
}

/// As many ids as there are slots, in batches of at most [`BATCH`].
fn chunks(ids: Vec<i64>, mut slots: Vec<crate::slots::Slot>) -> Vec<(Vec<i64>, Vec<crate::slots::Slot>)> {
    let mut ids = ids.into_iter();
    let mut chunks = Vec::new();
    while !slots.is_empty() {
        let rest = slots.split_off(slots.len().min(BATCH));
        chunks.push((ids.by_ref().take(slots.len()).collect(), slots));
        slots = rest;
    }
    chunks
}
