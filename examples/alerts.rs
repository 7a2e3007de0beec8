//! Alerts about failed deliveries: one at once, then a digest, then the recovery.
//!
//! ```text
//! cargo run --example alerts
//! ```
//!
//! A shop reports its sales to an office that cannot be reached. The first sale that becomes a dead letter raises an alert
//! at once. Later ones within the cool-down (five minutes, shared by all nodes through the database) are counted and
//! reported together. When sales succeed again, an alert reports that as well. Alerts are notices themselves, of the
//! definition `notify.alert`: stored in the same transaction as the failure, retried like any other, visible in the same
//! tables.
//!
//! The handler of this example prints them. To mail them, or to post them to DingTalk, Feishu, WeCom or Slack, enable the
//! features `mail` and `chat` and register `solid_notify::channels::AlertChannels` instead; the definitions name the
//! addresses (`email`) and the chats (`alert_to`). Without any handler, alerts are logged at error level. The clock is
//! turned by hand.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
// [imports]
use solid_notify::alert::ALERT_DEFINITION;
use solid_notify::{Alert, Failure, HandClock, Notice, NotifyDef, Outbox, OutboxExt, Sweeper, add_notice};
// [end]
use sqlx::Sqlite;
use sqlx::sqlite::SqlitePoolOptions;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<()> {
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    let clock = HandClock::new("2026-11-21T12:00:00Z".parse()?);
    let outbox = Outbox::builder(pool).clock(clock.clone()).build();
    outbox.migrate().await?;
    // [definition]
    let definition = NotifyDef::new("report_sale")
        .max_retry_times(0) // a dead letter at once, so that the example is short
        .alert_trigger_type("final_failure") // or each_failure, after_failures, never
        .alert_cooldown("5m")
        .email("shift@example.org");
    outbox.define_if_missing(definition).await?;
    // [end]

    let line_is_up = Arc::new(AtomicBool::new(false));
    let told = Arc::new(Mutex::new(Vec::new()));
    let (up, titles) = (Arc::clone(&line_is_up), Arc::clone(&told));
    let sweeper = outbox
        .sweeper()
        .handler("report_sale", move |_: Notice<u32>| {
            let up = up.load(Ordering::SeqCst);
            async move { if up { Ok(()) } else { Err(Failure::retry("the line is dead")) } }
        })
        // [own_handler]
        .handler(ALERT_DEFINITION, move |notice: Notice<Alert>| {
            let alert = notice.into_param();
            println!("to {}:\n{}\n", alert.email.join(", "), alert.text());
            titles.lock().unwrap_or_else(PoisonError::into_inner).push(alert.title());
            async { Ok(()) }
        })
        // [end]
        .start()
        .await?;

    sell(&outbox, &sweeper, 1).await?;
    clock.advance(MINUTE);
    sell(&outbox, &sweeper, 12).await?;
    // The cool-down has ended: one digest is sent.
    clock.advance(4 * MINUTE);
    sweeper.idle().await;
    sell(&outbox, &sweeper, 3).await?;
    line_is_up.store(true, Ordering::SeqCst);
    clock.advance(2 * MINUTE);
    sell(&outbox, &sweeper, 5).await?;
    // The next cool-down has ended, and sales have succeeded since the last failure.
    clock.advance(3 * MINUTE);
    sweeper.idle().await;
    sweeper.shutdown().await;

    let told = told.lock().unwrap_or_else(PoisonError::into_inner);
    ensure!(told.len() == 3, "three alerts were expected, not {told:?}");
    ensure!(told[0].contains("finally failed"), "{}", told[0]);
    ensure!(told[1].contains("12 more failures"), "{}", told[1]);
    ensure!(told[2].contains("recovered after"), "{}", told[2]);
    Ok(())
}

/// Sells, and waits until the reports are sent or dead letters.
async fn sell(outbox: &Outbox<Sqlite>, sweeper: &Sweeper, sales: u32) -> Result<()> {
    let mut tx = outbox.begin().await?;
    for sale in 0..sales {
        add_notice(&mut tx, "report_sale", sale).await?;
    }
    tx.commit().await?;
    sweeper.idle().await;
    Ok(())
}
