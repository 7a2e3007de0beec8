//! The first-send lane, the sweeper's end: notices that were committed in this process are claimed by their ids, in
//! batches, and run at once.
//!
//! That an id is claimed proves that its transaction was committed; a COMMIT that was answered proves nothing. Whatever
//! is not claimed here is due and left to the sweep.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::definition::KeepHistory;
use solid_notify_core::lane::{FirstAttempt, Fresh};
use solid_notify_core::store::{Claim, ClaimWhat};
use solid_notify_core::{NoticeRecord, Status};
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use crate::definitions::Standing;
use crate::slots::Slot;
use crate::worker::Worker;

/// How many commits may wait for the lane.
pub(crate) const QUEUE: usize = 1024;
/// The most ids of one claim.
const BATCH: usize = 500;
/// The pause between two claims: what is committed alone is claimed at once, and under load one claim takes many.
const PACE: Duration = Duration::from_millis(15);

pub(crate) async fn first_send_loop(worker: Arc<Worker>, queue: Arc<Mutex<mpsc::Receiver<Vec<Fresh>>>>) {
    let mut queue = queue.lock().await;
    let mut claimed_at: Option<Instant> = None;
    loop {
        let first = tokio::select! {
            biased;
            () = worker.stop.cancelled() => None,
            first = queue.recv() => first,
        };
        let Some(mut fresh) = first else { break };
        if let Some(left) = claimed_at.and_then(|at| PACE.checked_sub(at.elapsed())) {
            worker.pause(left).await;
            if worker.stop.is_cancelled() {
                break;
            }
        }
        while fresh.len() < BATCH {
            match queue.try_recv() {
                Ok(more) => fresh.extend(more),
                Err(_) => break,
            }
        }
        let mut by_def: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
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
        claimed_at = Some(Instant::now());
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
        if self.is_overloaded() {
            // They are due; the sweep takes them when what was delivered is stored.
            return self.slots.want_more();
        }
        let Some(definition) = self.definition(def_id) else { return };
        let ready = match &definition.standing {
            Standing::Ready(ready) => ready,
            Standing::NotHere(..) => return self.tell(&ids, &FirstAttempt::NotHere),
            Standing::Paused(_) | Standing::Invalid(_) => return self.tell(&ids, &FirstAttempt::StillDue),
        };
        // Without a slot they wait for one; the sweep takes them.
        let mut ids = ids;
        let slots = self.slots.take(def_id, ready.policy.max_concurrency, ids.len());
        let mut unclaimed = ids.split_off(slots.len());
        if !unclaimed.is_empty() {
            self.slots.want_more();
        }
        for (ids, slots) in chunks(ids, slots) {
            let claim = Claim {
                def_id,
                what: ClaimWhat::Ids(ids.clone()),
                limit: ids.len(),
                lease: ready.policy.lease(),
                worker: self.id.clone(),
                quota: ready.policy.quota,
            };
            match self.claim_and_start(&definition, ready, &claim, slots, None).await {
                Ok(claimed) => unclaimed.extend(ids.into_iter().filter(|id| !claimed.contains(id))),
                Err(error) => {
                    self.health.note(&error);
                    unclaimed.extend(ids);
                }
            }
        }
        unclaimed.retain(|id| self.reports().contains_key(id));
        if !unclaimed.is_empty() {
            // Apart: a definition with many that wait must not keep the lane from the others.
            let (worker, keep) = (Arc::clone(self), ready.policy.keep_history);
            // Nobody knows when a quota lets them through, and a window may be closed for days. Asked only now: it may be the claim
            // that told of the quota.
            let is_held = self.held_for(&ready.policy).is_some() || self.is_closed(ready).await.unwrap_or(false);
            tokio::spawn(async move { worker.look_for(unclaimed, keep, is_held).await });
        }
    }

    /// Tells the producers of notices that were not claimed what became of those: a sweep never meets one that does not
    /// exist.
    async fn look_for(&self, ids: Vec<i64>, keep: KeepHistory, is_held: bool) {
        for id in ids {
            match self.store().find(id).await {
                // The sweep of this very node was faster, or somebody is just claiming it: if it is this node, it tells when
                // the attempt has ended.
                Ok(Some(record)) if record.status == Status::NotSent && !is_held => {}
                Ok(Some(record)) if record.worker.as_deref() == Some(&self.id) && !record.status.is_final() => {}
                Ok(record) => self.tell(&[id], &outcome_of(record.as_ref(), keep)),
                Err(error) => {
                    self.health.mention(&error);
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
fn outcome_of(record: Option<&NoticeRecord>, keep: KeepHistory) -> FirstAttempt {
    let Some(record) = record else {
        // Without history one that another node has delivered already is gone, too.
        return if keep == KeepHistory::Never { FirstAttempt::StillDue } else { FirstAttempt::RolledBack };
    };
    match record.status {
        Status::Succeeded | Status::Cancelled | Status::AwaitingConfirm => FirstAttempt::Succeeded,
        Status::DeadLetter | Status::Failed => {
            let last = record.errors.last().map(|attempt| attempt.message.clone());
            FirstAttempt::Failed(last.or_else(|| record.end_reason.clone()).unwrap_or_default())
        }
        Status::NotSent | Status::Sending => FirstAttempt::StillDue,
    }
}

/// As many items as there are slots, in batches of at most [`BATCH`].
pub(crate) fn chunks<T>(items: impl IntoIterator<Item = T>, mut slots: Vec<Slot>) -> Vec<(Vec<T>, Vec<Slot>)> {
    let mut items = items.into_iter();
    let mut chunks = Vec::new();
    while !slots.is_empty() {
        let rest = slots.split_off(slots.len().min(BATCH));
        chunks.push((items.by_ref().take(slots.len()).collect(), slots));
        slots = rest;
    }
    chunks
}
