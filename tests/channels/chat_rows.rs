//! The channel `chat`: what each service gets of a row, and the treatment of its answers.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;
use solid_notify::channels::Chat;
use solid_notify::{NotifyDef, Status};
use test_support::raw::{Raw, read_request};
use tokio::io::AsyncWriteExt;

use crate::configured::{Configured, NAME, SecretFile, own_machine, refusal, response};
use crate::desk::{error, log};
use crate::receiver::Receiver;

const OK: &str = r#"{"errcode":0,"errmsg":"ok","code":0}"#;

#[tokio::test]
async fn each_service_gets_the_text_of_a_row_in_its_own_form() {
    let receiver = Receiver::accepting(OK).await;
    let (url, secret) =
        (SecretFile::new(&receiver.url("/hook/t0ken-of-row?access_token=t0ken-of-row")), SecretFile::new("SECofrow"));
    let text = "{{ param.name }} asks for {{ param.days }} days <!channel> <at user_id=\"all\">";
    let param = json!({ "name": "王", "days": 3 });
    for (service, path, start) in [
        ("slack", "/text", "王 asks for 3 days &lt;!channel&gt;"),
        ("we_com", "/text/content", "王 asks for 3 days"),
        ("ding_talk", "/text/content", "审批\n王 asks for 3 days"),
        ("feishu", "/content/text", "审批\n王 asks for 3 days <!channel> <\u{200b}at"),
    ] {
        let mut config = json!({ "service": service, "url": url.reference(), "text": text });
        if let "ding_talk" | "feishu" = service {
            config["secret"] = secret.reference().into();
            config["keyword"] = "审批".into();
        }
        let configured = Configured::with(Chat::new().allow_networks(&own_machine()), &config).await;
        let done = configured.send(&param, Status::Succeeded).await;
        assert_eq!(response(&done), format!("200: {OK}"));
        let posted = receiver.posted.all().pop().unwrap();
        let text = posted.body.pointer(path).and_then(|text| text.as_str()).unwrap();
        assert!(text.starts_with(start), "{service}: {text}");
        if service == "ding_talk" {
            let mut mac = Hmac::<Sha256>::new_from_slice(b"SECofrow").unwrap();
            mac.update(format!("{}\nSECofrow", posted.query["timestamp"]).as_bytes());
            assert_eq!(posted.query["sign"], STANDARD.encode(mac.finalize().into_bytes()));
        }
        assert_eq!(posted.body.get("sign").is_some(), service == "feishu");
        configured.close().await;
    }
}

