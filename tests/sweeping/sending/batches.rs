//! Batch handlers: several notices in one call, each with its own result.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use solid_notify::sweeper::{Batch, BatchResult};
use solid_notify::{Failure, HandlerResult, HttpStatus, NewNotice, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use test_support::sending::{Calls, PATIENCE, add, eventually, reaches, record, update};
use tokio::sync::Notify;

/// Long enough that a batch that is never full would show it.
const LONG: Duration = Duration::from_secs(600);

/// Adds notices with the parameters 0, 1 … before a sweeper runs, and returns their ids.
async fn added(b: &dyn Backend, count: usize) -> Vec<i64> {
    b.outbox().define_if_missing(NotifyDef::new("sync").max_retry_times(0)).await.unwrap();
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(b.add_new(NewNotice::new("sync", n).unwrap()).await.id());
    }
    ids
}

pub async fn batch_gets_several_notices_and_answers_for_each(b: &dyn Backend) {
    let ids = added(b, 10).await;
    let sizes = Calls::default();
    let noted = sizes.clone();
    let odd_ones_fail = move |notices: Vec<Notice<i64>>| {
        noted.note(notices.len());
        let result = |notice: &Notice<i64>| match notice.param() % 2 {
            0 => Ok(()),
            _ => Err(Failure::retry(format!("{} is odd", notice.param()))),
        };
        let results = notices.iter().map(result).collect();
        async { Ok(results) }
    };
    let sweeper =
        b.outbox().sweeper().batch_handler("sync", Batch::up_to(10).wait(LONG), odd_ones_fail).start().await.unwrap();
    for (n, id) in ids.into_iter().enumerate() {
        if n % 2 == 0 {
            reaches(b, id, Status::Succeeded).await;
        } else {
            let dead = reaches(b, id, Status::DeadLetter).await;
            assert_eq!(dead.errors[0].message, format!("{n} is odd"));
        }
    }
    assert_eq!(sizes.all(), [10]);
    sweeper.shutdown().await;
}

pub async fn batch_that_is_not_full_is_sent_after_its_wait(b: &dyn Backend) {
    let ids = added(b, 3).await;
    let (together, noted) = (Calls::default(), Calls::default());
    let calls = noted.clone();
    let accepting = move |notices: Vec<Notice<i64>>| {
        calls.note(notices.len());
        async move { Ok(notices.iter().map(|_| Ok(())).collect()) }
    };
    let sweeper = b.outbox().sweeper().batch_handler("sync", Batch::up_to(100), accepting).start().await.unwrap();
    for id in ids {
        together.note(reaches(b, id, Status::Succeeded).await.id);
    }
    assert_eq!((together.count(), noted.all().iter().sum::<usize>()), (3, 3));
    sweeper.shutdown().await;
}

/// Handles the notices of a batch, or fails as a whole where one of them is 6.
type Handle = fn(Vec<Notice<i64>>) -> BatchResult;

fn accept(notices: &[Notice<i64>]) -> Vec<HandlerResult> {
    notices.iter().map(|_| Ok(())).collect()
}

fn has_bad_one(notices: &[Notice<i64>]) -> bool {
    notices.iter().any(|notice| *notice.param() == 6)
}

pub async fn bad_notice_that_fails_its_whole_batch_dies_alone(b: &dyn Backend) {
    let cases: [(Handle, &str, &str); 4] = [
        (
            |n| if has_bad_one(&n) { Err(HttpStatus(503).into()) } else { Ok(accept(&n)) },
            "unavailable",
            "HTTP status 503",
        ),
        (|n| if has_bad_one(&n) { Err(Failure::give_up("no")) } else { Ok(accept(&n)) }, "unknown", "no"),
        (
            |n| if has_bad_one(&n) { Ok(Vec::new()) } else { Ok(accept(&n)) },
            "unknown",
            "the batch handler returned 0 results for 1 notices",
        ),
        (
            |n| if has_bad_one(&n) { panic!("of a test") } else { Ok(accept(&n)) },
            "unknown",
            "the batch handler panicked: of a test",
        ),
    ];
    for (handle, class, message) in cases {
        let ids = added(b, 10).await;
        let sizes = Calls::default();
        let noted = sizes.clone();
        let handle = move |notices: Vec<Notice<i64>>| {
            noted.note(notices.len());
            async move { handle(notices) }
        };
        let builder = b.outbox().sweeper().batch_handler("sync", Batch::up_to(10).wait(LONG), handle);
        let sweeper = builder.start().await.unwrap();
        for (n, id) in ids.into_iter().enumerate() {
            if n != 6 {
                reaches(b, id, Status::Succeeded).await;
                continue;
            }
            let dead = reaches(b, id, Status::DeadLetter).await;
            assert_eq!((dead.last_class.as_deref(), dead.errors.len()), (Some(class), 1), "{dead:?}");
            assert!(dead.errors[0].message.ends_with(message), "{dead:?}");
        }
        // The whole, and one half of each bad part; the other halves are good.
        let sizes = sizes.all();
        assert!(sizes[0] == 10 && (7..=9).contains(&sizes.len()), "{sizes:?}");
        sweeper.shutdown().await;
    }
}

