//! Sending what was queued before, with a handler that does nothing.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::producers::rate;
use crate::databases::{Arena, Table, WITHOUT_HISTORY};
use crate::ours;
use crate::raw::{self, Measured};
use crate::run::{Compared, Plan, RAW, Side, pairs};

/// Notices of a repetition.
pub const COUNT: usize = 200_000;

pub async fn measure<DB: Measured>(arena: &Arena<DB>, plan: Plan, definition: &str) -> Result<Compared> {
    let count = plan.scaled(COUNT);
    pairs(plan, RAW, async |side| {
        arena.reset().await?;
        fill(arena, side, definition, count).await?;
        once(arena, side, definition, count).await
    })
    .await
}

/// Queues `count` notices of a definition.
///
/// # Errors
/// Errors of the database.
pub async fn fill<DB: Measured>(arena: &Arena<DB>, side: Side, definition: &str, count: usize) -> Result<()> {
    match side {
        Side::Ours => arena.fill(Table::Ours, arena.definition(definition).await?, count).await,
        Side::Raw => arena.fill(Table::Raw, raw::DEF_ID, count).await,
    }
}

/// Sends the `count` notices that are queued; returns the rate, from the start until all are settled.
///
/// # Errors
/// Errors of the library or the database, and notices that were not sent.
pub async fn once<DB: Measured>(arena: &Arena<DB>, side: Side, definition: &str, count: usize) -> Result<f64> {
    let keep = definition != WITHOUT_HISTORY;
    match side {
        Side::Ours => {
            let began = Instant::now();
            let sweeper = ours::sweeper(&arena.outbox, |_| {}).start().await?;
            sweeper.idle().await;
            let rate = rate(count, began);
            let sent = sweeper.shutdown().await.succeeded;
            ensure!(usize::try_from(sent)? == count, "{sent} of {count} were sent");
            ours::check(arena, count, keep).await?;
            Ok(rate)
        }
        Side::Raw => {
            let workers = raw::workers(arena, DB::DRAINING).await?;
            let began = Instant::now();
            raw::work::<DB>(workers, count, keep).await?;
            let rate = rate(count, began);
            raw::check(arena, count, keep).await?;
            Ok(rate)
        }
    }
}
