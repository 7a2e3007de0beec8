//! Retries on Redis: call records and short messages, two definitions with their own handlers, go to a receiver that fails
//! at random.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1 cargo run --example repush
//! ```
//!
//! The store is Redis; definitions, handlers and the sweeper are the same as with a database. A failed push is retried
//! after 5 s, 10 s and 15 s; after four pushes it is a dead letter. The clock is turned by hand, so half a minute takes a
//! moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::http::StatusCode;
use axum::routing::post;
use chrono::Utc;
use serde::{Deserialize, Serialize};
// [imports]
use solid_notify::redis::{Redis, RedisOutbox};
use solid_notify::{HandClock, HttpStatus, Notice, NotifyDef, OutboxExt, Status, add_notice};
// [end]

#[derive(Serialize, Deserialize)]
struct CallRecord {
    caller: String,
    seconds: u32,
}

#[derive(Serialize, Deserialize)]
struct ShortMessage {
    to: String,
    text: String,
}

/// How often each push arrived, by its text.
type Arrived = Arc<Mutex<HashMap<String, u32>>>;

const PUSHES: u32 = 4;
const EACH: u32 = 20;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1".to_owned());
    let clock = HandClock::new(Utc::now());
    let prefix = format!("repush_{:x}", fastrand::u32(..));
    // [open]
    let redis = Redis::builder(&url).prefix(prefix).connect().await?;
    let mut outbox = RedisOutbox::builder(redis).clock(clock.clone()).build();
    for kind in ["push_call", "push_message"] {
        // Three retries: the list's length.
        outbox
            .define_if_missing(NotifyDef::new(kind).retry_interval("[5s,10s,15s]").alert_trigger_type("never"))
            .await?;
    }
    // [end]

    let arrived = Arrived::default();
    let receiver = receiver(Arc::clone(&arrived)).await?;
    let sweeper = outbox
        .sweeper()
        .handler("push_call", {
            let to = format!("{receiver}/calls");
            move |call: Notice<CallRecord>| {
                let to = to.clone();
                async move { push(&to, format!("{} for {} s", call.param().caller, call.param().seconds)).await }
            }
        })
        .handler("push_message", {
            let to = format!("{receiver}/messages");
            move |message: Notice<ShortMessage>| {
                let to = to.clone();
                async move { push(&to, format!("to {}: {}", message.param().to, message.param().text)).await }
            }
        })
        .start()
        .await?;

    let mut ids = Vec::new();
    for n in 0..EACH {
        let call = CallRecord { caller: format!("+49 30 {n:04}"), seconds: 60 + n };
        ids.push(add_notice(&mut outbox, "push_call", &call).await?.id());
        let message = ShortMessage { to: format!("+49 40 {n:04}"), text: "your parcel is here".to_owned() };
        ids.push(add_notice(&mut outbox, "push_message", &message).await?.id());
    }
    sweeper.idle().await;
    for seconds in [5, 10, 15] {
        clock.advance(Duration::from_secs(seconds));
        sweeper.idle().await;
    }

    let mut by_pushes = [0_u32; PUSHES as usize];
    let mut given_up = 0;
    for id in ids {
        let notice = outbox.find(id).await?.context("it was added")?;
        match notice.status {
            Status::Succeeded => by_pushes[usize::try_from(notice.failures)?] += 1,
            Status::DeadLetter => {
                given_up += 1;
                ensure!(notice.failures == i64::from(PUSHES), "four pushes, then no more: {notice:?}");
            }
            other => anyhow::bail!("notice {id} is {other:?}"),
        }
    }
    println!("arrived with push 1 to {PUSHES}: {by_pushes:?}; given up: {given_up}");
    ensure!(by_pushes.iter().sum::<u32>() + given_up == 2 * EACH, "none is lost");
    let most = arrived.lock().ok().and_then(|arrived| arrived.values().max().copied());
    ensure!(most.is_some_and(|most| most <= PUSHES), "nothing is pushed more often than allowed");
    sweeper.shutdown().await;
    Ok(())
}

// [push]
async fn push(to: &str, body: String) -> solid_notify::HandlerResult {
    let answer = reqwest::Client::new().post(to).body(body).send().await?;
    match answer.status().is_success() {
        true => Ok(()),
        // The status sets the class of the failure: 503 is retried.
        false => Err(HttpStatus(answer.status().as_u16()).into()),
    }
}
// [end]

/// Starts a receiver that fails every other time.
async fn receiver(arrived: Arrived) -> Result<String> {
    let take = move |body: String| {
        let arrived = Arc::clone(&arrived);
        async move {
            if let Ok(mut arrived) = arrived.lock() {
                *arrived.entry(body).or_default() += 1;
            }
            if fastrand::bool() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
        }
    };
    let routes = axum::Router::new().route("/calls", post(take.clone())).route("/messages", post(take));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, routes).await });
    Ok(address)
}
