//! The claim under a quota: how many attempts may begin over all nodes, and be under way.

use solid_notify_core::limit::{Quota, QuotaStop, allowance, attempted, begin};
use solid_notify_core::store::{Claim, Claims};

use crate::claim::hints::ClaimHints;
use crate::claim::plain::{needs_parts, plain_claim};
use crate::dialect::Dialect;
use crate::dialect::fault::conflict_pause;
use crate::dialect::query::Query;
use crate::dialect::row::one_number;
use crate::dialect::statement::{Arg, int};
use crate::limits::{try_lock, write};
use crate::sql::claim::{CountSending, TimeUp};

/// Claims as many notices as the quota allows. A concurrent claim of the same definition finds the row locked and returns
/// [`QuotaStop::Busy`], because a claim must not wait for another node, which may hang.
pub(crate) async fn claim_within<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    hints: &ClaimHints,
    claim: &Claim,
    quota: &Quota,
) -> sqlx::Result<Claims> {
    let Some((row, time)) = try_lock::<DB>(tx, now, claim.def_id).await? else {
        let after = conflict_pause();
        return Ok(Claims { notices: Vec::new(), stopped_by: Some(QuotaStop::Busy { after }) });
    };
    // After the lock, in statements of their own, so that they see all earlier claims.
    let sending = match quota.total {
        Some(most) => count_sending::<DB>(tx, claim.def_id, most).await?,
        None => 0,
    };
    let most = match allowance(&row, quota, time, sending, claim.lease) {
        Ok(most) => most,
        Err(stop) => return Ok(Claims { notices: Vec::new(), stopped_by: Some(stop) }),
    };
    let by_parts = needs_parts(hints, claim);
    let notices = plain_claim::<DB>(tx, now, hints, claim, claim.limit.min(most), by_parts).await?;
    if notices.is_empty() {
        return Ok(notices.into());
    }
    // The attempts began between the two times. Counted from the later one, no span of time has too many.
    let rows = TimeUp { clock: now.into() }.fetch::<DB>(tx).await?;
    let at = one_number::<DB>(&rows)?.unwrap_or(time).max(time);
    let new = begin(&row, quota, at, &attempted(&notices), claim.lease);
    if new != row {
        write::<DB>(tx, now, claim.def_id, &new).await?;
    }
    let stopped_by = allowance(&new, quota, at, sending + notices.len(), claim.lease).err();
    Ok(Claims { notices, stopped_by })
}

async fn count_sending<DB: Dialect>(tx: &mut DB::Connection, def_id: i64, most: usize) -> sqlx::Result<usize> {
    let rows = CountSending { def_id, most: int(most) }.fetch::<DB>(tx).await?;
    let count = one_number::<DB>(&rows)?.unwrap_or(0);
    Ok(usize::try_from(count).unwrap_or(0))
}
