//! Tests that need the real clock: due times between two polls are met precisely.

use std::time::{Duration, Instant};

use solid_notify::{Failure, FirstAttempt, NewNotice, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_core::store::Node;
use solid_notify_testkit::conformance::Backend;
use test_support::sending::{Calls, add, eventually, reaches};
use test_support::{Database, TestDb};

async fn retries_shorter_than_the_poll_interval_are_met<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync").retry_interval("50ms").max_retry_times(8)).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = db
        .outbox
        .sweeper()
        .poll_interval(Duration::from_secs(2))
        .handler("sync", move |_: Notice<i64>| {
            noted.note(());
            async { Err(Failure::retry("again")) }
        })
        .start()
        .await
        .unwrap();
    let began = Instant::now();
    let id = add(&db, "sync").await;
    reaches(&db, id, Status::DeadLetter).await;
    // Eight polls would take sixteen seconds, eight intervals 0.4.
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    assert_eq!(calls.count(), 9);
    sweeper.shutdown().await;
    db.close().await;
}

async fn short_delays_are_met<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = db
        .outbox
        .sweeper()
        .poll_interval(Duration::from_secs(2))
        .handler("sync", move |notice: Notice<i64>| {
            noted.note(notice.age());
            async { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    let began = Instant::now();
    for n in 1..=10 {
        db.add_new(NewNotice::new("sync", n).unwrap().delay(Duration::from_millis(200))).await;
        eventually("it is sent", async || calls.count() == n).await;
    }
    // Ten polls would take about twenty seconds.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert!(calls.all().iter().all(|age| *age >= Duration::from_millis(200)), "{:?}", calls.all());
    sweeper.shutdown().await;
    db.close().await;
}

async fn a_timetable_ticks_on_the_second<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("report").schedule("* * * * * *")).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = db
        .outbox
        .sweeper()
        .poll_interval(Duration::from_secs(2))
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
    eventually("it ticks", async || calls.count() >= 4).await;
    sweeper.shutdown().await;
    // Ticks that are created at the same time are sent in any order.
    let mut calls = calls.all();
    calls.sort_unstable();
    // Half of the polls would come a second late. The machine may be busy.
    let lates = calls.iter().map(|(tick, created)| (*created - *tick).to_std().unwrap());
    assert!(lates.min().unwrap() < Duration::from_millis(100), "{calls:?}");
    assert!(calls.windows(2).all(|two| two[1].0 == two[0].0 + Duration::from_secs(1)), "{calls:?}");
    db.close().await;
}

async fn stored_times_are_those_of_the_real_clock<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync").timeout("1s")).await.unwrap();
    let sweeper = db.outbox.sweeper().handler("sync", |_: Notice<i64>| async { Ok(()) }).start().await.unwrap();
    let first = db.add_new(NewNotice::new("sync", 1).unwrap()).await;
    let id = first.id();
    assert_eq!(first.first_attempt(Duration::from_secs(20)).await, FirstAttempt::Succeeded);
    let done = db.outbox.find(id).await.unwrap().unwrap();
    assert_eq!(done.fence, 1);
    // Whole milliseconds of the database's clock, near ours.
    let age = (chrono::Utc::now() - done.create_time).to_std().unwrap_or_default();
    assert!(age < Duration::from_secs(60), "{age:?}");
    sweeper.shutdown().await;
    db.close().await;
}

/// Each is sent alone on its node, without a wait for the next poll between them, also while others are being sent.
async fn crash_looping_notices_follow_without_a_pause<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    for name in ["sync", "long"] {
        db.outbox.define_if_missing(NotifyDef::new(name)).await.unwrap();
    }
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(add(&db, "sync").await);
    }
    db.sql("UPDATE notify_msg SET status = 2, fence = 2, crashes = 2").await;
    let long = add(&db, "long").await;
    let began = Instant::now();
    let sweeper = db
        .outbox
        .sweeper()
        .handler("sync", |_: Notice<i64>| async { Ok(()) })
        .handler("long", |_: Notice<i64>| std::future::pending())
        .shutdown_grace(Duration::ZERO)
        .start()
        .await
        .unwrap();
    for id in ids {
        reaches(&db, id, Status::Succeeded).await;
    }
    // Twenty polls would take twenty seconds.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    sweeper.shutdown().await;
    assert_eq!(db.outbox.find(long).await.unwrap().unwrap().fence, 1);
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
    retries_shorter_than_the_poll_interval_are_met,
    short_delays_are_met,
    crash_looping_notices_follow_without_a_pause,
    a_timetable_ticks_on_the_second,
    stored_times_are_those_of_the_real_clock,
);
