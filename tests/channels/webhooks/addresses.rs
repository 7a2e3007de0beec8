//! Where webhooks may go: a row cannot reach the sender's own network.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use solid_notify::channels::{AllowedNetworks, Resolve, Resolving, Webhook};
use solid_notify::{NotifyDef, Status};
use solid_notify_conformance::Backend;

use crate::webhooks::sender::{Sender, failure, local};
use crate::webhooks::server::Receiver;

/// A resolver whose answers change: each question gets the next list, and the last one is repeated.
struct Changing {
    answers: Vec<Vec<&'static str>>,
    asked: Arc<AtomicUsize>,
}

impl Changing {
    fn new(answers: &[&[&'static str]]) -> (Self, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        (Self { answers: answers.iter().map(|list| list.to_vec()).collect(), asked: Arc::clone(&asked) }, asked)
    }
}

impl Resolve for Changing {
    fn resolve(&self, _: &str) -> Resolving {
        let question = self.asked.fetch_add(1, Ordering::SeqCst);
        let list = &self.answers[question.min(self.answers.len() - 1)];
        let found = list.iter().map(|address| address.parse().unwrap()).collect();
        Box::pin(async move { Ok(found) })
    }
}

/// Knows no name.
struct Unknown;

impl Resolve for Unknown {
    fn resolve(&self, _: &str) -> Resolving {
        Box::pin(async { Err("no such name".into()) })
    }
}

#[tokio::test]
async fn private_address_in_a_url_is_refused_when_the_row_is_read() {
    let sender = Sender::with(Webhook::builder()).await;
    for url in [
        "http://127.0.0.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://127.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[64:ff9b::10.0.0.1]/",
        "http://0.0.0.0/",
    ] {
        let definition = NotifyDef::new("hook").handler("webhook").handler_config(json!({ "url": url }).to_string());
        let refused = sender.backend.outbox().define_if_missing(definition).await.unwrap_err().to_string();
        assert!(refused.contains("url: the address") && refused.contains("allow_network"), "{url}: {refused}");
    }
    sender.close().await;
}

#[tokio::test]
async fn private_address_that_a_template_makes_is_refused_when_it_is_filled() {
    let (sender, receiver) = (Sender::with(Webhook::builder()).await, Receiver::answering(200).await);
    let url = format!("http://{{{{ param }}}}:{}/", receiver.port());
    let config = json!({ "url": url, "allow_hosts": ["127.0.0.1", "[::ffff:7f00:1]"] });
    for host in ["127.0.0.1", "0x7f000001", "2130706433", "[::ffff:127.0.0.1]"] {
        let failed = sender.send(config.clone(), &json!(host)).await;
        let (class, message) = failure(&failed);
        assert!(
            class == "invalid" && message.contains("is refused because it is loopback"),
            "{host}: {class} {message}"
        );
    }
    assert_eq!(receiver.got.count(), 0);
    sender.close().await;
}

#[tokio::test]
async fn name_of_a_private_address_is_refused_when_it_is_resolved() {
    let receiver = Receiver::answering(200).await;
    let (resolver, _) = Changing::new(&[&["127.0.0.1", "10.0.0.1", "::ffff:127.0.0.1"]]);
    let sender = Sender::with(Webhook::builder().resolver(resolver)).await;
    let url = format!("http://shop.example.com:{}/", receiver.port());
    let failed = sender.send(json!({ "url": url }), &json!(1)).await;
    let refused = failure(&failed);
    assert!(refused.0 == "network" && refused.1.contains("allow_network"), "{refused:?}");
    sender.close().await;
    let sender = Sender::with(Webhook::builder().resolver(Unknown)).await;
    let unknown = sender.send(json!({ "url": url }), &json!(1)).await;
    assert_eq!(failure(&unknown), refused, "it would tell which names the own network has");
    sender.close().await;
    let sender = Sender::with(Webhook::builder()).await;
    let failed = sender.send(json!({ "url": format!("http://localhost:{}/", receiver.port()) }), &json!(1)).await;
    assert_eq!(failure(&failed), refused);
    assert_eq!(receiver.got.count(), 0);
    sender.close().await;
}

#[tokio::test]
async fn connection_goes_to_the_address_that_was_checked() {
    let receiver = Receiver::answering(200).await;
    // The first answer is allowed here; a second question would get one that is not.
    let (resolver, asked) = Changing::new(&[&["10.0.0.1", "127.0.0.1"], &["10.0.0.1"]]);
    let sender = Sender::with(local().resolver(resolver)).await;
    let config = json!({ "url": format!("http://shop.example.com:{}/", receiver.port()) });
    let sent = sender.send(config.clone(), &json!(1)).await;
    assert_eq!((sent.status, asked.load(Ordering::SeqCst)), (Status::Succeeded, 1), "{sent:?}");
    assert_eq!(receiver.only().header("host"), format!("shop.example.com:{}", receiver.port()));
    sender.close().await;
}

#[tokio::test]
async fn name_that_changes_to_a_private_address_is_refused_when_connecting() {
    let receiver = Receiver::answering(200).await;
    receiver.now([(200, vec![("connection", "close".to_owned())], String::new())]);
    let (resolver, _) = Changing::new(&[&["127.0.0.1"], &["169.254.169.254"]]);
    let sender = Sender::with(local().resolver(resolver)).await;
    let config = json!({ "url": format!("http://shop.example.com:{}/", receiver.port()) });
    assert_eq!(sender.send(config.clone(), &json!(1)).await.status, Status::Succeeded);
    assert!(failure(&sender.send(config, &json!(1)).await).1.contains("has no address that may be reached"));
    assert_eq!(receiver.got.count(), 1);
    sender.close().await;
}

#[tokio::test]
async fn redirect_to_a_metadata_service_is_a_failure_and_not_followed() {
    let (sender, receiver, other) =
        (Sender::local().await, Receiver::answering(200).await, Receiver::answering(200).await);
    for to in ["http://169.254.169.254/latest/meta-data/".to_owned(), other.url("/")] {
        for status in [301, 302, 303, 307, 308] {
            receiver.now([(status, vec![("location", to.clone())], String::new())]);
            let failed = sender.send(json!({ "url": receiver.url("/") }), &json!(1)).await;
            assert_eq!(failure(&failed), ("unknown", &*format!("HTTP status {status}")));
        }
    }
    assert_eq!(other.got.count(), 0);
    sender.close().await;
}

#[tokio::test]
async fn requests_go_through_the_proxy_of_the_program_only() {
    let proxy = Receiver::answering(200).await;
    // The proxy's own address is private, as usual, and need not be allowed.
    let sender = Sender::with(Webhook::builder().proxy(proxy.url("/"))).await;
    let sent = sender.send(json!({ "url": "http://shop.example.com/hook" }), &json!(1)).await;
    assert_eq!(sent.status, Status::Succeeded, "{sent:?}");
    assert_eq!(proxy.only().uri.to_string(), "http://shop.example.com/hook");
    let definition = NotifyDef::new("literal").handler("webhook").handler_config(r#"{"url":"http://10.0.0.1/"}"#);
    assert!(sender.backend.outbox().define_if_missing(definition).await.is_err());
    sender.close().await;
}

#[tokio::test]
async fn builder_refuses_what_is_no_network_or_proxy() {
    let error = AllowedNetworks::new(["::1", "10.0.0.0/33"]).unwrap_err().to_string();
    assert!(error.contains("`10.0.0.0/33` is no network"), "{error}");
    assert!(AllowedNetworks::new(["::1", "127.0.0.1"]).is_ok());
    let error = Webhook::builder().proxy("ht tp://user:hunter2@x").build().unwrap_err();
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
}
