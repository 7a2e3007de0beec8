//! The workloads, the same as those of `bench`: [`Peer`] is what a peer implements for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde::Serialize;

use crate::handler::{entered, handled};

/// Eight tasks that each do transactions without a pause.
const PRODUCERS: usize = 8;
/// How often the end of a repetition is looked for.
const LOOK: Duration = Duration::from_millis(2);
/// A repetition that takes longer has failed.
const LONGEST: Duration = Duration::from_secs(600);

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Workload {
    /// Transactions with a business statement and a message.
    EnqueueTx,
    /// Sending what is queued.
    Drain,
    /// From the commit to the handler.
    Latency,
    /// Adding and sending at once.
    Steady,
}

/// Messages that are not settled yet, and those that are kept after their success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Not settled.
    pub queued: i64,
    /// Settled and kept.
    pub kept: i64,
}

/// A peer with its settings, on a database of its own.
pub trait Peer: Clone + Send + Sync + 'static {
    /// Does one transaction of a business statement and a message. On Redis: adds a message.
    fn enqueue(&self, order: i64) -> impl Future<Output = Result<()>> + Send;
    /// Queues `count` messages, as fast as the peer can.
    fn fill(&self, count: usize) -> impl Future<Output = Result<()>> + Send;
    /// Starts the workers, which run until the process ends.
    fn start(&self) -> impl Future<Output = Result<()>> + Send;
    /// Counts the messages.
    fn counts(&self) -> impl Future<Output = Result<Counts>> + Send;
    /// The longest time between two polls, where the handler is entered at a poll.
    fn poll(&self) -> Duration;
}

/// A figure: a rate per second, or times in milliseconds.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Figure {
    /// Messages or transactions per second.
    Rate {
        /// Per second.
        rate: f64,
    },
    /// From the return of `commit()` until the handler is entered.
    Latency {
        /// The median.
        p50_ms: f64,
        /// The 99th percentile.
        p99_ms: f64,
    },
}

/// Measures a workload once.
///
/// # Errors
/// Errors of the peer, and a repetition that did not do all of its work.
pub async fn measure(peer: &impl Peer, workload: Workload, count: usize) -> Result<Figure> {
    if workload == Workload::Latency {
        return latency(peer, count).await;
    }
    if workload == Workload::Drain {
        peer.fill(count).await?;
    }
    let began = Instant::now();
    if workload != Workload::EnqueueTx {
        peer.start().await?;
    }
    if workload != Workload::Drain {
        produce(peer, count).await?;
    }
    if workload == Workload::EnqueueTx {
        let rate = as_f64(count) / began.elapsed().as_secs_f64();
        let (found, expected) = (peer.counts().await?, Counts { queued: i64::try_from(count)?, kept: 0 });
        ensure!(found == expected, "there are {found:?}, not {expected:?}");
        return Ok(Figure::Rate { rate });
    }
    settled(peer, count, began).await?;
    Ok(Figure::Rate { rate: as_f64(count) / began.elapsed().as_secs_f64() })
}

async fn produce(peer: &impl Peer, count: usize) -> Result<()> {
    let left = Arc::new(AtomicI64::new(i64::try_from(count)?));
    let tasks = (0..PRODUCERS).map(|_| {
        let (peer, left) = (peer.clone(), Arc::clone(&left));
        tokio::spawn(async move {
            loop {
                let order = left.fetch_sub(1, Ordering::Relaxed);
                if order <= 0 {
                    return anyhow::Ok(());
                }
                peer.enqueue(order).await?;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok(())
}

/// Waits until all messages are handled and settled. Counts in the database only once all are handled.
async fn settled(peer: &impl Peer, count: usize, began: Instant) -> Result<()> {
    let expected = Counts { queued: 0, kept: i64::try_from(count)? };
    loop {
        if handled() >= count {
            let found = peer.counts().await?;
            if found == expected {
                return Ok(());
            }
            ensure!(began.elapsed() < LONGEST, "after {LONGEST:?} there are {found:?}, not {expected:?}");
        }
        ensure!(began.elapsed() < LONGEST, "{} of {count} were handled within {LONGEST:?}", handled());
        tokio::time::sleep(LOOK).await;
    }
}

async fn latency(peer: &impl Peer, samples: usize) -> Result<Figure> {
    let mut calls = entered();
    peer.start().await?;
    let warm_up = samples / 15;
    let mut times = Vec::new();
    for sample in 0..warm_up + samples {
        // At a random time between two polls, else each sample would begin right after a poll.
        let rest = peer.poll().max(Duration::from_millis(20)).mul_f64(fastrand::f64());
        tokio::time::sleep(rest).await;
        let order = i64::try_from(sample)?;
        let peer = peer.clone();
        // In a task, because applications commit in tasks.
        let committed = tokio::spawn(async move { peer.enqueue(order).await.map(|()| Instant::now()) }).await??;
        let call = tokio::time::timeout(LONGEST, calls.recv()).await.context("the handler was not entered")?;
        let time = call.context("the handler is gone")?.saturating_duration_since(committed);
        if sample >= warm_up {
            times.push(time.as_secs_f64() * 1000.0);
        }
    }
    times.sort_by(f64::total_cmp);
    let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).max(1) - 1).copied();
    let (Some(p50_ms), Some(p99_ms)) = (at(50), at(99)) else { bail!("no samples") };
    Ok(Figure::Latency { p50_ms, p99_ms })
}

/// Counts are far below 2^52.
#[allow(clippy::cast_precision_loss)]
fn as_f64(count: usize) -> f64 {
    count as f64
}
