//! Tests the settle loop with tracing layers that panic: every outcome is stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use solid_notify_core::{NotifyDef, Status, add_notice};
use solid_notify_testkit::MemoryOutbox;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::subscribed::subscribed;
use crate::{Failure, Notice, OutboxExt};

/// Panics at the first `left` log lines of one target.
struct Panics {
    target: &'static str,
    left: Arc<AtomicU32>,
}

impl Subscriber for Panics {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let is_it = event.metadata().target().starts_with(self.target);
        let take = |left: u32| left.checked_sub(1);
        if is_it && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
            panic!("a tracing layer");
        }
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Sends two hundred notices that succeed or become dead letters; settling them writes log lines.
async fn settles_all(target: &'static str, times: u32) {
    let left = Arc::new(AtomicU32::new(times));
    let _panics = subscribed(Panics { target, left: Arc::clone(&left) });
    let outbox = MemoryOutbox::new();
    outbox.define_if_missing(NotifyDef::new("sync").retry_interval("[1h]").max_concurrency(200)).await.unwrap();
    let mut ids = Vec::new();
    for n in 0..200 {
        let mut tx = outbox.begin().await.unwrap();
        ids.push(add_notice(&mut tx, "sync", n).await.unwrap().id());
        tx.commit().await.unwrap();
    }
    let sweeper = outbox
        .sweeper()
        .handler("sync", |notice: Notice<i64>| async move {
            match notice.param() % 2 {
                0 => Ok::<_, Failure>(()),
                _ => Err(Failure::give_up("no")),
            }
        })
        .start()
        .await
        .unwrap();
    for _ in 0..600 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if sweeper.worker.in_flight.is_empty() && outbox.find(ids[199]).await.unwrap().unwrap().status.is_final() {
            break;
        }
    }
    for (n, id) in ids.iter().enumerate() {
        let record = outbox.find(*id).await.unwrap().unwrap();
        let expected = if n % 2 == 0 { Status::Succeeded } else { Status::DeadLetter };
        assert_eq!((record.status, record.fence, record.crashes), (expected, 1, 0), "notice {id}");
    }
    assert!(sweeper.worker.in_flight.is_empty(), "no lease is extended for a settled notice");
    assert!(left.load(Ordering::SeqCst) < times, "{target} wrote no log line");
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn outcomes_are_stored_beside_a_layer_that_panics_once() {
    settles_all("solid_notify_sweeper::settling", 1).await;
}

#[tokio::test(start_paused = true)]
async fn outcomes_are_stored_beside_a_layer_that_panics_twice() {
    settles_all("solid_notify_sweeper::settling", 2).await;
}

#[tokio::test(start_paused = true)]
async fn outcomes_are_stored_beside_a_layer_that_always_panics() {
    settles_all("solid_notify_sweeper::settling::settle", u32::MAX).await;
}
