//! A receiver of Standard Webhooks on SQLite, as a program.
//!
//! ```text
//! WEBHOOK_SECRET=whsec_... DATABASE=shop.db ACK_URL=https://sender.example/notices PORT=8080 cargo run --example receiver
//! ```
//!
//! The chapter "Receivers" shows the region of `receiver.rs`.

mod receiver;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use receiver::{Receiver, routes};
use solid_notify::Outbox;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use standardwebhooks::Webhook;

fn setting(name: &str) -> Result<String> {
    std::env::var(name).with_context(|| format!("the variable {name} is not set"))
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = SqliteConnectOptions::new().filename(setting("DATABASE")?).create_if_missing(true);
    let pool = SqlitePoolOptions::new().connect_with(options).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS orders (item text)").execute(&pool).await?;
    let outbox = Outbox::new(pool);
    outbox.migrate().await?; // the table of the inbox
    let webhook = Arc::new(Webhook::new(&setting("WEBHOOK_SECRET")?)?);
    let http = reqwest::Client::builder().timeout(Duration::from_secs(10)).build()?;
    let routes = routes(Receiver { outbox, webhook, http, ack_url: setting("ACK_URL")? });
    let port = setting("PORT")?.parse().context("PORT is no number of a port")?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, routes).await?;
    Ok(())
}
