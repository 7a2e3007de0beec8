//! The shortest complete program: one order and one notice in the same transaction, and the handler that sends it.
//!
//! ```text
//! cargo run --example quick_start
//! ```

// [program]
use std::time::Duration;

use serde::{Deserialize, Serialize};
use solid_notify::{FirstAttempt, Notice, NotifyDef, Outbox, OutboxExt, add_notice};
use sqlx::sqlite::SqlitePoolOptions;

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    id: i64,
    total: f64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    sqlx::query("CREATE TABLE orders (id integer, total real)").execute(&pool).await?;
    let outbox = Outbox::new(pool); // or your PgPool or MySqlPool
    outbox.migrate().await?;
    outbox.define_if_missing(NotifyDef::new("sync_order").retry_interval("[5s,5m,1h,1d]")).await?; // creates a missing row

    let sweeper = outbox
        .sweeper() // in any number of processes
        .handler("sync_order", |notice: Notice<Order>| async move {
            println!("sending {:?} with the key {}", notice.param(), notice.idempotency_key());
            Ok(()) // any error through `?` is retried as the definition says
        })
        .start()
        .await?;

    let order = Order { id: 7, total: 19.5 };
    let mut tx = outbox.begin().await?;
    sqlx::query("INSERT INTO orders VALUES ($1, $2)").bind(order.id).bind(order.total).execute(&mut *tx).await?;
    let added = add_notice(&mut tx, "sync_order", &order).await?;
    tx.commit().await?; // both rows or none; then the handler runs at once

    let first = added.first_attempt(Duration::from_secs(3)).await; // optional
    assert_eq!(first, FirstAttempt::Succeeded);
    sweeper.shutdown().await;
    Ok(())
}
// [end]
