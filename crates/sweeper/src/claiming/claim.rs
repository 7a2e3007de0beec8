//! The claim: the one place where notices are claimed. It checks window and quota, claims as many notices as there are slots,
//! registers them as in flight, and starts an attempt of each.

use std::sync::Arc;

use solid_notify_core::error::FaultKind;
use solid_notify_core::limit::QuotaStop;
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{Claim, ClaimWhat, Claims};
use solid_notify_core::{Policy, StoreError};
use tokio::sync::OwnedSemaphorePermit;

use crate::alerts::locked::Work;
use crate::definitions::{Definition, Ready};
use crate::refusals::Part;
use crate::running::attempt::start_attempt;
use crate::slots::Slot;
use crate::worker::Worker;

/// The most notices that one claim takes.
pub(super) const CLAIM_BATCH: usize = 500;

/// Claims notices and starts each with a slot of its own. Returns their ids; slots left over become free. It claims nothing if
/// `ready` may be older than an edit by this process, or than [`ROWS_HOLD`](solid_notify_core::store::ROWS_HOLD): the sweep reads the
/// definitions again and claims.
///
/// `crash_loop_permit` is kept until the outcome of the attempt is stored.
pub(crate) async fn claim_and_start(
    worker: &Arc<Worker>,
    definition: &Arc<Definition>,
    ready: &Arc<Ready>,
    what: ClaimWhat,
    slots: Vec<Slot>,
    mut crash_loop_permit: Option<OwnedSemaphorePermit>,
) -> Result<Vec<i64>, StoreError> {
    let policy = &ready.policy;
    let part = Part::Claims(policy.def_id);
    if worker.in_flight.is_stuck(policy.def_id) || worker.health.refusals.rest(part).is_some() {
        return Ok(Vec::new());
    }
    if worker.has_unread_edits() || worker.known.are_old() || !worker.admission.lets_through(policy).await? {
        return Ok(Vec::new());
    }
    let claim = Claim::new(policy, &worker.id, what, slots.len());
    let ended_before = worker.admission.attempts_ended(policy);
    // Until the claimed notices are registered, the lease loop must not conclude that a claim was lost.
    let _under_way = worker.in_flight.begin_claim().await;
    let Claims { notices, stopped_by } = match worker.stores().send.claim(&claim).await {
        Ok(claims) => {
            worker.health.refusals.works(part);
            claims
        }
        Err(error) => {
            worker.in_flight.claim_answer_lost();
            if error.kind == FaultKind::Unusable {
                worker.health.failed(part, &error);
            }
            return Err(error);
        }
    };
    if policy.quota.is_some() {
        note_quota(worker, policy, stopped_by, ended_before);
        if notices.iter().any(ClaimedNotice::is_expired) {
            // They used up no place, but others may have found none in this claim.
            worker.signals.sweep_soon();
        }
    }
    if notices.len() == claim.limit && !matches!(claim.what, ClaimWhat::Ids(_)) {
        // There may be more: the next freed slot wakes the sweep.
        worker.admission.want_more_slots();
    }
    let ids = notices.iter().map(|notice| notice.id).collect();
    for (claimed, slot) in notices.into_iter().zip(slots) {
        worker.in_flight.register(&claimed, policy, worker.moment());
        start_attempt(worker, definition, ready, claimed, slot, crash_loop_permit.take());
    }
    Ok(ids)
}

/// Records what the store replied about the quota of a definition.
fn note_quota(worker: &Worker, policy: &Policy, stopped_by: Option<QuotaStop>, ended_before: u64) {
    match stopped_by {
        Some(QuotaStop::Busy { .. }) => worker.alarms.locked_rows.waits(policy.def_id, &policy.name, Work::Claims),
        _ => worker.alarms.locked_rows.goes_on(policy.def_id, &policy.name, Work::Claims),
    }
    if let Some(stop) = stopped_by
        && !worker.admission.quota_stopped(policy, stop, ended_before)
    {
        worker.signals.sweep_soon();
    }
}

/// Returns as many items as there are slots, in batches of at most [`CLAIM_BATCH`].
pub(super) fn chunks<T>(items: impl IntoIterator<Item = T>, mut slots: Vec<Slot>) -> Vec<(Vec<T>, Vec<Slot>)> {
    let mut items = items.into_iter();
    let mut chunks = Vec::new();
    while !slots.is_empty() {
        let rest = slots.split_off(slots.len().min(CLAIM_BATCH));
        chunks.push((items.by_ref().take(slots.len()).collect(), slots));
        slots = rest;
    }
    chunks
}
