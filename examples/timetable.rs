//! A definition that produces notices by itself, and one whose notices are sent only at night.
//!
//! ```text
//! cargo run --example timetable
//! ```
//!
//! A shop sends its daily report at three in the morning in Shanghai. The row of the definition has the timetable; no cron
//! job is needed. Orders are exported only between 01:00 and 06:00, when the other system is idle. The shop is closed for
//! three days, with all its processes down. The row says that one report is sent for the missed nights.
//!
//! Both columns can be edited at any time, like the others. The clock is turned by hand.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, ensure};
// [imports]
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use solid_notify::testkit::{HandClock, MemoryOutbox, TestSweeper};
use solid_notify::{AnyOutbox, Notice, NotifyDef, OutboxExt, SweeperBuilder};
// [end]
use solid_notify::{Outbox, Sweeper, add_notice};
use sqlx::Sqlite;
use sqlx::sqlite::SqlitePoolOptions;

const HOUR: Duration = Duration::from_secs(3600);

/// The texts that were sent, in order.
type Sent = Arc<Mutex<Vec<String>>>;

// [handler]
/// The parameter of the notices of a timetable. The feature `serde` of chrono reads the time.
#[derive(Deserialize)]
struct Tick {
    tick: DateTime<Utc>,
}

fn handlers(outbox: &AnyOutbox) -> SweeperBuilder {
    outbox.sweeper().handler("daily_report", |notice: Notice<Tick>| async move {
        println!("report of {}", notice.param().tick);
        Ok(())
    })
}
// [end]

async fn one_report_a_day() -> Result<()> {
    // [test]
    let outbox = MemoryOutbox::builder().clock(HandClock::new("2026-11-21T12:00:00Z".parse()?)).build();
    outbox.define_if_missing(NotifyDef::new("daily_report").schedule("0 0 3 * * * Asia/Shanghai")).await?;
    let sweeper = TestSweeper::start(handlers(&outbox)).await?; // its first look begins the timetable
    assert_eq!(sweeper.advance(Duration::from_secs(24 * 3600)).await.succeeded, 1);
    // [end]
    sweeper.shutdown().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    one_report_a_day().await?;
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    let clock = HandClock::new("2026-11-21T12:00:00Z".parse()?); // eight in the evening in Shanghai
    let outbox = Outbox::builder(pool).clock(clock.clone()).build();
    outbox.migrate().await?;
    // [definitions]
    let report = NotifyDef::new("daily_report").schedule("0 0 3 * * * Asia/Shanghai").schedule_missed("once"); // or all, none
    outbox.define_if_missing(report).await?;
    outbox.define_if_missing(NotifyDef::new("export_order").send_window("01:00-06:00 Asia/Shanghai")).await?;
    // [end]

    let sent = Sent::default();
    let sweeper = start(&outbox, &sent).await?;
    let mut tx = outbox.begin().await?;
    let order = add_notice(&mut tx, "export_order", 7).await?;
    tx.commit().await?;
    sweeper.idle().await;
    println!("20:00  {}", outbox.operator("alice").explain(order.id()).await?);
    clock.advance(5 * HOUR);
    sweeper.idle().await;
    clock.advance(2 * HOUR);
    sweeper.idle().await;
    sweeper.shutdown().await;

    println!("three days later");
    clock.advance(75 * HOUR);
    let sweeper = start(&outbox, &sent).await?;
    sweeper.idle().await;
    sweeper.shutdown().await;

    let sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
    let expected = [
        "order 7",
        "report of 2026-11-21 19:00:00 UTC", // three in the morning of the 22nd in Shanghai
        // The latest of the three missed reports.
        "report of 2026-11-24 19:00:00 UTC",
    ];
    ensure!(*sent == expected, "{sent:?}");
    Ok(())
}

async fn start(outbox: &Outbox<Sqlite>, sent: &Sent) -> Result<Sweeper> {
    let (reports, orders) = (Arc::clone(sent), Arc::clone(sent));
    let sweeper = outbox
        .sweeper()
        .handler("daily_report", move |notice: Notice<Tick>| {
            note(&reports, format!("report of {}", notice.param().tick));
            async { Ok(()) }
        })
        .handler("export_order", move |notice: Notice<i64>| {
            note(&orders, format!("order {}", notice.param()));
            async { Ok(()) }
        })
        .start()
        .await?;
    // The first look begins the timetable.
    sweeper.idle().await;
    Ok(sweeper)
}

fn note(sent: &Sent, what: String) {
    println!("sent: {what}");
    sent.lock().unwrap_or_else(PoisonError::into_inner).push(what);
}
