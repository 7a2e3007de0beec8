//! Copies of a message: the stream drops one that repeats a message of which nothing is known, and each other one reaches the consumer.

use chrono::Utc;
use serde_json::json;
use solid_notify::channels::{ChannelExt, Nats};
use solid_notify::testkit::{HandClock, MemoryOutbox};
use solid_notify::{NotifyDef, OutboxExt, Status};
use test_support::databases::server_url;
use test_support::proxy::{Proxy, Weather};
use test_support::sending::eventually;
use tokio::runtime::Runtime;

use super::{messages, stream};
use crate::brokers::Sending;
use crate::configured::own_machine;

/// A proxy to the server, and the URL there.
async fn proxied(url: &str) -> (Proxy, String) {
    let proxy = Proxy::start(url.strip_prefix("nats://").unwrap().parse().unwrap(), || ()).await;
    let url = format!("nats://127.0.0.1:{}", proxy.port);
    (proxy, url)
}

fn channel() -> Nats {
    Nats::new().allow_networks(&own_machine())
}

impl Sending {
    /// Adds a notice of the definition `order` whose attempt ends with this class, because of the weather, which is fair afterwards.
    async fn add_in(&self, weather: Weather, class: &str, proxy: &Proxy) -> i64 {
        let first = self.add("order", "first").await;
        self.reaches(first, Status::Succeeded).await;
        proxy.set(weather);
        let id = self.add("order", "a").await;
        assert_eq!(self.fails(id).await.0, class);
        id
    }

    async fn succeeds_with(&self, id: i64, status: &str) {
        let notice = self.reaches(id, Status::Succeeded).await;
        assert_eq!(notice.response.unwrap().response.status(), status, "{:?}", notice.errors);
    }
}

#[tokio::test]
async fn copy_of_a_message_that_may_be_stored_is_dropped() {
    for (weather, class) in [(Weather::Stall, "timeout"), (Weather::Lossy(1.0), "network")] {
        let url = server_url("NATS_URL");
        let ((context, stream, name), (proxy, proxied)) = (stream(&url, |_| ()).await, proxied(&url).await);
        let mut sending = Sending::start(channel(), &proxied).await;
        sending.timeout = "1s";
        sending.define("order", json!({ "subject": format!("{name}.x") })).await;
        let id = sending.add_in(weather, class, &proxy).await;
        proxy.set(Weather::Fair);
        sending.succeeds_with(id, "duplicate").await;
        assert_eq!(messages(&stream).await, 2, "{class}");
        context.delete_stream(&name).await.unwrap();
        sending.sweeper.shutdown().await;
    }
}

#[tokio::test]
async fn copy_of_a_message_of_a_process_that_died_is_dropped() {
    let url = server_url("NATS_URL");
    let ((context, stream, name), (proxy, proxied)) = (stream(&url, |_| ()).await, proxied(&url).await);
    let clock = HandClock::running(Utc::now());
    let outbox = MemoryOutbox::builder().clock(clock.clone()).build();
    let process = Runtime::new().unwrap();
    let (own, begun) = (outbox.clone(), async move |outbox| Sending::over(outbox, channel(), &proxied).await);
    let sending = process.spawn(async move { begun(own).await }).await.unwrap();
    sending.define("order", json!({ "subject": format!("{name}.x") })).await;
    let first = sending.add("order", "first").await;
    sending.reaches(first, Status::Succeeded).await;
    proxy.set(Weather::Stall);
    proxy.struck();
    let id = sending.add("order", "a").await;
    eventually("the message is on its way", async || proxy.struck() > 0).await;
    process.shutdown_background();
    proxy.set(Weather::Fair);
    eventually("the message arrives", async || messages(&stream).await == 2).await;

    clock.advance(std::time::Duration::from_secs(60));
    let next = outbox.sweeper().channel(channel()).start().await.unwrap();
    sending.succeeds_with(id, "duplicate").await;
    assert_eq!((messages(&stream).await, sending.find(id).await.crashes), (2, 1));
    context.delete_stream(&name).await.unwrap();
    next.shutdown().await;
}

