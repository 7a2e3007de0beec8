//! The workloads that are timed, with many threads and the library's defaults. They are those of `bench run`, without its raw side.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use crate::library::{Notice, SweeperBuilder, delivered, sweeper};
use crate::parameter::Parameter;
use crate::store::{DEFINITION, Store};

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Workload {
    /// Eight tasks that each do transactions of a business insert and a notice.
    EnqueueTx,
    /// The same, while a sweeper of this process sends them.
    Steady,
    /// Sends what is queued.
    Drain,
    /// The time from a commit to the handler, on a grid of 20 ms.
    Latency,
}

const TASKS: usize = 8;
const GRID: Duration = Duration::from_millis(20);
/// The first samples of the latency do not count.
const WARM_UP: usize = 20;

/// Runs a workload; returns how long it took, and for the latency the median of the samples.
///
/// # Errors
/// Errors of the library, and notices that were not sent.
pub async fn run<S: Store>(store: &S, workload: Workload, count: usize) -> Result<Duration> {
    match workload {
        Workload::EnqueueTx => {
            let began = Instant::now();
            produce(store, count).await?;
            Ok(began.elapsed())
        }
        Workload::Steady => send(store, count, async || produce(store, count).await).await,
        Workload::Drain => send(store, count, async || Ok(())).await,
        Workload::Latency => latency(store, count).await,
    }
}

async fn produce<S: Store>(store: &S, count: usize) -> Result<()> {
    let left = Arc::new(AtomicI64::new(i64::try_from(count)?));
    let tasks = (0..TASKS).map(|_| {
        let (store, left) = (store.clone(), Arc::clone(&left));
        tokio::spawn(async move {
            loop {
                let order = left.fetch_sub(1, Ordering::Relaxed);
                if order <= 0 {
                    return anyhow::Ok(());
                }
                store.enqueue(order).await?;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok(())
}

/// Sends `count` notices while `produce` adds them; returns the time until all are settled.
async fn send<S: Store>(store: &S, count: usize, produce: impl AsyncFnOnce() -> Result<()>) -> Result<Duration> {
    let began = Instant::now();
    let sweeper = usual(store, |_| {}).start().await?;
    produce().await?;
    sweeper.idle().await;
    let took = began.elapsed();
    let sent = sweeper.shutdown().await.succeeded;
    ensure!(usize::try_from(sent)? == count, "{sent} of {count} notices were sent");
    Ok(took)
}

async fn latency<S: Store>(store: &S, count: usize) -> Result<Duration> {
    let (called, mut calls) = mpsc::unbounded_channel();
    let sweeper = usual(store, move |id| {
        // The receiver lives as long as the sweeper.
        let _ = called.send((id, Instant::now()));
    });
    let (sweeper, store) = (sweeper.start().await?, store.clone());
    // In a task, because applications commit in tasks. A thread outside of the runtime would wake up later.
    let samples = tokio::spawn(async move {
        let mut grid = tokio::time::interval(GRID);
        grid.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut samples = Vec::with_capacity(count);
        for sample in 0..WARM_UP + count {
            grid.tick().await;
            let added = store.enqueue(1).await?;
            let committed = Instant::now();
            let (id, entered) = calls.recv().await.context("the sweeper is gone")?;
            ensure!(id == added, "the notice {id} was sent instead of {added}");
            if sample >= WARM_UP {
                // The handler may have been entered before this task went on.
                samples.push(entered.saturating_duration_since(committed));
            }
        }
        anyhow::Ok(samples)
    });
    let mut samples = samples.await??;
    sweeper.shutdown().await;
    samples.sort_unstable();
    samples.get(samples.len() / 2).copied().context("there are no samples: `--count` is 0")
}

/// Returns a sweeper with the defaults and a handler that does nothing. `called` is called with each notice.
fn usual<S: Store>(store: &S, called: impl Fn(i64) + Clone + Send + Sync + 'static) -> SweeperBuilder {
    sweeper(store.outbox()).handler(DEFINITION, move |notice: Notice<Parameter>| {
        called(notice.id());
        async move {
            std::hint::black_box(notice.into_param());
            delivered()
        }
    })
}
