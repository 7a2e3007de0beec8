//! A receiver of Standard Webhooks: it verifies a message, does its work once, and acks. The program is `main.rs`.

// [receive]
use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde::Deserialize;
use solid_notify::{Inbox, Outbox};
use sqlx::Sqlite;
use standardwebhooks::{HEADER_WEBHOOK_ID, Webhook};

#[derive(Clone)]
pub struct Receiver {
    /// Its tables have the inbox. It runs no sweeper.
    pub outbox: Outbox<Sqlite>,
    pub webhook: Arc<Webhook>,
    pub http: reqwest::Client,
    /// Where acks go.
    pub ack_url: String,
}

#[derive(Deserialize)]
struct Order {
    item: String,
}

pub fn routes(receiver: Receiver) -> Router {
    Router::new().route("/", post(receive)).with_state(receiver)
}

async fn receive(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> StatusCode {
    if receiver.webhook.verify(&body, &headers).is_err() {
        return StatusCode::BAD_REQUEST; // the signature or the time: the sender does not repeat it
    }
    let id = headers.get(HEADER_WEBHOOK_ID).and_then(|id| id.to_str().ok());
    let (Some(id), Ok(order)) = (id, serde_json::from_slice(&body)) else {
        return StatusCode::BAD_REQUEST;
    };
    match receiver.work(id, order, &headers).await {
        Ok(()) => StatusCode::NO_CONTENT,
        Err(error) => {
            eprintln!("cannot receive the message {id}: {error}");
            StatusCode::INTERNAL_SERVER_ERROR // the sender repeats it
        }
    }
}

impl Receiver {
    async fn work(&self, id: &str, order: Order, headers: &HeaderMap) -> Result<()> {
        let mut tx = self.outbox.begin().await?;
        if Inbox::new("orders", "shop").first_time(&mut tx, id).await? {
            sqlx::query("INSERT INTO orders (item) VALUES ($1)").bind(order.item).execute(&mut *tx).await?;
            tx.commit().await?; // the mark and the work, or neither
        } else {
            tx.rollback().await?;
        }
        if let Some(token) = headers.get("ack-token") {
            // Of a repeated message, too: the first ack may be lost.
            let ack = self.http.post(format!("{}/ack", self.ack_url)).header("ack-token", token);
            ack.send().await?.error_for_status()?;
        }
        Ok(())
    }
}
// [end]
