//! Eight tasks that each do transactions without a pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::Result;

use crate::databases::Arena;
use crate::raw::{self, Measured};
use crate::run::Side;
use crate::{ours, statistics::as_f64};

const TASKS: usize = 8;

/// Does `count` transactions.
///
/// # Errors
/// The first one of a task.
pub async fn produce<DB: Measured>(arena: &Arena<DB>, side: Side, count: usize) -> Result<()> {
    let left = Arc::new(AtomicI64::new(i64::try_from(count)?));
    let tasks = (0..TASKS).map(|_| {
        let (outbox, pool, left) = (arena.outbox.clone(), arena.pool.clone(), Arc::clone(&left));
        tokio::spawn(async move {
            loop {
                let order = left.fetch_sub(1, Ordering::Relaxed);
                if order <= 0 {
                    return anyhow::Ok(());
                }
                match side {
                    Side::Ours => ours::enqueue(&outbox, order).await?,
                    Side::Raw => raw::enqueue(&pool, order).await?,
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok(())
}

/// `count` per second since `began`.
pub fn rate(count: usize, began: std::time::Instant) -> f64 {
    as_f64(count) / began.elapsed().as_secs_f64()
}
