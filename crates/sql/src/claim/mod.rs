//! Claims: by their shortcut, by the plain claim, or under a quota, in one transaction.

pub(crate) mod blocked;
pub(crate) mod due;
pub(crate) mod leases;
pub(crate) mod limits;
mod marks;
pub(crate) mod remembered;
pub(crate) mod statements;
pub(crate) mod take;

use solid_notify_core::store::{Claim, Claims};

use crate::claim::limits::take_within;
use crate::claim::remembered::Remembered;
use crate::claim::take::{needs_windows, take};
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::statement::Arg;
use crate::shortcuts::fresh::claim_fresh;

/// Claims notices. Fails with a unique violation where another claim of the same ordering key ran at the same moment.
pub(crate) async fn claim<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    remembered: &Remembered,
    claim: &Claim,
) -> sqlx::Result<Claims> {
    let mut conn = on.get().await?;
    // Decided once, because the notices that windows lock must stay locked until the commit.
    let windows = needs_windows(remembered, claim);
    let claims = match &claim.quota {
        // A single statement is its own transaction.
        None if DB::KIND.update_returns() && !windows => {
            if let Some(claimed) = claim_fresh::<DB>(&mut conn, now, remembered, claim).await? {
                claimed.into()
            } else {
                take::<DB>(&mut conn, now, remembered, claim, claim.limit, false).await?.into()
            }
        }
        quota => {
            let mut tx = conn.begin().await?;
            let claims = match quota {
                None => take::<DB>(&mut tx, now, remembered, claim, claim.limit, windows).await?.into(),
                Some(quota) => take_within::<DB>(&mut tx, now, remembered, claim, quota).await?,
            };
            tx.commit().await?;
            claims
        }
    };
    conn.done();
    Ok(claims)
}
