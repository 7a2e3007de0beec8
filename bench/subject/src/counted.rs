//! The works that are counted, in one thread. Each waits for the bench when everything is connected and warm.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use tokio::sync::Semaphore;

use crate::library::{Notice, delivered, failed, sweeper};
use crate::parameter::Parameter;
use crate::steps::{say, wait_for_line};
use crate::store::{DEFINITION, Store};

/// A work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// Transactions of a business insert and a notice.
    Enqueue,
    /// Claims of what the bench queues after `ready`, and settles of successes.
    Succeed,
    /// The same with settles of failures that are retried later.
    Fail,
}

/// Transactions before `ready`, and notices of each of two sweeps.
const WARM_UP: usize = 20;
/// What the library does in the background after a start and after the first transactions is done by then.
const START: Duration = Duration::from_millis(200);

/// Prepares a work, prints `ready`, works, prints `done` with the seconds, and ends after one more line.
///
/// # Errors
/// Errors of the library, and notices that were not sent.
pub async fn work<S: Store>(store: &S, work: Work, count: usize) -> Result<()> {
    match work {
        Work::Enqueue => enqueue(store, count).await,
        Work::Succeed => send(store, count, false).await,
        Work::Fail => send(store, count, true).await,
    }
}

async fn enqueue<S: Store>(store: &S, count: usize) -> Result<()> {
    for _ in 0..WARM_UP {
        store.enqueue(0).await?;
    }
    tokio::time::sleep(START).await;
    // The first transaction with what was learned prepares its statements.
    store.enqueue(0).await?;
    say("ready")?;
    wait_for_line()?;
    let began = Instant::now();
    for order in 1..=i64::try_from(count)? {
        store.enqueue(order).await?;
    }
    say(&format!("done {}", began.elapsed().as_secs_f64()))?;
    wait_for_line()
}

/// Sends notices by a sweeper that does nothing by the clock: it polls as rarely as it may, and has no housekeeping.
///
/// No attempt ends before all notices are claimed, and there are as many slots as notices. So all claims are full and come first, and all
/// batches of settles are full.
async fn send<S: Store>(store: &S, count: usize, fails: bool) -> Result<()> {
    let (begun, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(2 * WARM_UP)));
    let begins = Arc::clone(&begun);
    let handler = move |notice: Notice<Parameter>| {
        let all = Arc::clone(&all);
        if begins.fetch_add(1, Ordering::Relaxed) + 1 == 2 * WARM_UP + count {
            all.close();
        }
        async move {
            std::hint::black_box(notice.into_param());
            // It has permits for the warm-up alone, and is closed once the last attempt has begun.
            if let Ok(permit) = all.acquire().await {
                permit.forget();
            }
            if fails { failed() } else { delivered() }
        }
    };
    let builder = sweeper(store.outbox()).handler(DEFINITION, handler);
    let builder =
        builder.housekeeping(false).first_send(false).max_running(count.max(WARM_UP)).outage_grace(Duration::ZERO);
    let builder = builder.poll_interval(Duration::from_secs(2)).count_interval(Duration::from_secs(86_400));
    let sweeper = builder.start().await?;
    for _ in 0..2 {
        store.fill(WARM_UP).await?;
        sweeper.idle().await;
        tokio::time::sleep(START).await;
    }
    sweeper.idle().await;
    say("ready")?;
    wait_for_line()?;
    if begun.load(Ordering::Relaxed) > 2 * WARM_UP {
        return say("early");
    }
    let began = Instant::now();
    sweeper.idle().await;
    say(&format!("done {}", began.elapsed().as_secs_f64()))?;
    wait_for_line()?;
    let tally = sweeper.shutdown().await;
    let (expected, other) = if fails { (tally.failed, tally.succeeded) } else { (tally.succeeded, tally.failed) };
    ensure!(
        (usize::try_from(expected)?, other) == (2 * WARM_UP + count, 0),
        "of {count} notices and those of the warm-up {} were sent and {} failed",
        tally.succeeded,
        tally.failed
    );
    Ok(())
}
