//! Notices on Redis: the workloads that need no transaction, against raw scripts that keep a history and a fence.
//!
//! Each repetition has keys of its own, which it deletes. `ours` and `raw` have the two sides.

mod ours;
mod raw;

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use redis::aio::ConnectionManager;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use crate::run::{Compared, Plan, RAW, Side, pairs};
use crate::workloads::latency::{GRID, Latency, SAMPLES, WARM_UP};
use crate::workloads::producers::{each, rate};
use crate::workloads::{Figures, Workload};
use ours::Ours;
use raw::Raw;

/// Half of what is drained from a database, because the library keeps 100,000 successes on Redis by default.
const DRAIN: usize = 100_000;
const ENQUEUE: usize = 20_000;
const STEADY: usize = 60_000;

/// Measures a workload on the server at `url`. `None` where Redis does not have it.
///
/// # Errors
/// Errors of the library or the server, and a repetition that did not do all of its work.
pub async fn measure(url: &str, workload: Workload, plan: Plan) -> Result<Option<Figures>> {
    let compared = match workload {
        Workload::EnqueueTx | Workload::Drain | Workload::Steady => {
            rates(url, workload, plan, plan.scaled(count(workload))).await?
        }
        Workload::Latency => return Ok(Some(Figures::Latency(latency(url, plan).await?))),
        _ => return Ok(None),
    };
    Ok(Some(Figures::Compared(compared)))
}

/// Returns the notices of a repetition.
pub fn count(workload: Workload) -> usize {
    match workload {
        Workload::EnqueueTx => ENQUEUE,
        Workload::Drain => DRAIN,
        _ => STEADY,
    }
}

/// Returns the server's version, and the settings that decide how durable it is.
///
/// # Errors
/// Errors of the server.
pub async fn settings(url: &str) -> Result<Vec<(String, String)>> {
    let mut link = connect(url).await?;
    let info: String = redis::cmd("INFO").arg("server").query_async(&mut link).await?;
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or_default();
    let mut settings = vec![("server_version".to_owned(), version.trim().to_owned())];
    for name in ["appendonly", "appendfsync"] {
        settings.push(redis::cmd("CONFIG").arg("GET").arg(name).query_async(&mut link).await?);
    }
    Ok(settings)
}

async fn connect(url: &str) -> Result<ConnectionManager> {
    Ok(redis::Client::open(url)?.get_connection_manager().await?)
}

async fn rates(url: &str, workload: Workload, plan: Plan, count: usize) -> Result<Compared> {
    pairs(plan, RAW, async |side| once(url, workload, side, count).await).await
}

/// Does one repetition of a workload on one side; returns the rate.
///
/// # Errors
/// As [`measure`].
pub async fn once(url: &str, workload: Workload, side: Side, count: usize) -> Result<f64> {
    let prefix = prefix();
    let rate = match side {
        Side::Ours => our_rate(&Ours::connect(url, &prefix).await?, workload, count).await,
        Side::Raw => raw_rate(&Raw::connect(url, &prefix).await?, workload, count).await,
    };
    clear(url, &prefix).await?;
    rate
}

async fn our_rate(ours: &Ours, workload: Workload, count: usize) -> Result<f64> {
    let producers = ours.clone();
    let add = move |order| {
        let mut producer = producers.clone();
        async move { producer.add(order).await.map(drop) }
    };
    if workload == Workload::EnqueueTx {
        let began = Instant::now();
        each(count, add).await?;
        let rate = rate(count, began);
        ours.check(count, 0).await?;
        return Ok(rate);
    }
    if workload == Workload::Drain {
        ours.fill(count).await?;
    }
    let began = Instant::now();
    let sweeper = crate::ours::sweeper(&ours.outbox, |_| {}).start().await?;
    if workload == Workload::Steady {
        each(count, add).await?;
    }
    sweeper.idle().await;
    let rate = rate(count, began);
    let sent = sweeper.shutdown().await.succeeded;
    ensure!(usize::try_from(sent)? == count, "{sent} of {count} were sent");
    ours.check(0, count).await?;
    Ok(rate)
}

