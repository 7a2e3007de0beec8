//! The example receivers of Standard Webhooks: each verifies, deduplicates and acks. Those in other languages are compiled where
//! `receivers` is selected.

#[path = "../../examples/receivers/rust/receiver.rs"]
mod in_rust;

use std::path::Path;
use std::sync::Arc;

use chrono::Utc;
use solid_notify::{Outbox, Status};
use solid_notify_conformance::Backend;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use standardwebhooks::Webhook;
use test_support::memory::MemoryBackend;
use test_support::sending::{PATIENCE, record};

use crate::ack_http::server::{Server, delivered};

const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// Sends messages as the channel does.
struct Sender {
    client: reqwest::Client,
    webhook: Webhook,
    url: String,
}

impl Sender {
    fn new(url: String) -> Self {
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        Self { client, webhook: Webhook::new(SECRET).unwrap(), url }
    }

    /// Signs a message that was sent some seconds ago.
    fn message(&self, id: &str, body: &'static str, age: i64) -> reqwest::RequestBuilder {
        let time = Utc::now().timestamp() - age;
        let signature = self.webhook.sign(id, time, body.as_bytes()).unwrap();
        let request = self.client.post(&self.url).header("webhook-id", id).header("webhook-timestamp", time);
        request.header("webhook-signature", signature).header("content-type", "application/json").body(body)
    }
}

async fn status(message: reqwest::RequestBuilder) -> u16 {
    message.send().await.unwrap().status().as_u16()
}

async fn orders(database: &Path) -> i64 {
    let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(database)).await.unwrap();
    let count = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&pool).await.unwrap();
    pool.close().await;
    count
}

/// `start` starts a receiver with this database, which acks to this URL. Returns its URL.
async fn verifies_deduplicates_and_acks(start: impl AsyncFnOnce(&Path, String) -> String) {
    const ORDER: &str = r#"{"item": "7 wheels 轮"}"#;
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("shop.db");
    let b = MemoryBackend::default();
    let (id, token) = delivered(&b, 1).await.remove(0);
    let acks = Server::of(b.outbox()).await;
    let sender = Sender::new(start(&database, format!("http://{}", acks.address)).await);

    assert_eq!(status(sender.message("1-1", ORDER, 0)).await, 204);
    assert_eq!(orders(&database).await, 1);
    assert_eq!(status(sender.message("1-1", ORDER, 0)).await, 204, "a repeated message");
    assert_eq!(status(sender.message("1-1", ORDER, 60)).await, 204, "of another minute");
    assert_eq!(orders(&database).await, 1);

    let unsigned = sender.client.post(&sender.url).body(ORDER);
    let other = Webhook::new("whsec_bm90IHRoaXMgc2VjcmV0LCBhbm90aGVyIG9uZQ==").unwrap();
    let forged = Sender { webhook: other, ..Sender::new(sender.url.clone()) };
    let refused = [
        ("signed with another secret", forged.message("2-1", ORDER, 0)),
        ("without signature", unsigned),
        ("too old", sender.message("2-1", ORDER, 360)),
        ("from the future", sender.message("2-1", ORDER, -360)),
        ("with another body", sender.message("2-1", ORDER, 0).body(r#"{"item": "8 wheels"}"#)),
        ("no JSON", sender.message("2-1", "7 wheels", 0)),
        ("without the field", sender.message("2-1", "[]", 0)),
    ];
    for (what, message) in refused {
        assert_eq!(status(message).await, 400, "{what}");
    }
    assert_eq!(orders(&database).await, 1);

    // The message asks for an ack. A repeated one is acked again.
    assert_eq!(record(&b, id).await.status, Status::AwaitingAck);
    for _ in 0..2 {
        assert_eq!(status(sender.message("3-1", ORDER, 0).header("ack-token", &token)).await, 204);
        assert_eq!(record(&b, id).await.status, Status::Succeeded);
    }
    // Where the ack fails, the sender has to repeat the message.
    assert_eq!(status(sender.message("4-1", ORDER, 0).header("ack-token", "garbage")).await, 500);
    assert_eq!(orders(&database).await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receiver_in_rust_verifies_deduplicates_and_acks() {
    verifies_deduplicates_and_acks(async |database, ack_url| {
        let options = SqliteConnectOptions::new().filename(database).create_if_missing(true);
        let pool = SqlitePoolOptions::new().connect_with(options).await.unwrap();
        sqlx::query("CREATE TABLE orders (item text)").execute(&pool).await.unwrap();
        let outbox = Outbox::new(pool);
        outbox.migrate().await.unwrap();
        let webhook = Arc::new(Webhook::new(SECRET).unwrap());
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let routes = in_rust::routes(in_rust::Receiver { outbox, webhook, http, ack_url });
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        url
    })
    .await;
}

/// The receivers that are programs of their own.
mod receivers {
    use std::io::{Read, Seek};
    use std::process::Stdio;

    use tokio::io::{AsyncBufReadExt, BufReader, Lines};
    use tokio::process::{Child, ChildStdout, Command};

    use super::*;

    /// A running program, which is killed when dropped.
    struct Running {
        _child: Child,
        _lines: Lines<BufReader<ChildStdout>>,
    }

    async fn check(command: std::process::Command) {
        let mut running = None;
        verifies_deduplicates_and_acks(async |database, ack_url| {
            let mut command = Command::from(command);
            command.env("WEBHOOK_SECRET", SECRET).env("DATABASE", database).env("ACK_URL", ack_url).env("PORT", "0");
            command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
            // A file: Node makes a pipe that it inherits non-blocking, also for the other processes that write to it.
            let mut errors = tempfile::tempfile().unwrap();
            command.stdout(Stdio::piped()).stderr(errors.try_clone().unwrap());
            let mut child = command.kill_on_drop(true).spawn().unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let Some(line) = lines.next_line().await.unwrap() else {
                let mut said = String::new();
                errors.rewind().unwrap();
                errors.read_to_string(&mut said).unwrap();
                panic!("the receiver ended: {said}");
            };
            running = Some(Running { _child: child, _lines: lines });
            line.strip_prefix("listening on ").unwrap().to_owned()
        })
        .await;
        drop(running);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn receiver_in_python_verifies_deduplicates_and_acks() {
        check(test_servers::receivers::python().unwrap()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn receiver_in_node_verifies_deduplicates_and_acks() {
        check(test_servers::receivers::node().unwrap()).await;
    }
}
