//! What a receiver gets: signatures, headers, bodies in each form.

use std::time::Duration;

use serde_json::{Value, json};
use solid_notify::ack::TokenKeys;
use solid_notify::{AckResult, NotifyDef, Status};
use solid_notify_conformance::Backend;
use standardwebhooks::Webhook as Verifier;
use test_support::sending::{eventually, reaches};

use crate::webhooks::sender::{Sender, failure, secret};
use crate::webhooks::server::Receiver;

const HOUR: Duration = Duration::from_secs(3600);
const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEXT_KEY: &str = "whsec_bmV4dC1rZXktb2YtdGhlLXJlY2VpdmVy";

#[tokio::test]
async fn receiver_verifies_the_signature_by_each_key_of_a_rotation() {
    let (sender, receiver, keys) =
        (Sender::local().await, Receiver::answering(204).await, tempfile::tempdir().unwrap());
    let both = [secret(&keys, "old", KEY), secret(&keys, "new", NEXT_KEY)];
    let config = json!({ "url": receiver.url("/hook?x=1"), "signing_keys": both });
    let sent = sender.send(config, &json!({ "order": 7, "name": "订单" })).await;
    assert_eq!(sent.status, Status::Succeeded, "{sent:?}");
    let got = receiver.only();
    assert_eq!((got.method.as_str(), got.uri.to_string().as_str()), ("POST", "/hook?x=1"));
    assert_eq!(got.header("webhook-id"), sent.idempotency_key());
    assert_eq!((got.header("content-type"), got.text()), ("application/json", r#"{"name":"订单","order":7}"#));
    for key in [KEY, NEXT_KEY] {
        Verifier::new(key).unwrap().verify(&got.body, &got.headers).unwrap();
    }
    assert!(Verifier::new("whsec_b3RoZXI=").unwrap().verify(&got.body, &got.headers).is_err());
    sender.close().await;
}

#[tokio::test]
async fn without_keys_there_is_no_signature() {
    let (sender, receiver) = (Sender::local().await, Receiver::answering(200).await);
    sender.send(json!({ "url": receiver.url("/") }), &json!(1)).await;
    let got = receiver.only();
    assert!(!got.headers.contains_key("webhook-signature") && !got.headers.contains_key("authorization"));
    assert!(!got.headers.contains_key("ack-token") && !got.headers.contains_key("accept-encoding"));
    assert!(got.header("user-agent").starts_with("solid-notify/"));
    sender.close().await;
}

#[tokio::test]
async fn wrong_key_is_an_error_that_does_not_show_it() {
    let (sender, receiver, keys) =
        (Sender::local().await, Receiver::answering(200).await, tempfile::tempdir().unwrap());
    let key = secret(&keys, "key", "whsec_hunter2!");
    let failed = sender.send(json!({ "url": receiver.url("/"), "signing_keys": [key] }), &json!(1)).await;
    let (_, message) = failure(&failed);
    assert!(message.contains("signing_keys") && message.contains(&key) && !message.contains("hunter2"), "{message}");
    assert_eq!(receiver.got.count(), 0);
    sender.close().await;
}

#[tokio::test]
async fn url_and_headers_are_templates() {
    let (sender, receiver, files) =
        (Sender::local().await, Receiver::answering(200).await, tempfile::tempdir().unwrap());
    let config = json!({
        "url": receiver.url("/orders/{{ param.id | urlencode }}"),
        "allow_hosts": ["127.0.0.1"],
        "method": "PUT",
        "headers": { "X-Shop": "{{ notice.definition }}/{{ param.shop }}", "x-api-key": "{{ secrets.key }}" },
        "secrets": { "key": secret(&files, "key", "s3cret-of-mine") },
    });
    let sent = sender.send(config.clone(), &json!({ "id": "a b?c", "shop": "münchen" })).await;
    assert_eq!(sent.status, Status::Succeeded, "{sent:?}");
    let got = receiver.only();
    assert_eq!((got.method.as_str(), got.uri.path()), ("PUT", "/orders/a%20b%3Fc"));
    assert_eq!(got.header("x-api-key"), "s3cret-of-mine");
    assert!(got.headers["x-shop"].as_bytes().ends_with("/münchen".as_bytes()), "{:?}", got.headers["x-shop"]);
    for (id, shop, problem) in [
        ("1", "a\r\nx-evil: 1", "control character"),
        ("../admin", "b", "a segment `.` or `..`"),
        ("%2e./x", "b", "a segment `.` or `..`"),
    ] {
        let mut config = config.clone();
        config["url"] = json!(receiver.url("/orders/{{ param.id }}"));
        let failed = sender.send(config, &json!({ "id": id, "shop": shop })).await;
        let (class, message) = failure(&failed);
        assert_eq!((class, failed.status), ("invalid", Status::DeadLetter), "{message}");
        assert!(message.contains(problem) && !message.contains(id) && !message.contains("evil"), "{message}");
    }
    assert_eq!(receiver.got.count(), 1);
    sender.close().await;
}

#[tokio::test]
async fn host_of_a_template_is_one_of_those_that_are_allowed() {
    let (sender, receiver) = (Sender::local().await, Receiver::answering(200).await);
    let config =
        json!({ "url": format!("http://{{{{ param.host }}}}:{}/", receiver.port()), "allow_hosts": ["*.example.com"] });
    for host in ["127.0.0.1", "example.com.evil.org", "a.example.com@127.0.0.1"] {
        let failed = sender.send(config.clone(), &json!({ "host": host })).await;
        let (class, message) = failure(&failed);
        assert!(class == "invalid" && message.contains("the URL that the template"), "{class} {message}");
    }
    assert_eq!(receiver.got.count(), 0);
    sender.close().await;
}

/// The request for this body.
async fn with_body(body: Value, more: Value, param: &Value) -> crate::webhooks::server::Got {
    let (sender, receiver) = (Sender::local().await, Receiver::answering(200).await);
    let mut config = json!({ "url": receiver.url("/"), "body": body });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let sent = sender.send(config, param).await;
    assert_eq!(sent.status, Status::Succeeded, "{sent:?}");
    sender.close().await;
    receiver.only()
}

#[tokio::test]
async fn body_is_json_text_or_a_form_by_templates() {
    let param = json!({ "phone": "+49 170", "text": "\"quoted\" & 100%" });
    let json = with_body(json!({ "json": "{\"to\": {{ param.phone }}, \"n\": 1}" }), json!({}), &param).await;
    assert_eq!((json.header("content-type"), json.text()), ("application/json", r#"{"to": "+49 170", "n": 1}"#));
    let xml = json!({ "headers": { "content-type": "application/xml" } });
    let text = with_body(json!({ "text": "<to>{{ param.phone }}</to>" }), xml, &param).await;
    assert_eq!((text.header("content-type"), text.text()), ("application/xml", "<to>+49 170</to>"));
    let form = json!({ "form": { "to": "{{ param.phone }}", "text": "{{ param.text }}", "from": "Shop" } });
    let form = with_body(form, json!({}), &param).await;
    assert_eq!(form.header("content-type"), "application/x-www-form-urlencoded");
    assert_eq!(form.text(), "from=Shop&text=%22quoted%22+%26+100%25&to=%2B49+170");
    let none = with_body(json!("none"), json!({ "method": "DELETE" }), &param).await;
    assert_eq!((none.method.as_str(), none.text()), ("DELETE", ""));
    let get = with_body(json!("param"), json!({ "method": "GET" }), &param).await;
    assert_eq!((get.method.as_str(), get.text(), get.headers.get("content-type")), ("GET", "", None));
}

#[tokio::test]
async fn body_is_a_cloud_event_in_both_modes() {
    let param = json!({ "order": 7 });
    let structured = with_body(json!({ "cloud_events": {} }), json!({}), &param).await;
    assert_eq!(structured.header("content-type"), "application/cloudevents+json; charset=utf-8");
    let event: Value = serde_json::from_slice(&structured.body).unwrap();
    assert_eq!(
        (&event["specversion"], &event["source"], &event["data"]),
        (&json!("1.0"), &json!("solid-notify"), &param)
    );
    assert_eq!(event["id"], structured.header("webhook-id"));
    assert!(
        event["type"].as_str().unwrap().starts_with("hook-") && event["time"].as_str().unwrap().ends_with('Z'),
        "{event}"
    );
    assert_eq!(event.get("subject"), None);
    let binary = json!({ "cloud_events": {
        "mode": "binary", "source": "/shop", "type": "org.example.order", "subject": "Nr.\n{{ param.order }} ü"
    } });
    let binary = with_body(binary, json!({}), &param).await;
    assert_eq!((binary.header("content-type"), binary.text()), ("application/json", r#"{"order":7}"#));
    assert_eq!((binary.header("ce-specversion"), binary.header("ce-type")), ("1.0", "org.example.order"));
    assert_eq!((binary.header("ce-source"), binary.header("ce-subject")), ("/shop", "Nr.%0A7%20%C3%BC"));
    assert_eq!(binary.header("ce-id"), binary.header("webhook-id"));
}

#[tokio::test]
async fn too_long_a_body_and_broken_json_are_invalid() {
    let (sender, receiver) = (Sender::local().await, Receiver::answering(200).await);
    for (config, problem) in [
        (json!({ "max_request_bytes": 5 }), "the body has 6 bytes, more than `max_request_bytes`"),
        (json!({ "body": { "json": "{\"a\": {{ param }}" } }), "`body.json` makes is no JSON: line 1 column"),
        (json!({ "body": { "json": "{\"a\": {{ param.missing.value }} }" } }), "the template `body.json`"),
        (
            json!({ "body": { "text": "{% for n in range(2000) %}{{ param * 200 }}{% endfor %}" } }),
            "`body.text`: it makes more than 1048576 bytes",
        ),
        (json!({ "body": { "cloud_events": { "source": "{{ '' }}" } } }), "`body.cloud_events.source` makes is empty"),
    ] {
        let mut config = config;
        config["url"] = json!(receiver.url("/"));
        let failed = sender.send(config, &json!("1234")).await;
        let (class, message) = failure(&failed);
        assert!(class == "invalid" && message.contains(problem), "{class} {message}");
    }
    assert_eq!(receiver.got.count(), 0);
    sender.close().await;
}

#[tokio::test]
async fn test_of_an_operator_is_marked_in_a_header() {
    let (sender, receiver) = (Sender::local().await, Receiver::answering(200).await);
    let config = json!({ "url": receiver.url("/"), "body": { "json": "{\"test\": {{ notice.test }}}" } });
    sender.define("hook", &config).await;
    sender.backend.outbox().operator("alice").test_send("hook", 1).await.unwrap();
    eventually("the test is sent", async || receiver.got.count() == 1).await;
    sender.attempt("hook", &json!(1)).await;
    let [test, real] = &receiver.got.all()[..] else { panic!("two requests expected") };
    assert_eq!((test.header("webhook-test"), test.text()), ("true", r#"{"test": true}"#));
    assert!(!real.headers.contains_key("webhook-test"));
    assert_eq!(real.text(), r#"{"test": false}"#);
    sender.close().await;
}

#[tokio::test]
async fn receiver_acks_by_the_token_of_the_request() {
    let (sender, receiver) = (Sender::local().await, Receiver::answering(202).await);
    let config = json!({ "url": receiver.url("/"), "body": { "json": "{\"token\": {{ notice.ack_token }}}" } });
    sender.backend.outbox().use_token_keys(TokenKeys::new(b"a secret of at least thirty-two bytes").unwrap());
    sender.define_as(NotifyDef::new("acked").need_confirm(true), &config).await;
    let waiting = sender.attempt("acked", &json!(1)).await;
    assert_eq!(waiting.status, Status::AwaitingAck, "{waiting:?}");
    let got = receiver.only();
    let body: Value = serde_json::from_slice(&got.body).unwrap();
    assert_eq!(body["token"], got.header("ack-token"));
    let acked = sender.backend.outbox().ack_token(got.header("ack-token")).await.unwrap();
    assert_eq!(acked, AckResult::Applied);
    sender.close().await;
}

#[tokio::test]
async fn late_ack_makes_a_success_of_a_dead_letter() {
    let (sender, receiver) = (Sender::local().await, Receiver::answering(202).await);
    let outbox = sender.backend.outbox();
    outbox.use_token_keys(TokenKeys::new(b"a secret of at least thirty-two bytes").unwrap());
    let definition = NotifyDef::new("acked").need_confirm(true).max_confirm_delay("1h").max_retry_times(0);
    sender.define_as(definition, &json!({ "url": receiver.url("/") })).await;
    let waiting = sender.attempt("acked", &json!(1)).await;
    sender.backend.clock().advance(2 * HOUR);
    reaches(&sender.backend, waiting.id, Status::DeadLetter).await;
    sender.backend.clock().advance(29 * 24 * HOUR);
    let acked = outbox.ack_token(receiver.only().header("ack-token")).await.unwrap();
    assert_eq!(acked, AckResult::DeadLetterAcked);
    sender.close().await;
}

#[tokio::test]
async fn receiver_acks_in_another_way_where_there_are_no_keys_for_tokens() {
    let (sender, receiver) = (Sender::local().await, Receiver::answering(202).await);
    let body = r#"{"token": {{ notice.ack_token | default("none") }}}"#;
    let config = json!({ "url": receiver.url("/"), "body": { "json": body } });
    sender.define_as(NotifyDef::new("acked").need_confirm(true), &config).await;
    assert_eq!(sender.attempt("acked", &json!(1)).await.status, Status::AwaitingAck);
    let got = receiver.only();
    assert_eq!((got.headers.contains_key("ack-token"), got.text()), (false, r#"{"token": "none"}"#));
    sender.close().await;
}
