//! The plain claim: one statement where an UPDATE returns the rows it changed, else a locking read and an update. In front of it,
//! where ordering keys may occur, the queue slice is read in parts (`ordering.rs`). A process assumes that until it has read the
//! slice once.

use std::collections::HashSet;

use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::{ClaimedNotice, Status, duration_millis};
use solid_notify_core::store::{Claim, ClaimWhat};

use crate::claim::hints::ClaimHints;
use crate::dialect::Dialect;
use crate::dialect::fault::fault;
use crate::dialect::query::{Clock, Query};
use crate::dialect::row::{numbers, read_claimed};
use crate::dialect::statement::{Arg, int};
use crate::ordering::pick_by_parts;
use crate::sql::claim::{ClaimCrashLooping, ClaimIds, ClaimKeys, ClaimPicked, ClaimSlice, StillFirst};

/// Claims up to `limit` notices. Where that takes more than one statement, the caller must have begun a transaction.
pub(crate) async fn plain_claim<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    hints: &ClaimHints,
    claim: &Claim,
    limit: usize,
    by_parts: bool,
) -> sqlx::Result<Vec<ClaimedNotice>> {
    let unfinished = hints.unordered.begin_claim(claim.def_id);
    let parts = match &claim.what {
        ClaimWhat::Slice(status) if by_parts => {
            Some(pick_by_parts::<DB>(conn, now, hints, claim, *status, limit).await?)
        }
        _ => None,
    };
    let picked = pick::<DB>(conn, now, hints, claim, limit, parts.as_deref()).await;
    if !picked.as_ref().is_err_and(|error| fault::<DB>(error) == FaultKind::Slow) {
        unfinished.ended();
    }
    let (status, rows) = picked?;
    let mut picked = claimed::<DB>(&rows);
    hints.unordered.note(&picked);
    if DB::KIND.update_returns() {
        // The statement that picked the notices has claimed them.
        return Ok(picked);
    }
    if picked.iter().any(|notice| notice.ordering_key.is_some()) {
        let rows = StillFirst { ids: &ids_of(&picked) }.fetch::<DB>(conn).await?;
        let first: HashSet<i64> = numbers::<DB>(&rows)?.into_iter().collect();
        picked.retain(|notice| first.contains(&notice.id));
    }
    if !picked.is_empty() {
        let Given { clock, status, worker, lease, .. } = Given::new(now, claim, status);
        ClaimPicked { clock, status, ids: &ids_of(&picked), worker, lease }.execute::<DB>(conn).await?;
    }
    for notice in &mut picked {
        notice.worker.clone_from(&claim.worker);
    }
    Ok(picked)
}

/// Runs the statement that claims, or on MySQL picks, the notices; `parts` are those of a slice that was read in parts. Returns the status
/// that they had, and the rows.
async fn pick<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    hints: &ClaimHints,
    claim: &Claim,
    limit: usize,
    parts: Option<&[i64]>,
) -> sqlx::Result<(Status, Vec<DB::Row>)> {
    let status = match &claim.what {
        ClaimWhat::Slice(status) => *status,
        ClaimWhat::CrashLooping => Status::Failed,
        ClaimWhat::Ids(_) | ClaimWhat::Keys(_) => Status::NotSent,
    };
    let given = Given::new(now, claim, status);
    let mark = hints.marks.of(claim.def_id, status);
    let Given { clock, def_id, status: code, worker, lease } = given;
    let rows = match (&claim.what, parts) {
        (_, Some(parts)) => given.ids(parts).fetch::<DB>(conn).await,
        (ClaimWhat::Slice(_), None) => {
            ClaimSlice { clock, def_id, status: code, limit: int(limit), worker, lease, mark }.fetch::<DB>(conn).await
        }
        (ClaimWhat::CrashLooping, None) => {
            let limit = int(limit);
            ClaimCrashLooping { clock, def_id, status: code, limit, worker, lease, mark }.fetch::<DB>(conn).await
        }
        (ClaimWhat::Ids(wanted), None) => given.ids(&wanted[..limit.min(wanted.len())]).fetch::<DB>(conn).await,
        (ClaimWhat::Keys(keys), None) => {
            let keys = keys.iter().take(limit).map(|key| serde_json::json!({ "own_key": key }));
            let keys = &serde_json::Value::from_iter(keys).to_string();
            ClaimKeys { clock, def_id, status: code, keys, worker, lease }.fetch::<DB>(conn).await
        }
    };
    Ok((status, rows?))
}

/// What each statement of a claim gets.
#[derive(Clone, Copy)]
pub(crate) struct Given<'c> {
    pub(crate) clock: Clock,
    pub(crate) def_id: i64,
    pub(crate) status: i64,
    pub(crate) worker: &'c str,
    pub(crate) lease: i64,
}

impl<'c> Given<'c> {
    pub(crate) fn new(now: Arg<'_>, claim: &'c Claim, status: Status) -> Self {
        let (worker, lease) = (claim.worker.as_str(), duration_millis(claim.lease));
        Self { clock: now.into(), def_id: claim.def_id, status: status.code(), worker, lease }
    }

    fn ids<'q>(self, ids: &'q [i64]) -> ClaimIds<'q>
    where
        'c: 'q,
    {
        let Self { clock, def_id, status, worker, lease } = self;
        ClaimIds { clock, def_id, status, ids, worker, lease }
    }
}

/// True where the queue slice may have notices that wait behind others of their ordering key.
pub(crate) fn needs_parts(hints: &ClaimHints, claim: &Claim) -> bool {
    matches!(claim.what, ClaimWhat::Slice(_)) && !hints.unordered.has(claim.def_id)
}

pub(crate) fn ids_of(notices: &[ClaimedNotice]) -> Vec<i64> {
    notices.iter().map(|notice| notice.id).collect()
}

pub(crate) fn claimed<DB: Dialect>(rows: &[DB::Row]) -> Vec<ClaimedNotice> {
    in_order(read_claimed::<DB>(rows, Status::Sending))
}

/// Sorts by id, so that the notice inserted first is sent first: RETURNING promises no order.
pub(crate) fn in_order(mut claimed: Vec<ClaimedNotice>) -> Vec<ClaimedNotice> {
    claimed.sort_unstable_by_key(|notice| notice.id);
    claimed
}
