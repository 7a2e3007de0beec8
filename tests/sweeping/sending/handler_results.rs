//! The results that a handler can return, and the outcome of the notice for each.

use std::time::Duration;

use serde_json::value::RawValue;
use solid_notify::{Failure, NewNotice, Notice, NoticeRecord, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use test_support::sending::{Calls, add, reaches, record};

/// Sends one notice by a handler that returns this result.
async fn sent(
    b: &dyn Backend,
    answer: impl Fn() -> Result<(), Failure> + Send + Sync + 'static,
    becomes: Status,
) -> NoticeRecord {
    b.outbox().define_if_missing(NotifyDef::new("sync").max_retry_interval("1h")).await.unwrap();
    let answer = std::sync::Arc::new(answer);
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", move |_: Notice<i64>| {
            let answer = answer.clone();
            async move { answer() }
        })
        .start()
        .await
        .unwrap();
    let id = add(b, "sync").await;
    let record = reaches(b, id, becomes).await;
    sweeper.shutdown().await;
    record
}

pub async fn a_skipped_notice_is_cancelled_with_its_reason(b: &dyn Backend) {
    let record = sent(b, || Err(Failure::skip("already there".to_owned())), Status::Cancelled).await;
    assert_eq!(record.end_reason.as_deref(), Some("already there"));
    assert_eq!((record.failures, record.fence), (0, 1));
}

pub async fn a_handler_can_say_when_to_retry(b: &dyn Backend) {
    let record = sent(b, || Err(Failure::retry_in(Duration::from_secs(77), "busy")), Status::Failed).await;
    assert_eq!(record.next_call_time, Some(b.clock().now() + Duration::from_secs(77)));
    assert_eq!((record.failures, record.errors[0].message.as_str()), (1, "busy"));
}

pub async fn a_handler_can_give_up_at_once(b: &dyn Backend) {
    let record = sent(b, || Err(Failure::give_up("422: no such customer")), Status::DeadLetter).await;
    assert_eq!(record.end_reason.as_deref(), Some("the handler gave up: 422: no such customer"));
    assert_eq!((record.failures, record.errors.len()), (1, 1));
}

pub async fn a_panic_is_a_failure_of_its_notice_alone(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", |notice: Notice<i64>| {
            // Also a panic before the future exists.
            assert!(*notice.param() != 1, "one is odd");
            async move {
                assert!(*notice.param() != 2, "two is even");
                Ok(())
            }
        })
        .start()
        .await
        .unwrap();
    let mut ids = Vec::new();
    for n in 1..=3 {
        ids.push(b.add_new(NewNotice::new("sync", n).unwrap()).await.id());
    }
    reaches(b, ids[2], Status::Succeeded).await;
    for (id, text) in [(ids[0], "one is odd"), (ids[1], "two is even")] {
        let failed = reaches(b, id, Status::Failed).await;
        assert_eq!(failed.errors[0].message, format!("the handler panicked: {text}"));
        assert_eq!((failed.failures, failed.crashes), (1, 0));
    }
    sweeper.shutdown().await;
}

pub async fn a_time_out_is_a_failure(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").timeout("50ms")).await.unwrap();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", |_: Notice<i64>| async { std::future::pending().await })
        .start()
        .await
        .unwrap();
    let id = add(b, "sync").await;
    let failed = reaches(b, id, Status::Failed).await;
    assert_eq!((failed.failures, failed.last_class.as_deref()), (1, Some("timeout")));
    assert!(failed.errors[0].message.contains("timeout of 50ms"), "{}", failed.errors[0].message);
    assert!(failed.errors[0].duration_ms >= 50);
    sweeper.shutdown().await;
}

pub async fn a_parameter_that_does_not_fit_is_a_dead_letter_that_says_so(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", move |_: Notice<Vec<u8>>| {
            noted.note(());
            async { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    let bad = b.add_new(NewNotice::new("sync", "a text").unwrap()).await.id();
    let good = b.add_new(NewNotice::new("sync", [1, 2]).unwrap()).await.id();
    let dead = reaches(b, bad, Status::DeadLetter).await;
    let reason = dead.end_reason.unwrap();
    assert!(
        reason.contains("cannot be read into") && reason.contains("line 1, column") && !reason.contains("a text"),
        "{reason}"
    );
    assert_eq!(dead.last_class.as_deref(), Some("invalid"));
    reaches(b, good, Status::Succeeded).await;
    assert_eq!(calls.count(), 1);
    sweeper.shutdown().await;
}

pub async fn a_raw_parameter_keeps_its_bytes(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", move |notice: Notice<Box<RawValue>>| {
            noted.note(notice.param().get().to_owned());
            async { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    let text = r#"{ "amount" : 10.10, "b":1, "b":2 }"#;
    let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
    let id = b.add_new(NewNotice::new("sync", raw).unwrap()).await.id();
    reaches(b, id, Status::Succeeded).await;
    assert_eq!(calls.all(), [text]);
    sweeper.shutdown().await;
}

pub async fn a_named_strategy_decides_and_a_panicking_one_falls_back(b: &dyn Backend) {
    for (name, strategy) in [("good", "doubling"), ("bad", "broken"), ("lost", "unheard_of")] {
        let def = NotifyDef::new(name).handler("sync").retry_interval(format!("strategy:{strategy}"));
        b.outbox().define_if_missing(def).await.unwrap();
    }
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", |_: Notice<i64>| async { Err(Failure::retry("no")) })
        .strategy("doubling", |n| Duration::from_secs(10 << n))
        .strategy("broken", |_| panic!("division by zero"))
        .start()
        .await
        .unwrap();
    let (good, bad, lost) = (add(b, "good").await, add(b, "bad").await, add(b, "lost").await);
    let failed = reaches(b, good, Status::Failed).await;
    assert_eq!(failed.next_call_time, Some(b.clock().now() + Duration::from_secs(20)));
    let failed = reaches(b, bad, Status::Failed).await;
    assert_eq!(failed.next_call_time, Some(b.clock().now() + Duration::from_secs(300)));
    sweeper.idle().await;
    assert_eq!(record(b, lost).await.fence, 0, "left to a node that knows the strategy");
    sweeper.shutdown().await;
}

pub async fn texts_of_a_handler_are_stored_by_every_database(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", |notice: Notice<i64>| async move {
            notice.set_description("a\0b");
            Err(Failure::give_up(format!("c\0d{}", "e".repeat(100_000))))
        })
        .start()
        .await
        .unwrap();
    let id = add(b, "sync").await;
    let dead = reaches(b, id, Status::DeadLetter).await;
    assert_eq!(dead.description.as_deref(), Some("a\u{FFFD}b"));
    let reason = dead.end_reason.unwrap();
    assert!(reason.starts_with("the handler gave up: c\u{FFFD}deee") && reason.len() <= 4096, "{reason}");
    sweeper.shutdown().await;
}
