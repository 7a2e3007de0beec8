//! Claims of fresh notices: those that were committed a moment ago by this process.

use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::{ClaimedNotice, Status};
use solid_notify_core::store::{Claim, ClaimWhat};

use crate::claim::hints::ClaimHints;
use crate::claim::plain::{Given, claimed, ids_of, in_order, plain_claim};
use crate::dialect::Dialect;
use crate::dialect::fault::fault;
use crate::dialect::query::Query;
use crate::dialect::statement::Arg;
use crate::sql::shortcuts::ClaimFresh;

/// Claims fresh notices without locking them first. A second statement, of the plain path, claims those that the first one left:
/// notices with an ordering key, and all where one of them is locked. `None`: nothing was claimed.
///
/// The plain path is the statement `claim_ids`: 37.7 instead of 31.7 µs for one notice, 178 instead of 141 µs for twenty. The claim is
/// a part of the time from the commit to the handler, and an idle server takes long to prepare the look at a key's other notices.
pub(crate) async fn claim_fresh<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    hints: &ClaimHints,
    claim: &Claim,
) -> sqlx::Result<Option<Vec<ClaimedNotice>>> {
    let ClaimWhat::Ids(ids) = &claim.what else { return Ok(None) };
    if DB::KIND.wait_briefly().is_none() || hints.met_lock.lately() {
        return Ok(None);
    }
    let wanted = &ids[..claim.limit.min(ids.len())];
    let Given { clock, def_id, status, worker, lease } = Given::new(now, claim, Status::NotSent);
    let mut fresh = Vec::new();
    match (ClaimFresh { clock, def_id, status, ids: wanted, worker, lease }).fetch::<DB>(conn).await {
        Err(error) if fault::<DB>(&error) == FaultKind::Conflict => hints.met_lock.note(),
        rows => fresh = claimed::<DB>(&rows?),
    }
    if fresh.len() == wanted.len() {
        return Ok(Some(fresh));
    }
    let got = ids_of(&fresh);
    let rest = wanted.iter().copied().filter(|id| !got.contains(id)).collect::<Vec<_>>();
    let rest = Claim { limit: rest.len(), what: ClaimWhat::Ids(rest), ..claim.clone() };
    match plain_claim::<DB>(conn, now, hints, &rest, rest.limit, false).await {
        Ok(more) => Ok(Some(in_order([fresh, more].concat()))),
        // Notices that were not claimed stay due. Those that were claimed must be returned in spite of the error.
        Err(sqlx::Error::Database(_)) if !fresh.is_empty() => Ok(Some(fresh)),
        Err(error) => Err(error),
    }
}
