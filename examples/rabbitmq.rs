//! An order is synchronised to another system by a queue of RabbitMQ, and again five minutes after each missed reply or refusal,
//! with at most two retries, until that system confirms it.
//!
//! ```text
//! AMQP_URL=amqp://guest:guest@127.0.0.1:5672/%2f cargo run --example rabbitmq --features rabbitmq
//! ```
//!
//! `cargo xtask servers --only rabbitmq` starts a private RabbitMQ and prints its URL.
//!
//! The definition alone says how the order is delivered: it names the channel `amqp`, the queue, and the queue for replies. The other
//! system overlooks the first message, refuses the second one and confirms the third one. The clock is turned by hand, so nothing waits
//! for minutes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicGetOptions, BasicPublishOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use serde_json::json;
use solid_notify::channels::{AllowedNetworks, Amqp, ChannelExt};
use solid_notify::definition::{SecretRule, SecretRules};
use solid_notify::testkit::TestSweeper;
use solid_notify::{HandClock, NotifyDef, Outbox, OutboxExt, Status, TokenKeys, add_notice};
use sqlx::sqlite::SqlitePoolOptions;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("AMQP_URL").context(
        "AMQP_URL is not set: set it to the URL of a RabbitMQ, such as amqp://guest:guest@127.0.0.1:5672/%2f; \
         `cargo xtask servers --only rabbitmq` starts one and prints its URL",
    )?;
    let other_system = OtherSystem::connect(&url).await?;

    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount TEXT NOT NULL)").execute(&pool).await?;
    let outbox = Outbox::builder(pool).clock(HandClock::new("2026-11-21T12:00:00Z".parse()?)).build();
    outbox.migrate().await?;
    outbox.use_token_keys(TokenKeys::new(b"32 random bytes in every process")?); // signs the tokens for replies
    outbox.use_secret_rules(SecretRules::default().allow(SecretRule::new("env:AMQP_URL")?)); // what rows may use

    // [definition]
    let definition = NotifyDef::new("sync_order")
        .retry_interval("5m")
        .max_retry_times(2)
        .need_confirm(true) // by the consumer
        .max_confirm_delay("1m")
        .handler("amqp")
        .handler_config(
            json!({
                "url": "env:AMQP_URL",
                "routing_key": other_system.queue, // of the default exchange: the name of a queue
                "headers": { "order": "{{ param.order }}" },
                "reply_queue": other_system.reply_queue,
            })
            .to_string(),
        );
    outbox.define_if_missing(definition).await?;
    // [end]
    // [channel]
    // Brokers in the sender's own network are refused unless the program allows them.
    let networks = AllowedNetworks::new(["127.0.0.0/8"])?;
    let amqp = Amqp::new().allow_networks(&networks);
    let _replies = amqp.replies(&outbox); // receives replies until it is dropped
    let builder = outbox.sweeper().channel(amqp);
    // [end]
    let sweeper = TestSweeper::start(builder).await?;

    // The order and its notice, in one transaction.
    let mut tx = outbox.begin().await?;
    sqlx::query("INSERT INTO orders VALUES (7, '99.00')").execute(&mut *tx).await?;
    let id = add_notice(&mut tx, "sync_order", json!({ "order": 7, "amount": "99.00" })).await?.id();
    tx.commit().await?;

    ensure!(sweeper.drain().await.awaiting_ack == 1);
    other_system.take().await?;
    println!("12:00  the other system got order 7, and does not reply");

    ensure!(sweeper.advance(MINUTE).await.failed == 1, "no reply within a minute");
    ensure!(sweeper.advance(5 * MINUTE).await.awaiting_ack == 1, "sent again after five minutes");
    let message = other_system.take().await?;
    other_system.reply(&message, json!({ "result": "nack", "reason": "the article is unknown" })).await?;
    println!("12:06  the other system refused it: the article is unknown");
    wait_until(async || Ok(sweeper.drain().await.failed == 1)).await?;

    ensure!(sweeper.advance(5 * MINUTE).await.awaiting_ack == 1, "the second retry");
    let message = other_system.take().await?;
    other_system.reply(&message, json!({ "result": "ack" })).await?;
    wait_until(async || Ok(outbox.find(id).await?.context("the notice")?.status == Status::Succeeded)).await?;
    println!("12:11  the other system confirmed it");

    let notice = outbox.find(id).await?.context("the notice")?;
    ensure!(notice.errors.len() == 2 && notice.errors[1].message.contains("the article is unknown"));
    sweeper.shutdown().await;
    other_system.close().await
}

/// Waits for what a reply causes.
async fn wait_until(condition: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let waiting = async {
        while !condition().await? {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.context("the reply did not arrive")?
}

/// The other system: it gets orders from a queue, and sends replies to another one. A program in any language does the same.
struct OtherSystem {
    channel: Channel,
    queue: String,
    reply_queue: String,
    _connection: Connection,
}

impl OtherSystem {
    async fn connect(url: &str) -> Result<Self> {
        let connection = Connection::connect(url, ConnectionProperties::default()).await.context("AMQP_URL")?;
        let channel = connection.create_channel().await?;
        let [queue, reply_queue] = ["orders", "replies"].map(|name| format!("example_{name}_{}", std::process::id()));
        for name in [&queue, &reply_queue] {
            let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            channel.queue_declare(name.as_str().into(), options, FieldTable::default()).await?;
        }
        Ok(Self { channel, queue, reply_queue, _connection: connection })
    }

    async fn take(&self) -> Result<Delivery> {
        let message = self.channel.basic_get(self.queue.as_str().into(), BasicGetOptions::default()).await?;
        let message = message.context("the queue has no message")?;
        message.acker.ack(BasicAckOptions::default()).await?;
        Ok(message.delivery)
    }

    // [reply]
    /// Replies to `reply_to`, with the correlation id of the message.
    async fn reply(&self, message: &Delivery, body: serde_json::Value) -> Result<()> {
        let queue = message.properties.reply_to().clone().context("no reply_to")?;
        let token = message.properties.correlation_id().clone().context("no correlation id")?;
        let properties = BasicProperties::default().with_correlation_id(token);
        let options = BasicPublishOptions::default();
        self.channel.basic_publish("".into(), queue, options, body.to_string().as_bytes(), properties).await?;
        Ok(())
    }
    // [end]

    async fn close(self) -> Result<()> {
        for name in [self.queue, self.reply_queue] {
            self.channel.queue_delete(name.into(), QueueDeleteOptions::default()).await?;
        }
        Ok(())
    }
}
