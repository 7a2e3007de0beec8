//! Three policies in a file: a payment, a notification and a data synchronisation fail, and each is retried by its own.
//!
//! ```text
//! cargo run --example retries
//! ```
//!
//! The definitions are in `data/retries.toml`. A plan shows what applying the file will do. Then all receivers are out of
//! service: the bank for ten seconds, the provider of short messages for an hour, the warehouse for three hours. The class of
//! each error and the policy decide what follows. An operator repairs one dead letter and redrives the others. A test sweeper
//! turns the clock, so four hours take a moment.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
// [imports]
use solid_notify::definition::Definitions;
// [end]
use solid_notify::operate::AuditFilter;
use solid_notify::testkit::TestSweeper;
use solid_notify::{
    Definition, Filter, HandClock, HandlerResult, HttpStatus, Notice, NotifyDef, Outbox, OutboxExt, Status, VerbResult,
    add_notice,
};
use sqlx::Sqlite;
use sqlx::sqlite::SqlitePoolOptions;

const PAYMENT: Definition<Payment> = Definition::new("payment");
const NOTIFICATION: Definition<i64> = Definition::new("notification");
const DATA_SYNC: Definition<i64> = Definition::new("data_sync");

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Payment {
    order: i64,
    card: String,
}

/// The receivers, and when they were called: seconds after the start, by definition and order.
#[derive(Clone)]
struct Receivers {
    clock: HandClock,
    start: DateTime<Utc>,
    calls: Arc<Mutex<BTreeMap<String, Vec<i64>>>>,
}

const HOUR: i64 = 3600;

// [handlers]
async fn charge(receivers: Receivers, notice: Notice<Payment>) -> HandlerResult {
    let payment = notice.param();
    match receivers.call(&notice, payment.order) {
        ..10 => Err(HttpStatus(503).into()), // `unavailable`: retried
        _ if payment.card == "expired" => Err(HttpStatus(422).into()), // `invalid`: a dead letter at once
        ..30 if payment.order == 3 => Err(HttpStatus(429).into()), // `busy`: has a rule in the file
        _ => Ok(()),
    }
}

async fn send_text(receivers: Receivers, notice: Notice<i64>) -> HandlerResult {
    match receivers.call(&notice, *notice.param()) {
        ..HOUR => Err(HttpStatus(503).into()),
        _ => Ok(()),
    }
}

async fn synchronise(receivers: Receivers, notice: Notice<i64>) -> HandlerResult {
    if receivers.call(&notice, *notice.param()) < 3 * HOUR {
        return Err(std::io::Error::from(ErrorKind::ConnectionRefused).into()); // `network`: retried
    }
    Ok(())
}
// [end]

#[tokio::main]
async fn main() -> Result<()> {
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    let clock = HandClock::new("2026-11-24T09:00:00Z".parse()?);
    let outbox = Outbox::builder(pool).clock(clock.clone()).build();
    outbox.migrate().await?;
    apply(&outbox).await?;

    let receivers = Receivers { start: clock.now(), clock, calls: Arc::default() };
    let sending = outbox
        .sweeper()
        .handler_with(PAYMENT, receivers.clone(), charge)
        .handler_with(NOTIFICATION, receivers.clone(), send_text)
        .handler_with(DATA_SYNC, receivers.clone(), synchronise);
    let sweeper = TestSweeper::start(sending).await?;
    let mut tx = outbox.begin().await?;
    let mut declined = 0;
    for order in 1..=3 {
        let card = if order == 2 { "expired" } else { "valid" }.to_owned();
        let id = add_notice(&mut tx, PAYMENT, &Payment { order, card }).await?.id();
        declined = if order == 2 { id } else { declined };
        add_notice(&mut tx, NOTIFICATION, order).await?;
    }
    add_notice(&mut tx, DATA_SYNC, 1).await?;
    tx.commit().await?;
    sweeper.advance(Duration::from_secs(4 * 3600)).await;

    for (what, seconds) in receivers.calls() {
        println!("{what}: tried after {seconds:?} s");
    }
    let after = |what: &str| receivers.calls().remove(what).unwrap_or_default();
    ensure!(after("payment 1") == [0, 2, 12], "the bank is back after ten seconds");
    ensure!(after("payment 2") == [0, 2, 12], "it is declined, and not tried again");
    ensure!(after("payment 3") == [0, 2, 12, 52], "the third delay is that of the rule: 40 s");
    ensure!(after("notification 1") == [0, 1, 3, 7], "four tries");
    ensure!(after("data_sync 1") == [0, 5, 20, 65, 200, 605, 1820, 5420, 9020, 12_620], "until it arrives");

    redrive(&outbox, declined).await?;
    let redriven = sweeper.advance(Duration::from_secs(10)).await;
    ensure!((redriven.succeeded, redriven.failed) == (4, 0), "{redriven:?}");
    ensure!(outbox.find(declined).await?.is_some_and(|notice| notice.status == Status::Succeeded));
    sweeper.shutdown().await;
    Ok(())
}

