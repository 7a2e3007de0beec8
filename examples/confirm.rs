//! Deliveries that count only when the receiver has confirmed them: three purchase orders go to a supplier by "post".
//!
//! ```text
//! cargo run --example confirm
//! ```
//!
//! The handler hands each letter over and succeeds, so every notice then awaits its confirmation. The letter holds a signed
//! token, by which the supplier answers: the first order is confirmed, the second is refused (and confirmed when it comes again),
//! the third is never answered, so it is sent again when the time for a confirmation is over, and in the end is a dead letter. A
//! late confirmation makes a success even of that. Time is a clock turned by hand, so all of it takes a moment.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use solid_notify::{
    Confirmed, Done, HandClock, Notice, Notify, NotifyDef, Status, Sweeper, TokenKeys, ack_notice, add_notice,
};
use sqlx::sqlite::SqlitePoolOptions;
use tokio::sync::mpsc;

/// What the supplier finds in the letter.
struct Letter {
    order: String,
    attempt: i64,
    token: String,
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<()> {
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    let clock = HandClock::new(SystemTime::now());
    let notify = Notify::builder(pool).clock(clock.clone()).build();
    notify.migrate().await?;
    // The same in every process; an older secret stays accepted while its tokens may still come.
    notify.use_token_keys(
        TokenKeys::new(b"this month's: 32 random bytes...")?.accept(b"last month's: 32 random bytes...")?,
    );
    let definition = NotifyDef::new("purchase_order")
        .need_confirm(true)
        .max_confirm_delay("1h") // then it is sent again …
        .retry_interval("[5m,5m]"); // … by the same intervals as after any failure
    notify.define(definition).await?;

    let (post, mut letters) = mpsc::unbounded_channel();
    let sweeper = Sweeper::builder(&notify)
        .handler("purchase_order", move |notice: Notice<String>| {
            let post = post.clone();
            async move {
                // Valid for longer than the confirmation is waited for: a late answer is an answer, too.
                let token = notice.confirm_token(24 * 60 * MINUTE)?;
                post.send(Letter { order: notice.param().clone(), attempt: notice.attempt(), token })?;
                Ok(Done::Ok) // or `Done::AwaitConfirm(time)`, whatever the definition says
            }
        })
        .start()
        .await?;

    let mut ids = Vec::new();
    let mut tx = notify.begin().await?;
    for order in ["100 bolts", "7 wheels", "1 engine"] {
        ids.push(add_notice(&mut tx, "purchase_order", order).await?.id());
    }
    tx.commit().await?;

    let mut engine_token = String::new();
    // Three letters at first, two again (the wheels for the refusal, the engine for the silence), one for the last time.
    for _ in 0..6 {
        sweeper.idle().await;
        if letters.is_empty() {
            let_time_pass(&clock, &sweeper).await;
        }
        let Some(Letter { order, attempt, token }) = letters.recv().await else { break };
        match (order.as_str(), attempt) {
            ("7 wheels", 1) => {
                println!("{order}: refused, {:?}", notify.nack_token(&token, "out of stock until Monday").await?);
            }
            ("1 engine", _) => {
                println!("{order}: no answer to attempt {attempt}");
                engine_token = token;
            }
            _ => println!("{order}: confirmed, {:?}", notify.ack_token(&token).await?),
        }
    }
    let_time_pass(&clock, &sweeper).await;

    for (id, expected) in ids.iter().zip([Status::Succeeded, Status::Succeeded, Status::DeadLetter]) {
        let notice = notify.find(*id).await?.context("it was added")?;
        println!("{}: {:?}, {} failed attempts", notice.param, notice.status, notice.failures);
        ensure!(notice.status == expected, "{expected:?} was expected");
    }
    // The supplier was on holiday. The token of any attempt counts, and so does a plain answer in a transaction of one's own.
    let late = notify.ack_token(&engine_token).await?;
    println!("1 engine: confirmed late, {late:?}");
    ensure!(late == Confirmed::DeadLetterConfirmed, "a dead letter becomes a success");
    let mut tx = notify.begin().await?;
    let again = ack_notice(&mut tx, ids[2]).await?;
    tx.commit().await?;
    ensure!(again == Confirmed::AlreadySucceeded, "a second confirmation changes nothing");
    sweeper.shutdown().await;
    Ok(())
}

/// The time for a confirmation, then the interval to the next attempt.
async fn let_time_pass(clock: &HandClock, sweeper: &Sweeper) {
    for step in [60 * MINUTE, 5 * MINUTE] {
        clock.advance(step);
        sweeper.idle().await;
    }
}
