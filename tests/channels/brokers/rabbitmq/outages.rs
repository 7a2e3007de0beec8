//! The channel `amqp` while RabbitMQ restarts, hangs, is blocked, or its network fails.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::json;
use solid_notify::channels::Amqp;
use solid_notify::testkit::MemoryOutbox;
use solid_notify::{NotifyDef, Status};
use test_servers::servers::rabbitmq;
use test_servers::servers::{Ending, Server};
use test_support::databases::server_url;
use test_support::proxy::{Proxy, Weather};
use test_support::sending::eventually;
use tokio::task::spawn_blocking;

use super::{Rabbit, message_id};
use crate::brokers::{Sending, signal};
use crate::configured::own_machine;

async fn private() -> Server {
    spawn_blocking(rabbitmq::start).await.unwrap().unwrap()
}

async fn restart(mut server: Server, ending: Ending) -> Server {
    let restarted = spawn_blocking(move || {
        server.restart(ending).unwrap();
        server
    });
    restarted.await.unwrap()
}

/// Each notice is delivered and acked by its consumer, over two restarts and a stall, without help.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_rabbitmq_that_restarts_and_hangs_loses_no_notice_or_reply() {
    let mut server = private().await;
    let url = server.url().to_owned();
    let rabbit = Rabbit::connect(&url).await;
    let (queue, reply_queue) = (rabbit.queue().await, rabbit.queue().await);
    let (outbox, amqp) = (MemoryOutbox::new(), Amqp::new().allow_networks(&own_machine()));
    let _replies = amqp.replies(&outbox);
    let mut sending = Sending::over(outbox, amqp, &format!("{url}?heartbeat=2")).await;
    sending.timeout = "2s";
    sending.define("plain", json!({ "routing_key": queue })).await;
    let acked = NotifyDef::new("acked").need_confirm(true).max_confirm_delay("1h");
    sending.define_as(acked, json!({ "routing_key": queue, "reply_queue": reply_queue })).await;
    let (mut plain, mut acked) = (Vec::new(), Vec::new());
    for disturbance in 0..3 {
        plain.extend(sending.add_many("plain", 100).await);
        acked.extend(sending.add_many("acked", 100).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
        match disturbance {
            0 => server = restart(server, Ending::Graceful).await,
            1 => server = restart(server, Ending::Kill).await,
            _ => {
                signal(&server, "STOP");
                plain.extend(sending.add_many("plain", 20).await);
                // Longer than a time-out and than two heartbeats.
                tokio::time::sleep(Duration::from_secs(6)).await;
                signal(&server, "CONT");
            }
        }
    }
    sending.all_succeed(&plain).await;
    // A consumer that acks each message, also one that it gets again.
    let rabbit = Rabbit::connect(&url).await;
    let mut seen = BTreeSet::new();
    for id in &acked {
        while sending.find(*id).await.status != Status::Succeeded {
            for message in rabbit.take_all(&queue).await {
                seen.insert(message_id(&message));
                if message.properties.reply_to().is_some() {
                    rabbit.reply(&message, r#"{"result":"ack"}"#).await;
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    seen.extend(rabbit.take_all(&queue).await.iter().map(message_id));
    assert_eq!(seen.len(), plain.len() + acked.len(), "each notice arrived");
}

/// Without disk space RabbitMQ stops reading from connections that publish. Attempts end with an error that says so, and all is delivered when
/// there is space again, without a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_rabbitmq_without_disk_space_is_named_and_loses_no_notice() {
    let server = private().await;
    let limit = async |server: Server, limit: &'static str| {
        let set = spawn_blocking(move || rabbitmq::set_disk_free_limit(&server, limit).map(|()| server));
        set.await.unwrap().unwrap()
    };
    let rabbit = Rabbit::connect(server.url()).await;
    let queue = rabbit.queue().await;
    let mut sending = Sending::start(Amqp::new().allow_networks(&own_machine()), server.url()).await;
    sending.timeout = "2s";
    sending.define("order", json!({ "routing_key": queue })).await;
    let first = sending.add("order", json!(0)).await;
    sending.reaches(first, Status::Succeeded).await;

    let server = limit(server, "900000GB").await;
    let mut ids = Vec::new();
    // The alarm of the broker reaches the connection a moment later, and what is published before it succeeds.
    let failed = loop {
        let id = sending.add("order", json!(1)).await;
        ids.push(id);
        assert!(ids.len() < 1000, "no attempt fails");
        let notice = async || sending.find(id).await;
        let succeeded = async || notice().await.status == Status::Succeeded;
        eventually("an attempt ends", async || succeeded().await || !notice().await.errors.is_empty()).await;
        if !succeeded().await {
            break id;
        }
    };
    let (class, message, response) = sending.fails(failed).await;
    assert!(response.as_ref().is_some_and(|text| text.starts_with("connection.blocked: low on disk")), "{response:?}");
    assert_eq!(class, "timeout", "{message}");
    let later = sending.add("order", json!(2)).await;
    ids.extend([first, later]);
    let (class, message, _) = sending.fails(later).await;
    assert!(class == "unavailable" && message.contains("low on disk"), "{class}: {message}");

    let _server = limit(server, "10MB").await;
    sending.all_succeed(&ids).await;
    let seen: BTreeSet<String> = rabbit.take_all(&queue).await.iter().map(message_id).collect();
    assert_eq!(seen.len(), ids.len(), "each notice arrived");
    sending.sweeper.shutdown().await;
}

#[tokio::test]
async fn half_open_connection_is_replaced_after_two_heartbeats() {
    let url = server_url("AMQP_URL");
    let rabbit = Rabbit::connect(&url).await;
    let queue = rabbit.queue().await;
    let (account, place) = url.rsplit_once('@').unwrap();
    let (place, host) = place.split_once('/').unwrap();
    let proxy = Proxy::start(place.parse().unwrap(), || ()).await;
    let through = format!("{account}@127.0.0.1:{}/{host}?heartbeat=3", proxy.port);
    // A busy machine may miss heartbeats, which also costs a connection, at most one in two heartbeats.
    let began = Instant::now();
    let missed = || usize::try_from(began.elapsed().as_secs() / 6).unwrap();
    let mut sending = Sending::start(Amqp::new().allow_networks(&own_machine()), &through).await;
    sending.timeout = "2s";
    sending.define("order", json!({ "routing_key": queue })).await;
    let id = sending.add("order", json!(0)).await;
    sending.reaches(id, Status::Succeeded).await;
    let made = proxy.accepted();
    assert!((1..=1 + missed()).contains(&made), "definitions and attempts share a connection: {made}");
    proxy.set(Weather::HalfOpen);
    let ids = sending.add_many("order", 10).await;
    sending.all_succeed(&ids).await;
    let made = proxy.accepted();
    assert!((2..=2 + missed()).contains(&made), "{made} connections in {:?}", began.elapsed());
    proxy.set(Weather::Fair);
    sending.sweeper.shutdown().await;
}

/// As RabbitMQ closes a connection: reply code 501, because of the method 60.40.
const FRAME_ERROR: &[u8] = b"\x01\0\0\0\0\0\x16\0\x0a\0\x32\x01\xf5\x0bFRAME_ERROR\0\x3c\0\x28\xce";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_closed_because_of_one_message_costs_the_others_no_try() {
    let url = server_url("AMQP_URL");
    let (_, place) = url.rsplit_once('@').unwrap();
    let (host, vhost) = place.split_once('/').unwrap();
    let proxy = Proxy::start(host.parse().unwrap(), || ()).await;
    let rabbit = Rabbit::connect(&url).await;
    let queue = rabbit.queue().await;
    let sending = Sending::start(
        Amqp::new().allow_networks(&own_machine()),
        &format!("amqp://guest:guest@127.0.0.1:{}/{vhost}", proxy.port),
    )
    .await;
    sending.define("order", json!({ "routing_key": queue })).await;
    sending.lose_no_try_where_a_message_closes_the_connection(&proxy, FRAME_ERROR).await;
    sending.sweeper.shutdown().await;
}
