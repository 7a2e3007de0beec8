//! Testing an application, for the book: in memory and in a database of the test, with a clock that the test turns.
//!
//! ```text
//! cargo run --example guide_testing
//! ```
//!
//! The chapter "Testing an application" shows the regions of this file. In an application the last three functions are tests.

// [imports]
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use solid_notify::testkit::{HandClock, MemoryOutbox, TestSweeper, assert_added};
use solid_notify::{
    AckResult, AnyOutbox, Failure, Notice, NoticeConnection, NoticeTx, NotifyDef, Outbox, OutboxExt, Status,
    SweeperBuilder, add_notice,
};
use sqlx::Sqlite;
use sqlx::sqlite::SqlitePoolOptions;
// [end]

// [application]
/// The handlers that the application registers.
fn handlers(outbox: &AnyOutbox) -> SweeperBuilder {
    outbox.sweeper().handler("sync_order", |notice: Notice<Value>| async move {
        println!("sending {}", notice.param());
        Ok(())
    })
}

async fn announce(tx: &mut impl NoticeConnection, order: i64) -> solid_notify::Result<()> {
    add_notice(tx, "sync_order", json!({"order": order, "state": "booked"})).await?;
    Ok(())
}
// [end]

// [with_sql]
/// Runs SQL, so it takes the transaction of the application's database. Its notices are a function of their own.
async fn book(tx: &mut NoticeTx<'_, Sqlite>, order: i64) -> Result<()> {
    sqlx::query("INSERT INTO orders VALUES ($1)").bind(order).execute(&mut **tx).await?;
    announce(tx, order).await?;
    Ok(())
}
// [end]

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    in_memory().await?;
    until_acked().await?;
    in_a_database().await
}

async fn in_memory() -> Result<()> {
    // [memory]
    let outbox = MemoryOutbox::builder().clock(HandClock::new("2026-11-21T12:00:00Z".parse()?)).build();
    outbox.define_if_missing(NotifyDef::new("sync_order").retry_interval("[5s,5m,1h]").max_retry_times(3)).await?;
    let sweeper = TestSweeper::start(handlers(&outbox)).await?;
    sweeper.fail_next("sync_order", 2, || Failure::retry("the receiver is down"));

    let mut tx = outbox.begin().await?;
    announce(&mut tx, 7).await?;
    tx.commit().await?;

    let added = assert_added(&outbox, "sync_order").with(json!({"order": 7})).times(1).await;
    assert_eq!(sweeper.drain().await.failed, 1); // sends until nothing is due
    // The retries after 5 s and after another 5 min: one fails, one delivers.
    let hour = sweeper.advance(Duration::from_secs(3600)).await;
    assert_eq!((hour.failed, hour.succeeded), (1, 1));
    let record = outbox.find(added[0].id).await?.context("it was added")?;
    assert_eq!((record.status, record.failures), (Status::Succeeded, 2));
    // [end]
    sweeper.shutdown().await;
    Ok(())
}

async fn until_acked() -> Result<()> {
    // [ack]
    let outbox = MemoryOutbox::builder().clock(HandClock::new("2026-11-21T12:00:00Z".parse()?)).build();
    let definition = NotifyDef::new("sync_order").retry_interval("[5m,5m]").need_confirm(true).max_confirm_delay("1h");
    outbox.define_if_missing(definition).await?;
    let sweeper = TestSweeper::start(handlers(&outbox)).await?;

    let mut tx = outbox.begin().await?;
    announce(&mut tx, 7).await?;
    tx.commit().await?;
    let id = assert_added(&outbox, "sync_order").times(1).await[0].id;
    assert_eq!(sweeper.drain().await.awaiting_ack, 1); // delivered, and awaiting ack
    let record = outbox.find(id).await?.context("it was added")?;
    assert_eq!(record.status, Status::AwaitingAck);

    // No ack comes within the hour: the attempt fails with the class `unacked`, and is repeated after 5 min.
    assert_eq!(sweeper.advance(Duration::from_secs(3600)).await.failed, 1);
    assert_eq!(sweeper.advance(Duration::from_secs(300)).await.awaiting_ack, 1);
    // A nack is stored at once. The next sweep fails the attempt, and the interval begins.
    assert_eq!(outbox.nack(id, "out of stock").await?, AckResult::Applied);
    assert_eq!(sweeper.drain().await.failed, 1);
    assert_eq!(sweeper.advance(Duration::from_secs(3600)).await.awaiting_ack, 1);
    assert_eq!(outbox.ack(id).await?, AckResult::Applied);
    let record = outbox.find(id).await?.context("it was added")?;
    assert_eq!((record.status, record.errors[0].class.as_str()), (Status::Succeeded, "unacked"));
    // [end]
    sweeper.shutdown().await;
    Ok(())
}

async fn in_a_database() -> Result<()> {
    // [database]
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    sqlx::query("CREATE TABLE orders (id integer)").execute(&pool).await?;
    let outbox = Outbox::builder(pool).clock(HandClock::new("2026-11-21T12:00:00Z".parse()?)).build();
    outbox.migrate().await?;
    outbox.define_if_missing(NotifyDef::new("sync_order").retry_interval("1m").max_retry_times(1)).await?;
    let sweeper = TestSweeper::start(handlers(&outbox)).await?;

    // A business transaction that is rolled back leaves nothing.
    let mut tx = outbox.begin().await?;
    book(&mut tx, 7).await?;
    tx.rollback().await?;
    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(outbox.pool()).await?;
    assert_eq!(orders, 0);
    assert_added(&outbox, "sync_order").never().await;

    // A notice whose attempts all fail becomes a dead letter.
    sweeper.fail_next("sync_order", 2, || Failure::retry("the receiver is down"));
    let mut tx = outbox.begin().await?;
    book(&mut tx, 8).await?;
    tx.commit().await?;
    assert_eq!(sweeper.drain().await.failed, 1);
    assert_eq!(sweeper.advance(Duration::from_secs(60)).await.dead_letters, 1);
    // [end]
    sweeper.shutdown().await;
    Ok(())
}
