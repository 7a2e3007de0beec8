//! The circuit breaker of a webhook: one for each receiver where the URL is a template, one for the definition where it is constant.

use std::time::Duration;

use serde_json::{Value, json};
use solid_notify::{NewNotice, NoticeRecord, NotifyDef, Status};
use solid_notify_conformance::Backend;
use test_support::sending::{eventually, reaches, record};

use crate::webhooks::sender::Sender;
use crate::webhooks::server::Receiver;

const PAUSE: Duration = Duration::from_secs(60);

/// Sends with a breaker that opens at the second failure.
async fn sender(url: &str) -> Sender {
    let sender = Sender::local().await;
    let definition = NotifyDef::new("hook").timeout("1h").breaker_failures(2).breaker_pause("1m");
    sender.define_as(definition, &json!({ "url": url, "allow_hosts": ["127.0.0.1"], "timeout": "50s" })).await;
    sender
}

async fn add(sender: &Sender, receiver: &Receiver) -> i64 {
    let param = json!({ "port": receiver.port() });
    sender.backend.add_new(NewNotice::new("hook", &param).unwrap()).await.id()
}

/// Waits until a notice has been sent, or handed back until later, and returns it.
async fn settled(sender: &Sender, id: i64) -> NoticeRecord {
    let is_settled = async || {
        let notice = record(&sender.backend, id).await;
        let is_due = notice.next_call_time.is_some_and(|due| due <= sender.backend.clock().now());
        notice.status != Status::Sending && !is_due
    };
    eventually("it is sent or handed back", is_settled).await;
    record(&sender.backend, id).await
}

/// Waits until a notice is due at the end of a pause, without an attempt that counts.
async fn is_handed_back(sender: &Sender, id: i64) {
    let notice = settled(sender, id).await;
    assert!(notice.status == Status::NotSent && sender.wait(&notice) > Duration::from_secs(30), "{notice:?}");
    lost_no_try(&notice);
}

fn lost_no_try(notice: &NoticeRecord) {
    assert!(notice.failures == 0 && notice.crashes == 0 && notice.errors.is_empty(), "{notice:?}");
}

async fn attempt(sender: &Sender, receiver: &Receiver) -> Status {
    let param: Value = json!({ "port": receiver.port() });
    sender.attempt("hook", &param).await.status
}

#[tokio::test]
async fn receiver_that_fails_stops_no_other_of_the_definition() {
    let sender = sender("http://127.0.0.1:{{ param.port }}/").await;
    let (down, up) = (Receiver::answering(503).await, Receiver::answering(200).await);
    for _ in 0..2 {
        assert_eq!(attempt(&sender, &down).await, Status::Failed);
    }
    let waiting = [add(&sender, &down).await, add(&sender, &down).await, add(&sender, &down).await];
    for id in waiting {
        is_handed_back(&sender, id).await;
    }
    for _ in 0..3 {
        assert_eq!(attempt(&sender, &up).await, Status::Succeeded);
    }
    assert_eq!((down.got.count(), up.got.count()), (2, 3));
    // One probe, which fails; the others wait on.
    sender.backend.clock().advance(PAUSE + Duration::from_secs(1));
    let mut left = Vec::new();
    for id in waiting {
        match settled(&sender, id).await.status {
            Status::Failed => {}
            _ => left.push(id),
        }
    }
    assert_eq!((left.len(), down.got.count()), (2, 3));
    for id in &left {
        is_handed_back(&sender, *id).await;
    }
    // A probe that succeeds closes the circuit. What was handed back beside it is sent after the next pause.
    down.now([(200, vec![], String::new())]);
    for _ in 0..2 {
        sender.backend.clock().advance(PAUSE + Duration::from_secs(1));
        for id in &left {
            settled(&sender, *id).await;
        }
    }
    for id in &left {
        assert_eq!(record(&sender.backend, *id).await.status, Status::Succeeded);
    }
    for id in left {
        lost_no_try(&record(&sender.backend, id).await);
    }
    let soon = add(&sender, &down).await;
    reaches(&sender.backend, soon, Status::Succeeded).await;
    sender.close().await;
}

#[tokio::test]
async fn constant_url_has_the_circuit_of_its_definition() {
    let down = Receiver::answering(503).await;
    let sender = sender(&down.url("/")).await;
    for _ in 0..2 {
        assert_eq!(attempt(&sender, &down).await, Status::Failed);
    }
    let id = add(&sender, &down).await;
    let explained = async || {
        let explanation = sender.backend.outbox().operator("alice").explain(id).await.unwrap();
        explanation.to_string().contains("the circuit is open after 2 failures in a row")
    };
    eventually("it waits for the circuit of the definition", explained).await;
    assert_eq!(down.got.count(), 2);
    sender.close().await;
}
