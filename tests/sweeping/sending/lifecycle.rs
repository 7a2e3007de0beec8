//! Start, idleness and shutdown of a sweeper, and its clean-up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use solid_notify::{Failure, Filter, HttpStatus, NewNotice, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use test_support::log::Log;
use test_support::sending::{Calls, add, edit_by_hand, eventually, gated, reaches, record, update};
use tokio::sync::Semaphore;

const DAY: Duration = Duration::from_secs(86_400);

pub async fn a_shutdown_waits_for_running_handlers(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let calls = Calls::default();
    // Added before the start, so that only the sweep claims it. A sweep that lost it to its first send could claim the late one.
    let id = add(b, "sync").await;
    let sweeper = b.outbox().sweeper().handler("sync", gated(&calls, &gate)).start().await.unwrap();
    eventually("it is being sent", async || calls.count() == 1).await;
    let mut stopping = Box::pin(sweeper.shutdown());
    // The shutdown has begun and waits for the handler, without a limit.
    tokio::time::timeout(Duration::from_millis(200), &mut stopping).await.unwrap_err();
    let late = add(b, "sync").await;
    gate.add_permits(1);
    assert_eq!(stopping.await.succeeded, 1);
    assert_eq!(record(b, id).await.status, Status::Succeeded, "stored when shutdown returns");
    let untouched = record(b, late).await;
    assert_eq!((untouched.status, untouched.fence), (Status::NotSent, 0));
}

pub async fn after_the_grace_period_notices_are_handed_back_uncounted(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("5s")).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = b
        .outbox()
        .sweeper()
        .shutdown_grace(Duration::from_millis(20))
        .handler("sync", move |_: Notice<i64>| {
            noted.note(());
            async { std::future::pending().await }
        })
        .start()
        .await
        .unwrap();
    let id = add(b, "sync").await;
    eventually("it is being sent", async || calls.count() == 1).await;
    sweeper.shutdown().await;
    let back = record(b, id).await;
    assert_eq!((back.status, back.fence, back.failures, back.crashes), (Status::NotSent, 1, 0, 0));
    assert_eq!(back.next_call_time, Some(b.clock().now()), "due for anybody, at once");
    assert!(back.errors.is_empty());
}

pub async fn handed_back_retry_keeps_the_class_of_its_failure(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("5s")).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let handler = move |notice: Notice<i64>| {
        noted.note(());
        async move {
            match notice.attempt() {
                1 => Err(HttpStatus(503).into()),
                _ => std::future::pending().await,
            }
        }
    };
    let builder = b.outbox().sweeper().shutdown_grace(Duration::from_millis(20)).handler("sync", handler);
    let sweeper = builder.start().await.unwrap();
    let id = add(b, "sync").await;
    reaches(b, id, Status::Failed).await;
    b.clock().advance(Duration::from_secs(5));
    eventually("the retry is being sent", async || calls.count() == 2).await;
    sweeper.shutdown().await;
    let back = record(b, id).await;
    assert_eq!((back.status, back.failures, back.last_class.as_deref()), (Status::Failed, 1, Some("unavailable")));
}

pub async fn a_dropped_sweeper_ends_what_is_running_and_claims_nothing_more(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let calls = Calls::default();
    // Added before the start, so that only the sweep claims it. A sweep that lost it to its first send could claim the late one.
    let id = add(b, "sync").await;
    let sweeper = b.outbox().sweeper().handler("sync", gated(&calls, &gate)).start().await.unwrap();
    eventually("it is being sent", async || calls.count() == 1).await;
    drop(sweeper);
    let late = add(b, "sync").await;
    gate.add_permits(1);
    reaches(b, id, Status::Succeeded).await;
    assert_eq!((record(b, late).await.fence, calls.count()), (0, 1));
}

