//! The sweep of one definition: judges its overdue notices and claims from its due queue slices.
//!
//! It claims per queue slice, so that old retries never delay fresh notices.

use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::built_in::is_built_in;
use solid_notify_core::error::FaultKind;
use solid_notify_core::store::{ClaimWhat, DueSlice};
use solid_notify_core::{Status, StoreError};

use super::claim::{CLAIM_BATCH, claim_and_start};
use crate::definitions::{Definition, Ready};
use crate::refusals::{Part, REFUSED_PAUSE};
use crate::settling::overdue::{judge_unacked, rescue};
use crate::sleep::{SHORTEST_SLEEP, Swept};
use crate::worker::Worker;

/// The most rounds of full claims of one definition in a row, before the other definitions have their turn. Each turn
/// begins with a look. On Postgres, while a transaction is open elsewhere, a look steps over the entries of notices that
/// were already sent: with 2 rounds instead of 10 the rate then falls to 0.56.
const CLAIMS: usize = 10;

/// Rescues and claims the due notices of one definition.
pub(super) async fn sweep_one(
    worker: &Arc<Worker>,
    definition: &Arc<Definition>,
    ready: &Arc<Ready>,
    due: &[&DueSlice],
    turn: usize,
) -> Result<Swept, StoreError> {
    let is_due = |status| due.iter().any(|slice| slice.status == status);
    let mut sleep = worker.settings.poll_interval;
    let mut busy = is_due(Status::Sending);
    if busy {
        sleep = sleep.min(look(worker, definition, rescue(worker, definition, ready)).await?);
    }
    if is_due(Status::AwaitingAck) {
        busy = true;
        sleep = sleep.min(look(worker, definition, judge_unacked(worker, definition, ready)).await?);
    }
    if worker.outcomes.is_overloaded(definition.row.id) {
        worker.admission.want_more_slots();
        return Ok(Swept { again_in: sleep, busy: true });
    }
    if let Some(left) = worker.admission.quota_closed_for(&ready.policy) {
        return Ok(Swept { again_in: sleep.min(left.max(SHORTEST_SLEEP)), busy });
    }
    let late = |status| due.iter().find(|slice| slice.status == status).map(|slice| (status, Some(slice.late)));
    let mut slices: Vec<(Status, Option<Duration>)> =
        [Status::NotSent, Status::Failed].into_iter().filter_map(late).collect();
    // A quota may let through fewer notices than there are slots. The order of the queue slices is random, so that
    // neither waits for ever.
    let crash_looping_first = ready.policy.quota.is_some() && fastrand::bool();
    if ready.policy.quota.is_some() && fastrand::bool() {
        slices.reverse();
    }
    if crash_looping_first && is_due(Status::Failed) {
        busy |= claim_crash_looping(worker, definition, ready).await?;
    }
    let (mut more, mut is_backlog) = (true, false);
    for _ in 0..CLAIMS {
        if !more || worker.outcomes.is_overloaded(definition.row.id) || worker.signals.is_stopped() {
            break;
        }
        let mut beside: Vec<_> = slices.iter().filter(|_| is_backlog).map(|(status, _)| (*status, None)).collect();
        // Both claims finish even if one fails, because the other may have claimed notices.
        let (claimed, more_claimed) = tokio::join!(
            claim_slices(worker, definition, ready, &mut slices, turn),
            claim_slices(worker, definition, ready, &mut beside, turn)
        );
        let ((one_more, claimed), (other_more, more_claimed)) = (claimed?, more_claimed?);
        more = one_more || other_more;
        busy |= claimed || more_claimed;
        // While one claim commits and its notices start, the next one finds its own. (A quota admits one claim at a
        // time.)
        is_backlog = more && ready.policy.quota.is_none();
    }
    if !crash_looping_first && is_due(Status::Failed) {
        busy |= claim_crash_looping(worker, definition, ready).await?;
    }
    match worker.admission.quota_closed_for(&ready.policy) {
        Some(left) => sleep = sleep.min(left.max(SHORTEST_SLEEP)),
        None if more => sleep = Duration::ZERO,
        None => {}
    }
    Ok(Swept { again_in: sleep, busy })
}

/// Looks for overdue notices of a definition, unless the database has just refused that. Then its due notices are claimed all the same.
/// Returns when to look again.
async fn look(
    worker: &Worker,
    definition: &Definition,
    look: impl Future<Output = Result<Duration, StoreError>>,
) -> Result<Duration, StoreError> {
    let part = Part::Looks(definition.row.id);
    if let Some(left) = worker.health.refusals.rest(part) {
        return Ok(left);
    }
    worker.admission.sweep_goes_on(definition.row.id);
    let looked = look.await;
    match &looked {
        Ok(_) => worker.health.works(part, worker.moment()),
        Err(error) if error.kind == FaultKind::Unusable => {
            worker.health.failed(part, error);
            return Ok(REFUSED_PAUSE);
        }
        Err(_) => {}
    }
    looked
}

/// Claims from the due queue slices of one definition. Returns whether a slice has more while a slot is free, and
/// whether the call claimed something or would have with a free slot.
async fn claim_slices(
    worker: &Arc<Worker>,
    definition: &Arc<Definition>,
    ready: &Arc<Ready>,
    slices: &mut [(Status, Option<Duration>)],
    turn: usize,
) -> Result<(bool, bool), StoreError> {
    let (mut more, mut busy) = (false, false);
    let both = slices.len() == 2;
    for (nth, (status, late)) in slices.iter_mut().enumerate() {
        let mut slots = worker.admission.take_slots(&ready.policy, CLAIM_BATCH);
        // Two queue slices share the slots: the first gets half of the free ones, the second the rest. If there is one
        // slot, they take turns.
        if both && nth == 0 {
            slots.truncate((slots.len() + turn % 2) / 2);
        }
        if slots.is_empty() {
            busy = true;
            continue;
        }
        let wanted = slots.len();
        worker.admission.sweep_goes_on(definition.row.id);
        let claimed = claim_and_start(worker, definition, ready, ClaimWhat::Slice(*status), slots, None).await?;
        more |= claimed.len() == wanted && (wanted == CLAIM_BATCH || both);
        busy |= !claimed.is_empty();
        // For the first claim the look reported since when its first notice was due.
        if let Some(late) = late.take_if(|_| !claimed.is_empty()) {
            ready.meters.claimed(late);
            if !is_built_in(&ready.policy.name) {
                worker.outcomes.series.claimed(worker.clock_millis(), ready.policy.def_id, late);
            }
        }
    }
    Ok((more, busy))
}

/// Claims one crash-looping notice, unless this node is sending another one. Returns whether
/// it claimed one, or would have with a free slot.
async fn claim_crash_looping(
    worker: &Arc<Worker>,
    definition: &Arc<Definition>,
    ready: &Arc<Ready>,
) -> Result<bool, StoreError> {
    let Some(permit) = worker.admission.crash_loop_permit() else {
        // The freed slot of the crash-looping notice in flight has already woken the sweep; its settle must wake the sweep again.
        worker.admission.want_more_slots();
        return Ok(true);
    };
    let slots = worker.admission.take_slots(&ready.policy, 1);
    if slots.is_empty() {
        return Ok(true);
    }
    let claimed = claim_and_start(worker, definition, ready, ClaimWhat::CrashLooping, slots, Some(permit)).await?;
    Ok(!claimed.is_empty())
}
