//! The channel `amqp`: messages, failures and their classes.

use lapin::types::AMQPValue;
use serde_json::json;
use solid_notify::Status;
use solid_notify::channels::Amqp;
use test_support::databases::server_url;
use test_support::log::Log;

use super::{Rabbit, message_id};
use crate::brokers::{Sending, strange_param};
use crate::configured::own_machine;

async fn start() -> (Sending, Rabbit) {
    let url = server_url("AMQP_URL");
    (Sending::start(Amqp::new().allow_networks(&own_machine()), &url).await, Rabbit::connect(&url).await)
}

#[tokio::test]
async fn message_has_what_the_configuration_says() {
    let (sending, rabbit) = start().await;
    let queue = rabbit.queue_with(&[("x-max-priority", AMQPValue::LongInt(9))]).await;
    let config = json!({
        "routing_key": "{{ param.queue }}",
        "headers": { "x-order": "{{ param.order }}", "x-attempt": "{{ notice.attempt }}" },
        "expiration": "1h", "priority": 7, "persistent": false,
    });
    sending.define("order", config).await;
    sending
        .define("text", json!({ "routing_key": queue, "body": "Order {{ param }}", "content_type": "text/plain" }))
        .await;
    let id = sending.add("order", json!({ "queue": queue, "order": "ü1" })).await;
    let notice = sending.reaches(id, Status::Succeeded).await;
    assert_eq!(notice.response.unwrap().response.status(), "ack");

    let message = rabbit.next(&queue).await;
    assert_eq!(String::from_utf8_lossy(&message.data), notice.param);
    let properties = &message.properties;
    assert!(message_id(&message).ends_with(&format!("-{id}")) || message_id(&message).contains(&id.to_string()));
    assert_eq!(properties.timestamp(), &Some(u64::try_from(notice.create_time.timestamp()).unwrap()));
    let short = |text: &str| Some(text.into());
    assert_eq!((properties.content_type(), properties.expiration()), (&short("application/json"), &short("3600000")));
    assert_eq!((properties.delivery_mode(), properties.priority()), (&Some(1), &Some(7)));
    assert_eq!((properties.reply_to(), properties.correlation_id()), (&None, &None));
    let headers = properties.headers().clone().unwrap();
    let header = |name: &str| headers.inner().get(name).and_then(AMQPValue::as_long_string).unwrap().to_string();
    assert_eq!((header("x-order"), header("x-attempt")), ("ü1".to_owned(), "1".to_owned()));

    sending.add("text", json!(7)).await;
    let message = rabbit.next(&queue).await;
    assert_eq!((&message.data[..], message.properties.content_type()), (&b"Order 7"[..], &short("text/plain")));
    assert_eq!(message.properties.delivery_mode(), &Some(2));
}

#[tokio::test]
async fn test_of_an_operator_is_marked_in_a_header() {
    let (sending, rabbit) = start().await;
    let queue = rabbit.queue().await;
    sending.define("order", json!({ "routing_key": queue, "headers": { "x-order": "{{ param }}" } })).await;
    sending.define("bare", json!({ "routing_key": queue })).await;
    for definition in ["order", "bare"] {
        sending.test(definition, json!(7)).await;
        let headers = rabbit.next(&queue).await.properties.headers().clone().unwrap();
        assert_eq!(headers.inner().get("notify-test"), Some(&AMQPValue::Boolean(true)));
    }
    sending.add("order", json!(8)).await;
    let headers = rabbit.next(&queue).await.properties.headers().clone().unwrap();
    assert!(!headers.contains_key("notify-test") && headers.contains_key("x-order"));
    sending.add("bare", json!(8)).await;
    let bare = rabbit.next(&queue).await;
    let headers = bare.properties.headers().clone().unwrap();
    let id = headers.inner().get("notify-id").and_then(AMQPValue::as_long_string).unwrap().to_string();
    assert_eq!((headers.inner().len(), id), (1, message_id(&bare)));
    sending.sweeper.shutdown().await;
}

#[tokio::test]
async fn exactly_the_unroutable_messages_fail_among_many() {
    let (sending, rabbit) = start().await;
    let (queue, config) = (rabbit.queue().await, json!({ "routing_key": "{{ param.queue }}" }));
    sending.define("mixed", config).await;
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    let mut tx = sending.outbox.begin().await.unwrap();
    for number in 0..400 {
        let (ids, queue) =
            if number % 2 == 0 { (&mut good, queue.as_str()) } else { (&mut bad, "notify_no_such_queue") };
        let param = json!({ "queue": queue, "secret": "hunter-of-the-log" });
        ids.push(solid_notify::add_notice(&mut tx, "mixed", param).await.unwrap().id());
    }
    tx.commit().await.unwrap();
    for id in bad {
        let (class, message, response) = sending.fails(id).await;
        assert_eq!((class.as_str(), response.as_deref()), ("not_found", Some("312: NO_ROUTE")), "{message}");
        assert!(message.contains("312 NO_ROUTE") && message.contains("routing key"), "{message}");
    }
    for id in good {
        assert!(sending.reaches(id, Status::Succeeded).await.errors.is_empty());
    }
    assert_eq!(rabbit.take_all(&queue).await.len(), 200);
    // The client would log the body as numbers.
    let body = format!("{:?}", b"hunter-of-the-log");
    let inner = body.trim_matches(['[', ']']);
    let log = Log::start();
    assert!(log.warnings_with(inner).is_empty() && log.warnings_with("hunter-of-the-log").is_empty());
    sending.sweeper.shutdown().await;
}

