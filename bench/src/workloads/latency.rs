//! How long after the commit the handler is entered, while nothing else is going on.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use solid_notify::Outbox;
use sqlx::Pool;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use crate::databases::Arena;
use crate::notice::handle;
use crate::ours;
use crate::raw::{self, Lease, Measured};
use crate::run::Plan;
use crate::statistics::quantile;

/// Samples of each side.
pub const SAMPLES: usize = 300;
/// Samples before these, which do not count.
pub const WARM_UP: usize = 20;
/// From one sample to the next.
pub const GRID: Duration = Duration::from_millis(20);

/// Milliseconds from the moment at which `commit()` returned until the handler was entered.
#[derive(Debug, Clone, Serialize)]
pub struct Latency {
    /// Our median.
    pub p50_ms: f64,
    /// Our 99th percentile.
    pub p99_ms: f64,
    /// The raw side's median: the same task commits, leases by id on a kept connection and calls the handler.
    pub raw_p50_ms: f64,
    /// The raw side's 99th percentile.
    pub raw_p99_ms: f64,
    /// The raw side's median where its lease does not wait for the disk. A crash of the server then forgets that it was leased.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_unforced_p50_ms: Option<f64>,
    /// How many samples of each.
    pub samples: usize,
}

pub async fn measure<DB: Measured>(arena: &Arena<DB>, plan: Plan) -> Result<Latency> {
    arena.reset().await?;
    let (called, mut calls) = mpsc::unbounded_channel();
    let sweeper = ours::sweeper(&arena.outbox, move |id| {
        // The receiver lives as long as the sweeper.
        let _ = called.send((id, Instant::now()));
    });
    let sweeper = sweeper.start().await?;
    let mut worker = arena.connect().await?;
    DB::run_first_statement(&mut worker).await?;
    let mut unforced = None;
    if let Some(setting) = DB::UNFORCED {
        let worker = unforced.insert(arena.connect().await?);
        DB::run_first_statement(worker).await?;
        DB::plain(worker, setting.to_owned()).await?;
    }

    let (outbox, pool) = (arena.outbox.clone(), arena.pool.clone());
    // In a task, because applications commit in tasks. A thread outside of the runtime would wake up later.
    let samples = tokio::spawn(async move {
        let (mut ours, mut raw, mut quick) = (Vec::new(), Vec::new(), Vec::new());
        let mut grid = tokio::time::interval(GRID);
        grid.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let warm_up = plan.scaled(WARM_UP);
        for sample in 0..warm_up + plan.scaled(SAMPLES) {
            grid.tick().await;
            let our = our_sample(&outbox, &mut calls).await?;
            grid.tick().await;
            let other = raw_sample(&pool, &mut worker).await?;
            let mut without = None;
            if let Some(worker) = &mut unforced {
                grid.tick().await;
                without = Some(raw_sample(&pool, worker).await?);
            }
            if sample >= warm_up {
                ours.push(our);
                raw.push(other);
                quick.extend(without);
            }
        }
        anyhow::Ok((ours, raw, quick))
    });
    let (ours, raw, quick) = samples.await??;
    sweeper.shutdown().await;
    Latency::of(&ours, &raw, &quick)
}

impl Latency {
    /// The figures of these samples, in milliseconds. `unforced` is empty where no lease can do without the disk.
    ///
    /// # Errors
    /// Fails without samples.
    pub fn of(ours: &[f64], raw: &[f64], unforced: &[f64]) -> Result<Self> {
        let millis = |values: &[f64], share| quantile(values, share).context("no samples");
        Ok(Self {
            p50_ms: millis(ours, 0.5)?,
            p99_ms: millis(ours, 0.99)?,
            raw_p50_ms: millis(raw, 0.5)?,
            raw_p99_ms: millis(raw, 0.99)?,
            raw_unforced_p50_ms: quantile(unforced, 0.5),
            samples: ours.len(),
        })
    }
}

async fn our_sample<DB: Measured>(
    outbox: &Outbox<DB>,
    calls: &mut mpsc::UnboundedReceiver<(i64, Instant)>,
) -> Result<f64> {
    let mut tx = outbox.begin().await?;
    DB::business(&mut tx, 1).await?;
    let added = ours::add(&mut tx, 1).await?;
    tx.commit().await?;
    let committed = Instant::now();
    let (id, entered) = calls.recv().await.context("the sweeper is gone")?;
    ensure!(id == added, "the notice {id} was sent instead of {added}");
    // The handler may have been entered before this task went on.
    Ok(entered.saturating_duration_since(committed).as_secs_f64() * 1000.0)
}

async fn raw_sample<DB: Measured>(pool: &Pool<DB>, worker: &mut DB::Connection) -> Result<f64> {
    let mut tx = pool.begin().await?;
    DB::business(&mut tx, 1).await?;
    raw::add::<DB>(&mut tx, 1).await?;
    let id = DB::number(&mut tx, "SELECT max(id) FROM raw_msg").await?;
    tx.commit().await?;
    let committed = Instant::now();
    let leased = DB::lease(worker, Lease::Id(id)).await?;
    let entered = Instant::now();
    ensure!(leased.len() == 1, "the message {id} could not be leased");
    for (_, parameter) in &leased {
        handle(parameter)?;
    }
    DB::finish(worker, &[id], true).await?;
    Ok(entered.saturating_duration_since(committed).as_secs_f64() * 1000.0)
}
