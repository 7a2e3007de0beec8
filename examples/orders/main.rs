//! Fifty orders, each in one transaction with the notice that a warehouse must get: what was booked is delivered,
//! whatever fails, and what was rolled back is never sent.
//!
//! ```text
//! cargo run --example orders                                   # examples/data/orders.jsonl
//! cargo run --example orders -- my-orders.jsonl                # your own, one JSON object a line
//! generate-orders | cargo run --example orders -- -            # from standard input
//! cargo run --example orders -- --kill-while-sending           # about 40 s: see `supervisor.rs`
//! ```
//!
//! This process plays the warehouse (an HTTP service on localhost, `receiver.rs`) and starts the shop as a process of
//! its own, which books orders in SQLite and sends them at once. Half-way the shop is killed with SIGKILL; orders are
//! booked on while no sweeper lives; a second shop sends whatever is left. In the end a table tells from the database
//! what became of every line, and the warehouse's records must be exactly the booked orders, byte for byte; else the
//! exit code is 1.
//!
//! An order needs `number`, `total` and `items` with `sku`, `quantity` and `price`. It is rolled back where `total` is
//! not the sum of its items, where its number was booked before, or where fewer pieces are in stock (1,000 of every
//! article at first). Two optional fields decide how the warehouse answers:
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
use arguments::{Role, ShopArguments};
use order::{Order, Refused};
use serde_json::value::RawValue;
use solid_notify::{Done, Failure, Handler, HandlerResult, Notice, Notify, NotifyDef, Sweeper, add_notice};
use sqlx::Sqlite;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

/// Opens the database. Every process does this at every start: tables and definition are created once.
async fn open(database: &Path) -> Result<Notify<Sqlite>> {
    let options = SqliteConnectOptions::new().filename(database).create_if_missing(true);
    let notify = Notify::new(SqlitePool::connect_with(options).await?);
    notify.migrate().await?;
    // Short, so that the example ends soon; real intervals are rather `[5s,5m,1h,1d]`. What is in force is the row in
    // the database, which operators edit while the system runs.
    notify.define(NotifyDef::new("deliver_order").retry_interval("[200ms,400ms,800ms]").timeout("2s")).await?;
    order::create_tables(notify.pool()).await?;
    Ok(notify)
}

/// Books an order and adds its notice in one transaction: afterwards both exist, or neither.
async fn book(notify: &Notify<Sqlite>, order: &Order, line: usize, process: &str) -> Result<()> {
    let mut tx = notify.begin().await?;
    // Anywhere in the transaction. A raw JSON value keeps its bytes: no decimal is rounded, no key is moved.
    let added = add_notice(&mut tx, "deliver_order", &order.json).await?;
    order.insert(&mut tx, line, added.id(), process).await?;
    // Where a rule is broken, `?` drops the transaction: it is rolled back, and its notice with it.
    order.take_from_stock(&mut tx).await?;
    order.check_total()?;
    tx.commit().await?;
    Ok(())
}

/// Delivers the notices of `deliver_order`. A verdict per attempt; retries are the definition's business.
struct Deliver {
    http: reqwest::Client,
    warehouse: String,
}

impl Handler for Deliver {
    type Param = Box<RawValue>;

    async fn handle(&self, notice: Notice<Box<RawValue>>) -> HandlerResult {
        let request = self.http.post(&self.warehouse).header("Content-Type", "application/json");
        // At least once means that a notice may come twice: the receiver deduplicates by this.
        let request = request.header("Idempotency-Key", notice.idempotency_id());
        let response = request.body(notice.raw_param().to_owned()).send().await?;
        let (status, answer) = (response.status(), response.text().await?);
        match status.as_u16() {
            200..=299 => Ok(Done::Ok),
            // It passes: try again when the definition says.
            408 | 429 | 500.. => Err(Failure::retry(format!("{status}: {answer}"))),
            _ => Err(Failure::give_up(format!("{status}: {answer}"))),
        }
    }
}

/// The shop: books its part of the orders, sends them, and goes on sending until it is closed and nothing is left.
async fn shop(shop: ShopArguments) -> Result<()> {
    let notify = open(&shop.database).await?;
    // Nothing stands between this machine and the warehouse; without this, HTTP_PROXY would.
    let http = reqwest::Client::builder().no_proxy().build()?;
    let sweeper = Sweeper::builder(&notify)
        .node_name(&shop.name)
        .register("deliver_order", Deliver { http, warehouse: shop.warehouse })
        .start()
        .await?;
    book_lines(&notify, &std::fs::read(&shop.input)?, shop.last_line, &shop.name).await?;
    supervisor::closing_time().await;
    while order::undelivered(notify.pool()).await? > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    sweeper.shutdown().await;
    Ok(())
}

/// Books the lines up to `last_line`, from where whoever was there before left off. Bad lines are reported, and noted
/// in a table of their own, in a transaction of their own.
async fn book_lines(notify: &Notify<Sqlite>, input: &[u8], last_line: usize, process: &str) -> Result<()> {
    let done = order::lines_done(notify.pool()).await?;
    for (line, text) in order::lines(input).filter(|(line, _)| (done + 1..=last_line).contains(line)) {
        // SQLite has one writer at a time, and sending writes too: leave it a gap.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let refused = match Order::read(text) {
            Err(refused) => refused,
            Ok(order) => match book(notify, &order, line, process).await {
                Ok(()) => continue,
                Err(error) => Refused::from_error(error, &order)?,
            },
        };
        println!("  line {line}: {refused}");
        refused.note(notify.pool(), line).await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let ended = match arguments::role() {
        Ok(Role::Shop(arguments)) => shop(arguments).await.map(|()| ExitCode::SUCCESS),
        Ok(Role::Supervisor(arguments)) => supervisor::run(arguments).await,
        Err(error) => Err(error),
    };
    ended.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
