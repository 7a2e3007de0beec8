//! The test kit for applications: a sweeper that sends until nothing is due, turns the clock and fails attempts on purpose,
//! and the list of added notices.

use std::time::Duration;

use solid_notify::testkit::{TestSweeper, assert_added};
use solid_notify::{Failure, NewNotice, Notice, NotifyDef, OutboxExt, Status, SweeperBuilder};
use solid_notify_conformance::Backend;
use test_support::sending::{Calls, add, record};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// Builds a handler that records when it is called, by the hand-turned clock.
fn noting(b: &dyn Backend, name: &str, calls: &Calls<Duration>) -> SweeperBuilder {
    let (began, clock, calls) = (b.clock().now(), b.clock().clone(), calls.clone());
    b.outbox().sweeper().handler(name, move |_: Notice<serde_json::Value>| {
        calls.note((clock.now() - began).to_std().unwrap());
        async { Ok(()) }
    })
}

pub async fn attempts_fail_as_often_as_a_test_wants_and_of_no_other_definition(b: &dyn Backend) {
    for name in ["sync", "other"] {
        b.outbox().define_if_missing(NotifyDef::new(name).handler("sync").retry_interval("1h")).await.unwrap();
    }
    let calls = Calls::default();
    let sweeper = TestSweeper::start(noting(b, "sync", &calls)).await.unwrap();
    sweeper.fail_next("sync", 2, || Failure::retry("out of order"));
    let ids = [add(b, "sync").await, add(b, "sync").await, add(b, "sync").await, add(b, "other").await];
    let done = sweeper.drain().await;
    assert_eq!((done.failed, done.succeeded, calls.count()), (2, 2, 2));
    assert_eq!(record(b, ids[3]).await.status, Status::Succeeded);
    let mut failed = 0;
    for id in ids {
        let record = record(b, id).await;
        failed += record.failures;
        assert!(record.errors.iter().all(|error| error.message == "out of order"));
    }
    assert_eq!(failed, 2);
    // An alert is returned once.
    assert_eq!(sweeper.drain().await, solid_notify::Tally::default());
    sweeper.fail_next("sync", 1, || Failure::give_up("gone"));
    let done = sweeper.advance(HOUR).await;
    assert_eq!((done.dead_letters, done.succeeded), (1, 1));
    let all = sweeper.shutdown().await;
    assert_eq!((all.failed, all.succeeded, all.dead_letters), (2, 3, 1));
}

pub async fn time_that_passes_stops_at_each_retry(b: &dyn Backend) {
    let def = NotifyDef::new("sync").retry_interval("[5s,5m,1h,1d]").max_retry_times(4);
    b.outbox().define_if_missing(def).await.unwrap();
    let calls = Calls::default();
    let sweeper = TestSweeper::start(b.outbox().sweeper()).await.unwrap();
    // Without a handler nothing is sent, and time passes all the same.
    let id = add(b, "sync").await;
    assert_eq!(sweeper.advance(MINUTE).await, solid_notify::Tally::default());
    sweeper.shutdown().await;

    let (clock, began, noted) = (b.clock().clone(), b.clock().now() - MINUTE, calls.clone());
    let failing = b.outbox().sweeper().handler("sync", move |_: Notice<i64>| {
        noted.note((clock.now() - began).to_std().unwrap());
        async { Err(Failure::retry("out of order")) }
    });
    let sweeper = TestSweeper::start(failing).await.unwrap();
    let done = sweeper.advance(2 * HOUR).await;
    assert_eq!((done.failed, done.dead_letters), (4, 0));
    assert_eq!(sweeper.advance(24 * HOUR).await.dead_letters, 1);
    let times = [MINUTE, MINUTE + 5 * SECOND, 6 * MINUTE + 5 * SECOND, HOUR + 6 * MINUTE + 5 * SECOND];
    let mut times = times.to_vec();
    times.push(times[3] + 24 * HOUR);
    assert_eq!(calls.all(), times);
    assert_eq!(record(b, id).await.status, Status::DeadLetter);
    sweeper.shutdown().await;
}

pub async fn the_clock_stops_at_ticks_openings_and_ack_deadlines(b: &dyn Backend) {
    b.clock().advance(HOUR / 2); // to a full hour
    let calls = Calls::default();
    let opens =
        humantime::format_rfc3339((b.clock().now() + 5 * HOUR).into()).to_string()[11..13].parse::<u32>().unwrap();
    let window = format!("{opens:02}:00-{:02}:00", (opens + 1) % 24);
    for def in [
        NotifyDef::new("hourly").schedule("0 30 * * * *").handler("sync"),
        NotifyDef::new("at night").send_window(window).handler("sync"),
        NotifyDef::new("order").need_confirm(true).max_confirm_delay("50m").retry_interval("1h").handler("sync"),
    ] {
        b.outbox().define_if_missing(def).await.unwrap();
    }
    let sweeper = TestSweeper::start(noting(b, "sync", &calls)).await.unwrap();
    let order = add(b, "order").await;
    assert_eq!(sweeper.drain().await.awaiting_ack, 1);
    add(b, "at night").await;
    assert_eq!(sweeper.drain().await, solid_notify::Tally::default());
    let done = sweeper.advance(3 * HOUR).await;
    // Sent again an hour after the first ack was overdue, and once more.
    assert_eq!((done.succeeded, done.failed, done.awaiting_ack), (3, 2, 1));
    assert_eq!(assert_added(b.outbox(), "hourly").times(3).await.len(), 3);
    assert_eq!(sweeper.advance(2 * HOUR).await.succeeded, 3);
    let minutes: Vec<u64> = calls.all().iter().map(|call| call.as_secs() / 60).collect();
    assert_eq!(minutes, [0, 30, 90, 110, 150, 210, 220, 270, 300]);
    assert!(calls.all().iter().all(|call| call.as_secs() % 60 == 0), "{:?}", calls.all());
    assert_eq!(record(b, order).await.failures, 3);
    sweeper.shutdown().await;
}

pub async fn a_rate_lets_through_what_it_allows_while_time_passes(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").rate_limit("2/1m")).await.unwrap();
    let calls = Calls::default();
    let sweeper = TestSweeper::start(noting(b, "sync", &calls)).await.unwrap();
    for _ in 0..5 {
        add(b, "sync").await;
    }
    assert_eq!(sweeper.drain().await.succeeded, 2);
    assert_eq!(sweeper.advance(59 * SECOND).await.succeeded, 0);
    assert_eq!(sweeper.advance(SECOND).await.succeeded, 2);
    assert_eq!(sweeper.advance(MINUTE).await.succeeded, 1);
    sweeper.shutdown().await;
}

pub async fn an_added_notice_is_found_live_and_ended(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = TestSweeper::start(noting(b, "sync", &Calls::default())).await.unwrap();
    let sent = b.add_new(NewNotice::new("sync", serde_json::json!({"order": 7})).unwrap()).await.id();
    assert_eq!(sweeper.drain().await.succeeded, 1);
    let later = NewNotice::new("sync", serde_json::json!({"order": 8})).unwrap().delay(HOUR);
    let later = b.add_new(later).await.id();
    let added = assert_added(b.outbox(), "sync").times(2).await;
    assert_eq!([added[0].id, added[1].id], [sent, later]);
    assert_eq!([added[0].status, added[1].status], [Status::Succeeded, Status::NotSent]);
    let eight = assert_added(b.outbox(), "sync").with(serde_json::json!({"order": 8})).await;
    assert_eq!(eight[0].id, later);
    sweeper.shutdown().await;
}
