//! Times by the clocks of the databases: what is stored, and that nothing comes too early. That nothing comes too late either is tested on
//! virtual time, in `sweeping/virtual_time.rs`.

use std::time::Duration;

use solid_notify::{FirstAttempt, NewNotice, Notice, NotifyDef, OutboxExt};
use solid_notify_conformance::Backend;
use solid_notify_core::store::Node;
use test_support::sending::{Calls, PATIENCE, eventually};
use test_support::{Database, TestDb};

async fn delayed_notices_are_not_sent_early<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = db
        .outbox
        .sweeper()
        .handler("sync", move |notice: Notice<i64>| {
            noted.note(notice.age());
            async { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    for n in 1..=3 {
        db.add_new(NewNotice::new("sync", n).unwrap().delay(Duration::from_millis(200))).await;
        eventually("it is sent", async || calls.count() == n).await;
    }
    assert!(calls.all().iter().all(|age| *age >= Duration::from_millis(200)), "{:?}", calls.all());
    sweeper.shutdown().await;
    db.close().await;
}

async fn a_timetable_ticks_each_second_and_not_early<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("report").schedule("* * * * * *")).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = db
        .outbox
        .sweeper()
        .handler("report", move |notice: Notice<serde_json::Value>| {
            let tick = chrono::DateTime::<chrono::Utc>::from(
                humantime::parse_rfc3339(&notice.param()["tick"].as_str().unwrap().replace("+00:00", "Z")).unwrap(),
            );
            noted.note((tick, notice.created()));
            async { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    eventually("it ticks", async || calls.count() >= 3).await;
    sweeper.shutdown().await;
    // Ticks that are created at the same time are sent in any order.
    let mut calls = calls.all();
    calls.sort_unstable();
    assert!(calls.iter().all(|(tick, created)| tick <= created), "{calls:?}");
    assert!(calls.windows(2).all(|two| two[1].0 == two[0].0 + Duration::from_secs(1)), "{calls:?}");
    db.close().await;
}

async fn stored_times_are_those_of_the_real_clock<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync").timeout("1s")).await.unwrap();
    let sweeper = db.outbox.sweeper().handler("sync", |_: Notice<i64>| async { Ok(()) }).start().await.unwrap();
    let before = chrono::Utc::now();
    let first = db.add_new(NewNotice::new("sync", 1).unwrap()).await;
    let id = first.id();
    assert_eq!(first.first_attempt(PATIENCE).await, FirstAttempt::Succeeded);
    let done = db.outbox.find(id).await.unwrap().unwrap();
    assert_eq!(done.fence, 1);
    // The server may be another machine with a clock of its own.
    let (minute, created) = (Duration::from_secs(60), done.create_time);
    assert!(before - minute < created && created < chrono::Utc::now() + minute, "{created}");
    sweeper.shutdown().await;
    db.close().await;
}

/// Not with SQLite, because no other transaction could write meanwhile.
async fn times_count_from_the_insert_and_not_from_the_begin_of_its_transaction<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let mut tx = db.outbox.begin().await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let node = Node::new("clock".to_owned(), Vec::new());
    let before = db.outbox.engine().stores().send.beat(&node).await.unwrap().now;
    let id = NewNotice::new("sync", 1).unwrap().delay(Duration::from_secs(5)).add(&mut tx).await.unwrap().id();
    tx.commit().await.unwrap();
    let record = db.outbox.find(id).await.unwrap().unwrap();
    assert!(record.create_time >= before, "{:?} before {before:?}", record.create_time);
    assert!(record.next_call_time.unwrap() >= before + Duration::from_secs(5));
    db.close().await;
}

mod servers {
    use super::times_count_from_the_insert_and_not_from_the_begin_of_its_transaction;

    test_support::on_each_server!(times_count_from_the_insert_and_not_from_the_begin_of_its_transaction);
}

test_support::on_each_database!(
    delayed_notices_are_not_sent_early,
    a_timetable_ticks_each_second_and_not_early,
    stored_times_are_those_of_the_real_clock,
);
