//! Adding ten thousand notices by one call, in a transaction of its own.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::producers::rate;
use crate::databases::Arena;
use crate::ours;
use crate::raw::Measured;
use crate::run::{Plan, Rate, series};

const AT_ONCE: usize = 10_000;
/// Transactions of a repetition.
const CALLS: usize = 10;

pub async fn measure<DB: Measured>(arena: &Arena<DB>, plan: Plan) -> Result<Rate> {
    let at_once = plan.scaled(AT_ONCE);
    series(plan, async || {
        arena.reset().await?;
        let began = Instant::now();
        for _ in 0..CALLS {
            ours::add_many(&arena.outbox, at_once).await?;
        }
        let rate = rate(CALLS * at_once, began);
        let queued = arena.number("SELECT count(*) FROM notify_msg").await?;
        ensure!(usize::try_from(queued)? == CALLS * at_once, "{queued} were queued");
        Ok(rate)
    })
    .await
}
