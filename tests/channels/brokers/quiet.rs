//! What the receiver of replies says where nothing can be received, in virtual time.

use std::time::Duration;

use serde_json::json;
use solid_notify::NotifyDef;
use solid_notify::channels::Amqp;
use solid_notify::testkit::MemoryOutbox;
use test_support::log::Log;
use test_support::sending::allow_secrets;

use crate::configured::own_machine;

/// At most one warning a minute, in an outage that lasts: the text changes with what fails.
#[tokio::test(start_paused = true)]
async fn broker_that_is_away_is_reported_rarely() {
    let (log, outbox, files) = (Log::start(), MemoryOutbox::new(), tempfile::tempdir().unwrap());
    allow_secrets(&outbox, &[]);
    let url = files.path().join("url");
    // No server listens there.
    std::fs::write(&url, "amqp://127.0.0.1:1").unwrap();
    let config = json!({ "url": format!("file:{}", url.display()), "routing_key": "orders", "reply_queue": "queue-of-a-broker-that-is-away" });
    let definition = NotifyDef::new("order").handler("amqp").handler_config(config.to_string());
    outbox.define_if_missing(definition).await.unwrap();
    let replies = Amqp::new().allow_networks(&own_machine()).replies(&outbox);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let warnings = log.warnings_with("queue-of-a-broker-that-is-away");
    assert!((1..=11).contains(&warnings.len()), "{}: {warnings:?}", warnings.len());
    drop(replies);
}
