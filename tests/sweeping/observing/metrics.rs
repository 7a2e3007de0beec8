//! The metrics of adding and sending.

use std::sync::Arc;
use std::time::Duration;

use metrics::set_default_local_recorder;
use solid_notify::definition::ALERT_DEFINITION;
use solid_notify::metrics::{
    ADDED, ALERTS_SENT, ALERTS_SUPPRESSED, ALL, ATTEMPTS, DELIVERY, LATENESS, LEASE_LOSSES, SETTLE_BATCH,
};
use solid_notify::{
    Alert, ErrorClass, Failure, NewNotice, Notice, NotifyDef, OutboxExt, Status, add_notice, add_notices,
};
use solid_notify_conformance::{Backend, outcome};
use solid_notify_core::store::Look;
use solid_notify_core::transition::Next;
use test_support::memory::MemoryBackend;
use test_support::sending::{Calls, add, eventually, reaches};
use test_support::{Database, TestDb};

use crate::observing::recorded::{recorder, value, values};

#[tokio::test]
async fn every_attempt_is_counted_by_its_outcome_and_class() {
    let recorder = recorder();
    let (shown, _recorder) = (recorder.handle(), set_default_local_recorder(&recorder));
    let b = MemoryBackend::default();
    let bad = NotifyDef::new("bad").retry_interval("[5s]");
    for def in [NotifyDef::new("good"), bad, NotifyDef::new("skipped")] {
        b.outbox().define_if_missing(def).await.unwrap();
    }
    b.outbox().define_if_missing(NotifyDef::new("acked").handler("good").need_confirm(true)).await.unwrap();
    // Its timetables tick by the clock on the wall, which is the start of the one that this test turns.
    let sweeper = b
        .outbox()
        .sweeper()
        .housekeeping(false)
        .handler("good", |_: Notice<i64>| async { Ok(()) })
        .handler("bad", |_: Notice<i64>| async { Err(Failure::retry("connection refused").class(ErrorClass::Network)) })
        .handler("skipped", |_: Notice<i64>| async { Err(Failure::skip("not today")) })
        .start()
        .await
        .unwrap();
    let (good, bad, skipped) = (add(&b, "good").await, add(&b, "bad").await, add(&b, "skipped").await);
    let acked = add(&b, "acked").await;
    reaches(&b, good, Status::Succeeded).await;
    reaches(&b, skipped, Status::Cancelled).await;
    reaches(&b, acked, Status::AwaitingAck).await;
    reaches(&b, bad, Status::Failed).await;
    sweeper.idle().await;
    b.clock().advance(Duration::from_secs(5));
    reaches(&b, bad, Status::DeadLetter).await;
    sweeper.shutdown().await;
    let attempts = values(&shown, ATTEMPTS);
    let of_alerts = |labels: &&String| !labels.contains(ALERT_DEFINITION);
    assert_eq!(
        attempts.keys().filter(of_alerts).collect::<Vec<_>>(),
        [
            "definition=acked,outcome=awaiting_ack,class=-",
            "definition=bad,outcome=dead_letter,class=network",
            "definition=bad,outcome=failed,class=network",
            "definition=good,outcome=succeeded,class=-",
            "definition=skipped,outcome=skipped,class=-",
        ]
    );
    assert!(attempts.values().all(|count| *count == 1.0), "{attempts:?}");
    let delivered = values(&shown, &format!("{DELIVERY}_count"));
    assert_eq!((delivered["definition=good"], delivered["definition=acked"]), (1.0, 1.0));
    assert_eq!(value(&shown, &format!("{DELIVERY}_count"), "definition=bad"), 0.0, "it was never delivered");
    assert!(value(&shown, &format!("{SETTLE_BATCH}_sum"), "") >= 5.0, "five outcomes at least were stored");
    for metric in ALL {
        assert!(!shown.render().contains(metric.name) || shown.render().contains(&format!("# HELP {} ", metric.name)));
    }
}

#[tokio::test(start_paused = true)]
async fn retry_delays_are_measured_and_deliveries_from_the_insert_on() {
    let recorder = recorder();
    let (shown, _recorder) = (recorder.handle(), set_default_local_recorder(&recorder));
    let b = MemoryBackend::default();
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("5s")).await.unwrap();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", |notice: Notice<i64>| async move {
            if notice.attempt() == 1 { Err(Failure::retry("busy")) } else { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    let id = add(&b, "sync").await;
    reaches(&b, id, Status::Failed).await;
    sweeper.idle().await;
    let before = value(&shown, &format!("{LATENESS}_sum"), "definition=sync");
    b.clock().advance(Duration::from_secs(7));
    reaches(&b, id, Status::Succeeded).await;
    sweeper.shutdown().await;
    let late = value(&shown, &format!("{LATENESS}_sum"), "definition=sync") - before;
    assert!((late - 2.0).abs() < 1e-6, "{late}");
    let delivery = value(&shown, &format!("{DELIVERY}_sum"), "definition=sync");
    assert!((7.0..8.0).contains(&delivery), "{delivery}");
}

