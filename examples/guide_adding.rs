//! Adding and sending, for the book: keys, many notices, savepoints, plain transactions, handler types, failures, error
//! classes.
//!
//! ```text
//! cargo run --example guide_adding
//! ```
//!
//! The chapters "Adding notices", "Handlers and failures" and "Retries and error classes" show the regions of this file.

// [imports]
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chrono::Utc;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use solid_notify::{
    AnyOutbox, Definition, ErrorClass, Failure, FirstAttempt, HandClock, Handler, HandlerResult, HttpStatus, NewNotice,
    Notice, NoticeConnection, NotifyDef, Outbox, OutboxExt, Receipt, Response, Status, SweeperBuilder, add_notice,
    add_notices,
};
use sqlx::Sqlite;
use sqlx::sqlite::SqlitePoolOptions;
// [end]

// [handler_type]
struct Partner {
    url: String,
}

impl Handler for Partner {
    type Param = Value;

    async fn handle(&self, notice: Notice<Value>) -> HandlerResult {
        let key = notice.idempotency_key(); // the same in every attempt; the receiver deduplicates by it
        println!("POST {} with {} and the key {key}", self.url, notice.raw_param());
        match notice.param()["order"].as_i64() {
            Some(1) => Err(Failure::skip("test orders are not sent".to_owned())),
            Some(2) => Err(HttpStatus(503).into()), // class `unavailable`: retried by the definition's interval
            Some(3) => Err(Failure::retry_in(Duration::from_secs(30), HttpStatus(429))), // as `Retry-After` says
            Some(4) => Err(Failure::retry("over the quota").class(ErrorClass::Busy)),
            Some(5) => Err(Failure::give_up("the customer does not exist")), // a dead letter at once
            _ => Ok(()),
        }
    }
}
// [end]

// [config]
use solid_notify::definition::{ExposeSecret, SecretRef, SecretRule, SecretRules, read_config};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CarrierConfig {
    url: String,
    api_key: SecretRef, // "env:NOTIFY_SECRET_CARRIER" or "file:/run/secrets/solid-notify/carrier"
}

struct Carrier;

impl Handler for Carrier {
    type Param = Value;

    fn check(&self, handler_config: Option<&str>) -> Result<(), String> {
        read_config::<CarrierConfig>(handler_config).map(drop)
    }

    async fn handle(&self, notice: Notice<Value>) -> HandlerResult {
        let config: CarrierConfig = notice.config()?; // as the row is now
        let key = notice.secret(&config.api_key).await?;
        println!("POST {} with a key of {} characters", config.url, key.expose_secret().len());
        Ok(())
    }
}
// [end]

// [response]
/// Posts an order. Returns the status and the body of the response.
async fn post_order(order: &Value) -> Result<(u16, String)> {
    println!("POST {order}");
    Ok((422, r#"{"error":"unknown customer"}"#.to_owned()))
}

async fn send_order(notice: Notice<Value>) -> HandlerResult {
    let (status, body) = post_order(notice.param()).await?;
    notice.set_response(Response::new(status).body(body));
    match status {
        200..300 => Ok(()),
        _ => Err(HttpStatus(status).into()),
    }
}
// [end]

/// Stands for another crate.
mod sms {
    #[derive(Debug)]
    pub struct Error {
        pub code: u16,
    }

    impl std::fmt::Display for Error {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "the gateway refused it with the code {}", self.code)
        }
    }

    impl std::error::Error for Error {}

    pub async fn send(to: &str) -> Result<(), Error> {
        println!("an SMS to {to}");
        Err(Error { code: 17 })
    }
}

