//! Replies of consumers: they confirm notices, none is lost, and what is no reply is dead-lettered.

use std::time::Duration;

use lapin::BasicProperties;
use lapin::types::AMQPValue;
use serde_json::json;
use solid_notify::channels::Amqp;
use solid_notify::channels::ChannelExt;
use solid_notify::testkit::MemoryOutbox;
use solid_notify::{NotifyDef, Outbox, OutboxExt, Status, TokenKeys, add_notice};
use sqlx::sqlite::SqlitePoolOptions;
use test_support::databases::server_url;
use test_support::log::Log;
use test_support::proxy::{Proxy, Wire};
use test_support::sending::{allow_secrets, eventually};

use super::Rabbit;
use crate::brokers::Sending;
use crate::configured::own_machine;

#[tokio::test]
async fn reply_of_the_consumer_acks_or_nacks_the_notice() {
    let url = server_url("AMQP_URL");
    let (outbox, amqp, rabbit) =
        (MemoryOutbox::new(), Amqp::new().allow_networks(&own_machine()), Rabbit::connect(&url).await);
    let _replies = amqp.replies(&outbox);
    let sending = Sending::over(outbox, amqp, &url).await;
    let (queue, dead) = (rabbit.queue().await, rabbit.queue().await);
    let dead_letters = [
        ("x-dead-letter-exchange", AMQPValue::LongString("".into())),
        ("x-dead-letter-routing-key", AMQPValue::LongString(dead.clone().into())),
    ];
    let reply_queue = rabbit.queue_with(&dead_letters).await;
    let definition = NotifyDef::new("order").need_confirm(true).max_confirm_delay("1h");
    sending.define_as(definition, json!({ "routing_key": queue, "reply_queue": reply_queue })).await;

    let id = sending.add("order", json!(1)).await;
    let message = rabbit.next(&queue).await;
    sending.reaches(id, Status::AwaitingAck).await;
    // None of these is a reply. Each is dead-lettered.
    let token = message.properties.correlation_id().clone().unwrap();
    let with = |token: &str| BasicProperties::default().with_correlation_id(token.into());
    rabbit.reply(&message, "ok").await;
    rabbit.reply(&message, &json!({ "result": "nack", "reason": "x".repeat(70_000) }).to_string()).await;
    rabbit.publish(&reply_queue, BasicProperties::default(), r#"{"result":"ack"}"#).await;
    rabbit.publish(&reply_queue, with("no token"), r#"{"result":"ack"}"#).await;
    for _ in 0..4 {
        rabbit.next(&dead).await;
    }
    assert_eq!(sending.find(id).await.status, Status::AwaitingAck);
    let log = Log::start();
    assert!(!log.warnings_with("rejected a reply").is_empty());
    assert!(log.warnings_with(token.as_str()).is_empty() && log.errors_with(token.as_str()).is_empty());

    rabbit.reply(&message, r#"{"result":"nack","reason":"sold out"}"#).await;
    let (class, text, _) = sending.fails(id).await;
    assert!(class == "unacked" && text.contains("sold out"), "{class}: {text}");
    // The next attempt has a token of its own.
    let again = rabbit.next(&queue).await;
    rabbit.reply(&again, r#"{"result":"ack"}"#).await;
    rabbit.reply(&again, r#"{"result":"ack"}"#).await;
    sending.reaches(id, Status::Succeeded).await;
    eventually("each reply is consumed", async || rabbit.ready(&reply_queue).await == 0).await;
    assert!(rabbit.take(&dead).await.is_none());
}

#[tokio::test]
async fn reply_waits_until_the_outbox_can_store_it() {
    let url = server_url("AMQP_URL");
    let rabbit = Rabbit::connect(&url).await;
    let (queue, reply_queue) = (rabbit.queue().await, rabbit.queue().await);
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
    let outbox = Outbox::new(pool.clone());
    outbox.migrate().await.unwrap();
    let keys = || TokenKeys::new(b"a secret of a test, which has 32 bytes").unwrap();
    outbox.use_token_keys(keys());
    allow_secrets(&outbox, &["AMQP_URL"]);
    let config = json!({ "url": "env:AMQP_URL", "routing_key": queue, "reply_queue": reply_queue });
    let definition = NotifyDef::new("order").handler("amqp").handler_config(config.to_string()).need_confirm(true);
    outbox.define_if_missing(definition).await.unwrap();
    let sweeper = outbox.sweeper().channel(Amqp::new().allow_networks(&own_machine())).start().await.unwrap();
    let mut tx = outbox.begin().await.unwrap();
    let id = add_notice(&mut tx, "order", 1).await.unwrap().id();
    tx.commit().await.unwrap();
    let message = rabbit.next(&queue).await;
    rabbit.reply(&message, r#"{"result":"ack"}"#).await;

    // This process cannot check tokens yet, for which it has no keys. It gets the reply, and acks it only when it has stored it.
    let log = Log::start();
    let without_keys = Outbox::new(pool);
    allow_secrets(&without_keys, &["AMQP_URL"]);
    let replies = Amqp::new().allow_networks(&own_machine()).replies(&without_keys);
    eventually("the reply arrives", async || {
        log.warnings_with("cannot store a reply yet").iter().any(|line| line.contains(&reply_queue))
    })
    .await;
    drop(replies);
    let replies = Amqp::new().allow_networks(&own_machine()).replies(&without_keys);
    tokio::time::sleep(Duration::from_millis(100)).await;
    without_keys.use_token_keys(keys());
    eventually("the notice is acked", async || outbox.find(id).await.unwrap().unwrap().status == Status::Succeeded)
        .await;
    drop(replies);
    sweeper.shutdown().await;
}

/// What [`Spoiling`] looks for.
const MARKER: &str = "BADBAD";

/// Makes a marker a text that is not UTF-8, which lapin does not send.
struct Spoiling;

impl Wire for Spoiling {
    fn asks(&self, chunk: &mut [u8]) {
        if let Some(at) = chunk.windows(MARKER.len()).position(|bytes| bytes == MARKER.as_bytes()) {
            chunk[at..at + 2].copy_from_slice(b"\xff\xfe");
        }
    }
}

/// The client cannot read such a reply, and gives up the connection on which it comes.
#[tokio::test]
async fn reply_that_is_not_utf8_stops_no_queue() {
    const ACK: &str = r#"{"result":"ack"}"#;
    let (log, url) = (Log::start(), server_url("AMQP_URL"));
    let (account, place) = url.rsplit_once('@').unwrap();
    let (place, vhost) = place.split_once('/').unwrap();
    let proxy = Proxy::start(place.parse().unwrap(), || Spoiling).await;
    let rabbit = Rabbit::connect(&url).await;
    let consumer = Rabbit::connect(&format!("{account}@127.0.0.1:{}/{vhost}", proxy.port)).await;
    let sending = Sending::start(Amqp::new().allow_networks(&own_machine()), &url).await;
    let (queue, first, second) = (rabbit.queue().await, rabbit.queue().await, rabbit.queue().await);
    for (name, reply_queue) in [("first", &first), ("second", &second)] {
        let definition = NotifyDef::new(name).need_confirm(true).max_confirm_delay("1h");
        sending.define_as(definition, json!({ "routing_key": queue, "reply_queue": reply_queue })).await;
    }
    let acked = async |name: &str| {
        let id = sending.add(name, json!(1)).await;
        let message = rabbit.next(&queue).await;
        sending.reaches(id, Status::AwaitingAck).await;
        consumer.reply(&message, ACK).await;
        id
    };
    let spoiled = async || {
        consumer.publish(&first, BasicProperties::default().with_correlation_id(MARKER.into()), ACK).await;
    };
    let removed = || {
        let warnings = log.warnings_with("removed a reply whose properties are not UTF-8");
        warnings.iter().filter(|line| line.contains(&first)).count()
    };

    // It comes between others that the consumer gets at the same time.
    let mut ids = vec![acked("first").await];
    spoiled().await;
    ids.extend([acked("first").await, acked("second").await]);
    eventually("all replies are in the queue", async || rabbit.ready(&first).await == 3).await;
    let replies = Amqp::new().allow_networks(&own_machine()).replies(&sending.outbox);
    sending.all_succeed(&ids).await;
    eventually("it is removed", async || removed() == 1).await;
    // Another one, while the consumers wait.
    spoiled().await;
    sending.all_succeed(&[acked("second").await, acked("first").await]).await;
    eventually("it is removed, too", async || removed() == 2).await;
    drop(replies);
    // What a consumer had not acked would be back.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((rabbit.ready(&first).await, rabbit.ready(&second).await), (0, 0));
    sending.sweeper.shutdown().await;
}

#[tokio::test]
async fn message_that_must_be_acked_is_not_sent_without_token_keys() {
    let url = server_url("AMQP_URL");
    let rabbit = Rabbit::connect(&url).await;
    let queue = rabbit.queue().await;
    let sending =
        Sending::without_token_keys(MemoryOutbox::new(), Amqp::new().allow_networks(&own_machine()), &url).await;
    sending.define_as(NotifyDef::new("order").need_confirm(true), json!({ "routing_key": queue })).await;
    let id = sending.add("order", json!(1)).await;
    let (_, text, _) = sending.fails(id).await;
    assert!(text.contains("no keys are set (`outbox.use_token_keys`)"), "{text}");
    assert!(rabbit.take(&queue).await.is_none());
}

mod on_postgres {
    use super::*;
    use test_support::sending::reaches;
    use test_support::{Postgres, TestDb};

    /// Many more than other work of the store has connections.
    const LOCKED: i64 = 300;

    #[tokio::test]
    async fn reply_to_a_locked_notice_delays_no_other() {
        let rabbit = Rabbit::connect(&server_url("AMQP_URL")).await;
        let (queue, reply_queue) = (rabbit.queue().await, rabbit.queue().await);
        let db = TestDb::<Postgres>::with_real_clock().await;
        db.outbox.use_token_keys(TokenKeys::new(b"a secret of a test, which has 32 bytes").unwrap());
        allow_secrets(&db.outbox, &["AMQP_URL"]);
        let config = json!({ "url": "env:AMQP_URL", "routing_key": queue, "reply_queue": reply_queue });
        let definition = NotifyDef::new("order").handler("amqp").handler_config(config.to_string());
        db.outbox.define_if_missing(definition.need_confirm(true).max_confirm_delay("1h")).await.unwrap();
        let amqp = Amqp::new().allow_networks(&own_machine());
        let _replies = amqp.replies(&db.outbox);
        let sweeper = db.outbox.sweeper().channel(amqp).start().await.unwrap();
        let mut tx = db.outbox.begin().await.unwrap();
        let mut ids = Vec::new();
        for number in 0..LOCKED + 3 {
            ids.push(add_notice(&mut tx, "order", number).await.unwrap().id());
        }
        tx.commit().await.unwrap();
        let mut messages = Vec::new();
        for _ in &ids {
            messages.push(rabbit.next(&queue).await);
        }
        for id in &ids {
            reaches(&db, *id, Status::AwaitingAck).await;
        }
        messages.sort_by_key(|message| String::from_utf8_lossy(&message.data).parse::<i64>().unwrap());
        let (locked, free) = ids.split_at(usize::try_from(LOCKED).unwrap());
        let mut other = db.pool.begin().await.unwrap();
        let lock = format!("SELECT id FROM notify_msg WHERE id <= {} FOR UPDATE", locked[locked.len() - 1]);
        sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut *other).await.unwrap();
        for message in &messages {
            rabbit.reply(message, r#"{"result":"ack"}"#).await;
        }
        for id in free {
            reaches(&db, *id, Status::Succeeded).await;
        }
        other.rollback().await.unwrap();
        for id in locked {
            reaches(&db, *id, Status::Succeeded).await;
        }
        sweeper.shutdown().await;
        db.close().await;
    }
}
