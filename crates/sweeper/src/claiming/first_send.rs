//! Dispatch on the sweeper's side: claims notices that this process committed by their ids, in batches, and runs them at
//! once.
//!
//! A successful claim proves that the transaction was committed; an `Ok` of COMMIT does not. The sweep takes the notices
//! that are not claimed here, because they are due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::definition::KeepHistory;
use solid_notify_core::dispatch::{FirstAttempt, Fresh};
use solid_notify_core::store::ClaimWhat;
use solid_notify_core::{NoticeRecord, Status};
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use super::claim::{CLAIM_BATCH, chunks, claim_and_start};
use crate::definitions::Readiness;
use crate::worker::Worker;

/// How many commits may wait for their dispatch.
pub(crate) const QUEUE: usize = 1024;
/// The pause between two claims: a single commit is claimed at once, and under load one claim takes many.
const PACE: Duration = Duration::from_millis(15);

pub(crate) async fn first_send_loop(worker: Arc<Worker>, queue: Arc<Mutex<mpsc::Receiver<Vec<Fresh>>>>) {
    let mut queue = queue.lock().await;
    let mut claimed_at: Option<Instant> = None;
    loop {
        let first = tokio::select! {
            biased;
            () = worker.signals.stopped() => None,
            first = queue.recv() => first,
        };
        let Some(mut fresh) = first else { break };
        if let Some(left) = claimed_at.and_then(|at| PACE.checked_sub(at.elapsed())) {
            worker.signals.pause(left).await;
            if worker.signals.is_stopped() {
                break;
            }
        }
        while fresh.len() < CLAIM_BATCH {
            match queue.try_recv() {
                Ok(more) => fresh.extend(more),
                Err(_) => break,
            }
        }
        let mut by_def: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for fresh in fresh {
            by_def.entry(fresh.def_id).or_default().push(fresh.id);
            if fresh.report.is_awaited() {
                worker.in_flight.await_report(fresh.id, fresh.report);
            }
        }
        for (def_id, ids) in by_def {
            first_send(&worker, def_id, ids).await;
        }
        claimed_at = Some(Instant::now());
    }
    // Queued notices are due; dropping their reports tells the producers so.
}

async fn first_send(worker: &Arc<Worker>, def_id: i64, ids: Vec<i64>) {
    let known = match worker.definition(def_id) {
        Some(_) => worker.read_own_edits().await,
        None => worker.reload_definitions().await,
    };
    if let Err(error) = known {
        worker.health.note(&error);
    }
    if worker.outcomes.is_overloaded(def_id) {
        // The notices are due; the sweep takes them once enough outcomes are stored.
        return worker.admission.want_more_slots();
    }
    let Some(definition) = worker.definition(def_id) else { return };
    let ready = match &definition.readiness {
        Readiness::Ready(ready) => ready,
        Readiness::NotHere(..) => return worker.in_flight.report(&ids, &FirstAttempt::NotHere),
        Readiness::Paused(_) | Readiness::Invalid(_) | Readiness::Refused(..) => {
            return worker.in_flight.report(&ids, &FirstAttempt::StillDue);
        }
    };
    // Notices without a slot wait for one; the sweep takes them.
    let mut ids = ids;
    let slots = worker.admission.take_slots(&ready.policy, ids.len());
    let mut unclaimed = ids.split_off(slots.len());
    if !unclaimed.is_empty() {
        worker.admission.want_more_slots();
    }
    for (ids, slots) in chunks(ids, slots) {
        match claim_and_start(worker, &definition, ready, ClaimWhat::Ids(ids.clone()), slots, None).await {
            Ok(claimed) => unclaimed.extend(ids.into_iter().filter(|id| !claimed.contains(id))),
            Err(error) => {
                worker.health.note_some(&error);
                unclaimed.extend(ids);
            }
        }
    }
    unclaimed.retain(|id| worker.in_flight.is_report_awaited(*id));
    if !unclaimed.is_empty() {
        // In a task of its own: a definition with many waiting notices must not delay the dispatch of others.
        let (worker, keep) = (Arc::clone(worker), ready.policy.keep_history);
        // It is unknown when a quota lets them through, and a window may be closed for days. This is checked after the
        // claim, because the claim itself may have found the quota closed.
        let is_closed = !worker.admission.lets_through(&ready.policy).await.unwrap_or(true);
        tokio::spawn(async move { look_for(&worker, unclaimed, keep, is_closed).await });
    }
}

/// Reports to the waiting producers what happened to notices that were not claimed, because the sweep never finds a
/// notice that does not exist.
async fn look_for(worker: &Worker, ids: Vec<i64>, keep: KeepHistory, is_closed: bool) {
    for id in ids {
        match worker.stores().browse.find(id).await {
            // The sweep of this node was faster, or another node is claiming it. If it is this node, it reports when
            // the attempt has ended.
            Ok(Some(record)) if record.status == Status::NotSent && !is_closed => {}
            Ok(Some(record)) if record.worker.as_deref() == Some(&worker.id) && !record.status.is_final() => {}
            Ok(record) => worker.in_flight.report(&[id], &report_of(worker, record.as_ref(), keep)),
            Err(error) => {
                worker.health.mention(&error);
                worker.in_flight.report(&[id], &FirstAttempt::StillDue);
            }
        }
    }
}

/// Returns the report for a notice that another node took, or that does not exist.
fn report_of(worker: &Worker, record: Option<&NoticeRecord>, keep: KeepHistory) -> FirstAttempt {
    let Some(record) = record else {
        // Without history, a notice that another node has already delivered is missing too.
        return if keep == KeepHistory::Never { FirstAttempt::StillDue } else { FirstAttempt::RolledBack };
    };
    let passes_on = || worker.definition(record.def_id).is_some_and(|definition| definition.has_targets);
    match record.status {
        Status::Succeeded if passes_on() => FirstAttempt::PassedOn(record.end_reason.clone().unwrap_or_default()),
        Status::Succeeded | Status::Cancelled | Status::AwaitingAck => FirstAttempt::Succeeded,
        Status::DeadLetter | Status::Failed => {
            let last = record.errors.last().map(|attempt| attempt.message.clone());
            FirstAttempt::Failed(last.or_else(|| record.end_reason.clone()).unwrap_or_default())
        }
        Status::NotSent | Status::Sending => FirstAttempt::StillDue,
    }
}
