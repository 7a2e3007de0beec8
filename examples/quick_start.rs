//! The shortest complete program: one order and one notice in the same transaction, and the handler that sends it.
//!
//! ```text
//! cargo run --example quick_start
//! ```

// [program]
use solid_notify::{Definition, HandlerResult, Notice, NotifyDef, Outbox, OutboxExt, add_notice};

const SYNC_ORDER: Definition<i64> = Definition::new("sync_order"); // notices of this name have a parameter of this type

async fn send(notice: Notice<i64>) -> HandlerResult {
    println!("sending order {} with the key {}", notice.param(), notice.idempotency_key());
    Ok(()) // any error through `?` is retried as the definition says
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?; // or a PgPool
    sqlx::query("CREATE TABLE orders (id integer)").execute(&pool).await?;
    let outbox = Outbox::new(pool);
    outbox.migrate().await?;
    outbox.define_if_missing(NotifyDef::new(SYNC_ORDER).retry_interval("[5s,5m,1h,1d]")).await?; // 4 retries, 5 tries in all
    let sweeper = outbox.sweeper().handler(SYNC_ORDER, send).start().await?; // in any number of processes

    let mut tx = outbox.begin().await?;
    sqlx::query("INSERT INTO orders VALUES (7)").execute(&mut *tx).await?;
    add_notice(&mut tx, SYNC_ORDER, 7).await?;
    tx.commit().await?; // both rows or none; then the handler runs at once
    sweeper.idle().await; // a service serves requests here, and ends with `sweeper.shutdown().await`
    Ok(())
}
// [end]
