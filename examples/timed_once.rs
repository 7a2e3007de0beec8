//! One-shot tasks on Redis: work that is due once, at a time, with its parameters. It uses only the queue: no notices, no
//! sweeper.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1 cargo run --example timed_once
//! ```
//!
//! Three reminders are added; one of them is moved and one is removed. Two workers claim the due ones. One worker dies
//! while it holds a reminder, and the other one gets it when the lease has expired. The clock is turned by hand, so the
//! example takes a moment.

use std::time::Duration;

use anyhow::{Result, ensure};
use chrono::Utc;
use serde::{Deserialize, Serialize};
// [imports]
use solid_notify::HandClock;
use solid_notify::timed::{Redis, Rescheduled, TaskLease, TaskOutcome, TimedTasks};
// [end]

#[derive(Debug, Serialize, Deserialize)]
struct Reminder {
    customer: String,
    text: String,
}

const KIND: &str = "reminder";
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1".to_owned());
    let clock = HandClock::new(Utc::now());
    // [open]
    let prefix = format!("timed_once_{:x}", fastrand::u32(..));
    let redis = Redis::builder(&url).prefix(prefix).connect().await?;
    // Without `clock` the tasks use the server's clock, which is right outside of examples.
    let shown = clock.clone();
    let tasks = TimedTasks::new(redis).clock(move || shown.now());
    // [end]

    // [add]
    let reminder = |customer: &str, text: &str| Reminder { customer: customer.into(), text: text.into() };
    tasks.add(KIND, 10 * MINUTE, &reminder("Ada", "your train leaves at six")).await?;
    let dentist = tasks.add(KIND, clock.now() + 20 * MINUTE, &reminder("Ben", "the dentist")).await?;
    // An id chosen by the caller: adding it again adds nothing.
    ensure!(tasks.add_as(KIND, "lunch of Cleo", 5 * MINUTE, &reminder("Cleo", "lunch")).await?);
    ensure!(!tasks.add_as(KIND, "lunch of Cleo", 5 * MINUTE, &reminder("Cleo", "lunch")).await?);
    // [end]

    // [change]
    ensure!(tasks.reschedule(KIND, &dentist, 15 * MINUTE).await? == Rescheduled::Rescheduled);
    ensure!(tasks.delete(KIND, &["lunch of Cleo"]).await? == 1);
    // [end]
    println!("waiting: {:?}", tasks.count(KIND).await?);
    ensure!(tasks.due::<Reminder>(KIND, 10).await?.tasks.is_empty(), "nothing is due yet");

    // [claim]
    let lease = TaskLease::of(MINUTE).max_tries(3);
    clock.advance(10 * MINUTE);
    let first = tasks.claim::<Reminder>(KIND, 10, &lease).await?;
    for task in &first.tasks {
        println!("worker 1 has {:?} and dies", task.value);
    }
    // [end]
    ensure!(tasks.claim::<Reminder>(KIND, 10, &lease).await?.tasks.is_empty(), "no other worker gets it meanwhile");

    clock.advance(5 * MINUTE);
    // [settle]
    let mut reminded = Vec::new();
    for task in tasks.claim::<Reminder>(KIND, 10, &lease).await?.tasks {
        println!("worker 2, try {}: {}, {}!", task.tries, task.value.customer, task.value.text);
        ensure!(tasks.settle(KIND, &[task.outcome(TaskOutcome::Finish)]).await? == [true]);
        reminded.push(task.value.customer);
    }
    // [end]
    ensure!(reminded == ["Ada", "Ben"], "{reminded:?}");
    let late = first.tasks[0].outcome(TaskOutcome::Finish);
    ensure!(tasks.settle(KIND, &[late]).await? == [false], "what worker 1 says now counts for nothing");
    println!("left: {:?}", tasks.count(KIND).await?);
    Ok(())
}
