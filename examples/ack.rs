//! Deliveries that succeed only with the receiver's ack: three purchase orders go to a supplier by "post".
//!
//! ```text
//! cargo run --example ack
//! ```
//!
//! The handler posts each letter and succeeds, so every notice is then awaiting ack. The letter holds a signed token with
//! which the supplier replies. The first order is acked. The second is nacked, and acked when it comes again. The third gets
//! no reply, so it is sent again when the ack is overdue, and finally becomes a dead letter. A late ack turns even that into
//! a success. Then come tokens that are refused. The clock is turned by hand, so the example takes a moment.

// [imports]
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use solid_notify::{
    AckResult, Error, HandClock, Notice, NotifyDef, Outbox, OutboxExt, Status, Sweeper, TokenKeys, ack_notice,
    add_notice,
};
use sqlx::Sqlite;
use sqlx::sqlite::SqlitePoolOptions;
use tokio::sync::mpsc;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// What the handler posts.
struct Letter {
    order: String,
    attempt: i64,
    token: String,
}
// [end]

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<()> {
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    let clock = HandClock::new("2026-11-21T12:00:00Z".parse()?);
    let outbox = Outbox::builder(pool).clock(clock.clone()).build();
    outbox.migrate().await?;
    // [definition]
    // The same secrets in every process; an older secret stays accepted while its tokens may still come.
    outbox.use_token_keys(
        TokenKeys::new(b"this month's: 32 random bytes...")?.accept(b"last month's: 32 random bytes...")?,
    );
    let definition = NotifyDef::new("purchase_order")
        .need_confirm(true)
        .max_confirm_delay("1h") // then it is sent again …
        .retry_interval("[5m,5m]"); // … by the same intervals as after any failure
    outbox.define_if_missing(definition).await?;
    // [end]

    // [handler]
    let (post, mut letters) = mpsc::unbounded_channel(); // the supplier reads `letters`
    let sweeper = outbox
        .sweeper()
        .handler("purchase_order", move |notice: Notice<String>| {
            let post = post.clone();
            async move {
                // Valid for longer than the notice is awaiting ack, because a late ack is stored, too.
                let token = notice.ack_token(DAY)?;
                post.send(Letter { order: notice.param().clone(), attempt: notice.attempt(), token })?;
                Ok(()) // before it, `notice.require_ack(time)` would await an ack whatever the definition says
            }
        })
        .start()
        .await?;
    // [end]

    let mut ids = Vec::new();
    let mut tx = outbox.begin().await?;
    for order in ["100 bolts", "7 wheels", "1 engine"] {
        ids.push(add_notice(&mut tx, "purchase_order", order).await?.id());
    }
    tx.commit().await?;

    let mut engine_token = String::new();
    // Three letters at first, then two again (the wheels after the nack, the engine without a reply), and one for the last
    // time.
    for _ in 0..6 {
        sweeper.idle().await;
        if letters.is_empty() {
            let_time_pass(&clock, &sweeper).await;
        }
        let Some(Letter { order, attempt, token }) = letters.recv().await else { break };
        match (order.as_str(), attempt) {
            ("7 wheels", 1) => {
                println!("{order}: nacked, {:?}", outbox.nack_token(&token, "out of stock until Monday").await?);
            }
            ("1 engine", _) => {
                println!("{order}: no answer to attempt {attempt}");
                engine_token = token;
            }
            _ => println!("{order}: acked, {:?}", outbox.ack_token(&token).await?),
        }
    }
    let_time_pass(&clock, &sweeper).await;

    for (id, expected) in ids.iter().zip([Status::Succeeded, Status::Succeeded, Status::DeadLetter]) {
        let notice = outbox.find(*id).await?.context("it was added")?;
        println!("{}: {:?}, {} failed attempts", notice.param, notice.status, notice.failures);
        ensure!(notice.status == expected, "{expected:?} was expected");
    }
    late(&outbox, &engine_token, ids[2]).await?;
    refused(&outbox, &engine_token, &clock).await?;
    sweeper.shutdown().await;
    Ok(())
}

// [late]
/// The supplier was on holiday, and the notice is a dead letter. The token of any attempt is valid, and so is a plain ack in
/// the caller's own transaction.
async fn late(outbox: &Outbox<Sqlite>, token: &str, id: i64) -> Result<()> {
    let late = outbox.ack_token(token).await?;
    ensure!(late == AckResult::DeadLetterAcked, "a dead letter becomes a success");
    let mut tx = outbox.begin().await?;
    let again = ack_notice(&mut tx, id).await?;
    tx.commit().await?;
    ensure!(again == AckResult::AlreadySucceeded, "a second ack changes nothing");
    Ok(())
}
// [end]

// [token_errors]
/// `token` was signed for a day.
async fn refused(outbox: &Outbox<Sqlite>, token: &str, clock: &HandClock) -> Result<()> {
    let garbage = outbox.ack_token("not a token").await;
    clock.advance(DAY);
    let expired = outbox.ack_token(token).await;
    outbox.use_token_keys(TokenKeys::new(b"another secret, without accept()")?);
    let other_secret = outbox.ack_token(token).await;
    for refused in [garbage, expired, other_secret] {
        let Err(Error::Token { problem }) = refused else { bail!("it was accepted: {refused:?}") };
        println!("403 Forbidden; for the log: {problem}"); // one status for all three: repeating the request is useless
    }
    Ok(())
}
// [end]

/// Advances by the time for an ack, then by the interval to the next attempt.
async fn let_time_pass(clock: &HandClock, sweeper: &Sweeper) {
    for step in [60 * MINUTE, 5 * MINUTE] {
        clock.advance(step);
        sweeper.idle().await;
    }
}
