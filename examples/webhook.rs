//! A notification that is a row: orders go to a receiver by the channel `webhook`, signed, and the receiver verifies the signature.
//!
//! ```text
//! cargo run --example webhook
//! ```
//!
//! The program contains no code for the shop: its row names the URL, the headers and the key. The receiver runs in the same program.

// [imports]
use anyhow::{Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use solid_notify::channels::{AllowedNetworks, ChannelExt, Webhook};
use solid_notify::definition::{SecretRule, SecretRules};
use solid_notify::{Outbox, OutboxExt, Status, add_notice};
use sqlx::sqlite::SqlitePoolOptions;
// [end]

const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[tokio::main]
async fn main() -> Result<()> {
    // The receiver, with the key that it shares with the sender.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/orders", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, receiver(KEY)).await });
    let secrets = tempfile::tempdir()?;
    let key = secrets.path().join("shop.key");
    std::fs::write(&key, KEY)?;

    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    let outbox = Outbox::new(pool.clone());
    outbox.migrate().await?;
    // Rows may use the secrets that the program allows them.
    // [secret_rules]
    let keys = SecretRule::new(&format!("file:{}/", secrets.path().display()))?; // all files below a folder
    let keys = keys.definitions(["order_paid", "order/*"]).hosts(["127.0.0.1"]);
    outbox.use_secret_rules(SecretRules::default().allow(SecretRule::new("env:ERP_*")?).allow(keys));
    // [end]
    // An operator inserts the row.
    let config = serde_json::json!({
        "url": url,
        "headers": { "x-order": "{{ param.order }}" },
        "signing_keys": [format!("file:{}", key.display())],
    });
    sqlx::query("INSERT INTO notify_def (name, handler, handler_config) VALUES ('order_paid', 'webhook', ?)")
        .bind(config.to_string())
        .execute(&pool)
        .await?;

    // [sweeper]
    // Receivers in the sender's own network are refused unless the program allows them.
    let networks = AllowedNetworks::new(["127.0.0.0/8"])?;
    let webhook = Webhook::builder().allow_networks(&networks).build()?;
    let sweeper = outbox.sweeper().channel(webhook).start().await?;
    // [end]
    let mut tx = outbox.begin().await?;
    let id = add_notice(&mut tx, "order_paid", &serde_json::json!({ "order": 7 })).await?.id();
    tx.commit().await?;
    let sent = loop {
        sweeper.idle().await;
        match outbox.find(id).await? {
            Some(notice) if notice.status != Status::NotSent && notice.status != Status::Sending => break notice,
            _ => {}
        }
    };
    ensure!(sent.status == Status::Succeeded, "{sent:?}");
    println!(
        "order 7: {:?}, the receiver answered {:?}",
        sent.status,
        sent.response.map(|last| last.response.to_string())
    );
    sweeper.shutdown().await;
    Ok(())
}

// [receiver]
fn receiver(key: &'static str) -> Router {
    Router::new().fallback(receive).with_state(key)
}

async fn receive(State(key): State<&'static str>, headers: HeaderMap, body: Bytes) -> (StatusCode, &'static str) {
    // Any library of https://www.standardwebhooks.com verifies the signature and refuses old requests.
    let verified = standardwebhooks::Webhook::new(key).and_then(|webhook| webhook.verify(&body, &headers));
    match verified {
        // Here it would mark the header `webhook-id` as seen, in its own transaction.
        Ok(()) => (StatusCode::OK, "taken"),
        Err(_) => (StatusCode::UNAUTHORIZED, "the signature is wrong"),
    }
}
// [end]
