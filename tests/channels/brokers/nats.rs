//! The channel `nats`: messages, failures, and a server that restarts or hangs.

mod copies;

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, Stream};
use async_nats::jetstream::{self, Context};
use serde_json::json;
use solid_notify::channels::Nats;
use solid_notify::{NotifyDef, Status};
use test_servers::servers::{Ending, nats};
use test_support::databases::server_url;
use test_support::proxy::Proxy;
use tokio::task::spawn_blocking;

use super::{Sending, signal, strange_param};
use crate::configured::own_machine;

/// A client that waits long, because a busy disk delays streams.
async fn context(url: &str) -> Context {
    let mut context = jetstream::new(async_nats::connect(url).await.unwrap());
    context.set_timeout(Duration::from_secs(60));
    context
}

/// A stream of a test, on subjects below its name.
async fn stream(url: &str, change: impl FnOnce(&mut Config)) -> (Context, Stream, String) {
    let context = context(url).await;
    let name = test_support::databases::fresh_name();
    let mut config = Config { name: name.clone(), subjects: vec![format!("{name}.*")], ..Config::default() };
    change(&mut config);
    let stream = context.create_stream(config).await.unwrap();
    (context, stream, name)
}

async fn messages(stream: &Stream) -> u64 {
    stream.get_info().await.unwrap().state.messages
}

#[tokio::test]
async fn message_is_stored_once_with_what_the_configuration_says() {
    let url = server_url("NATS_URL");
    let (context, stream, name) = stream(&url, |_| ()).await;
    let sending = Sending::start(Nats::new().allow_networks(&own_machine()), &url).await;
    let config = json!({
        "subject": format!("{name}.{{{{ param.region }}}}"), "headers": { "X-Order": "{{ param.order }}" }, "expected_stream": name,
    });
    sending.define_as(NotifyDef::new("order").need_confirm(true), config).await;
    let id = sending.add("order", json!({ "region": "eu", "order": "ü1" })).await;
    let notice = sending.reaches(id, Status::AwaitingAck).await;
    let response = &notice.response.as_ref().unwrap().response;
    assert_eq!((response.status(), response.body_text()), ("stored", Some(&*format!("stream {name}, sequence 1"))));
    let message = stream.get_raw_message(1).await.unwrap();
    assert_eq!((message.subject.as_str(), &message.payload[..]), (&*format!("{name}.eu"), notice.param.as_bytes()));
    let header = |name: &str| message.headers.get(name).expect("a header").to_string();
    assert_eq!(header("X-Order"), "ü1");

    assert_eq!(header("Notify-Id"), notice.idempotency_key());

    // The receiver nacks it, so the next attempt sends it again, and the stream stores it again.
    sending.outbox.nack_token(&header("Notify-Ack-Token"), "sold out").await.unwrap();
    test_support::sending::eventually("a second message", async || messages(&stream).await == 2).await;
    let again = stream.get_raw_message(2).await.unwrap();
    assert_eq!(again.headers.get("Notify-Id").unwrap().as_str(), header("Notify-Id"));
    assert_ne!(again.headers.get("Nats-Msg-Id").unwrap().as_str(), header("Nats-Msg-Id"));
    context.delete_stream(&name).await.unwrap();
}

#[tokio::test]
async fn message_has_the_parameter_and_its_values_as_they_were() {
    let url = server_url("NATS_URL");
    let (context, stream, name) = stream(&url, |_| ()).await;
    let sending = Sending::start(Nats::new().allow_networks(&own_machine()), &url).await;
    sending.define("plain", json!({ "subject": format!("{name}.x") })).await;
    let subject = format!("{name}.{{{{ param.id }}}}");
    sending
        .define("values", json!({ "subject": subject, "headers": { "X-N": "{{ param.n }}" }, "body": "{{ param }}" }))
        .await;
    let param = strange_param();
    for name in ["plain", "values"] {
        let id = sending.add(name, &param).await;
        sending.reaches(id, Status::Succeeded).await;
    }
    let (plain, values) = (stream.get_raw_message(1).await.unwrap(), stream.get_raw_message(2).await.unwrap());
    for message in [&plain, &values] {
        assert_eq!(&message.payload[..], param.get().as_bytes());
    }
    assert_eq!(values.headers.get("X-N").unwrap().as_str(), "19.90");
    assert_eq!(values.subject.as_str(), format!("{name}.12345678901234567890123"));
    context.delete_stream(&name).await.unwrap();
}

#[tokio::test]
async fn test_of_an_operator_is_marked_in_a_header() {
    let url = server_url("NATS_URL");
    let (context, stream, name) = stream(&url, |_| ()).await;
    let sending = Sending::start(Nats::new().allow_networks(&own_machine()), &url).await;
    sending.define("order", json!({ "subject": format!("{name}.x") })).await;
    sending.test("order", json!(7)).await;
    let real = sending.add("order", json!(8)).await;
    sending.reaches(real, Status::Succeeded).await;
    let mark = async |sequence| {
        let message = stream.get_raw_message(sequence).await.unwrap();
        message.headers.get("Notify-Test").map(ToString::to_string)
    };
    assert_eq!((mark(1).await.as_deref(), mark(2).await), (Some("true"), None));
    context.delete_stream(&name).await.unwrap();
}

