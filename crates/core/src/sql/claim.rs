//! Claiming: one statement where an update returns what it changed, else a locking read and an update in one transaction.

use std::collections::HashSet;

use super::connections::Purpose;
use super::definitions::is_unique_violation;
use super::dialect::Dialect;
use super::read::{read_claimed, required};
use super::run::Arg;
use super::store::{CONFLICT_TRIES, SqlStore, fault, int};
use crate::error::FaultKind;
use crate::notice::{Claimed, Status, duration_millis};
use crate::store::{Claim, ClaimWhat, Claims};

impl<DB: Dialect> SqlStore<DB> {
    /// Claims, and again where others did so of the same ordering key.
    pub(super) async fn claim_in_turn(&self, claim: &Claim) -> sqlx::Result<Claims> {
        let mut claimed = self.try_claim(claim).await;
        for _ in 1..CONFLICT_TRIES {
            // At the same moment, and the index let one. Now that is seen.
            if !claimed.as_ref().is_err_and(is_unique_violation) {
                break;
            }
            claimed = self.try_claim(claim).await;
        }
        claimed
    }

    async fn try_claim(&self, claim: &Claim) -> sqlx::Result<Claims> {
        let mut conn = self.connections.get(Purpose::Work).await?;
        let claims = match &claim.quota {
            // One statement is a transaction of its own.
            None if DB::KIND.update_returns() => self.take_alone(&mut conn, claim).await?.into(),
            quota => {
                let mut tx = conn.begin().await?;
                let claims = match quota {
                    None => self.take(&mut tx, claim, claim.limit).await?.into(),
                    Some(quota) => self.take_within(&mut tx, claim, quota).await?,
                };
                tx.commit().await?;
                claims
            }
        };
        conn.done();
        Ok(claims)
    }

    /// Claims by one statement; of fresh notices, what a quick one passes over by another.
    async fn take_alone(&self, conn: &mut DB::Connection, claim: &Claim) -> sqlx::Result<Vec<Claimed>> {
        if let ClaimWhat::Ids(ids) = &claim.what
            && DB::KIND.wait_briefly().is_some()
            && !self.met_lock_lately()
        {
            let wanted = &ids[..claim.limit.min(ids.len())];
            let args = self.arguments(claim, Status::NotSent, Arg::Ids(wanted));
            let mut taken = Vec::new();
            match DB::fetch(conn, &DB::statements().claim_fresh, &args).await {
                Err(error) if fault::<DB>(&error) == FaultKind::Conflict => self.note_lock(),
                rows => taken = claimed::<DB>(&rows?),
            }
            if taken.len() == wanted.len() {
                return Ok(taken);
            }
            let got = ids_of(&taken);
            let rest = wanted.iter().copied().filter(|id| !got.contains(id)).collect::<Vec<_>>();
            let rest = Claim { limit: rest.len(), what: ClaimWhat::Ids(rest), ..claim.clone() };
            return match self.take(conn, &rest, rest.limit).await {
                Ok(more) => Ok(in_order([taken, more].concat())),
                // What is not claimed is due; what is claimed must not be forgotten for it.
                Err(sqlx::Error::Database(_)) if !taken.is_empty() => Ok(taken),
                Err(error) => Err(error),
            };
        }
        self.take(conn, claim, claim.limit).await
    }

    /// What the statements that claim are given.
    fn arguments<'a>(&'a self, claim: &'a Claim, status: Status, what: Arg<'a>) -> [Arg<'a>; 7] {
        let mark = Arg::Int(self.marks.of(claim.def_id, status));
        let (lease, worker) = (duration_millis(claim.lease), claim.worker.as_str());
        [self.now(), claim.def_id.into(), status.code().into(), what, worker.into(), lease.into(), mark]
    }

    /// Claims up to `limit`, in the transaction of the caller where it takes more than one statement.
    pub(super) async fn take(
        &self,
        conn: &mut DB::Connection,
        claim: &Claim,
        limit: usize,
    ) -> sqlx::Result<Vec<Claimed>> {
        let statements = DB::statements();
        let batch;
        let (pick, status, what) = match &claim.what {
            ClaimWhat::Lane(status) => (&statements.claim_lane, *status, int(limit).into()),
            ClaimWhat::Suspects => (&statements.claim_suspects, Status::Failed, int(limit).into()),
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
        if DB::KIND.update_returns() {
            return Ok(claimed::<DB>(&DB::fetch(conn, pick, &args).await?));
        }
        let rows = DB::fetch(conn, pick, &args).await?;
        let mut picked = claimed::<DB>(&rows);
        if picked.iter().any(|notice| notice.ordering_key.is_some()) {
            // A locking read sees what is committed while it runs, and its subqueries do not: it may have found a notice
            // and missed one of its key before it. Now that those are locked, a look of its own sees all.
            let rows = DB::fetch(conn, &statements.still_first, &[args[0], Arg::Ids(&ids_of(&picked))]).await?;
            let first = rows.iter().map(|row| required::<DB>(row, 0)).collect::<sqlx::Result<HashSet<i64>>>()?;
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

fn ids_of(notices: &[Claimed]) -> Vec<i64> {
    notices.iter().map(|notice| notice.id).collect()
}

fn claimed<DB: Dialect>(rows: &[DB::Row]) -> Vec<Claimed> {
    in_order(read_claimed::<DB>(rows, Status::Sending))
}

/// The first that was added goes first: RETURNING promises no order.
fn in_order(mut claimed: Vec<Claimed>) -> Vec<Claimed> {
    claimed.sort_unstable_by_key(|notice| notice.id);
    claimed
}
