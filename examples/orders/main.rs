//! Fifty orders, each in one transaction with its notice to a warehouse. Every booked order is delivered in spite of
//! failures, and an order that was rolled back is never sent.
//!
//! ```text
//! cargo run --example orders                                   # examples/data/orders.jsonl
//! cargo run --example orders -- my-orders.jsonl                # your own, one JSON object a line
//! generate-orders | cargo run --example orders -- -            # from standard input
//! cargo run --example orders -- --kill-while-sending           # about 40 s: see `supervisor.rs`
//! ```
//!
//! This process plays the warehouse (an HTTP service on localhost, `receiver.rs`). It starts the shop as a process of its
//! own, which books orders in SQLite and sends them at once. Half-way it kills the shop with SIGKILL, and books more orders
//! while no sweeper runs. A second shop sends the rest. In the end a table shows the fate of every line, read from the
//! database. The warehouse's records must be exactly the booked orders, byte for byte; otherwise the exit code is 1.
//!
//! An order needs `number`, `total` and `items` with `sku`, `quantity` and `price`. It is rolled back if `total` is not the
//! sum of its items, if its number was booked before, or if fewer pieces are in stock (1,000 of every article at first).
//! Two optional fields decide how the warehouse answers:
//!
//! | field | answer |
//! |---|---|
//! | `ship_to.country` is `AQ` | 422: no attempt can succeed, so the handler gives up at once |
//! | `warehouse` is `north` | 503 twice, then accepted |
//! | `warehouse` is `harbour` | the first answer comes after the handler's timeout, the next at once |
//! | `warehouse` is `island` | 503 for ever, until the tries are used up |
//! | anything else, or nothing | accepted at once |

mod arguments;
mod order;
mod receiver;
mod report;
mod supervisor;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use arguments::{CommandLine, Role, ShopArguments};
use clap::Parser;
use order::{Order, Refused};
use serde_json::value::RawValue;
use solid_notify::{Failure, Handler, HandlerResult, Notice, NotifyDef, Outbox, OutboxExt, add_notice};
use sqlx::Sqlite;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

/// Opens the database. Every process does this at every start; tables and definition are created once.
async fn open(database: &Path) -> Result<Outbox<Sqlite>> {
    let options = SqliteConnectOptions::new().filename(database).create_if_missing(true);
    // Several processes write, and each commit waits for the disk, which may be busy with something else for many seconds.
    let options = options.busy_timeout(Duration::from_secs(60));
    let outbox = Outbox::new(SqlitePool::connect_with(options).await?);
    outbox.migrate().await?;
    // Short, so that the example ends soon; a real interval would be `[5s,5m,1h,1d]`. The row in the database applies,
    // which operators edit while the system runs.
    outbox
        .define_if_missing(NotifyDef::new("deliver_order").retry_interval("[200ms,400ms,800ms]").timeout("2s"))
        .await?;
    order::create_tables(outbox.pool()).await?;
    Ok(outbox)
}

/// Books an order and adds its notice in one transaction: both exist afterwards, or neither.
async fn book(outbox: &Outbox<Sqlite>, order: &Order, line: usize, process: &str) -> Result<()> {
    let mut tx = outbox.begin().await?;
    // Anywhere in the transaction. A raw JSON value keeps its bytes, so no decimal is rounded and no key is moved.
    let added = add_notice(&mut tx, "deliver_order", &order.json).await?;
    order.insert(&mut tx, line, added.id(), process).await?;
    // If a rule is broken, `?` drops the transaction, which rolls back the order and its notice.
    order.take_from_stock(&mut tx).await?;
    order.check_total()?;
    tx.commit().await?;
    Ok(())
}

/// Delivers the notices of `deliver_order`. It returns a result per attempt; the definition decides about retries.
struct Deliver {
    http: reqwest::Client,
    warehouse: String,
}

impl Handler for Deliver {
    type Param = Box<RawValue>;

    async fn handle(&self, notice: Notice<Box<RawValue>>) -> HandlerResult {
        let request = self.http.post(&self.warehouse).header("Content-Type", "application/json");
        // "At least once" means that a notice may come twice: the receiver deduplicates by this id.
        let request = request.header("Idempotency-Key", notice.idempotency_key());
        let response = request.body(notice.raw_param().to_owned()).send().await?;
        let (status, answer) = (response.status(), response.text().await?);
        match status.as_u16() {
            200..=299 => Ok(()),
            // The failure is transient: try again when the definition says.
            408 | 429 | 500.. => Err(Failure::retry(format!("{status}: {answer}"))),
            _ => Err(Failure::give_up(format!("{status}: {answer}"))),
        }
    }
}

/// Runs the shop: books its part of the orders, sends them, and goes on sending until it is closed and no notice is left.
async fn shop(shop: ShopArguments) -> Result<()> {
    let outbox = open(&shop.database).await?;
    // No proxy stands between this machine and the warehouse; without this, HTTP_PROXY would apply.
    let http = reqwest::Client::builder().no_proxy().build()?;
    let sweeper = outbox
        .sweeper()
        .node_name(&shop.name)
        .handler_type("deliver_order", Deliver { http, warehouse: shop.warehouse })
        .start()
        .await?;
    book_lines(&outbox, &std::fs::read(&shop.input)?, shop.last_line, &shop.name).await?;
    supervisor::closing_time().await;
    while order::undelivered(outbox.pool()).await? > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    sweeper.shutdown().await;
    Ok(())
}

/// Books the lines up to `last_line`, from where the last process stopped. Invalid lines are printed, and stored in a table
/// of their own, in a transaction of their own.
async fn book_lines(outbox: &Outbox<Sqlite>, input: &[u8], last_line: usize, process: &str) -> Result<()> {
    let done = order::lines_done(outbox.pool()).await?;
    for (line, text) in order::lines(input).filter(|(line, _)| (done + 1..=last_line).contains(line)) {
        // SQLite has one writer at a time, and sending writes too: leave it a gap.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let refused = match Order::read(text) {
            Err(refused) => refused,
            Ok(order) => match book(outbox, &order, line, process).await {
                Ok(()) => continue,
                Err(error) => Refused::from_error(error, &order)?,
            },
        };
        println!("  line {line}: {refused}");
        refused.note(outbox.pool(), line).await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let line = CommandLine::parse();
    let ended = match line.role {
        Some(Role::Shop(arguments)) => shop(arguments).await.map(|()| ExitCode::SUCCESS),
        None => supervisor::run(line.supervisor).await,
    };
    ended.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
