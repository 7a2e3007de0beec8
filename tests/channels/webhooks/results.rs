//! What the responses of a receiver mean: statuses, waits, and what is kept of them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use solid_notify::cipher::{ParamKey, ParamKeys};
use solid_notify::{NotifyDef, Status};
use solid_notify_conformance::Backend;

use crate::webhooks::sender::{Sender, failure, response, secret};
use crate::webhooks::server::Receiver;

#[tokio::test]
async fn status_decides_the_result_and_the_class() {
    let (sender, receiver) = (Sender::local().await, Receiver::answering(200).await);
    for status in [200, 201, 202, 204, 299] {
        receiver.now([(status, vec![], String::new())]);
        let sent = sender.send(json!({ "url": receiver.url("/") }), &json!(1)).await;
        assert_eq!((sent.status, response(&sent).0), (Status::Succeeded, &*status.to_string()), "{sent:?}");
    }
    for (status, class) in [
        (302, "unknown"),
        (400, "invalid"),
        (401, "auth"),
        (404, "not_found"),
        (408, "timeout"),
        (409, "unknown"),
        (429, "busy"),
        (500, "unavailable"),
        (503, "unavailable"),
        (504, "timeout"),
    ] {
        receiver.now([(status, vec![], "no".to_owned())]);
        let failed = sender.send(json!({ "url": receiver.url("/") }), &json!(1)).await;
        assert_eq!(failure(&failed), (class, &*format!("HTTP status {status}")), "{failed:?}");
        assert_eq!(response(&failed), (&*status.to_string(), Some("no")));
    }
    sender.close().await;
}

#[tokio::test]
async fn status_410_pauses_the_definition_and_keeps_the_notice() {
    let (sender, receiver) = (Sender::local().await, Receiver::answering(410).await);
    sender.define("hook", &json!({ "url": receiver.url("/") })).await;
    let kept = sender.attempt("hook", &json!(1)).await;
    assert_eq!(failure(&kept), ("not_found", "HTTP status 410"));
    assert!(!kept.status.is_final(), "{kept:?}");
    let row = sender.backend.outbox().operator("alice").definition("hook").await.unwrap();
    assert!(!row.enabled, "{row:?}");
    sender.close().await;
}

#[tokio::test]
async fn status_410_of_one_of_many_receivers_ends_its_notice_alone() {
    let (sender, receiver) = (Sender::local().await, Receiver::answering(410).await);
    for (name, url, is_paused) in [
        ("path", "/{{ param.shop | urlencode }}/orders", false),
        ("block", "/{% if param.shop %}a{% endif %}", false),
        ("query", "/orders?shop={{ param.shop | urlencode }}", true),
    ] {
        sender.define(name, &json!({ "url": receiver.url(url), "allow_hosts": ["127.0.0.1"] })).await;
        let kept = sender.attempt(name, &json!({ "shop": 7 })).await;
        assert_eq!(failure(&kept), ("not_found", "HTTP status 410"));
        assert_eq!(kept.status == Status::DeadLetter, !is_paused, "{name}: {kept:?}");
        let row = sender.backend.outbox().operator("alice").definition(name).await.unwrap();
        assert_eq!(row.enabled, !is_paused, "{name}");
    }
    sender.close().await;
}

#[tokio::test]
async fn text_without_a_value_is_kept_where_the_parameter_is_encrypted() {
    let (sender, receiver) = (Sender::local().await, Receiver::answering(422).await);
    let keys = ParamKeys::new("key", ParamKey::new(&[7; 32]).unwrap()).unwrap();
    sender.backend.outbox().use_param_cipher(Arc::new(keys));
    let encrypted = |name| NotifyDef::new(name).timeout("1d").encrypt_param(true);
    sender.define_as(encrypted("status"), &json!({ "url": receiver.url("/") })).await;
    // Port 1 is below the ports of other programs, and has no server.
    sender.define_as(encrypted("constant"), &json!({ "url": "http://127.0.0.1:1/" })).await;
    let template = json!({ "url": "http://{{ param }}:1/", "allow_hosts": ["127.0.0.1"] });
    sender.define_as(encrypted("template"), &template).await;
    let param = json!("127.0.0.1");
    assert_eq!(failure(&sender.attempt("status", &param).await), ("invalid", "HTTP status 422"));
    let constant = sender.attempt("constant", &param).await;
    assert!(failure(&constant).1.starts_with("the receiver did not answer"), "{constant:?}");
    let template = sender.attempt("template", &param).await;
    assert_eq!(failure(&template), ("network", "its text is not kept, because the parameter is encrypted"));
    sender.close().await;
}