#[tokio::test]
async fn retry_after_a_missing_ack_reaches_the_consumer() {
    let url = server_url("NATS_URL");
    let (context, stream, name) = stream(&url, |_| ()).await;
    let sending = Sending::start(channel(), &url).await;
    let definition = NotifyDef::new("order").need_confirm(true).max_confirm_delay("200ms");
    sending.define_as(definition, json!({ "subject": format!("{name}.x") })).await;
    let id = sending.add("order", "a").await;
    eventually("the message is sent again", async || messages(&stream).await >= 2).await;
    let notice = sending.find(id).await;
    assert_eq!(notice.errors[0].class, "unacked", "{:?}", notice.errors);
    assert!(
        notice.errors.len() < 10,
        "by the next attempt, and not when the list of errors is full: {:?}",
        notice.errors
    );
    context.delete_stream(&name).await.unwrap();
}

#[tokio::test]
async fn edited_message_reaches_the_consumer_after_a_timeout() {
    let url = server_url("NATS_URL");
    let ((context, stream, name), (proxy, proxied)) = (stream(&url, |_| ()).await, proxied(&url).await);
    let mut sending = Sending::start(channel(), &proxied).await;
    sending.timeout = "1s";
    let config = json!({ "subject": format!("{name}.x"), "headers": { "X-Order": "{{ param }}" }, "body": "constant" });
    let definition = NotifyDef::new("order").retry_rules(r#"{ "timeout": "1h" }"#);
    sending.define_as(definition, config).await;
    let id = sending.add_in(Weather::Stall, "timeout", &proxy).await;
    proxy.set(Weather::Fair);
    eventually("the first message arrives", async || messages(&stream).await == 2).await;
    let alice = sending.outbox.operator("alice");
    alice.edit(id, "b").await.unwrap();
    alice.retry(id).await.unwrap();
    sending.succeeds_with(id, "stored").await;
    let message = stream.get_raw_message(3).await.unwrap();
    assert_eq!(message.headers.get("X-Order").unwrap().as_str(), "b");
    context.delete_stream(&name).await.unwrap();
}

#[tokio::test]
async fn dead_letter_that_an_operator_retries_reaches_the_consumer() {
    let url = server_url("NATS_URL");
    let ((context, stream, name), (proxy, proxied)) = (stream(&url, |_| ()).await, proxied(&url).await);
    let mut sending = Sending::start(channel(), &proxied).await;
    sending.timeout = "1s";
    let definition = NotifyDef::new("order").retry_rules(r#"{ "timeout": "never" }"#);
    sending.define_as(definition, json!({ "subject": format!("{name}.x") })).await;
    let id = sending.add_in(Weather::Stall, "timeout", &proxy).await;
    sending.reaches(id, Status::DeadLetter).await;
    proxy.set(Weather::Fair);
    eventually("the first message arrives", async || messages(&stream).await == 2).await;
    sending.outbox.operator("alice").retry(id).await.unwrap();
    sending.succeeds_with(id, "stored").await;
    assert_eq!(messages(&stream).await, 3);
    context.delete_stream(&name).await.unwrap();
}

#[tokio::test]
async fn retry_of_a_waiting_notice_by_an_operator_reaches_the_consumer() {
    for is_retried in [true, false] {
        let url = server_url("NATS_URL");
        let ((context, stream, name), (proxy, proxied)) = (stream(&url, |_| ()).await, proxied(&url).await);
        let mut sending = Sending::start(channel(), &proxied).await;
        sending.timeout = "1s";
        let definition = NotifyDef::new("order").retry_rules(r#"{ "timeout": "1h" }"#);
        sending.define_as(definition, json!({ "subject": format!("{name}.x") })).await;
        let id = sending.add_in(Weather::Stall, "timeout", &proxy).await;
        proxy.set(Weather::Fair);
        eventually("the first message arrives", async || messages(&stream).await == 2).await;
        let alice = sending.outbox.operator("alice");
        let (response, stored) = if is_retried {
            alice.retry(id).await.unwrap();
            ("stored", 3)
        } else {
            alice.reschedule(id, Utc::now()).await.unwrap();
            ("duplicate", 2)
        };
        sending.succeeds_with(id, response).await;
        assert_eq!(messages(&stream).await, stored);
        context.delete_stream(&name).await.unwrap();
        sending.sweeper.shutdown().await;
    }
}