pub async fn run_until_idle_sends_what_is_due_and_ends(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("good")).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("bad").retry_interval("5s").max_retry_times(1)).await.unwrap();
    let builder = || {
        b.outbox()
            .sweeper()
            .handler("good", |_: Notice<i64>| async { Ok(()) })
            .handler("bad", |_: Notice<i64>| async { Err(Failure::retry("no")) })
    };
    for _ in 0..30 {
        add(b, "good").await;
    }
    let bad = add(b, "bad").await;
    let later = b.add_new(NewNotice::new("good", 1).unwrap().delay(Duration::from_secs(60))).await.id();
    let first = builder().run_until_idle().await.unwrap();
    assert_eq!((first.succeeded, first.failed, first.dead_letters), (30, 1, 0));
    assert_eq!(record(b, later).await.fence, 0, "left for the next run");
    b.clock().advance(Duration::from_secs(5));
    let second = builder().run_until_idle().await.unwrap();
    assert_eq!((second.succeeded, second.failed, second.dead_letters), (0, 0, 1));
    assert_eq!(record(b, bad).await.status, Status::DeadLetter);
    let snapshot = b.outbox().operator("alice").snapshot().await.unwrap();
    let counted = snapshot.iter().find(|row| row.definition == "bad").and_then(|row| row.taken.as_ref());
    assert_eq!(counted.map(|(counts, _)| (counts.live(), counts.dead_letters)), Some((0, 1)), "it counts at its end");
    let third = builder().run_until_idle().await.unwrap();
    assert_eq!((third.succeeded, third.failed, third.dead_letters), (0, 0, 0));
    assert_eq!(b.outbox().operator("alice").nodes().await.unwrap(), [], "each reported its end");
}