#[tokio::test]
async fn secret_of_the_row_is_inserted_in_a_message_and_not_kept() {
    let receiver = Receiver::accepting(r#"{"errcode":1,"errmsg":"no hunter2-of-a-chat"}"#).await;
    let (url, secret) = (SecretFile::new(&receiver.url("/hook/t0ken")), SecretFile::new("hunter2-of-a-chat"));
    let config = json!({ "service": "ding_talk", "url": url.reference(), "text": "key {{ secrets.key }}",
                         "secrets": { "key": secret.reference() } });
    let configured = Configured::with(Chat::new().allow_networks(&own_machine()), &config).await;
    let failed = configured.send(&json!(1), Status::Failed).await;
    let posted = receiver.posted.all().pop().unwrap();
    assert_eq!(posted.body.pointer("/text/content").and_then(|text| text.as_str()), Some("key hunter2-of-a-chat"));
    assert!(response(&failed).contains("no …") && !format!("{failed:?}").contains("hunter2"), "{failed:?}");
    configured.close().await;
}

#[tokio::test]
async fn test_of_an_operator_is_marked_in_the_text() {
    let receiver = Receiver::accepting(OK).await;
    let url = SecretFile::new(&receiver.url("/hook/t0ken?access_token=t0ken"));
    for (service, path) in
        [("slack", "/text"), ("we_com", "/text/content"), ("ding_talk", "/text/content"), ("feishu", "/content/text")]
    {
        let config = json!({ "service": service, "url": url.reference(), "text": "order {{ param }}" });
        let configured = Configured::with(Chat::new().allow_networks(&own_machine()), &config).await;
        configured.test(&json!(7), Status::Succeeded).await;
        configured.send(&json!(8), Status::Succeeded).await;
        let posted = receiver.posted.all();
        let text = |at: usize| posted[at].body.pointer(path).and_then(|text| text.as_str()).unwrap().trim().to_owned();
        let last = posted.len() - 1;
        assert_eq!((text(last - 1), text(last)), ("[test] order 7".to_owned(), "order 8".to_owned()), "{service}");
        configured.close().await;
    }
}

#[tokio::test]
async fn service_that_takes_no_more_is_left_alone_and_its_class_is_busy() {
    let receiver = Receiver::accepting(r#"{"errcode":130101,"errmsg":"send too fast"}"#).await;
    let url = SecretFile::new(&receiver.url("/robot/send?access_token=t0ken"));
    let config = json!({ "service": "ding_talk", "url": url.reference(), "text": "{{ param }}" });
    let configured = Configured::with(Chat::new().allow_networks(&own_machine()), &config).await;
    let failed = configured.send(&json!("订单"), Status::Failed).await;
    assert_eq!((configured.wait(&failed), failed.last_class.as_deref()), (Duration::from_secs(600), Some("busy")));
    receiver.now(200, OK);
    configured.retry(&failed, Status::Succeeded).await;
    configured.close().await;
}

#[tokio::test]
async fn refusal_is_classified_and_shows_no_secret() {
    let receiver = Receiver::accepting("").await;
    let (url, secret) =
        (SecretFile::new(&receiver.url("/hook?access_token=t0ken-of-refused")), SecretFile::new("SEC-of-refused"));
    let config = json!({ "service": "ding_talk", "url": url.reference(), "secret": secret.reference(), "text": "x" });
    let mut texts = Vec::new();
    for (status, becomes, class) in [
        (404, Status::DeadLetter, "not_found"),
        (403, Status::DeadLetter, "auth"),
        (503, Status::Failed, "unavailable"),
        (200, Status::Failed, "unknown"),
    ] {
        receiver.now(status, r#"{"errcode":300001,"errmsg":"no robot t0ken-of-refused SEC-of-refused"}"#);
        let configured = Configured::with(Chat::new().allow_networks(&own_machine()), &config).await;
        let refused = configured.send(&json!(1), becomes).await;
        assert_eq!(refused.last_class.as_deref(), Some(class), "{status}");
        assert!(response(&refused).contains("no robot … …"), "{}", response(&refused));
        texts.push(format!("{refused:?}"));
        configured.close().await;
    }
    url.write("t0ken-of-refused");
    let configured = Configured::with(Chat::new().allow_networks(&own_machine()), &config).await;
    let failed = configured.send(&json!(1), Status::Failed).await;
    assert!(error(&failed).contains("the URL of the chat `ding_talk`"), "{}", error(&failed));
    texts.push(format!("{failed:?}"));
    configured.close().await;
    texts.extend(log().all());
    for secret in ["t0ken-of-refused", "SEC-of-refused"] {
        let leaks: Vec<_> = texts.iter().filter(|text| text.contains(secret)).collect();
        assert!(leaks.is_empty(), "{leaks:?}");
    }
}

#[tokio::test]
async fn wrong_row_of_a_chat_is_refused_with_the_field() {
    let url = "env:HOOK";
    for (config, expected) in [
        (json!({ "service": "teams", "url": url, "text": "x" }), "service: unknown variant `teams`"),
        (json!({ "service": "slack", "url": "https://hooks/t0ken", "text": "x" }), "url: expected a reference"),
        (json!({ "service": "slack", "url": url, "secret": "env:S", "text": "x" }), "`secret` is only for"),
        (json!({ "service": "we_com", "url": url, "keyword": "x", "text": "x" }), "`keyword` is only for"),
        (json!({ "service": "slack", "url": url, "text": "{{ x | nofilter }}" }), "text: "),
        (json!({ "service": "slack", "url": url }), "missing field `text`"),
    ] {
        let refused = refusal(Chat::new(), &config).await;
        assert!(refused.contains(expected) && !refused.contains("t0ken"), "{config}: {refused}");
    }
}

#[tokio::test]
async fn slow_answer_of_a_chat_counts_by_its_status_or_its_body() {
    let (head, body) = ("HTTP/1.1 200 OK\r\nx-slow: ", "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n");
    // Slack says all in the status, the other services in the body.
    for (service, head, expected) in [
        ("slack", head, Err("timeout")),
        ("slack", body, Ok(())),
        ("we_com", body, Err("timeout")),
        ("we_com", "HTTP/1.1 503 No\r\ncontent-length: 1000\r\n\r\n", Err("unavailable")),
    ] {
        let slow = Raw::serving(move |mut stream| async move {
            read_request(&mut stream).await;
            let _ = stream.write_all(head.as_bytes()).await;
            while stream.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        let url = SecretFile::new(&slow.url());
        let config = json!({ "service": service, "url": url.reference(), "text": "x" });
        let row = NotifyDef::new(NAME).handler_config(config.to_string()).timeout("1s");
        let configured = Configured::with_row(Chat::new().allow_networks(&own_machine()), row).await;
        let status = if expected.is_ok() { Status::Succeeded } else { Status::Failed };
        let ended = configured.send(&json!(1), status).await;
        let class = ended.errors.last().map_or(Ok(()), |error| Err(&*error.class));
        assert_eq!(class, expected, "{service}: {ended:?}");
        configured.close().await;
    }
}
