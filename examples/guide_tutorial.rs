//! The program of the book's tutorial: a notice that is added, fails, is retried, becomes a dead letter and is repaired.
//!
//! ```text
//! cargo run --example guide_tutorial
//! ```
//!
//! `docs/src/tutorial.md` shows the regions of this file one by one and explains them.

// [imports]
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use solid_notify::operate::AuditFilter;
use solid_notify::{Definition, ErrorClass, Failure, Notice, NotifyDef, Outbox, OutboxExt, Status, add_notice};
use sqlx::sqlite::SqlitePoolOptions;
// [end]

// [invoice]
#[derive(Serialize, Deserialize)]
struct Invoice {
    number: i64,
    mail: String,
}

/// The name of the definition, with the type of its parameter. Another type does not compile.
const SEND_INVOICE: Definition<Invoice> = Definition::new("send_invoice");
// [end]

#[tokio::main]
async fn main() -> Result<()> {
    // [open]
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    sqlx::query("CREATE TABLE invoice (number integer PRIMARY KEY)").execute(&pool).await?;
    let outbox = Outbox::new(pool);
    outbox.migrate().await?;
    outbox.define_if_missing(NotifyDef::new(SEND_INVOICE).retry_interval("[1s,5m,1h]")).await?;
    // [end]

    // [handler]
    let sweeper = outbox
        .sweeper()
        .handler(SEND_INVOICE, |notice: Notice<Invoice>| async move {
            let invoice = notice.param();
            println!("attempt {} to send invoice {} to {}", notice.attempt(), invoice.number, invoice.mail);
            if !invoice.mail.contains('@') {
                // No retry can repair this, so the notice becomes a dead letter at once.
                let wrong = format!("{:?} is not a mail address", invoice.mail);
                return Err(Failure::give_up(wrong).class(ErrorClass::Invalid));
            }
            if invoice.number == 1 && notice.attempt() == 1 {
                return Err(Failure::retry("connection refused"));
            }
            Ok(())
        })
        .start()
        .await?;
    // [end]

    // [add]
    let invoice = Invoice { number: 1, mail: "ada@example.org".to_owned() };
    let mut tx = outbox.begin().await?;
    sqlx::query("INSERT INTO invoice VALUES ($1)").bind(invoice.number).execute(&mut *tx).await?;
    let added = add_notice(&mut tx, SEND_INVOICE, &invoice).await?;
    let id = added.id();
    tx.commit().await?;
    println!("the first attempt: {:?}", added.first_attempt(Duration::from_secs(3)).await);
    // [end]

    // [explain]
    let alice = outbox.operator("alice");
    println!("{}", alice.explain(id).await?);
    // [end]
    anyhow::ensure!(outbox.find(id).await?.is_some_and(|notice| notice.failures == 1));

    // [wait]
    while outbox.find(id).await?.is_some_and(|notice| notice.status != Status::Succeeded) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("{}", alice.explain(id).await?);
    // [end]

    // [rollback]
    let invoice = Invoice { number: 2, mail: "ben@example.org".to_owned() };
    let mut tx = outbox.begin().await?;
    sqlx::query("INSERT INTO invoice VALUES ($1)").bind(invoice.number).execute(&mut *tx).await?;
    let never = add_notice(&mut tx, SEND_INVOICE, &invoice).await?.id();
    tx.rollback().await?;
    println!("{}", alice.explain(never).await?);
    // [end]
    anyhow::ensure!(outbox.find(never).await?.is_none());

    // [dead_letter]
    let wrong = Invoice { number: 3, mail: "cleo at example.org".to_owned() };
    let mut tx = outbox.begin().await?;
    let dead = add_notice(&mut tx, SEND_INVOICE, &wrong).await?.id();
    tx.commit().await?;
    sweeper.idle().await;
    println!("{}", alice.explain(dead).await?);
    // [end]

    // [errors]
    if let Some(notice) = alice.show(dead).await? {
        println!("{:?} after {} failures: {:?}", notice.status, notice.failures, notice.end_reason);
        for error in &notice.errors {
            println!("attempt {} at {} on {}: {}", error.attempt, error.time, error.node, error.class);
            println!("  {} ({} ms)", error.message, error.duration_ms);
        }
    }
    // [end]
    let letter = outbox.find(dead).await?;
    anyhow::ensure!(letter.is_some_and(|notice| notice.status == Status::DeadLetter && notice.errors.len() == 1));

    // [repair]
    let right = Invoice { number: 3, mail: "cleo@example.org".to_owned() };
    let edited = alice.edit(dead, &right).await?; // a dead letter is sent again with the new parameter
    println!("{edited}");
    sweeper.idle().await;
    for entry in alice.audit(&AuditFilter::all().notice(dead), None, 10).await?.entries {
        println!("{} {} {}", entry.who, entry.act, entry.detail.unwrap_or_default());
    }
    // [end]
    anyhow::ensure!(edited == solid_notify::VerbResult::Applied);
    anyhow::ensure!(outbox.find(dead).await?.is_some_and(|notice| notice.status == Status::Succeeded));

    // [edit]
    sqlx::query("UPDATE notify_def SET retry_interval = '[10s,1h]', max_retry_times = 8 WHERE name = 'send_invoice'")
        .execute(outbox.pool())
        .await?;
    let row = alice.definition(SEND_INVOICE).await?;
    println!("{} {:?}", row.retry_interval, row.max_retry_times);
    // [end]
    anyhow::ensure!(row.max_retry_times == Some(8));
    sweeper.shutdown().await;
    Ok(())
}
