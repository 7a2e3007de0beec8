//! Transactions of one business insert and one notice, while nothing is sent.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::producers::{produce, rate};
use crate::databases::{Arena, Product};
use crate::raw::Measured;
use crate::run::{Compared, Plan, RAW, Side, pairs};

/// Transactions of a repetition.
pub fn count<DB: Measured>() -> usize {
    match DB::PRODUCT {
        Product::Sqlite => 5_000,
        _ => 10_000,
    }
}

pub async fn measure<DB: Measured>(arena: &Arena<DB>, plan: Plan) -> Result<Compared> {
    let count = plan.scaled(count::<DB>());
    pairs(plan, RAW, async |side| {
        arena.reset().await?;
        once(arena, side, count).await
    })
    .await
}

/// Does `count` transactions; returns the rate.
///
/// # Errors
/// Errors of the library or the database, and notices that are not there afterwards.
pub async fn once<DB: Measured>(arena: &Arena<DB>, side: Side, count: usize) -> Result<f64> {
    let began = Instant::now();
    produce(arena, side, count).await?;
    let rate = rate(count, began);
    let queued = match side {
        Side::Ours => arena.number("SELECT count(*) FROM notify_msg").await?,
        Side::Raw => arena.number("SELECT count(*) FROM raw_msg").await?,
    };
    ensure!(queued == i64::try_from(count)?, "{queued} of {count} were queued");
    Ok(rate)
}
