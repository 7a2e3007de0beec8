//! A receiver that gets a delivery twice and does its work once.
//!
//! ```text
//! cargo run --example inbox
//! ```
//!
//! The chapter "Receivers that deduplicate" shows the regions of this file. The receiver is a function, as a route of a web service
//! would call it.

// [imports]
use anyhow::{Result, ensure};
use solid_notify::{Inbox, Outbox};
use sqlx::sqlite::SqlitePoolOptions;
// [end]
use sqlx::Sqlite;

// [receive]
/// Receives a delivery: `key` is the header `Idempotency-Key` of the request. Returns false where nothing was to be done.
async fn receive(outbox: &Outbox<Sqlite>, key: &str, item: &str) -> Result<bool> {
    let mut tx = outbox.begin().await?; // or `pool.begin()`
    if !Inbox::new("warehouse", "shop").first_time(&mut tx, key).await? {
        return Ok(false); // it was done before: answer the same as then
    }
    sqlx::query("UPDATE stock SET pieces = pieces - 1 WHERE item = $1").bind(item).execute(&mut *tx).await?;
    tx.commit().await?; // the work and the mark, or neither
    Ok(true)
}
// [end]

#[tokio::main]
async fn main() -> Result<()> {
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    sqlx::query("CREATE TABLE stock (item text PRIMARY KEY, pieces integer CHECK (pieces >= 0))")
        .execute(&pool)
        .await?;
    sqlx::query("INSERT INTO stock VALUES ('book', 2), ('lamp', 0)").execute(&pool).await?;
    let outbox = Outbox::new(pool.clone());
    outbox.migrate().await?;

    // The sender did not get the first response, so it sends again.
    ensure!(receive(&outbox, "17-1764000000000", "book").await?);
    ensure!(!receive(&outbox, "17-1764000000000", "book").await?);
    ensure!(receive(&outbox, "18-1764000000001", "book").await?, "another delivery has another key");
    let pieces: i64 = sqlx::query_scalar("SELECT pieces FROM stock WHERE item = 'book'").fetch_one(&pool).await?;
    ensure!(pieces == 0, "two deliveries, each done once");

    // Work that fails leaves its key free.
    ensure!(receive(&outbox, "19-1764000000002", "lamp").await.is_err(), "there is no lamp");
    sqlx::query("UPDATE stock SET pieces = 1 WHERE item = 'lamp'").execute(&pool).await?;
    ensure!(receive(&outbox, "19-1764000000002", "lamp").await?);
    println!("two books and a lamp left the warehouse, although one delivery came twice and one failed at first");
    Ok(())
}