#[tokio::test]
async fn an_outcome_that_lost_its_lease_is_counted_as_that() {
    let recorder = recorder();
    let (shown, _recorder) = (recorder.handle(), set_default_local_recorder(&recorder));
    let b = Arc::new(MemoryBackend::default());
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let of_handler = Arc::clone(&b);
    let sweeper = b
        .outbox()
        .sweeper()
        .node_name("node")
        .handler("sync", move |notice: Notice<i64>| {
            let stores = of_handler.outbox().engine().stores().clone();
            async move {
                // Another call settles it.
                let worker = stores.browse.find(notice.id()).await?.unwrap().worker.unwrap();
                let held = stores.send.look(&Look::ClaimedBy { worker }, 10).await?;
                let next = Next::Wait { status: Status::Failed, after: Duration::from_secs(3600) };
                stores.send.settle(&[outcome(&held[0], next)]).await?;
                Ok(())
            }
        })
        .start()
        .await
        .unwrap();
    let id = add(&*b, "sync").await;
    let lost = || value(&shown, LEASE_LOSSES, "definition=sync");
    eventually("the loss is counted", async || lost() == 1.0).await;
    reaches(&*b, id, Status::Failed).await;
    assert!(!values(&shown, ATTEMPTS).keys().any(|labels| labels.contains("sync")), "its outcome is not stored");
    sweeper.shutdown().await;
}

#[tokio::test]
async fn alerts_are_counted_and_suppressed_ones_with_their_digest() {
    let recorder = recorder();
    let (shown, _recorder) = (recorder.handle(), set_default_local_recorder(&recorder));
    let b = MemoryBackend::default();
    b.outbox().define_if_missing(NotifyDef::new("sync").max_retry_times(0)).await.unwrap();
    let alerts: Calls<i64> = Calls::default();
    let noted = alerts.clone();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", |_: Notice<i64>| async { Err(Failure::retry("refused")) })
        .handler(ALERT_DEFINITION, move |notice: Notice<Alert>| {
            noted.note(notice.param().more);
            async { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    let id = add(&b, "sync").await;
    reaches(&b, id, Status::DeadLetter).await;
    eventually("the alert", async || alerts.count() == 1).await;
    sweeper.idle().await;
    for _ in 0..3 {
        let id = add(&b, "sync").await;
        reaches(&b, id, Status::DeadLetter).await;
    }
    sweeper.idle().await;
    assert_eq!((value(&shown, ALERTS_SENT, ""), value(&shown, ALERTS_SUPPRESSED, "")), (1.0, 0.0));
    b.clock().advance(Duration::from_secs(300));
    eventually("the digest", async || alerts.count() == 2).await;
    sweeper.shutdown().await;
    assert_eq!(alerts.all(), [0, 3]);
    assert_eq!((value(&shown, ALERTS_SENT, ""), value(&shown, ALERTS_SUPPRESSED, "")), (2.0, 3.0));
}

async fn only_committed_notices_are_counted<D: Database>() {
    let recorder = recorder();
    let (shown, _recorder) = (recorder.handle(), set_default_local_recorder(&recorder));
    let db = TestDb::<D>::with_real_clock().await;
    for name in ["one", "two"] {
        db.outbox.define_if_missing(NotifyDef::new(name)).await.unwrap();
    }
    let added = || (value(&shown, ADDED, "definition=one"), value(&shown, ADDED, "definition=two"));
    let mut tx = db.outbox.begin().await.unwrap();
    add_notice(&mut tx, "one", 1).await.unwrap();
    let later = NewNotice::new("two", 1).unwrap().delay(Duration::from_secs(3600));
    add_notices(&mut tx, [NewNotice::new("one", 2).unwrap(), later]).await.unwrap();
    let mut inner = tx.begin().await.unwrap();
    add_notice(&mut inner, "one", 3).await.unwrap();
    inner.rollback().await.unwrap();
    assert_eq!(added(), (0.0, 0.0), "not before the commit");
    tx.commit().await.unwrap();
    assert_eq!(added(), (2.0, 1.0));
    let mut tx = db.outbox.begin().await.unwrap();
    add_notice(&mut tx, "one", 4).await.unwrap();
    tx.rollback().await.unwrap();
    let mut plain = db.pool.begin().await.unwrap();
    add_notice(&mut plain, "one", 5).await.unwrap();
    plain.commit().await.unwrap();
    assert_eq!(added(), (2.0, 1.0), "the commit of a plain transaction is not seen");
    // Under its new name it is counted as that.
    let seen = db.outbox.definitions().await.unwrap().into_iter().find(|state| state.row.name == "two").unwrap().row;
    let mut renamed = seen.clone();
    renamed.name = "three".to_owned();
    db.outbox.update(&seen, renamed).await.unwrap();
    let mut tx = db.outbox.begin().await.unwrap();
    add_notice(&mut tx, "three", 1).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((added(), value(&shown, ADDED, "definition=three")), ((2.0, 1.0), 1.0));
    db.close().await;
}

macro_rules! on_one_thread {
    ($($module:ident $database:ident;)+) => {
        $(mod $module {
            #[tokio::test]
            async fn only_committed_notices_are_counted() {
                super::only_committed_notices_are_counted::<test_support::$database>().await;
            }
        })+
    };
}
on_one_thread! { sqlite Sqlite; postgres Postgres; mariadb MariaDb; mysql MySql; }
