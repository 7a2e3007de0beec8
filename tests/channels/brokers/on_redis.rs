//! The channel `redis_stream`: entries, failures, and a server that restarts or hangs.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::streams::{StreamId, StreamRangeReply};
use redis::{Commands, Connection};
use serde_json::json;
use solid_notify::channels::RedisStreams;
use solid_notify::{NotifyDef, Status};
use test_servers::servers::{Ending, redis as private};
use test_support::databases::server_url;
use test_support::proxy::Proxy;
use tokio::task::spawn_blocking;

use super::{Sending, signal, strange_param};
use crate::configured::own_machine;

fn connect(url: &str) -> Connection {
    redis::Client::open(url).unwrap().get_connection().unwrap()
}

fn entries(connection: &mut Connection, key: &str) -> Vec<StreamId> {
    let all: StreamRangeReply = connection.xrange_all(key).unwrap();
    all.ids
}

fn fresh_key() -> String {
    format!("notify_stream_{:016x}", fastrand::u64(..))
}

#[tokio::test]
async fn entry_has_what_the_configuration_says() {
    let url = server_url("REDIS_URL");
    let (mut redis, key) = (connect(&url), fresh_key());
    let sending = Sending::start(RedisStreams::new().allow_networks(&own_machine()), &url).await;
    sending.define("plain", json!({ "stream": "{{ param.key }}", "maxlen": 1000 })).await;
    let config = json!({ "stream": key, "fields": { "order": "{{ param.order }}" }, "minid": "1" });
    sending.define_as(NotifyDef::new("acked").need_confirm(true), config).await;
    let id = sending.add("plain", json!({ "key": key })).await;
    let notice = sending.reaches(id, Status::Succeeded).await;
    let acked = sending.add("acked", json!({ "order": "ü1" })).await;
    sending.reaches(acked, Status::AwaitingAck).await;

    let [first, second] = &entries(&mut redis, &key)[..] else { panic!("two entries expected") };
    let field = |entry: &StreamId, name: &str| entry.get::<String>(name).expect("a field");
    let response = notice.response.unwrap().response;
    assert_eq!((response.status(), response.body_text()), ("stored", Some(first.id.as_str())));
    assert_eq!((field(first, "definition"), field(first, "param")), ("plain".to_owned(), notice.param));
    assert!(first.map.len() == 3 && field(first, "id").contains(&id.to_string()));
    assert_eq!((field(second, "order").as_str(), second.map.len()), ("ü1", 4));
    sending.outbox.ack_token(&field(second, "ack_token")).await.unwrap();
    assert_eq!(sending.find(acked).await.status, Status::Succeeded);
    let _: () = redis.del(&key).unwrap();
}

#[tokio::test]
async fn entry_has_the_parameter_and_its_values_as_they_were() {
    let url = server_url("REDIS_URL");
    let (mut redis, key) = (connect(&url), fresh_key());
    let sending = Sending::start(RedisStreams::new().allow_networks(&own_machine()), &url).await;
    let config =
        json!({ "stream": key, "fields": { "n": "{{ param.n }} {{ param.id }} {{ param.x }} {{ param.b == 1 }}" } });
    sending.define("plain", json!({ "stream": key })).await;
    sending.define("values", config).await;
    let param = strange_param();
    for name in ["plain", "values"] {
        let id = sending.add(name, &param).await;
        sending.reaches(id, Status::Succeeded).await;
    }
    let [first, second] = &entries(&mut redis, &key)[..] else { panic!("two entries expected") };
    assert_eq!(first.get::<String>("param").as_deref(), Some(param.get()));
    assert_eq!(second.get::<String>("n").as_deref(), Some("19.90 12345678901234567890123 1e400 true"));
    let _: () = redis.del(&key).unwrap();
}

#[tokio::test]
async fn test_of_an_operator_is_marked_in_a_field() {
    let url = server_url("REDIS_URL");
    let (mut redis, key) = (connect(&url), fresh_key());
    let sending = Sending::start(RedisStreams::new().allow_networks(&own_machine()), &url).await;
    sending.define("order", json!({ "stream": key, "fields": { "order": "{{ param }}" } })).await;
    sending.test("order", json!(7)).await;
    let real = sending.add("order", json!(8)).await;
    sending.reaches(real, Status::Succeeded).await;
    let [test, real] = &entries(&mut redis, &key)[..] else { panic!("two entries expected") };
    assert_eq!((test.get::<String>("test").as_deref(), real.get::<String>("test")), (Some("true"), None));
    let _: () = redis.del(&key).unwrap();
    sending.sweeper.shutdown().await;
}

