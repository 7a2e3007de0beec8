//! Claims: the look for due notices, the claim, and the leases that follow from it.

pub(crate) mod due;
pub(crate) mod hints;
pub(crate) mod leases;
mod marks;
pub(crate) mod plain;
pub(crate) mod quota;

use solid_notify_core::limit::Quota;
use solid_notify_core::store::{Claim, Claims};

use crate::claim::hints::ClaimHints;
use crate::claim::plain::{needs_parts, plain_claim};
use crate::claim::quota::claim_within;
use crate::connections::{Borrowed, Share};
use crate::dialect::Dialect;
use crate::dialect::statement::Arg;
use crate::shortcuts::fresh::claim_fresh;

/// Claims notices. Fails with a unique violation where another claim of the same ordering key ran at the same moment.
pub(crate) async fn claim<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    hints: &ClaimHints,
    claim: &Claim,
) -> sqlx::Result<Claims> {
    let mut conn = on.get().await?;
    let by_parts = needs_parts(hints, claim);
    let claims = match &claim.quota {
        Some(quota) => under_a_quota::<DB>(&mut conn, now, hints, claim, quota).await?,
        None if DB::KIND.update_returns() && !by_parts => in_one_statement::<DB>(&mut conn, now, hints, claim).await?,
        None => in_a_transaction::<DB>(&mut conn, now, hints, claim, by_parts).await?,
    };
    conn.done();
    Ok(claims)
}

async fn under_a_quota<DB: Dialect>(
    conn: &mut Borrowed<'_, DB>,
    now: Arg<'_>,
    hints: &ClaimHints,
    claim: &Claim,
    quota: &Quota,
) -> sqlx::Result<Claims> {
    let mut tx = conn.begin().await?;
    let claims = claim_within::<DB>(&mut tx, now, hints, claim, quota).await?;
    tx.commit().await?;
    Ok(claims)
}

/// Claims by a single statement, which is its own transaction.
async fn in_one_statement<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    hints: &ClaimHints,
    claim: &Claim,
) -> sqlx::Result<Claims> {
    if let Some(fresh) = claim_fresh::<DB>(conn, now, hints, claim).await? {
        return Ok(fresh.into());
    }
    Ok(plain_claim::<DB>(conn, now, hints, claim, claim.limit, false).await?.into())
}

/// Claims by several statements. The notices that they lock stay locked until the commit.
async fn in_a_transaction<DB: Dialect>(
    conn: &mut Borrowed<'_, DB>,
    now: Arg<'_>,
    hints: &ClaimHints,
    claim: &Claim,
    by_parts: bool,
) -> sqlx::Result<Claims> {
    let mut tx = conn.begin().await?;
    let claimed = plain_claim::<DB>(&mut tx, now, hints, claim, claim.limit, by_parts).await?;
    tx.commit().await?;
    Ok(claimed.into())
}
