//! What the receiver of replies says where nothing can be received, in virtual time.

use std::time::Duration;

use serde_json::json;
use solid_notify::NotifyDef;
use solid_notify::channels::Amqp;
use solid_notify::testkit::MemoryOutbox;
use solid_notify_core::error::FaultKind;
use test_support::faulty::{Fault, faulty};
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

/// Each program with the channel receives replies, and the sweeper reports the outage.
#[tokio::test(start_paused = true)]
async fn outage_of_the_database_is_no_matter_of_replies_without_a_queue() {
    let (log, (_backend, store, outbox)) = (Log::start(), faulty());
    let failures = 100;
    store.plan("definitions", vec![Fault::Refused(FaultKind::Outage); failures]);
    let replies = Amqp::new().replies(&outbox);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(store.called("fault"), failures);
    assert_eq!(log.warnings_with("have a queue for replies"), Vec::<String>::new());
    drop(replies);
}