#[tokio::test]
async fn stream_is_trimmed_and_failures_have_their_class() {
    let url = server_url("REDIS_URL");
    let (mut redis, key, text) = (connect(&url), fresh_key(), fresh_key());
    let _: () = redis.set(&text, "no stream").unwrap();
    let sending = Sending::start(RedisStreams::new().allow_networks(&own_machine()), &url).await;
    sending.define("short", json!({ "stream": key, "maxlen": 10 })).await;
    sending.define("text", json!({ "stream": text })).await;
    let ids = sending.add_many("short", 300).await;
    sending.all_succeed(&ids).await;
    assert!(entries(&mut redis, &key).len() < 200, "it is trimmed, node by node");
    let id = sending.add("text", json!(1)).await;
    let (class, message, _) = sending.fails(id).await;
    assert!(class == "invalid" && message.contains("WRONGTYPE"), "{class}: {message}");
    // Port 1 is below the ports of other programs, and has no server.
    let (_, place) = url.rsplit_once("://").unwrap();
    for (url, expected) in [
        ("redis://user:hunter2@127.0.0.1:1".to_owned(), "network"),
        (format!("redis://user:hunter2@{}", place.rsplit('@').next().unwrap()), "auth"),
    ] {
        sending.use_url(&url);
        let id = sending.add("short", json!(2)).await;
        let (class, message, _) = sending.fails(id).await;
        assert!(class == expected && !message.contains("hunter2"), "{class}: {message}");
    }
    let _: () = redis.del(&[key, text]).unwrap();
    sending.sweeper.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_redis_that_restarts_and_hangs_loses_no_entry() {
    let mut server = spawn_blocking(private::start).await.unwrap().unwrap();
    let mut sending = Sending::start(RedisStreams::new().allow_networks(&own_machine()), server.url()).await;
    sending.timeout = "2s";
    sending.define("order", json!({ "stream": "orders" })).await;
    let mut ids = Vec::new();
    for disturbance in 0..3 {
        ids.extend(sending.add_many("order", 150).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
        if disturbance < 2 {
            let ending = if disturbance == 0 { Ending::Graceful } else { Ending::Kill };
            server = spawn_blocking(move || {
                server.restart(ending).unwrap();
                server
            })
            .await
            .unwrap();
        } else {
            signal(&server, "STOP");
            ids.extend(sending.add_many("order", 20).await);
            // Longer than a time-out.
            tokio::time::sleep(Duration::from_secs(3)).await;
            signal(&server, "CONT");
        }
    }
    sending.all_succeed(&ids).await;
    let entries = entries(&mut connect(server.url()), "orders");
    let seen: BTreeSet<String> = entries.iter().map(|entry| entry.get("id").unwrap()).collect();
    assert_eq!(seen.len(), ids.len(), "each notice arrived");
    sending.sweeper.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_closed_because_of_one_entry_costs_the_others_no_try() {
    let url = server_url("REDIS_URL");
    let (before, place) = url.rsplit_once("127.0.0.1:").unwrap();
    let (port, behind) = place.split_at(place.find(|c: char| !c.is_ascii_digit()).unwrap_or(place.len()));
    let proxy = Proxy::start(format!("127.0.0.1:{port}").parse().unwrap(), || ()).await;
    let (mut redis, key) = (connect(&url), fresh_key());
    let through = format!("{before}127.0.0.1:{}{behind}", proxy.port);
    let sending = Sending::start(RedisStreams::new().allow_networks(&own_machine()), &through).await;
    sending.define("order", json!({ "stream": key })).await;
    sending
        .lose_no_try_where_a_message_closes_the_connection(&proxy, b"-ERR Protocol error: invalid bulk length\r\n")
        .await;
    let _: () = redis.del(&key).unwrap();
    sending.sweeper.shutdown().await;
}
