//! What a channel makes of a configuration is made once, and not with each attempt.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use solid_notify::channels::{AnyNotice, Channel, ChannelExt};
use solid_notify::{Failure, HandlerResult, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use test_support::memory::MemoryBackend;
use test_support::sending::{add, reaches, update};

/// Counts the configurations that it prepares. Sends what `ok` says.
struct Counting(Arc<AtomicUsize>);

impl Channel for Counting {
    const NAME: &'static str = "counting";
    type Config = Value;
    type Prepared = bool;

    fn prepare(&self, config: Value) -> Result<bool, String> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(config["ok"] == true)
    }

    async fn send(&self, prepared: &bool, _: &AnyNotice) -> HandlerResult {
        if *prepared { Ok(()) } else { Err(Failure::retry("no")) }
    }
}

#[tokio::test]
async fn configuration_is_prepared_once_for_all_attempts_until_it_changes() {
    let (b, prepared) = (MemoryBackend::default(), Arc::<AtomicUsize>::default());
    let count = || prepared.load(Ordering::SeqCst);
    let row = |ok: bool| json!({ "ok": ok }).to_string();
    let definition = NotifyDef::new("sync").handler("counting").handler_config(row(false)).retry_interval("[1s,1s,1s]");
    b.outbox().define_if_missing(definition).await.unwrap();
    let sweeper = b.outbox().sweeper().channel(Counting(Arc::clone(&prepared))).start().await.unwrap();
    let id = add(&b, "sync").await;
    reaches(&b, id, Status::Failed).await;
    let after_the_first = count();
    for failures in 2..=3 {
        b.clock().advance(Duration::from_secs(1));
        let attempted = async || b.outbox().find(id).await.unwrap().unwrap().failures == failures;
        test_support::sending::eventually("another attempt", attempted).await;
    }
    let others = [add(&b, "sync").await, add(&b, "sync").await];
    for other in others {
        reaches(&b, other, Status::Failed).await;
    }
    assert_eq!(count(), after_the_first, "five attempts, and one configuration");
    update(&b, "sync", |def| def.handler_config(row(true))).await;
    b.clock().advance(Duration::from_secs(1));
    for id in [id, others[0], others[1]] {
        reaches(&b, id, Status::Succeeded).await;
    }
    assert!(count() > after_the_first, "the changed one is prepared");
    sweeper.shutdown().await;
}
