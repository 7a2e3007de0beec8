//! Claims: one statement where an UPDATE returns the rows it changed, else a locking read and an update in one transaction.

pub(crate) mod blocked;
pub(crate) mod due;
pub(crate) mod leases;
pub(crate) mod limits;
pub(crate) mod marks;
pub(crate) mod statements;

use std::collections::HashSet;

use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::{ClaimedNotice, Status, duration_millis};
use solid_notify_core::store::{Claim, ClaimWhat, Claims};

use crate::connections::Share;
use crate::definitions::is_unique_violation;
use crate::dialect::Dialect;
use crate::dialect::row::{read_claimed, required};
use crate::dialect::statement::Arg;
use crate::shortcuts;
use crate::store::{CONFLICT_TRIES, SqlStore, fault, int};

impl<DB: Dialect> SqlStore<DB> {
    /// Claims, and repeats the claim after a conflict with another claim of the same ordering key.
    pub(crate) async fn claim_in_turn(&self, on: &Share<DB>, claim: &Claim) -> sqlx::Result<Claims> {
        let mut claimed = self.try_claim(on, claim).await;
        for _ in 1..CONFLICT_TRIES {
            // Two claims ran at the same moment and the unique index let one through. The next try sees its result.
            if !claimed.as_ref().is_err_and(is_unique_violation) {
                break;
            }
            claimed = self.try_claim(on, claim).await;
        }
        claimed
    }

    async fn try_claim(&self, on: &Share<DB>, claim: &Claim) -> sqlx::Result<Claims> {
        let mut conn = on.get().await?;
        // Decided once, because the notices that windows lock must stay locked until the commit.
        let windows = self.needs_windows(claim);
        let claims = match &claim.quota {
            // A single statement is its own transaction.
            None if DB::KIND.update_returns() && !windows => {
                if let Some(claimed) = shortcuts::claim_fresh(self, &mut conn, claim).await? {
                    claimed.into()
                } else {
                    self.take(&mut conn, claim, claim.limit, false).await?.into()
                }
            }
            quota => {
                let mut tx = conn.begin().await?;
                let claims = match quota {
                    None => self.take(&mut tx, claim, claim.limit, windows).await?.into(),
                    Some(quota) => self.take_within(&mut tx, claim, quota).await?,
                };
                tx.commit().await?;
                claims
            }
        };
        conn.done();
        Ok(claims)
    }

    /// True where the queue slice may have notices that wait behind others of their ordering key.
    pub(crate) fn needs_windows(&self, claim: &Claim) -> bool {
        matches!(claim.what, ClaimWhat::Slice(_)) && !self.unordered.has(claim.def_id)
    }

    /// The arguments of the statements that claim.
    pub(crate) fn claim_arguments<'a>(&'a self, claim: &'a Claim, status: Status, what: Arg<'a>) -> [Arg<'a>; 7] {
        let mark = Arg::Int(self.marks.of(claim.def_id, status));
        let (lease, worker) = (duration_millis(claim.lease), claim.worker.as_str());
        [self.now(), claim.def_id.into(), status.code().into(), what, worker.into(), lease.into(), mark]
    }

    /// Claims up to `limit` notices. Where that takes more than one statement, the caller must have begun a transaction.
    pub(crate) async fn take(
        &self,
        conn: &mut DB::Connection,
        claim: &Claim,
        limit: usize,
        windows: bool,
    ) -> sqlx::Result<Vec<ClaimedNotice>> {
        let statements = &DB::statements().claim;
        let (batch, picked);
        let unfinished = self.unordered.claim(claim.def_id);
        let (pick, status, what) = match &claim.what {
            ClaimWhat::Slice(status) if windows => {
                picked = self.pick_in_windows(conn, claim, *status, limit).await?;
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
        let args = self.claim_arguments(claim, status, what);
        let rows = DB::fetch(conn, pick, &args).await;
        if !rows.as_ref().is_err_and(|error| fault::<DB>(error) == FaultKind::Slow) {
            unfinished.ended();
        }
        let rows = rows?;
        let mut picked = claimed::<DB>(&rows);
        self.unordered.note(&picked);
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
}

/// The first column of each row.
pub(crate) fn ids_of_rows<DB: Dialect>(rows: &[DB::Row]) -> sqlx::Result<Vec<i64>> {
    rows.iter().map(|row| required::<DB>(row, 0)).collect()
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