#[tokio::test]
async fn failures_have_their_class() {
    let url = server_url("NATS_URL");
    let (context, _, name) = stream(&url, |config| {
        (config.max_messages, config.discard) = (1, DiscardPolicy::New);
    })
    .await;
    let sending = Sending::start(Nats::new().allow_networks(&own_machine()), &url).await;
    sending.define("nowhere", json!({ "subject": "notify_no_stream.x" })).await;
    sending.define("other", json!({ "subject": format!("{name}.x"), "expected_stream": "notify_other" })).await;
    sending.define("full", json!({ "subject": format!("{name}.x") })).await;
    sending.define("broken", json!({ "subject": "x", "headers": { "X": "{{ param }}" } })).await;
    sending.define("spaced", json!({ "subject": "{{ param }}" })).await;
    let first = sending.add("full", json!(0)).await;
    sending.reaches(first, Status::Succeeded).await;
    for (definition, param, class, words) in [
        ("nowhere", json!(1), "unavailable", "no stream"),
        ("other", json!(1), "not_found", "expected stream"),
        ("full", json!(1), "unavailable", "maximum messages"),
        ("broken", json!("a\nb"), "invalid", "headers.X"),
        ("spaced", json!("a b"), "invalid", "subject"),
    ] {
        let id = sending.add(definition, param).await;
        let (found, message, _) = sending.fails(id).await;
        assert!(found == class && message.contains(words), "{definition}: {found}: {message}");
    }
    // Port 1 is below the ports of other programs, and has no server.
    sending.use_url("nats://user:hunter2@127.0.0.1:1");
    let id = sending.add("full", json!(2)).await;
    let (class, message, _) = sending.fails(id).await;
    assert!(class == "network" && !message.contains("hunter2"), "{class}: {message}");
    context.delete_stream(&name).await.unwrap();
    sending.sweeper.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_nats_that_restarts_and_hangs_loses_nothing() {
    let mut server = spawn_blocking(nats::start).await.unwrap().unwrap();
    let (_, _, name) = stream(server.url(), |_| ()).await;
    let mut sending = Sending::start(Nats::new().allow_networks(&own_machine()), server.url()).await;
    sending.timeout = "2s";
    sending.define("order", json!({ "subject": format!("{name}.x") })).await;
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
    let stored = context(server.url()).await.get_stream(&name).await.unwrap();
    let last = stored.get_info().await.unwrap().state.last_sequence;
    let mut seen = BTreeSet::new();
    for sequence in 1..=last {
        let message = stored.get_raw_message(sequence).await.unwrap();
        seen.insert(message.headers.get("Notify-Id").expect("an id").to_string());
    }
    assert_eq!(seen.len(), ids.len(), "each notice arrived");
    sending.sweeper.shutdown().await;
}

#[tokio::test]
async fn subject_that_fits_into_no_line_fails_its_own_notice_alone() {
    let url = server_url("NATS_URL");
    let (context, stream, name) = stream(&url, |_| ()).await;
    let sending = Sending::start(Nats::new().allow_networks(&own_machine()), &url).await;
    sending.define("bad", json!({ "subject": format!("{name}.{{{{ param }}}}") })).await;
    sending.define("good", json!({ "subject": format!("{name}.x") })).await;
    let (mut bad, mut good) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        bad.push(sending.add("bad", json!("x".repeat(5_000))).await);
        good.extend(sending.add_many("good", 20).await);
    }
    let fitting = sending.add("bad", json!("x".repeat(3_800))).await;
    for id in bad {
        let (class, message, _) = sending.fails(id).await;
        assert!(class == "invalid" && message.contains("subject") && !message.contains("xxx"), "{class}: {message}");
    }
    sending.reaches(fitting, Status::Succeeded).await;
    sending.lost_no_try(&good).await;
    assert_eq!(messages(&stream).await, u64::try_from(good.len()).unwrap() + 1);
    context.delete_stream(&name).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_closed_because_of_one_message_costs_the_others_no_try() {
    let url = server_url("NATS_URL");
    let (context, _, name) = stream(&url, |_| ()).await;
    let proxy = Proxy::start(url.strip_prefix("nats://").unwrap().parse().unwrap(), || ()).await;
    let sending =
        Sending::start(Nats::new().allow_networks(&own_machine()), &format!("nats://127.0.0.1:{}", proxy.port)).await;
    sending.define("order", json!({ "subject": format!("{name}.x") })).await;
    sending
        .lose_no_try_where_a_message_closes_the_connection(&proxy, b"-ERR 'maximum control line exceeded'\r\n")
        .await;
    context.delete_stream(&name).await.unwrap();
    sending.sweeper.shutdown().await;
}