#[tokio::test]
async fn configuration_says_what_is_a_success() {
    let (sender, receiver) = (Sender::local().await, Receiver::answering(409).await);
    let config = json!({ "url": receiver.url("/"), "success": ["2xx", 409] });
    assert_eq!(sender.send(config.clone(), &json!(1)).await.status, Status::Succeeded);
    receiver.now([(410, vec![], String::new())]);
    assert_ne!(sender.send(config, &json!(1)).await.status, Status::Succeeded);
    receiver.now([(200, vec![], String::new())]);
    let only = json!({ "url": receiver.url("/"), "success": [202] });
    assert_ne!(sender.send(only, &json!(1)).await.status, Status::Succeeded);
    sender.close().await;
}

#[tokio::test]
async fn receiver_says_how_long_it_wants_to_be_left_alone() {
    let (sender, receiver) = (Sender::local().await, Receiver::answering(200).await);
    for (status, after, seconds) in
        [(429, "77", 77), (503, "120", 120), (429, "0", 3600), (503, "soon", 3600), (500, "77", 3600)]
    {
        receiver.now([(status, vec![("retry-after", after.to_owned())], String::new())]);
        let failed = sender.send(json!({ "url": receiver.url("/") }), &json!(1)).await;
        assert_eq!(sender.wait(&failed), Duration::from_secs(seconds), "{status} {after}");
    }
    for after in ["18446744073709551615", "99999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"] {
        receiver.now([(503, vec![("retry-after", after.to_owned())], String::new())]);
        let failed = sender.send(json!({ "url": receiver.url("/") }), &json!(1)).await;
        assert_eq!(sender.wait(&failed), Duration::from_secs(24 * 3600), "{after}");
        assert!(failure(&failed).1.contains("was asked for, and 1day is the most"), "{failed:?}");
    }
    sender.define_as(NotifyDef::new("patient").max_retry_interval("7d"), &json!({ "url": receiver.url("/") })).await;
    receiver.now([(503, vec![("retry-after", "604800".to_owned())], String::new())]);
    let failed = sender.attempt("patient", &json!(1)).await;
    assert_eq!((sender.wait(&failed).as_secs(), failure(&failed).1), (604_800, "HTTP status 503"));
    let date = (chrono::Utc::now() + Duration::from_secs(600)).format("%a, %d %b %Y %H:%M:%S GMT").to_string();
    receiver.now([(429, vec![("retry-after", date)], String::new())]);
    let failed = sender.send(json!({ "url": receiver.url("/") }), &json!(1)).await;
    let wait = sender.wait(&failed).as_secs();
    assert!((580..=600).contains(&wait), "{wait}");
    sender.close().await;
}

#[tokio::test]
async fn kept_response_has_no_secret_that_the_receiver_repeats() {
    let (sender, receiver, files) =
        (Sender::local().await, Receiver::answering(200).await, tempfile::tempdir().unwrap());
    receiver.now([(400, vec![], "token t0ken-of-mine, key s3cret-of-mine".to_owned())]);
    let config = json!({
        "url": receiver.url("/?key={{ secrets.key }}"),
        "allow_hosts": ["127.0.0.1"],
        "secrets": { "key": secret(&files, "key", "s3cret-of-mine") },
        "auth": { "bearer": secret(&files, "token", "t0ken-of-mine\n") },
    });
    let failed = sender.send(config, &json!(1)).await;
    assert_eq!(receiver.only().uri.query(), Some("key=s3cret-of-mine"));
    assert_eq!(receiver.only().header("authorization"), "Bearer t0ken-of-mine");
    assert_eq!(response(&failed), ("400", Some("token …, key …")));
    assert!(!format!("{failed:?}").contains("-of-mine"), "{failed:?}");
    sender.close().await;
}
