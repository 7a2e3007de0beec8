//! An approval: a request for leave goes to the manager by an SMS gateway and by mail, until the manager decides.
//!
//! ```text
//! SMTP_URL=smtp://notify:not-a-secret@127.0.0.1:2525?tls=required cargo run --example approval --features approval
//! ```
//!
//! `cargo xtask servers --only mail` starts a private mail server and prints its URL and its certificate. The SMS gateway is an HTTP receiver
//! in this program. It is overloaded at first, and the mail does not wait for it. The manager's decision is an ack: until then the mail is
//! sent again each day. The clock is turned by hand.

#[path = "mail_server/mod.rs"]
mod mail_server;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Router, serve};
use mail_server::MailServer;
use serde_json::{Value, json};
use solid_notify::channels::{AllowedNetworks, ChannelExt, Mail, Webhook};
use solid_notify::testkit::TestSweeper;
use solid_notify::{Filter, HandClock, NotifyDef, Outbox, OutboxExt, Status, add_notice};
use sqlx::sqlite::SqlitePoolOptions;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

/// What the gateway was asked to send.
type Messages = Arc<Mutex<Vec<Value>>>;

#[tokio::main]
async fn main() -> Result<()> {
    let server = MailServer::from_environment()?;
    let messages = Messages::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/messages", listener.local_addr()?);
    let gateway = Router::new().route("/messages", post(take)).with_state(Arc::clone(&messages));
    tokio::spawn(async move { serve(listener, gateway).await });

    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    let outbox = Outbox::builder(pool.clone()).clock(HandClock::new("2026-11-21T12:00:00Z".parse()?)).build();
    outbox.migrate().await?;
    outbox.define_if_missing(NotifyDef::new("leave_request").handler("mail")).await?;
    let sms = json!({
        "url": url,
        "body": {
            "json": r#"{"to": {{ param.phone | tojson }}, "text": {{ (param.name ~ " asks for leave") | tojson }}}"#,
        },
    });
    let sms = NotifyDef::target("leave_request", "sms").handler("webhook").handler_config(sms.to_string());
    outbox.define_if_missing(sms.retry_interval("[1m,5m]")).await?;
    let mail = json!({
        "to": ["{{ param.email }}"],
        "subject": "{{ param.name }} asks for {{ param.days }} days off",
        "text": "Please decide: https://hr.example.org/leave/{{ param.id }}",
    });
    let mail = NotifyDef::target("leave_request", "mail").handler_config(mail.to_string());
    outbox.define_if_missing(mail.need_confirm(true).max_confirm_delay("1d").retry_interval("[1m,1m]")).await?;

    // The gateway of this example is in the sender's own network, which is refused unless the program allows it.
    let webhook = Webhook::builder().allow_networks(&AllowedNetworks::new(["127.0.0.0/8"])?).build()?;
    let mails = Mail::with(server.mailer("hr@notify.test")?);
    let sweeper = TestSweeper::start(outbox.sweeper().channel(webhook).channel(mails)).await?;

    let manager = server.address("manager");
    let mut tx = outbox.begin().await?;
    let request = json!({ "id": 7, "name": "Jane", "days": 3, "phone": "+49 170 1234567", "email": manager });
    add_notice(&mut tx, "leave_request", request).await?;
    tx.commit().await?;
    sweeper.drain().await;
    let alice = outbox.operator("alice");
    let of = async |name: &str| -> Result<_> {
        let mut found = alice.list(&Filter::live().definition(name), None, 1).await?.notices;
        found.extend(alice.list(&Filter::ended().definition(name), None, 1).await?.notices);
        found.pop().with_context(|| format!("a notice of {name}"))
    };
    ensure!(of("leave_request/mail").await?.status == Status::AwaitingAck);
    ensure!(of("leave_request/sms").await?.status == Status::Failed);
    println!("the mail is with the manager; the SMS gateway is overloaded");

    sweeper.advance(MINUTE).await;
    ensure!(of("leave_request/sms").await?.status == Status::Succeeded);
    let taken = messages.lock().map_err(|_| anyhow::anyhow!("the gateway panicked"))?.clone();
    ensure!(taken == [json!({ "to": "+49 170 1234567", "text": "Jane asks for leave" })], "{taken:?}");
    println!("a minute later the SMS is sent: {}", taken[0]["text"]);

    // The mail was sent a minute ago: a day later its ack is overdue, and after its interval it is sent again.
    let reminded = sweeper.advance(DAY).await;
    ensure!(reminded.awaiting_ack == 1, "{reminded:?}");
    println!("no decision for a day: the mail is sent again");
    // The page of the application does this when the manager has decided, by the notice's token or id.
    outbox.ack(of("leave_request/mail").await?.id).await?;
    ensure!(of("leave_request/mail").await?.status == Status::Succeeded);
    println!("the manager decided: the request ends");
    if let Some(mail) = server.delivered(&manager).await? {
        ensure!(mail.contains("Subject: Jane asks for 3 days off"), "{mail}");
    }
    sweeper.shutdown().await;
    Ok(())
}

/// The gateway: overloaded for the first message, then it takes each.
async fn take(State(messages): State<Messages>, Json(message): Json<Value>) -> StatusCode {
    static OVERLOADED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(true);
    if OVERLOADED.swap(false, std::sync::atomic::Ordering::SeqCst) {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    match messages.lock() {
        Ok(mut messages) => {
            messages.push(message);
            StatusCode::ACCEPTED
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
