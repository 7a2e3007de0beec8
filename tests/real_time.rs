//! What only the real clock shows: due times between two polls are met precisely.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, Instant};

use solid_notify::{Done, Failure, FirstAttempt, NewNotice, Notice, NotifyDef, Status, Sweeper};
use solid_notify_testkit::conformance::Backend;
use solid_notify_tests::sending::{Calls, add, eventually, reaches};
use solid_notify_tests::{Database, TestDb};

async fn retries_shorter_than_the_poll_interval_are_met<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.notify.define(NotifyDef::new("sync").retry_interval("50ms").max_retry_times(8)).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = Sweeper::builder(&db.notify)
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
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    assert_eq!(calls.count(), 9);
    sweeper.shutdown().await;
    db.close().await;
}

async fn short_delays_are_met<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.notify.define(NotifyDef::new("sync")).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = Sweeper::builder(&db.notify)
        .poll_interval(Duration::from_secs(2))
        .handler("sync", move |notice: Notice<i64>| {
            noted.note(notice.age());
            async { Ok(Done::Ok) }
        })
        .start()
        .await
        .unwrap();
    let began = Instant::now();
    for n in 1..=10 {
        db.add(NewNotice::new("sync", n).unwrap().delay(Duration::from_millis(200))).await.unwrap();
        eventually("it is sent", async || calls.count() == n).await;
    }
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    assert!(calls.all().iter().all(|age| *age >= Duration::from_millis(200)), "{:?}", calls.all());
    sweeper.shutdown().await;
    db.close().await;
}

async fn stored_times_are_those_of_the_real_clock<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.notify.define(NotifyDef::new("sync").timeout("1s")).await.unwrap();
    let sweeper =
        Sweeper::builder(&db.notify).handler("sync", |_: Notice<i64>| async { Ok(Done::Ok) }).start().await.unwrap();
    let first = db.add(NewNotice::new("sync", 1).unwrap()).await.unwrap();
    let id = first.id();
    assert_eq!(first.first_attempt(Duration::from_secs(20)).await, FirstAttempt::Succeeded);
    let done = db.notify.find(id).await.unwrap().unwrap();
    assert_eq!(done.attempt, 1);
    // Whole milliseconds of the database's clock, near ours.
    let age = done.create_time.elapsed().unwrap_or_default();
    assert!(age < Duration::from_secs(60), "{age:?}");
    sweeper.shutdown().await;
    db.close().await;
}

solid_notify_tests::on_each_database!(
    retries_shorter_than_the_poll_interval_are_met,
    short_delays_are_met,
    stored_times_are_those_of_the_real_clock,
);