#[tokio::test]
async fn failures_have_their_class_and_show_no_secret() {
    let (sending, rabbit) = start().await;
    let full = rabbit
        .queue_with(&[
            ("x-max-length", AMQPValue::LongInt(0)),
            ("x-overflow", AMQPValue::LongString("reject-publish".into())),
        ])
        .await;
    sending.define("no_exchange", json!({ "exchange": "notify_no_such_exchange", "routing_key": "x" })).await;
    sending.define("full", json!({ "routing_key": full })).await;
    sending.define("long", json!({ "routing_key": "{{ param }}" })).await;
    for (definition, param, class, words) in [
        ("no_exchange", json!(1), "not_found", "notify_no_such_exchange"),
        ("full", json!(1), "busy", "nack"),
        ("long", json!("x".repeat(256)), "invalid", "routing_key: it has 256 bytes"),
    ] {
        let id = sending.add(definition, param).await;
        let (found, message, _) = sending.fails(id).await;
        assert_eq!(found, class, "{definition}: {message}");
        assert!(message.contains(words), "{definition}: {message}");
    }

    // Another password is in force with the next attempt. Port 1 is below the ports of other programs, and has no broker.
    sending.define("other", json!({ "routing_key": rabbit.queue().await })).await;
    let good = server_url("AMQP_URL");
    let (_, place) = good.rsplit_once('@').unwrap();
    for (url, class) in [
        (format!("amqp://guest:hunter2-of-rabbit@{place}"), "auth"),
        ("amqp://guest:hunter2-of-rabbit@127.0.0.1:1".to_owned(), "network"),
        ("hunter2-of-rabbit".to_owned(), "unknown"),
    ] {
        sending.use_url(&url);
        let id = sending.add("other", json!(1)).await;
        let (found, message, _) = sending.fails(id).await;
        assert_eq!(found, class, "{message}");
        assert!(!message.contains("hunter2-of-rabbit"), "{message}");
    }
    let id = sending.add("other", json!(2)).await;
    sending.use_url(&good);
    sending.reaches(id, Status::Succeeded).await;
    let leaks: Vec<_> = Log::start().all().into_iter().filter(|line| line.contains("hunter2-of-rabbit")).collect();
    assert!(leaks.is_empty(), "{leaks:?}");
    sending.sweeper.shutdown().await;
}

#[tokio::test]
async fn headers_that_fit_into_no_frame_fail_their_own_notice_alone() {
    let (sending, rabbit) = start().await;
    let queue = rabbit.queue().await;
    sending.define("bad", json!({ "routing_key": queue, "headers": { "x-note": "{{ param }}" } })).await;
    sending.define("good", json!({ "routing_key": queue })).await;
    let (mut bad, mut good) = (Vec::new(), Vec::new());
    for round in 0..10 {
        // The broker takes frames of 131,072 bytes.
        bad.push(sending.add("bad", json!("x".repeat(if round == 0 { 131_000 } else { 200_000 }))).await);
        good.extend(sending.add_many("good", 20).await);
    }
    let fitting = sending.add("bad", json!("x".repeat(130_000))).await;
    for id in bad {
        let (class, message, _) = sending.fails(id).await;
        assert!(class == "invalid" && message.contains("headers") && !message.contains("xxx"), "{class}: {message}");
    }
    sending.reaches(fitting, Status::Succeeded).await;
    sending.lost_no_try(&good).await;
    assert_eq!(rabbit.take_all(&queue).await.len(), good.len() + 1);
}

#[tokio::test]
async fn message_has_the_parameter_and_its_values_as_they_were() {
    let (sending, rabbit) = start().await;
    let queue = rabbit.queue().await;
    sending.define("plain", json!({ "routing_key": queue })).await;
    let headers = json!({ "x-n": "{{ param.n }} {{ param.id }} {{ param.x }}" });
    sending.define("values", json!({ "routing_key": queue, "headers": headers, "body": "{{ param }}" })).await;
    let param = strange_param();
    for name in ["plain", "values"] {
        sending.add(name, &param).await;
        let message = rabbit.next(&queue).await;
        assert_eq!(String::from_utf8_lossy(&message.data), param.get());
        let headers = message.properties.headers().clone().unwrap();
        let header = headers.inner().get("x-n").and_then(AMQPValue::as_long_string).map(ToString::to_string);
        assert_eq!(header.as_deref(), (name == "values").then_some("19.90 12345678901234567890123 1e400"));
    }
}

#[tokio::test]
async fn message_for_no_queue_is_dropped_where_the_configuration_allows_it() {
    let (sending, _rabbit) = start().await;
    sending.define("loose", json!({ "routing_key": "notify_no_such_queue", "mandatory": false })).await;
    let id = sending.add("loose", json!(1)).await;
    assert!(sending.reaches(id, Status::Succeeded).await.errors.is_empty());
}