// [classify]
/// Returns the class of an error of the crate `sms`, which the library does not know; `None` for all other errors.
fn class_of_sms(error: &(dyn std::error::Error + 'static)) -> Option<ErrorClass> {
    Some(match error.downcast_ref::<sms::Error>()?.code {
        17 => ErrorClass::NotFound, // no such number: never retried
        42 => ErrorClass::Busy,     // over the quota: retried
        _ => ErrorClass::Unknown,
    })
}

async fn send_sms(notice: Notice<String>) -> HandlerResult {
    sms::send(notice.param()).await.context("sending the reminder")?; // its type is found below the context, too
    Ok(())
}
// [end]

// [batch]
use solid_notify::sweeper::{Batch, BatchResult};

/// Posts positions of vehicles in one request, and returns for each whether it was accepted.
async fn post_positions(positions: Vec<i64>) -> Result<Vec<bool>, HttpStatus> {
    println!("POST {} positions", positions.len());
    Ok(positions.iter().map(|position| *position >= 0).collect())
}

async fn report_positions(notices: Vec<Notice<i64>>) -> BatchResult {
    let positions = notices.iter().map(|notice| *notice.param()).collect();
    let accepted = post_positions(positions).await?; // after an error each half is tried
    let result = |accepted| if accepted { Ok(()) } else { Err(Failure::give_up("no such position")) };
    Ok(accepted.into_iter().map(result).collect())
}

fn with_positions(builder: SweeperBuilder) -> SweeperBuilder {
    builder.batch_handler("report_position", Batch::up_to(100), report_positions)
}
// [end]

// [connection]
/// Works in every transaction and on every connection, also with `MemoryOutbox` in tests.
async fn book<B>(tx: &mut impl NoticeConnection<B>, order: i64) -> solid_notify::Result<()> {
    add_notice(tx, "sync_order", json!({ "order": order })).await?;
    Ok(())
}
// [end]

// [handles]
/// Begins a transaction, so it takes the outbox of the application's database.
async fn book_now(outbox: &Outbox<Sqlite>, order: i64) -> solid_notify::Result<()> {
    let mut tx = outbox.begin().await?;
    book(&mut tx, order).await?;
    tx.commit().await
}

/// Only reads and acks, so it takes every outbox.
async fn is_delivered(outbox: &AnyOutbox, id: i64) -> solid_notify::Result<bool> {
    Ok(outbox.find(id).await?.is_some_and(|notice| notice.status == Status::Succeeded))
}
// [end]

// [typed]
#[derive(Serialize, Deserialize)]
struct Reminder {
    order: i64,
}

const REMIND: Definition<Reminder> = Definition::new("remind");

async fn remind(tx: &mut impl NoticeConnection, order: i64) -> solid_notify::Result<Receipt> {
    add_notice(tx, REMIND, Reminder { order }).await // or `&Reminder { order }`; another type does not compile
}
// [end]

#[tokio::main]
async fn main() -> Result<()> {
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    let clock = HandClock::new(Utc::now());
    let outbox = Outbox::builder(pool).clock(clock.clone()).build();
    outbox.migrate().await?;
    // [rules]
    let definition = NotifyDef::new("sync_order")
        .retry_interval("[5s,5m,1h,1d]")
        .max_retry_times(10)
        .retry_rules(r#"{ "busy": "exp(1m, x2, max 1h)", "network": 20, "auth": "[1h,1d]", "crash": "never" }"#);
    outbox.define_if_missing(definition).await?;
    // [end]
    // [own_class]
    const DECLINED: ErrorClass = ErrorClass::own("payment.declined");
    let charge = NotifyDef::new("charge").retry_rules(r#"{ "payment.declined": "never", "busy": "1m" }"#);
    outbox.define_if_missing(charge).await?;
    let charging = outbox.sweeper().handler("charge", |_: Notice<i64>| async {
        Err(Failure::retry("the bank declines the card").class(DECLINED)) // a dead letter at once, by the rule
    });
    // [end]
    let declined = add_one(&outbox, "charge", 4711).await?;
    charging.run_until_idle().await?;
    is_dead(&outbox, declined, "payment.declined").await?;
    outbox.define_if_missing(NotifyDef::new("report_position").max_concurrency(100)).await?;
    for position in -1..49 {
        add_one(&outbox, "report_position", position).await?;
    }
    let reported = with_positions(outbox.sweeper()).run_until_idle().await?;
    ensure!((reported.succeeded, reported.dead_letters) == (49, 1));
    outbox.define_if_missing(NotifyDef::new("send_sms")).await?;
    let no_number = add_one(&outbox, "send_sms", "+49 555 4711").await?;
    outbox.define_if_missing(NotifyDef::new("remind")).await?;
    outbox.define_if_missing(NotifyDef::new("customer_changed")).await?;
    // [start]
    let sweeper = outbox
        .sweeper()
        .handler_type("sync_order", Partner { url: "https://partner.example.org/orders".to_owned() })
        .handler_type("ship_parcel", Carrier)
        .handler("send_order", send_order)
        .handler("send_sms", send_sms)
        .handler("remind", |_: Notice<Value>| async { Ok(()) })
        .handler("customer_changed", |_: Notice<i64>| async { Ok(()) })
        .classify(class_of_sms)
        .start()
        .await?;
    // [end]

    // [refused_config]
    let config = |key: &str| json!({ "url": "https://carrier.example.org", "api_key": key }).to_string();
    let wrong = NotifyDef::new("ship_parcel").handler_config(config("hunter2"));
    let refused = outbox.define_if_missing(wrong.clone()).await.err().context("a literal is refused")?;
    ensure!(refused.to_string().contains("api_key: expected a reference to a secret"));
    outbox.use_secret_rules(SecretRules::default().allow(SecretRule::new("env:PATH")?)); // what rows may use
    outbox.define_if_missing(wrong.handler_config(config("env:PATH"))).await?;
    // [end]
    let mut tx = outbox.begin().await?;
    let parcel = add_notice(&mut tx, "ship_parcel", json!({ "order": 7 })).await?;
    tx.commit().await?;
    ensure!(matches!(parcel.first_attempt(Duration::from_secs(60)).await, FirstAttempt::Succeeded));

    // [options]
    let mut tx = outbox.begin().await?;
    let reminder = NewNotice::new("remind", json!({ "order": 7 }))?
        .delay(Duration::from_secs(3600)) // or `.at(time)`
        .description("reminder of order 7") // for operators
        .ordering_key("customer 4711") // notices with this key are sent one at a time, in the order of insertion
        .unique_until_ended("reminder of order 7") // a dedupe key: see below
        .tag("order:7") // operators find it by this: see below
        .add(&mut tx)
        .await?;
    tx.commit().await?;
    // [end]
    ensure!(!reminder.is_duplicate());

    // [own_limits]
    let mut tx = outbox.begin().await?;
    NewNotice::new("remind", json!({ "parcel": 7 }))?
        .expires_at(Utc::now() + Duration::from_secs(86_400)) // tomorrow the parcel has been fetched
        .max_tries(3) // instead of `1 + max_retry_times` of the definition
        .add(&mut tx)
        .await?;
    let skipped = NewNotice::new("remind", json!({ "parcel": 8 }))?.skipped("the customer wants no reminders");
    let skipped = skipped.add(&mut tx).await?.id();
    tx.commit().await?;
    // [end]
    let found = outbox.find(skipped).await?.context("it is in history")?;
    ensure!(
        found.status == Status::Cancelled && found.end_reason.as_deref() == Some("the customer wants no reminders")
    );

    // [duplicate]
    let mut tx = outbox.begin().await?;
    let again = NewNotice::new("remind", json!({ "order": 7 }))?.unique_until_ended("reminder of order 7");
    let receipt = again.add(&mut tx).await?;
    if receipt.is_duplicate() {
        println!("nothing was added: notice {} has the key", receipt.id());
    }
    tx.commit().await?;
    // [end]

    let mut tx = outbox.begin().await?;
    let typed = remind(&mut tx, 9).await?.id();
    tx.commit().await?;

    // [newest_state]
    let mut tx = outbox.begin().await?;
    for _change in 0..3 {
        // The handler reads the customer's current state, so one notice covers all changes until it is claimed.
        let changed = NewNotice::new("customer_changed", 4711)?.unique_until_claimed("4711");
        changed.add(&mut tx).await?;
    }
    tx.commit().await?;
    // [end]
    ensure!(count(&outbox, "customer_changed").await? == 1);

    // [many]
    let orders = (1..=1_000).map(|order| NewNotice::new("sync_order", json!({ "order": order })));
    let orders = orders.collect::<solid_notify::Result<Vec<_>>>()?;
    let mut tx = outbox.begin().await?;
    add_notices(&mut tx, orders).await?; // all of them, or none
    tx.commit().await?;
    // [end]
    sweeper.idle().await;

    // [savepoint]
    let mut tx = outbox.begin().await?;
    book(&mut tx, 2001).await?;
    let mut inner = tx.begin().await?; // a savepoint
    book(&mut inner, 2002).await?;
    inner.rollback().await?; // notice 2002 is gone, notice 2001 is not
    tx.after_commit(|| println!("runs when the outermost transaction has committed"));
    tx.commit().await?;
    // [end]

    // [plain]
    let mut plain = outbox.pool().begin().await?; // any sqlx transaction or connection
    book(&mut plain, 2003).await?;
    plain.commit().await?;
    outbox.wake(); // optional: without it the next sweep (1 s) finds the notice
    // [end]

    // [pass]
    book_now(&outbox, 2004).await?; // an `&Outbox<Sqlite>` …
    sweeper.idle().await;
    let delivered = is_delivered(&outbox, typed).await?; // … becomes an `&AnyOutbox` by itself (`Deref`)
    // [end]
    ensure!(delivered);

    // [first_attempt]
    let mut tx = outbox.begin().await?;
    let added = add_notice(&mut tx, "sync_order", json!({ "order": 2 })).await?;
    tx.commit().await?;
    match added.first_attempt(Duration::from_secs(3)).await {
        FirstAttempt::Succeeded => println!("delivered"),
        FirstAttempt::Failed(why) => println!("will be retried, or is a dead letter: {why}"),
        other => println!("not known here: {other:?}"), // NotHere, StillDue, RolledBack
    }
    // [end]
    sweeper.idle().await;

    is_dead(&outbox, no_number, "not_found").await?;
    // Orders 1 to 5 show what a handler can return; 1,000 + 2001 + 2003 + 2004 + order 2 again are all.
    ensure!(count(&outbox, "sync_order").await? == 1_004);
    for (order, expected) in [
        (1, (Status::Cancelled, None)),
        (2, (Status::Failed, Some("unavailable"))),
        (3, (Status::Failed, Some("busy"))),
        (4, (Status::Failed, Some("busy"))),
        (5, (Status::DeadLetter, Some("unknown"))),
        (6, (Status::Succeeded, None)),
    ] {
        let (status, class) = state(&outbox, order).await?;
        ensure!((status, class.as_deref()) == expected, "order {order}: {status:?}, {class:?}");
    }
    sweeper.shutdown().await;
    Ok(())
}

/// Adds one notice. Returns its id.
async fn add_one(outbox: &Outbox<Sqlite>, name: &str, param: impl Serialize + Send) -> Result<i64> {
    let mut tx = outbox.begin().await?;
    let id = add_notice(&mut tx, name, param).await?.id();
    tx.commit().await?;
    Ok(id)
}

/// Checks that a notice is a dead letter of this class.
async fn is_dead(outbox: &Outbox<Sqlite>, id: i64, class: &str) -> Result<()> {
    let dead = outbox.find(id).await?.context("it was added")?;
    ensure!((dead.status, dead.last_class.as_deref()) == (Status::DeadLetter, Some(class)), "{dead:?}");
    Ok(())
}

/// Returns how many notices a definition has, live and ended.
async fn count(outbox: &Outbox<Sqlite>, definition: &str) -> Result<i64> {
    let all = "SELECT count(*) FROM (SELECT def_id FROM notify_msg UNION ALL SELECT def_id FROM notify_msg_history) n
               JOIN notify_def d ON d.id = n.def_id WHERE d.name = $1";
    Ok(sqlx::query_scalar(all).bind(definition).fetch_one(outbox.pool()).await?)
}

/// Returns the status and the class of the last error of the first notice of an order.
async fn state(outbox: &Outbox<Sqlite>, order: i64) -> Result<(Status, Option<String>)> {
    let first =
        "SELECT min(id) FROM (SELECT id, param FROM notify_msg UNION ALL SELECT id, param FROM notify_msg_history)
                 WHERE json_extract(param, '$.order') = $1";
    let id: i64 = sqlx::query_scalar(first).bind(order).fetch_one(outbox.pool()).await?;
    let notice = outbox.find(id).await?.context("it was added")?;
    Ok((notice.status, notice.last_class))
}
