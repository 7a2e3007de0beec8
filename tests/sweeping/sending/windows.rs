//! Sending windows: outside of them nothing is sent and nothing is counted, and the other loops go on.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use solid_notify::alert::AlertReason;
use solid_notify::{Failure, FirstAttempt, NewNotice, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use solid_notify_core::store::{Claim, ClaimWhat};
use test_support::sending::{Calls, PATIENCE, add, definition, eventually, gated, reaches, record};
use tokio::sync::Semaphore;

const MINUTE: Duration = Duration::from_secs(60);

/// Turns the clock to the beginning of a minute, and returns that time.
fn full_minute(b: &dyn Backend) -> DateTime<Utc> {
    let since = (b.clock().now() - DateTime::UNIX_EPOCH).to_std().unwrap();
    b.clock().advance(Duration::from_millis(60_000 - u64::try_from(since.as_millis() % 60_000).unwrap()));
    b.clock().now()
}

/// The window from so many minutes after a time to so many, in UTC.
fn window(now: DateTime<Utc>, from: u32, to: u32) -> String {
    let clock =
        |minutes: u32| humantime::format_rfc3339((now + minutes * MINUTE).into()).to_string()[11..16].to_owned();
    format!("{}-{}", clock(from), clock(to))
}

pub async fn outside_of_its_window_nothing_is_sent_or_counted_until_it_opens(b: &dyn Backend) {
    let now = full_minute(b);
    b.outbox().define_if_missing(NotifyDef::new("sync").send_window(window(now, 60, 120))).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", move |_: Notice<i64>| {
            noted.note(());
            async { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    let added = b.add_new(NewNotice::new("sync", 1).unwrap()).await;
    let id = added.id();
    let told = tokio::time::timeout(PATIENCE, added.first_attempt(Duration::MAX)).await;
    assert_eq!(told.expect("the reply comes at once"), FirstAttempt::StillDue);
    sweeper.idle().await;
    let waits = record(b, id).await;
    assert_eq!((waits.status, waits.fence, waits.next_call_time), (Status::NotSent, 0, Some(now)));
    let why = b.outbox().operator("alice").explain(id).await.unwrap().to_string();
    let opens = solid_notify_core::notice::rfc3339(now + 60 * MINUTE);
    assert!(why.ends_with(&format!("outside of its window until {opens}")), "{why}");
    b.clock().advance(60 * MINUTE - Duration::from_millis(1));
    sweeper.idle().await;
    assert_eq!(record(b, id).await.fence, 0);
    b.clock().advance(Duration::from_millis(1));
    let sent = reaches(b, id, Status::Succeeded).await;
    assert_eq!((sent.fence, calls.count()), (1, 1));
    // Within it a notice is sent at once.
    let added = b.add_new(NewNotice::new("sync", 1).unwrap()).await;
    assert_eq!(added.first_attempt(PATIENCE).await, FirstAttempt::Succeeded);
    sweeper.shutdown().await;
}

pub async fn a_retry_that_is_due_waits_for_the_window_and_keeps_its_time(b: &dyn Backend) {
    let now = full_minute(b);
    let def = NotifyDef::new("sync").retry_interval("1h").send_window(window(now, 0, 30));
    b.outbox().define_if_missing(def).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", move |_: Notice<i64>| {
            let first = noted.note(()) == 0;
            async move { if first { Err(Failure::retry("not now")) } else { Ok(()) } }
        })
        .start()
        .await
        .unwrap();
    let id = add(b, "sync").await;
    let due = reaches(b, id, Status::Failed).await.next_call_time;
    sweeper.idle().await;
    b.clock().advance(5 * 60 * MINUTE);
    sweeper.idle().await;
    let waits = record(b, id).await;
    assert_eq!((waits.fence, waits.failures, waits.next_call_time), (1, 1, due));
    b.clock().advance(19 * 60 * MINUTE);
    assert_eq!(reaches(b, id, Status::Succeeded).await.fence, 2);
    sweeper.shutdown().await;
}

pub async fn an_attempt_may_end_after_its_window_has_closed(b: &dyn Backend) {
    let now = full_minute(b);
    b.outbox().define_if_missing(NotifyDef::new("sync").timeout("1d").send_window(window(now, 0, 30))).await.unwrap();
    let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
    let sweeper = b.outbox().sweeper().handler("sync", gated(&calls, &gate)).start().await.unwrap();
    let id = add(b, "sync").await;
    eventually("it is being sent", async || calls.count() == 1).await;
    b.clock().advance(40 * MINUTE);
    gate.add_permits(10);
    assert_eq!(reaches(b, id, Status::Succeeded).await.fence, 1);
    let late = add(b, "sync").await;
    sweeper.idle().await;
    assert_eq!((record(b, late).await.fence, calls.count()), (0, 1));
    sweeper.shutdown().await;
}

pub async fn dead_senders_and_overdue_acks_are_judged_outside_of_the_window(b: &dyn Backend) {
    let now = full_minute(b);
    let def = |name| NotifyDef::new(name).send_window(window(now, 0, 30));
    b.outbox().define_if_missing(def("sync")).await.unwrap();
    b.outbox().define_if_missing(def("order").need_confirm(true).max_confirm_delay("1h")).await.unwrap();
    let died = add(b, "sync").await;
    let (def_id, what) = (definition(b, "sync").await.id, ClaimWhat::Slice(Status::NotSent));
    let claim = Claim { def_id, what, limit: 1, lease: 60 * MINUTE, worker: "dead-worker".to_owned(), quota: None };
    assert_eq!(b.outbox().engine().stores().send.claim(&claim).await.unwrap().notices.len(), 1);
    let ok = |_: Notice<i64>| async { Ok(()) };
    let sweeper = b.outbox().sweeper().handler("sync", ok).handler("order", ok).start().await.unwrap();
    let order = add(b, "order").await;
    reaches(b, order, Status::AwaitingAck).await;
    sweeper.idle().await;
    b.clock().advance(61 * MINUTE);
    let died = reaches(b, died, Status::Failed).await;
    assert_eq!((died.fence, died.crashes, died.failures), (1, 1, 0));
    let order = reaches(b, order, Status::Failed).await;
    assert_eq!((order.fence, order.failures), (1, 1));
    sweeper.idle().await;
    assert_eq!(record(b, died.id).await.fence, 1, "and it waits for the window");
    sweeper.shutdown().await;
}

pub async fn a_backlog_is_counted_from_the_opening_of_the_window(b: &dyn Backend) {
    let now = full_minute(b);
    let def = |name| NotifyDef::new(name).handler("missing").backlog_alert_age("5m");
    b.outbox().define_if_missing(def("nightly").send_window(window(now, 60, 180))).await.unwrap();
    b.outbox().define_if_missing(def("always")).await.unwrap();
    let sweeper = b.outbox().sweeper().start().await.unwrap();
    add(b, "nightly").await;
    add(b, "always").await;
    let ids = [definition(b, "nightly").await.id, definition(b, "always").await.id];
    let told =
        async |def_id, reason| b.outbox().engine().stores().alerts.alert(def_id, reason).await.unwrap().is_some();
    sweeper.idle().await;
    b.clock().advance(30 * MINUTE);
    eventually("the one without a window is reported", async || told(ids[1], AlertReason::Backlog).await).await;
    for reason in [AlertReason::Backlog, AlertReason::NoHandler] {
        assert!(!told(ids[0], reason).await, "it waits only for its window");
    }
    sweeper.idle().await;
    b.clock().advance(36 * MINUTE);
    eventually("it has been open for six minutes", async || told(ids[0], AlertReason::Backlog).await).await;
    sweeper.shutdown().await;
}
