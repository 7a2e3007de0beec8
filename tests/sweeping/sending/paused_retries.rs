//! The switch in its second state: retries wait, and first attempts go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use solid_notify::alert::AlertReason;
use solid_notify::{Failure, Notice, NotifyDef, OutboxExt, Status, Sweeper};
use solid_notify_conformance::Backend;
use test_support::sending::{Calls, add, definition, eventually, reaches, record};

use super::turn;

const MINUTE: Duration = Duration::from_secs(60);

/// Starts a sweeper whose handler `sync` records the ids, and fails while the flag is set.
async fn start(b: &dyn Backend, calls: &Calls<i64>, fails: &Arc<AtomicBool>) -> Sweeper {
    let (calls, fails) = (calls.clone(), Arc::clone(fails));
    let handler = move |notice: Notice<i64>| {
        calls.note(notice.id());
        let fails = fails.load(Ordering::SeqCst);
        async move { if fails { Err(Failure::retry("out of service")) } else { Ok(()) } }
    };
    let sweeper = b.outbox().sweeper().maintenance_interval(Duration::from_millis(10)).handler("sync", handler);
    sweeper.start().await.unwrap()
}

pub async fn retries_wait_uncounted_while_first_attempts_go_on(b: &dyn Backend) {
    let def = NotifyDef::new("sync").retry_interval("[1m,1m]").backlog_alert_age("10m");
    b.outbox().define_if_missing(def).await.unwrap();
    let (calls, fails) = (Calls::default(), Arc::new(AtomicBool::new(true)));
    let sweeper = start(b, &calls, &fails).await;
    let failed = add(b, "sync").await;
    reaches(b, failed, Status::Failed).await;
    let alice = b.outbox().operator("alice");
    assert!(alice.pause_retries("the target recovers").await.unwrap());
    let failed_later = add(b, "sync").await;
    reaches(b, failed_later, Status::Failed).await;
    fails.store(false, Ordering::SeqCst);
    let def_id = definition(b, "sync").await.id;
    let backlog = async || b.outbox().engine().stores().alerts.alert(def_id, AlertReason::Backlog).await.unwrap();
    for _ in 0..3 {
        turn(b, &sweeper, 30 * MINUTE).await;
        sweeper.idle().await;
    }
    let fresh = add(b, "sync").await;
    assert_eq!(reaches(b, fresh, Status::Succeeded).await.fence, 1);
    let waits = async || {
        for id in [failed, failed_later] {
            let waiting = record(b, id).await;
            assert_eq!((waiting.status, waiting.fence, waiting.failures), (Status::Failed, 1, 1));
        }
    };
    waits().await;
    assert!(backlog().await.is_none(), "paused retries are no backlog");
    // A retry that a person asks for is a retry.
    assert!(alice.retry(failed).await.unwrap().is_applied());
    b.outbox().wake();
    sweeper.idle().await;
    waits().await;
    sweeper.shutdown().await;
    // The switch is in the store.
    let sweeper = start(b, &calls, &fails).await;
    let fresh = add(b, "sync").await;
    reaches(b, fresh, Status::Succeeded).await;
    sweeper.idle().await;
    waits().await;
    assert!(alice.resume_all().await.unwrap());
    for id in [failed, failed_later] {
        let done = reaches(b, id, Status::Succeeded).await;
        assert_eq!((done.fence, done.failures), (2, 1));
    }
    // Each turn of the clock makes the node look for backlogs; when it begins the second time, it has ended the first.
    for _ in 0..2 {
        turn(b, &sweeper, MINUTE).await;
    }
    assert!(backlog().await.is_none(), "the retries count as late from the end of the pause");
    assert_eq!(calls.count(), 6);
    sweeper.shutdown().await;
}

pub async fn nack_and_missing_ack_lead_to_a_retry_that_waits(b: &dyn Backend) {
    let def = NotifyDef::new("sync").need_confirm(true).max_confirm_delay("10m").retry_interval("[1m]");
    b.outbox().define_if_missing(def).await.unwrap();
    let calls = Calls::default();
    let sweeper = start(b, &calls, &Arc::default()).await;
    let alice = b.outbox().operator("alice");
    assert!(alice.pause_retries("the target recovers").await.unwrap());
    let (nacked, unacked) = (add(b, "sync").await, add(b, "sync").await);
    for id in [nacked, unacked] {
        reaches(b, id, Status::AwaitingAck).await;
    }
    b.outbox().nack(nacked, "not stored").await.unwrap();
    reaches(b, nacked, Status::Failed).await;
    b.clock().advance(10 * MINUTE);
    reaches(b, unacked, Status::Failed).await;
    for _ in 0..3 {
        b.clock().advance(30 * MINUTE);
        sweeper.idle().await;
    }
    for id in [nacked, unacked] {
        let waiting = record(b, id).await;
        assert_eq!((waiting.status, waiting.fence, waiting.failures), (Status::Failed, 1, 1));
    }
    assert!(alice.resume_all().await.unwrap());
    for id in [nacked, unacked] {
        assert_eq!(reaches(b, id, Status::AwaitingAck).await.fence, 2);
    }
    eventually("each was sent twice", async || calls.count() == 4).await;
    sweeper.shutdown().await;
}
