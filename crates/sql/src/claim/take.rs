//! The plain claim: one statement where an UPDATE returns the rows it changed, else a locking read and an update.

use std::collections::HashSet;

use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::{ClaimedNotice, Status, duration_millis};
use solid_notify_core::store::{Claim, ClaimWhat};

use crate::claim::blocked::pick_in_windows;
use crate::claim::remembered::Remembered;
use crate::claim::statements::ClaimStatements;
use crate::dialect::Dialect;
use crate::dialect::fault::fault;
use crate::dialect::row::{ids_of_rows, read_claimed};
use crate::dialect::statement::{Arg, int};

/// Claims up to `limit` notices. Where that takes more than one statement, the caller must have begun a transaction.
pub(crate) async fn take<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    remembered: &Remembered,
    claim: &Claim,
    limit: usize,
    windows: bool,
) -> sqlx::Result<Vec<ClaimedNotice>> {
    let statements = ClaimStatements::of(DB::KIND);
    let (batch, picked);
    let unfinished = remembered.unordered.claim(claim.def_id);
    let (pick, status, what) = match &claim.what {
        ClaimWhat::Slice(status) if windows => {
            picked = pick_in_windows::<DB>(conn, now, remembered, claim, *status, limit).await?;
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
    let args = claim_arguments(now, remembered, claim, status, what);
    let rows = DB::fetch(conn, pick, &args).await;
    if !rows.as_ref().is_err_and(|error| fault::<DB>(error) == FaultKind::Slow) {
        unfinished.ended();
    }
    let rows = rows?;
    let mut picked = claimed::<DB>(&rows);
    remembered.unordered.note(&picked);
    if DB::KIND.update_returns() {
        return Ok(picked);
    }
    if picked.iter().any(|notice| notice.ordering_key.is_some()) {
        // A locking read sees what is committed while it runs, but its subqueries do not. So it may have returned a notice
        // and missed an earlier one of its key. The claimed rows are locked now, so a separate look sees all.
        let rows = DB::fetch(conn, &statements.still_first, &[args[0], Arg::Ids(&ids_of(&picked))]).await?;
        let first: HashSet<i64> = ids_of_rows::<DB>(&rows)?.into_iter().collect();
        picked.retain(|notice| first.contains(&notice.id));
    }
    if !picked.is_empty() {
        let taken = ids_of(&picked);
        let args = [args[0], args[1], args[2], Arg::Ids(&taken), args[4], args[5]];
        DB::execute(conn, &statements.take, &args).await?;
    }
    for notice in &mut picked {
        notice.worker.clone_from(&claim.worker);
    }
    Ok(picked)
}

/// True where the queue slice may have notices that wait behind others of their ordering key.
pub(crate) fn needs_windows(remembered: &Remembered, claim: &Claim) -> bool {
    matches!(claim.what, ClaimWhat::Slice(_)) && !remembered.unordered.has(claim.def_id)
}

/// The arguments of the statements that claim.
pub(crate) fn claim_arguments<'a>(
    now: Arg<'a>,
    remembered: &Remembered,
    claim: &'a Claim,
    status: Status,
    what: Arg<'a>,
) -> [Arg<'a>; 7] {
    let mark = Arg::Int(remembered.marks.of(claim.def_id, status));
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
