//! Adding and sending at the same time.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::producers::{produce, rate};
use crate::databases::{Arena, Product};
use crate::ours;
use crate::raw::{self, Measured};
use crate::run::{Compared, Plan, RAW, Side, pairs};

/// Notices of a repetition: some ten seconds, because its begin and its end must not count.
pub fn count<DB: Measured>() -> usize {
    match DB::PRODUCT {
        Product::Sqlite => 20_000,
        _ => 60_000,
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

/// Adds `count` notices while this process sends them; returns the rate, from the first transaction until all are settled.
///
/// # Errors
/// Errors of the library or the database, and notices that were not sent.
pub async fn once<DB: Measured>(arena: &Arena<DB>, side: Side, count: usize) -> Result<f64> {
    match side {
        Side::Ours => {
            let sweeper = ours::sweeper(&arena.outbox, |_| {}).start().await?;
            let began = Instant::now();
            produce(arena, side, count).await?;
            sweeper.idle().await;
            let rate = rate(count, began);
            let sent = sweeper.shutdown().await.succeeded;
            ensure!(usize::try_from(sent)? == count, "{sent} of {count} were sent");
            ours::check(arena, count, true).await?;
            Ok(rate)
        }
        Side::Raw => {
            // One: two loops side by side take more of the producers' time, for smaller batches, and are a quarter slower.
            let workers = raw::workers(arena, 1).await?;
            let began = Instant::now();
            let worker = tokio::spawn(raw::work::<DB>(workers, count, true));
            produce(arena, side, count).await?;
            worker.await??;
            let rate = rate(count, began);
            raw::check(arena, count, true).await?;
            Ok(rate)
        }
    }
}
