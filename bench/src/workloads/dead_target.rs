//! Draining one definition while the target of another one is dead: its handler hangs until its time-out, attempt after
//! attempt, and thousands of its notices wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use solid_notify::Notice;
use tokio::sync::Notify;

use super::drain;
use super::producers::rate;
use crate::databases::{Arena, DEAD, DEFINITION};
use crate::notice::Parameter;
use crate::ours;
use crate::raw::Measured;
use crate::run::{Compared, Plan, Side, pairs};

const COUNT: usize = 200_000;
/// The notices that wait for the dead target.
const WAITING: usize = 20_000;

/// The other side is ours, too: without the dead target's notices. A rate is from the start until the last notice of the
/// living one is delivered, since the others never end.
pub async fn measure<DB: Measured>(arena: &Arena<DB>, plan: Plan) -> Result<Compared> {
    let count = plan.scaled(COUNT);
    pairs(plan, "ours without the dead target", async |side| {
        arena.reset().await?;
        drain::fill(arena, Side::Ours, DEFINITION, count).await?;
        if side == Side::Ours {
            drain::fill(arena, Side::Ours, DEAD, plan.scaled(WAITING)).await?;
        }
        let (left, done, tried) = (AtomicUsize::new(count), Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let (left, told, tries) = (Arc::new(left), Arc::clone(&done), Arc::clone(&tried));
        let builder = ours::sweeper(&arena.outbox, move |_| {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                told.notify_one();
            }
        });
        let builder = builder.shutdown_grace(Duration::ZERO).handler(DEAD, move |_: Notice<Parameter>| {
            tries.fetch_add(1, Ordering::Relaxed);
            async {
                std::future::pending::<()>().await;
                Ok(())
            }
        });
        let began = Instant::now();
        let sweeper = builder.start().await?;
        tokio::time::timeout(Duration::from_secs(120), done.notified()).await.context("not all was delivered")?;
        let rate = rate(count, began);
        sweeper.shutdown().await;
        ensure!((tried.load(Ordering::Relaxed) > 0) == (side == Side::Ours), "the dead target was not tried");
        Ok(rate)
    })
    .await
}