/// Brings the rows into the state of the file.
async fn apply(outbox: &Outbox<Sqlite>) -> Result<()> {
    // What the release before has left.
    outbox.define_if_missing(NotifyDef::new(NOTIFICATION).timeout("1m").alert_trigger_type("never")).await?;
    outbox.define_if_missing(NotifyDef::new("report_sale")).await?;

    // [apply]
    let definitions = Definitions::from_toml(include_str!("data/retries.toml"))?; // an error has line and column
    let plan = outbox.plan_all(&definitions).await?;
    println!("{plan}"); // what the next line will do; changes nothing
    let applied = outbox.operator("release 42").apply_plan(plan).await?;
    ensure!(applied.conflicts.is_empty(), "edited since the plan: {:?}", applied.conflicts);
    // [end]
    let names = |rows: &[NotifyDef]| rows.iter().map(|row| row.name.clone()).collect::<Vec<_>>();
    ensure!(names(&applied.created) == ["payment", "data_sync"], "{applied}");
    ensure!(names(&applied.changed) == ["notification"] && names(&applied.kept) == ["report_sale"], "{applied}");

    // [start]
    let applied = outbox.apply(definitions).await?; // without a difference it writes nothing
    println!("{applied}");
    // [end]
    ensure!(names(&applied.unchanged) == ["payment", "notification", "data_sync"], "{applied}");
    Ok(())
}

/// Sends dead letters again.
async fn redrive(outbox: &Outbox<Sqlite>, declined: i64) -> Result<()> {
    // [redrive]
    let alice = outbox.operator("alice");
    for group in alice.counts(&Filter::dead_letters()).await? {
        println!("{} dead letters of {}, class {}", group.count, group.definition, group.class.unwrap_or_default());
    }
    println!("{}", alice.explain(declined).await?);
    let payment = Payment { order: 2, card: "valid".to_owned() };
    let edited = alice.edit(declined, &payment).await?; // sent again with another parameter

    let missed = Filter::dead_letters().definition(NOTIFICATION).class("unavailable");
    let done = alice.retry_all(&missed, "1".parse()?).await?; // one per second, so that the provider is not overloaded
    println!("{} are sent again, the last one at {:?}", done.changed, done.last_due);
    // [end]
    ensure!(edited == VerbResult::Applied && done.changed == 3);
    let who: Vec<String> =
        alice.audit(&AuditFilter::all(), None, 2).await?.entries.into_iter().map(|entry| entry.who).collect();
    ensure!(who == ["alice", "alice"], "the audit has both: {who:?}");
    Ok(())
}

impl Receivers {
    /// Notes a call, and returns how many seconds have passed since the start.
    fn call<T>(&self, notice: &Notice<T>, order: i64) -> i64 {
        let seconds = (self.clock.now() - self.start).num_seconds();
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.entry(format!("{} {order}", notice.definition())).or_default().push(seconds);
        seconds
    }

    fn calls(&self) -> BTreeMap<String, Vec<i64>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
