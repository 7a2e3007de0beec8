//! Brokers that want much memory, or send without an end: the client takes a limited number of bytes, and the notice waits for its retry.

use serde_json::{Value, json};
use solid_notify::channels::{AllowedNetworks, Amqp, Channel, Nats, RedisStreams};
use solid_notify::definition::{SecretRule, SecretRules};
use solid_notify::testkit::MemoryOutbox;
use solid_notify::{NotifyDef, Status};
use test_support::sending::{Calls, eventually};
use tokio::net::TcpListener;

use super::Sending;
use super::fake::{Answer, Fake, INFO, frame, header, method, short};
use crate::configured::own_machine;

/// The method by which a client publishes, and the one by which it consumes.
const PUBLISH: (u16, u16) = (60, 40);
const CONSUME: (u16, u16) = (60, 20);

/// What the sockets between a server and a client may hold, generously.
const BUFFERS: usize = 24 * 1024 * 1024;
const MIB: usize = 1024 * 1024;

fn amqp() -> Amqp {
    Amqp::new().allow_networks(&own_machine())
}

/// Sends a notice to a server that answers without an end, and waits until the client has closed the connection.
async fn cut<C: Channel>(channel: C, server: &Fake, url: &str, config: Value, limit: usize) {
    let sending = Sending::start(channel, &url.replace("PORT", &server.port.to_string())).await;
    sending.define_as(NotifyDef::new("order").timeout("1h"), config).await;
    let id = sending.add("order", json!(1)).await;
    eventually("the connection is closed", async || server.taken.count() > 0).await;
    let (class, message, _) = sending.fails(id).await;
    assert!(class == "network" || class == "unknown", "{class}: {message}");
    let taken = server.taken.all();
    assert!(taken.iter().all(|taken| *taken <= limit + BUFFERS), "{taken:?}");
    sending.sweeper.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broker_of_amqp_does_not_choose_the_size_of_the_buffers() {
    for wanted in [0, 128 * 1024 * 1024] {
        let confirmation = method(1, (60, 80), &[0, 0, 0, 0, 0, 0, 0, 1, 0]);
        let server = Fake::amqp(wanted, PUBLISH, Answer::once(confirmation)).await;
        let (outbox, amqp) = (MemoryOutbox::new(), amqp());
        let replies = amqp.replies(&outbox);
        let sending = Sending::over(outbox, amqp, &format!("amqp://127.0.0.1:{}", server.port)).await;
        let config = json!({ "routing_key": "orders", "reply_queue": "replies" });
        sending.define("order", config).await;
        let id = sending.add("order", json!(1)).await;
        sending.reaches(id, Status::Succeeded).await;
        // The replies have a connection of their own.
        eventually("both connections are made", async || server.tuned.count() >= 2).await;
        assert!(server.tuned.all().iter().all(|agreed| *agreed == 131_072), "{wanted}: {:?}", server.tuned.all());
        drop(replies);
        sending.sweeper.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_without_an_end_of_a_broker_of_amqp_is_cut() {
    let part = frame(3, 1, &vec![b'x'; 100_000]);
    let returned = [&312u16.to_be_bytes()[..], &short("NO_ROUTE"), &short(""), &short("orders")].concat();
    let bytes = [method(1, (60, 50), &returned), header(1, 1 << 60)].concat();
    let server = Fake::amqp(131_072, PUBLISH, Answer::repeating(bytes, part.clone())).await;
    cut(amqp(), &server, "amqp://127.0.0.1:PORT", json!({ "routing_key": "orders" }), 64 * MIB).await;

    let delivered = [&short("tag")[..], &1u64.to_be_bytes(), &[0], &short(""), &short("replies")].concat();
    let bytes = [method(1, (60, 60), &delivered), header(1, 1 << 60)].concat();
    let server = Fake::amqp(131_072, CONSUME, Answer::repeating(bytes, part)).await;
    let (outbox, amqp) = (MemoryOutbox::new(), amqp());
    let _replies = amqp.replies(&outbox);
    let sending = Sending::over(outbox, amqp, &format!("amqp://127.0.0.1:{}", server.port)).await;
    sending.define("order", json!({ "routing_key": "orders", "reply_queue": "replies" })).await;
    eventually("the connection is closed", async || server.taken.count() > 0).await;
    assert!(server.taken.all()[0] <= 64 * MIB + BUFFERS, "{:?}", server.taken.all());
    sending.sweeper.shutdown().await;
}

/// The head of a frame whose length has no end. The client waits for the rest, and takes each later frame for it, also heartbeats.
const ENDLESS_FRAME: [u8; 7] = [3, 0, 1, 0xff, 0xff, 0xff, 0xff];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frame_without_an_end_costs_one_connection_of_a_broker_of_amqp() {
    let server = Fake::amqp(131_072, PUBLISH, Answer::alive(ENDLESS_FRAME, frame(8, 0, &[]))).await;
    let sending = Sending::start(amqp(), &format!("amqp://127.0.0.1:{}?heartbeat=1", server.port)).await;
    sending.define_as(NotifyDef::new("order").timeout("1h"), json!({ "routing_key": "orders" })).await;
    let id = sending.add("order", json!(1)).await;
    eventually("the attempts end", async || sending.find(id).await.errors.len() > 1).await;
    for error in sending.find(id).await.errors {
        assert!(["network", "unknown"].contains(&&*error.class), "{}: {}", error.class, error.message);
    }
    assert!(server.accepted.count() > 1, "each attempt has a connection");
    sending.sweeper.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frame_without_an_end_ends_the_consumer_of_replies_which_begins_again() {
    let server = Fake::amqp(131_072, CONSUME, Answer::alive(ENDLESS_FRAME, frame(8, 0, &[]))).await;
    let (outbox, amqp) = (MemoryOutbox::new(), amqp());
    let _replies = amqp.replies(&outbox);
    let sending = Sending::over(outbox, amqp, &format!("amqp://127.0.0.1:{}?heartbeat=1", server.port)).await;
    sending.define("order", json!({ "routing_key": "orders", "reply_queue": "replies" })).await;
    eventually("another connection is made", async || server.accepted.count() > 1).await;
    sending.sweeper.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn line_without_an_end_of_a_server_of_nats_is_cut() {
    let message = "MSG _INBOX.x.y 1 1000000000\r\n";
    for (greeting, answer) in [
        (Answer::endless("INFO "), Answer::default()),
        (Answer::once(INFO), Answer::endless("-ERR '")),
        (Answer::once(INFO), Answer::endless(message)),
    ] {
        let server = Fake::nats(greeting, "HPUB", answer).await;
        let nats = Nats::new().allow_networks(&own_machine());
        cut(nats, &server, "nats://127.0.0.1:PORT", json!({ "subject": "orders" }), 8 * MIB).await;
    }
}

/// The client's task panics on each of these lines, and reports no loss.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn line_that_ends_the_client_of_nats_costs_one_connection() {
    for line in
        ["-ERR\r\n", "MSG x 1 18446744073709551614\r\n", "HMSG x 1 18446744073709551610 18446744073709551611\r\n"]
    {
        let server = Fake::nats(Answer::once(INFO), "HPUB", Answer::once(line)).await;
        let nats = Nats::new().allow_networks(&own_machine());
        let sending = Sending::start(nats, &format!("nats://127.0.0.1:{}", server.port)).await;
        sending.define_as(NotifyDef::new("order").timeout("1h"), json!({ "subject": "orders" })).await;
        let id = sending.add("order", json!(1)).await;
        eventually("some attempts have failed", async || sending.find(id).await.errors.len() > 3).await;
        for error in sending.find(id).await.errors {
            assert_eq!(error.class, "network", "{line:?}: {}", error.message);
        }
        assert!(server.accepted.count() > 3, "each attempt has a connection: {}", server.accepted.count());
        sending.sweeper.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reply_without_an_end_of_a_redis_is_cut() {
    for (command, reply) in [("INFO", "$1000000000\r\n"), ("XADD", "$1000000000\r\n"), ("XADD", "-ERR ")] {
        let server = Fake::redis(vec![(command, Answer::endless(reply))]).await;
        let redis = RedisStreams::new().allow_networks(&own_machine());
        cut(redis, &server, "redis://127.0.0.1:PORT", json!({ "stream": "orders" }), 8 * MIB).await;
    }
}

/// A server on another address than the one that a program allows, which counts its connections.
async fn forbidden() -> (u16, Calls<()>) {
    let (listener, connections) = (TcpListener::bind("127.0.0.2:0").await.unwrap(), Calls::default());
    let (port, counter) = (listener.local_addr().unwrap().port(), connections.clone());
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counter.note(());
        }
    });
    (port, connections)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_a_broker_names_are_under_the_rules_of_addresses() {
    let allowed = AllowedNetworks::new(["127.0.0.1"]).unwrap();
    let (port, connections) = forbidden().await;
    // It closes each connection with the first message, after which the client looks for another server.
    let info = INFO.replace('{', &format!("{{\"connect_urls\":[\"127.0.0.2:{port}\"],"));
    let server = Fake::nats(Answer::once(info), "HPUB", Answer::closing()).await;
    let sending =
        Sending::start(Nats::new().allow_networks(&allowed), &format!("nats://127.0.0.1:{}", server.port)).await;
    sending.define_as(NotifyDef::new("order").timeout("1h"), json!({ "subject": "orders" })).await;
    let id = sending.add("order", json!(1)).await;
    eventually("some attempts have failed", async || sending.find(id).await.errors.len() > 8).await;
    sending.sweeper.shutdown().await;

    let slots = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.2\r\n:{port}\r\n");
    let cluster = Answer::once("$17\r\ncluster_enabled:1\r\n");
    let server = Fake::redis(vec![("SLOTS", Answer::once(slots)), ("\r\ncluster\r\n", cluster)]).await;
    let redis = RedisStreams::new().allow_networks(&allowed);
    let sending = Sending::start(redis, &format!("redis://127.0.0.1:{}", server.port)).await;
    sending.define_as(NotifyDef::new("order").timeout("1h"), json!({ "stream": "orders" })).await;
    let id = sending.add("order", json!(1)).await;
    let (class, message, _) = sending.fails(id).await;
    assert!(class == "network" || class == "unavailable", "{class}: {message}");
    sending.sweeper.shutdown().await;
    assert_eq!(connections.count(), 0);
}

/// The password and the entry go to each node of a cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_a_redis_names_are_under_the_rules_of_secrets() {
    let (port, connections) = forbidden().await;
    let slots = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.2\r\n:{port}\r\n");
    let cluster = Answer::once("$17\r\ncluster_enabled:1\r\n");
    let server = Fake::redis(vec![("SLOTS", Answer::once(slots)), ("\r\ncluster\r\n", cluster)]).await;
    let redis = RedisStreams::new().allow_networks(&AllowedNetworks::new(["127.0.0.0/8"]).unwrap());
    let sending = Sending::start(redis, &format!("redis://:hunter2@127.0.0.1:{}", server.port)).await;
    let rule = |hosts: &[&str]| {
        let reference = sending.url_reference();
        sending.outbox.use_secret_rules(
            SecretRules::none().allow(SecretRule::new(&reference).unwrap().hosts(hosts.iter().copied())),
        );
    };
    rule(&["127.0.0.1"]);
    sending.define_as(NotifyDef::new("order").timeout("1h"), json!({ "stream": "orders" })).await;
    let id = sending.add("order", json!(1)).await;
    sending.fails(id).await;
    assert_eq!(connections.count(), 0);
    rule(&["127.0.0.1", "127.0.0.2"]);
    eventually("it connects where the rule names all hosts", async || connections.count() > 0).await;
    sending.sweeper.shutdown().await;
}
