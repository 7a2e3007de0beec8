//! The plain claim: one statement where an UPDATE returns the rows it changed, else a locking read and an update. In front of it,
//! where ordering keys may occur, the queue slice is read in parts (`ordering.rs`). A process assumes that until it has read the
//! slice once.

use std::collections::HashSet;

use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::{ClaimedNotice, Status, duration_millis};
use solid_notify_core::store::{Claim, ClaimWhat};

use crate::claim::hints::ClaimHints;
use crate::claim::statements::ClaimStatements;
use crate::dialect::Dialect;
use crate::dialect::fault::fault;
use crate::dialect::row::{numbers, read_claimed};
use crate::dialect::statement::{Arg, int};
use crate::ordering::pick_by_parts;

/// Claims up to `limit` notices. Where that takes more than one statement, the caller must have begun a transaction.
pub(crate) async fn plain_claim<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    hints: &ClaimHints,
    claim: &Claim,
    limit: usize,
    by_parts: bool,
) -> sqlx::Result<Vec<ClaimedNotice>> {
    let statements = ClaimStatements::of(DB::KIND);
    let (batch, picked);
    let unfinished = hints.unordered.begin_claim(claim.def_id);
    let (pick, status, what) = match &claim.what {
        ClaimWhat::Slice(status) if by_parts => {
            picked = pick_by_parts::<DB>(conn, now, hints, claim, *status, limit).await?;
            (&statements.claim_ids, *status, Arg::Ids(&picked))
        }
        ClaimWhat::Slice(status) => (&statements.claim_slice, *status, int(limit).into()),
        ClaimWhat::CrashLooping => (&statements.claim_crash_looping, Status::Failed, int(limit).into()),
        ClaimWhat::Ids(wanted) => {
            (&statements.claim_ids, Status::NotSent, Arg::Ids(&wanted[..limit.min(wanted.len())]))
        }
        ClaimWhat::Keys(keys) => {
            let keys = keys.iter().take(limit).map(|key| serde_json::json!({ "own_key": key }));
            batch = serde_json::Value::from_iter(keys).to_string();
            (&statements.claim_keys, Status::NotSent, batch.as_str().into())
        }
    };
    let args = claim_arguments(now, hints, claim, status, what);
    let rows = DB::fetch(conn, pick, &args).await;
    if !rows.as_ref().is_err_and(|error| fault::<DB>(error) == FaultKind::Slow) {
        unfinished.ended();
    }
    let rows = rows?;
    let mut picked = claimed::<DB>(&rows);
    hints.unordered.note(&picked);
    let (Some(still_first), Some(claim_picked)) = (&statements.still_first, &statements.claim_picked) else {
        // The statement that picked the notices has claimed them.
        return Ok(picked);
    };
    if picked.iter().any(|notice| notice.ordering_key.is_some()) {
        // A locking read sees what is committed while it runs, but its subqueries do not. So it may have returned a notice
        // and missed an earlier one of its key. The claimed rows are locked now, so a separate look sees all.
        let rows = DB::fetch(conn, still_first, &[args[0], Arg::Ids(&ids_of(&picked))]).await?;
        let first: HashSet<i64> = numbers::<DB>(&rows)?.into_iter().collect();
        picked.retain(|notice| first.contains(&notice.id));
    }
    if !picked.is_empty() {
        let ids = ids_of(&picked);
        let args = [args[0], args[1], args[2], Arg::Ids(&ids), args[4], args[5]];
        DB::execute(conn, claim_picked, &args).await?;
    }
    for notice in &mut picked {
        notice.worker.clone_from(&claim.worker);
    }
    Ok(picked)
}

/// True where the queue slice may have notices that wait behind others of their ordering key.
pub(crate) fn needs_parts(hints: &ClaimHints, claim: &Claim) -> bool {
    matches!(claim.what, ClaimWhat::Slice(_)) && !hints.unordered.has(claim.def_id)
}

/// The arguments of the statements that claim.
pub(crate) fn claim_arguments<'a>(
    now: Arg<'a>,
    hints: &ClaimHints,
    claim: &'a Claim,
    status: Status,
    what: Arg<'a>,
) -> [Arg<'a>; 7] {
    let mark = Arg::Int(hints.marks.of(claim.def_id, status));
    let (lease, worker) = (duration_millis(claim.lease), claim.worker.as_str());
    [now, claim.def_id.into(), status.code().into(), what, worker.into(), lease.into(), mark]
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