pub async fn history_is_purged_by_what_the_definition_says(b: &dyn Backend) {
    let defs = [("short", "1h"), ("long", "forever"), ("none", "none")];
    for (name, keep) in defs {
        b.outbox().define_if_missing(NotifyDef::new(name).handler("good").keep_history(keep)).await.unwrap();
    }
    b.outbox().define_if_missing(NotifyDef::new("bad").max_retry_times(0).keep_history("none")).await.unwrap();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("good", |_: Notice<i64>| async { Ok(()) })
        .handler("bad", |_: Notice<i64>| async { Err(Failure::retry("no")) })
        .start()
        .await
        .unwrap();
    update(b, "notify.purge", |def| def.handler_config(r#"{"dead_letters": "10d"}"#)).await;
    let (short, long, none, bad) =
        (add(b, "short").await, add(b, "long").await, add(b, "none").await, add(b, "bad").await);
    sweeper.idle().await;
    let exists = async |id| b.outbox().find(id).await.unwrap().is_some();
    assert!(exists(short).await && exists(long).await && exists(bad).await && !exists(none).await);
    b.clock().advance(DAY);
    eventually("the success is purged", async || !exists(short).await).await;
    sweeper.idle().await;
    assert!(exists(long).await && exists(bad).await, "dead letters stay whatever keep_history says");
    b.clock().advance(10 * DAY);
    eventually("the dead letter is purged", async || !exists(bad).await).await;
    assert!(exists(long).await);
    sweeper.shutdown().await;
}

pub async fn a_purged_undelivered_notice_is_logged_without_its_parameter(b: &dyn Backend) {
    static CASES: AtomicUsize = AtomicUsize::new(0);
    let log = Log::start();
    // The stores' cases share the log.
    let name = format!("purged_{:03}", CASES.fetch_add(1, Ordering::Relaxed));
    b.outbox().define_if_missing(NotifyDef::new(&name).handler("any").retry_interval("[1h]")).await.unwrap();
    let handler = |notice: Notice<String>| async move {
        match notice.param().as_str() {
            "good" => Ok(()),
            "unwanted, secret" => Err(Failure::skip("a test order")),
            _ => Err(Failure::retry("the door is shut")),
        }
    };
    let sweeper = b.outbox().sweeper().handler("any", handler).start().await.unwrap();
    let new = |param: &str| NewNotice::new(name.as_str(), param).unwrap();
    let (bad, good) = (b.add_new(new("secret").max_tries(1)).await.id(), b.add_new(new("good")).await.id());
    let (unwanted, stopped) = (b.add_new(new("unwanted, secret")).await.id(), b.add_new(new("secret")).await.id());
    let skipped = b.add_new(new("secret").skipped("too late")).await.id();
    reaches(b, bad, Status::DeadLetter).await;
    reaches(b, good, Status::Succeeded).await;
    reaches(b, unwanted, Status::Cancelled).await;
    reaches(b, stopped, Status::Failed).await;
    b.outbox().operator("alice").cancel(stopped, "the order was deleted").await.unwrap();
    sweeper.idle().await;
    b.clock().advance(31 * DAY);
    eventually("all are purged", async || {
        let mut left = 0;
        for id in [bad, good, unwanted, stopped, skipped] {
            left += usize::from(b.outbox().find(id).await.unwrap().is_some());
        }
        left == 0
    })
    .await;
    sweeper.idle().await;
    let mut lines = log.warnings_with(&name);
    // `notify.dead_letters` counts one of them.
    lines.retain(|line| line.contains("purged a "));
    assert_eq!(lines.len(), 4, "{lines:?}");
    let (class, error) = (r#"class="unknown""#, r#"error="the door is shut""#);
    for (id, parts) in [
        (
            bad,
            &["purged a dead letter", "tries=1 ", class, error, r#"reason="the only try failed; the last error"#][..],
        ),
        (unwanted, &["purged a cancelled notice", "tries=0 ", r#"reason="a test order""#]),
        (stopped, &["purged a cancelled notice", "tries=1 ", error, r#"reason="the order was deleted""#]),
        (skipped, &["purged a cancelled notice", "tries=0 ", r#"reason="too late""#]),
    ] {
        let line = lines.iter().find(|line| line.contains(&format!("id={id} "))).unwrap();
        assert!(parts.iter().chain(&["(masked)"]).all(|part| line.contains(part)), "{parts:?}: {line}");
    }
    assert!(!log.all().iter().any(|line| line.contains(&name) && line.contains("secret")));
    sweeper.shutdown().await;
}

pub async fn a_purge_by_an_operator_is_logged_without_parameters(b: &dyn Backend) {
    static CASES: AtomicUsize = AtomicUsize::new(0);
    let log = Log::start();
    let name = format!("purged_by_filter_{:03}", CASES.fetch_add(1, Ordering::Relaxed));
    b.outbox().define_if_missing(NotifyDef::new(&name).handler("any").max_retry_times(0)).await.unwrap();
    let handler = |notice: Notice<String>| async move {
        if notice.param() == "good" { Ok(()) } else { Err(Failure::retry("the door is shut")) }
    };
    let sweeper = b.outbox().sweeper().handler("any", handler).start().await.unwrap();
    let add = async |param: &str| b.add_new(NewNotice::new(name.as_str(), param).unwrap().tag("t")).await.id();
    let (bad, good) = (add("secret").await, add("good").await);
    reaches(b, bad, Status::DeadLetter).await;
    reaches(b, good, Status::Succeeded).await;
    sweeper.shutdown().await;
    b.clock().advance(Duration::from_secs(1));
    let done = b.outbox().operator("alice").purge_all(&Filter::ended().tag("t"), "asked for").await.unwrap();
    assert_eq!(done.changed, 2);
    let mut lines = log.warnings_with(&name);
    lines.retain(|line| line.contains("purged "));
    assert_eq!(lines.len(), 2, "{lines:?}");
    let dead = lines.iter().find(|line| line.contains("purged a dead letter")).unwrap();
    for part in [&format!("id={bad} "), "tries=1 ", r#"error="the door is shut""#, "(masked)"] {
        assert!(dead.contains(part), "{part}: {dead}");
    }
    let others = lines.iter().find(|line| line.contains("purged successes for an operator")).unwrap();
    assert!(others.contains("count=1"), "{others}");
    assert!(!log.all().iter().any(|line| line.contains(&name) && line.contains("secret")));
}

pub async fn a_broken_row_purges_nothing(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("broken").handler("sync")).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("sync").keep_history("1h")).await.unwrap();
    let sweeper = b.outbox().sweeper().handler("sync", |_: Notice<i64>| async { Ok(()) }).start().await.unwrap();
    let kept = add(b, "broken").await;
    reaches(b, kept, Status::Succeeded).await;
    edit_by_hand(b, "broken", |def| def.timeout("soon")).await;
    // A definition that the node does not know yet makes it read all of them.
    b.outbox().define_if_missing(NotifyDef::new("late").handler("sync")).await.unwrap();
    let late = add(b, "late").await;
    reaches(b, late, Status::Succeeded).await;
    let id = add(b, "sync").await;
    reaches(b, id, Status::Succeeded).await;
    sweeper.idle().await;
    b.clock().advance(DAY);
    eventually("the other's success is purged", async || b.outbox().find(id).await.unwrap().is_none()).await;
    sweeper.idle().await;
    assert!(b.outbox().find(kept).await.unwrap().is_some());
    sweeper.shutdown().await;
}
