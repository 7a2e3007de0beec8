//! Claims: one statement where an UPDATE returns the rows it changed, else a locking read and an update in one transaction.

pub(crate) mod blocked;
pub(crate) mod limits;
pub(crate) mod marks;

use std::collections::HashSet;

use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::{ClaimedNotice, Status, duration_millis};
use solid_notify_core::store::{Claim, ClaimWhat, Claims};

use crate::connections::Share;
use crate::definitions::is_unique_violation;
use crate::dialect::Dialect;
use crate::dialect::row::{read_claimed, required};
use crate::dialect::statement::Arg;
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
            None if DB::KIND.update_returns() && !windows => self.take_alone(&mut conn, claim).await?.into(),
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

    /// Claims by one statement. For fresh notices a second statement claims those that the quick first one left.
    async fn take_alone(&self, conn: &mut DB::Connection, claim: &Claim) -> sqlx::Result<Vec<ClaimedNotice>> {
        if let ClaimWhat::Ids(ids) = &claim.what
            && let Some(claim_fresh) = &DB::statements().claim_fresh
            && !self.met_lock_lately()
        {
            let wanted = &ids[..claim.limit.min(ids.len())];
            let args = self.arguments(claim, Status::NotSent, Arg::Ids(wanted));
            let mut taken = Vec::new();
            match DB::fetch(conn, claim_fresh, &args).await {
                Err(error) if fault::<DB>(&error) == FaultKind::Conflict => self.note_lock(),
                rows => taken = claimed::<DB>(&rows?),
            }
            if taken.len() == wanted.len() {
                return Ok(taken);
            }
            let got = ids_of(&taken);
            let rest = wanted.iter().copied().filter(|id| !got.contains(id)).collect::<Vec<_>>();
            let rest = Claim { limit: rest.len(), what: ClaimWhat::Ids(rest), ..claim.clone() };
            return match self.take(conn, &rest, rest.limit, false).await {
                Ok(more) => Ok(in_order([taken, more].concat())),
                // Notices that were not claimed stay due. Those that were claimed must be returned in spite of the error.
                Err(sqlx::Error::Database(_)) if !taken.is_empty() => Ok(taken),
                Err(error) => Err(error),
            };
        }
        self.take(conn, claim, claim.limit, false).await
    }

    /// The arguments of the statements that claim.
    fn arguments<'a>(&'a self, claim: &'a Claim, status: Status, what: Arg<'a>) -> [Arg<'a>; 7] {
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
        let statements = DB::statements();
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
        let args = self.arguments(claim, status, what);
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

fn ids_of(notices: &[ClaimedNotice]) -> Vec<i64> {
    notices.iter().map(|notice| notice.id).collect()
}

fn claimed<DB: Dialect>(rows: &[DB::Row]) -> Vec<ClaimedNotice> {
    in_order(read_claimed::<DB>(rows, Status::Sending))
}

/// Sorts by id, so that the notice inserted first is sent first: RETURNING promises no order.
fn in_order(mut claimed: Vec<ClaimedNotice>) -> Vec<ClaimedNotice> {
    claimed.sort_unstable_by_key(|notice| notice.id);
    claimed
}