async fn raw_rate(raw: &Raw, workload: Workload, count: usize) -> Result<f64> {
    let producers = raw.clone();
    let add = move |order| {
        let mut producer = producers.clone();
        async move { producer.add(order).await.map(drop) }
    };
    if workload == Workload::EnqueueTx {
        let began = Instant::now();
        each(count, add).await?;
        let rate = rate(count, began);
        raw.check(count, 0).await?;
        return Ok(rate);
    }
    if workload == Workload::Drain {
        raw.fill(count).await?;
    }
    let began = Instant::now();
    let worker = tokio::spawn(raw.clone().work(count));
    if workload == Workload::Steady {
        each(count, add).await?;
    }
    worker.await??;
    let rate = rate(count, began);
    raw.check(0, count).await?;
    Ok(rate)
}

/// Measures the latency of both sides.
///
/// # Errors
/// As [`measure`].
pub async fn latency(url: &str, plan: Plan) -> Result<Latency> {
    let prefix = prefix();
    let (ours, raw) = (Ours::connect(url, &prefix).await?, Raw::connect(url, &prefix).await?);
    let (called, mut calls) = mpsc::unbounded_channel();
    let sweeper = crate::ours::sweeper(&ours.outbox, move |id| {
        // The receiver lives as long as the sweeper.
        let _ = called.send((id, Instant::now()));
    });
    let sweeper = sweeper.start().await?;
    // In a task, as on the databases.
    let samples = tokio::spawn(async move {
        let (mut ours, mut raw) = (ours, raw);
        let (mut our_times, mut raw_times) = (Vec::new(), Vec::new());
        let mut grid = tokio::time::interval(GRID);
        grid.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let warm_up = plan.scaled(WARM_UP);
        for sample in 0..warm_up + plan.scaled(SAMPLES) {
            grid.tick().await;
            let our_time = our_sample(&mut ours, &mut calls).await?;
            grid.tick().await;
            let raw_time = raw_sample(&mut raw).await?;
            if sample >= warm_up {
                our_times.push(our_time);
                raw_times.push(raw_time);
            }
        }
        Latency::of(&our_times, &raw_times, &[])
    });
    let figures = samples.await?;
    sweeper.shutdown().await;
    clear(url, &prefix).await?;
    figures
}

async fn our_sample(ours: &mut Ours, calls: &mut mpsc::UnboundedReceiver<(i64, Instant)>) -> Result<f64> {
    let added = ours.add(1).await?;
    let committed = Instant::now();
    let (id, entered) = calls.recv().await.context("the sweeper is gone")?;
    ensure!(id == added, "the notice {id} was sent instead of {added}");
    // The handler may have been entered before this task went on.
    Ok(entered.saturating_duration_since(committed).as_secs_f64() * 1000.0)
}

async fn raw_sample(raw: &mut Raw) -> Result<f64> {
    let id = raw.add(1).await?;
    let committed = Instant::now();
    let leased = raw.lease_one(id).await?;
    let entered = Instant::now();
    raw.handle_and_finish(&leased).await?;
    Ok((entered - committed).as_secs_f64() * 1000.0)
}

fn prefix() -> String {
    format!("bench_{:016x}", fastrand::u64(..))
}

/// Deletes the keys of a repetition: all whose names contain this prefix.
///
/// # Errors
/// Errors of the server.
pub async fn clear(url: &str, prefix: &str) -> Result<()> {
    let mut link = connect(url).await?;
    let mut cursor = 0_u64;
    loop {
        let scan =
            redis::cmd("SCAN").arg(cursor).arg("MATCH").arg(format!("*{prefix}*")).arg("COUNT").arg(10_000).to_owned();
        let (next, keys): (u64, Vec<Vec<u8>>) = scan.query_async(&mut link).await?;
        if !keys.is_empty() {
            let _: i64 = redis::cmd("UNLINK").arg(keys).query_async(&mut link).await?;
        }
        if next == 0 {
            return Ok(());
        }
        cursor = next;
    }
}
