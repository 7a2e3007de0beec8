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
    let (outbox, pool) = (arena.outbox.clone(), arena.pool.clone());
    match side {
        Side::Ours => {
            each(count, move |order| {
                let outbox = outbox.clone();
                async move { ours::enqueue(&outbox, order).await }
            })
            .await
        }
        Side::Raw => {
            each(count, move |order| {
                let pool = pool.clone();
                async move { raw::enqueue(&pool, order).await }
            })
            .await
        }
    }
}

/// Calls `transaction` with each order from `count` down to 1.
///
/// # Errors
/// The first one of a task.
pub async fn each<F>(count: usize, transaction: impl Fn(i64) -> F + Clone + Send + 'static) -> Result<()>
where
    F: Future<Output = Result<()>> + Send,
{
    let left = Arc::new(AtomicI64::new(i64::try_from(count)?));
    let tasks = (0..TASKS).map(|_| {
        let (transaction, left) = (transaction.clone(), Arc::clone(&left));
        tokio::spawn(async move {
            loop {
                let order = left.fetch_sub(1, Ordering::Relaxed);
                if order <= 0 {
                    return anyhow::Ok(());
                }
                transaction(order).await?;
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
