//! A runner of timed tasks: "push again later" without notices and definitions. Each task carries the URL to which it is pushed.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1 cargo run --example timed_runner
//! ```
//!
//! Orders of two shops are pushed. One shop fails the first time and gets its orders 5 s later; the other one rejects an order, which
//! is dead. The clock is turned by hand, so the example takes a moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::http::StatusCode;
use axum::routing::post;
use chrono::Utc;
use serde::{Deserialize, Serialize};
use solid_notify::HandClock;
// [imports]
use solid_notify::timed::{ClaimedTask, Redis, TaskFailure, TaskLease, TaskResult, TimedTasks};
// [end]

#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
}

const KIND: &str = "push_order";
const SECOND: Duration = Duration::from_secs(1);

// [handler]
async fn push(client: reqwest::Client, task: ClaimedTask<Order>) -> TaskResult {
    let Some(url) = task.target else { return Err(TaskFailure::give_up("the task has no target URL")) };
    let answer = client.post(url).header("Idempotency-Key", task.id).body(task.value.number.to_string()).send().await?;
    match answer.status() {
        status if status.is_success() => Ok(()),
        status if status.is_client_error() => Err(TaskFailure::give_up(format!("rejected: {status}"))),
        status => Err(format!("not accepted: {status}").into()),
    }
}
// [end]

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1".to_owned());
    let (clock, shops) = (HandClock::new(Utc::now()), shops().await?);
    let prefix = format!("timed_runner_{:x}", fastrand::u32(..));
    let shown = clock.clone();
    let tasks = TimedTasks::new(Redis::builder(&url).prefix(prefix).connect().await?).clock(move || shown.now());

    // [target]
    let busy = tasks.with_target(&format!("{shops}/busy"))?;
    let strict = tasks.with_target(&format!("{shops}/strict"))?;
    busy.add(KIND, Duration::ZERO, &Order { number: 1 }).await?;
    strict.add_batch(KIND, [(Duration::ZERO, Order { number: 2 }), (60 * SECOND, Order { number: 3 })]).await?;
    // [end]
    println!("the first one is due at {:?}", tasks.next_due(KIND).await?.context("some wait")?);

    // [run]
    let client = reqwest::Client::new();
    let runner = tasks
        .run(KIND, move |task| push(client.clone(), task))
        .concurrency(4)
        .lease(TaskLease::of(30 * SECOND).max_tries(4))
        .retry_delay(|tries| if tries == 1 { 5 * SECOND } else { 60 * SECOND })
        // The clock is turned by hand, so the runner looks often. The default is right outside of tests.
        .poll(Duration::from_millis(10))
        .start()?;
    // [end]

    let until = async |waiting, dead| -> Result<()> {
        for _ in 0..2000 {
            let counts = tasks.count(KIND).await?;
            if (counts.waiting, counts.claimed, counts.dead) == (waiting, 0, dead) {
                println!("{waiting} wait, {dead} are dead");
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        anyhow::bail!("{waiting} waiting and {dead} dead tasks expected: {:?}", tasks.count(KIND).await?)
    };
    until(2, 1).await?;
    clock.advance(5 * SECOND);
    until(1, 1).await?;

    // [shutdown]
    let tally = runner.shutdown().await;
    println!("{} finished, {} retried, {} dead", tally.finished, tally.retried, tally.dead);
    // [end]
    ensure!((tally.finished, tally.retried, tally.dead, tally.lost) == (1, 1, 1, 0), "{tally:?}");

    // [dead]
    for dead in tasks.dead(KIND, 10).await? {
        println!("{} to {:?} after {} tries: {}", dead.value, dead.target, dead.tries, dead.reason);
    }
    // [end]

    // [import]
    let imported = tasks.import_older(KIND).await?;
    println!("{} tasks of the older layout imported", imported.imported);
    for (id, why) in &imported.left {
        println!("{id} stays where it is: {why:?}");
    }
    // [end]
    Ok(())
}

/// Starts two shops. One does not accept its first order, the other one rejects all.
async fn shops() -> Result<String> {
    let calls = Arc::new(AtomicU32::new(0));
    let busy = move || {
        let is_first = calls.fetch_add(1, Ordering::Relaxed) == 0;
        async move { if is_first { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK } }
    };
    let strict = || async { StatusCode::UNPROCESSABLE_ENTITY };
    let routes = axum::Router::new().route("/busy", post(busy)).route("/strict", post(strict));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, routes).await });
    Ok(address)
}