pub async fn batch_that_must_wait_is_not_repeated_in_parts(b: &dyn Backend) {
    let ids = added(b, 4).await;
    let sizes = Calls::default();
    let noted = sizes.clone();
    let busy = move |notices: Vec<Notice<i64>>| {
        noted.note(notices.len());
        async move { BatchResult::Err(Failure::retry_in(LONG, "busy")) }
    };
    let builder = b.outbox().sweeper().batch_handler("sync", Batch::up_to(4).wait(LONG), busy);
    let sweeper = builder.start().await.unwrap();
    for id in ids {
        reaches(b, id, Status::DeadLetter).await;
    }
    assert_eq!(sizes.all(), [4]);
    sweeper.shutdown().await;
}

/// The first try of all of them times out. Then each is sent alone.
pub async fn bad_notice_that_hangs_its_batch_dies_alone(b: &dyn Backend) {
    let definition = NotifyDef::new("sync").timeout("1s").retry_interval("1ms").max_retry_times(1);
    b.outbox().define_if_missing(definition).await.unwrap();
    let mut ids = Vec::new();
    for n in 5..8 {
        ids.push(b.add_new(NewNotice::new("sync", n).unwrap()).await.id());
    }
    let handle = |notices: Vec<Notice<i64>>| async move {
        if has_bad_one(&notices) {
            std::future::pending::<()>().await;
        }
        Ok(accept(&notices))
    };
    let builder = b.outbox().sweeper().batch_handler("sync", Batch::up_to(3).wait(Duration::from_millis(100)), handle);
    let sweeper = builder.start().await.unwrap();
    for id in &ids {
        eventually("its first try times out", async || !record(b, *id).await.errors.is_empty()).await;
    }
    b.clock().advance(Duration::from_secs(1));
    for (id, status) in ids.into_iter().zip([Status::Succeeded, Status::DeadLetter, Status::Succeeded]) {
        reaches(b, id, status).await;
    }
    sweeper.shutdown().await;
}

pub async fn unreadable_param_fails_alone_in_a_batch(b: &dyn Backend) {
    let mut ids = added(b, 2).await;
    let wrong = b.add_new(NewNotice::new("sync", Value::from("no number")).unwrap()).await.id();
    ids.push(b.add_new(NewNotice::new("sync", 3).unwrap()).await.id());
    let accepting = |notices: Vec<Notice<i64>>| async move { Ok(notices.iter().map(|_| Ok(())).collect()) };
    let builder = b.outbox().sweeper().batch_handler("sync", Batch::up_to(3).wait(LONG), accepting);
    let sweeper = builder.start().await.unwrap();
    for id in ids {
        reaches(b, id, Status::Succeeded).await;
    }
    assert_eq!(reaches(b, wrong, Status::DeadLetter).await.last_class.as_deref(), Some("invalid"));
    sweeper.shutdown().await;
}

pub async fn attempt_that_timed_out_is_not_sent_with_its_batch(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").timeout("50ms").retry_interval("1h")).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let accepting = move |notices: Vec<Notice<i64>>| {
        noted.note(notices.iter().map(Notice::id).collect::<Vec<_>>());
        async move { Ok(notices.iter().map(|_| Ok(())).collect()) }
    };
    let builder = b.outbox().sweeper().batch_handler("sync", Batch::up_to(2).wait(LONG), accepting);
    let sweeper = builder.start().await.unwrap();
    let alone = add(b, "sync").await;
    reaches(b, alone, Status::Failed).await;
    update(b, "sync", |def| def.timeout("30s")).await;
    let second = add(b, "sync").await;
    reaches(b, second, Status::Succeeded).await;
    assert_eq!(calls.all(), [[second]]);
    sweeper.shutdown().await;
}

pub async fn batch_that_hangs_is_dropped_and_fails_each_notice(b: &dyn Backend) {
    struct Dropped(Arc<Notify>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    b.outbox().define_if_missing(NotifyDef::new("sync").timeout("2s").retry_interval("1h")).await.unwrap();
    let ids = [add(b, "sync").await, add(b, "sync").await];
    let dropped = Arc::new(Notify::new());
    let seen = Arc::clone(&dropped);
    let hanging = move |_: Vec<Notice<i64>>| {
        let guard = Dropped(Arc::clone(&seen));
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    };
    let builder = b.outbox().sweeper().batch_handler("sync", Batch::up_to(2).wait(Duration::ZERO), hanging);
    let sweeper = builder.start().await.unwrap();
    for id in ids {
        assert_eq!(reaches(b, id, Status::Failed).await.last_class.as_deref(), Some("timeout"));
        assert_eq!(record(b, id).await.failures, 1);
    }
    tokio::time::timeout(PATIENCE, dropped.notified()).await.expect("it is dropped");
    sweeper.shutdown().await;
}
