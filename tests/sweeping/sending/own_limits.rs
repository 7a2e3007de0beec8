//! Limits of one notice: its tries and its expiry; and notices that are added as skipped.

use std::time::Duration;

use solid_notify::{Failure, NewNotice, Notice, NotifyDef, OutboxExt, Status, SweeperBuilder};
use solid_notify_conformance::Backend;
use test_support::sending::{Calls, eventually, reaches, record};

/// Builds a sweeper whose handler `sync` fails each time, and returns its calls.
fn failing(b: &dyn Backend) -> (SweeperBuilder, Calls<()>) {
    let calls = Calls::default();
    let noted = calls.clone();
    let builder = b.outbox().sweeper().handler("sync", move |_: Notice<i64>| {
        noted.note(());
        async { Err(Failure::retry("down")) }
    });
    (builder, calls)
}

async fn add(b: &dyn Backend, notice: NewNotice) -> i64 {
    b.add_new(notice).await.id()
}

fn sync() -> NewNotice {
    NewNotice::new("sync", 1).unwrap()
}

pub async fn an_expired_notice_is_a_dead_letter_that_no_handler_saw(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let expiry = b.clock().now() + Duration::from_secs(60);
    let id = add(b, sync().expires_at(expiry)).await;
    b.clock().advance(Duration::from_secs(60));
    let (builder, calls) = failing(b);
    let sweeper = builder.start().await.unwrap();
    let dead = reaches(b, id, Status::DeadLetter).await;
    assert!(dead.end_reason.as_deref().unwrap().starts_with("expired at "), "{:?}", dead.end_reason);
    assert_eq!((dead.failures, dead.crashes, calls.count()), (0, 0, 0));
    sweeper.shutdown().await;
}

pub async fn expired_notices_keep_none_from_being_sent_at_the_rate(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").rate_limit("2/1h").retry_interval("1h")).await.unwrap();
    let expiry = b.clock().now() + Duration::from_secs(60);
    for _ in 0..5 {
        add(b, sync().expires_at(expiry)).await;
    }
    b.clock().advance(Duration::from_secs(60));
    let (one, two) = (add(b, sync()).await, add(b, sync()).await);
    let (builder, calls) = failing(b);
    let sweeper = builder.start().await.unwrap();
    reaches(b, one, Status::Failed).await;
    reaches(b, two, Status::Failed).await;
    assert_eq!(calls.count(), 2);
    sweeper.shutdown().await;
}

pub async fn a_notice_that_expires_before_its_retry_ends_at_once(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("1h")).await.unwrap();
    let (builder, calls) = failing(b);
    let sweeper = builder.start().await.unwrap();
    let expiry = b.clock().now() + Duration::from_secs(3600);
    let late = add(b, sync().expires_at(expiry)).await;
    let dead = reaches(b, late, Status::DeadLetter).await;
    assert!(dead.end_reason.as_deref().unwrap().contains("the next retry would be due after that"));
    assert_eq!((dead.failures, calls.count()), (1, 1));
    let in_time = add(b, sync().expires_at(expiry + Duration::from_secs(60))).await;
    assert_eq!(reaches(b, in_time, Status::Failed).await.failures, 1);
    sweeper.shutdown().await;
}

pub async fn a_missed_ack_that_expires_before_its_retry_ends_at_once(b: &dyn Backend) {
    let definition = NotifyDef::new("sync").retry_interval("5s").need_confirm(true).max_confirm_delay("10s");
    b.outbox().define_if_missing(definition).await.unwrap();
    let builder = b.outbox().sweeper().handler("sync", |_: Notice<i64>| async { Ok(()) });
    let sweeper = builder.start().await.unwrap();
    let id = add(b, sync().expires_at(b.clock().now() + Duration::from_secs(12))).await;
    reaches(b, id, Status::AwaitingAck).await;
    b.clock().advance(Duration::from_secs(10));
    let dead = reaches(b, id, Status::DeadLetter).await;
    let reason = dead.end_reason.unwrap();
    assert!(reason.starts_with("expired at ") && reason.contains("; the last error: "), "{reason}");
    assert_eq!((dead.failures, dead.last_class.as_deref()), (1, Some("unacked")));
    sweeper.shutdown().await;
}

pub async fn an_expired_retry_keeps_its_last_error(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("1h")).await.unwrap();
    let sweeper = failing(b).0.start().await.unwrap();
    let id = add(b, sync().expires_at(b.clock().now() + Duration::from_secs(3601))).await;
    reaches(b, id, Status::Failed).await;
    b.clock().advance(Duration::from_secs(3601));
    let dead = reaches(b, id, Status::DeadLetter).await;
    assert!(dead.end_reason.as_deref().unwrap().ends_with("it was not delivered before; the last error: down"));
    assert_eq!((dead.failures, dead.last_class.as_deref()), (1, Some("unknown")));
    sweeper.shutdown().await;
}

pub async fn a_notice_uses_its_own_tries_instead_of_the_definitions(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("1s").max_retry_times(1)).await.unwrap();
    let (builder, _calls) = failing(b);
    let sweeper = builder.start().await.unwrap();
    let once = add(b, sync().max_tries(1)).await;
    let dead = reaches(b, once, Status::DeadLetter).await;
    assert_eq!((dead.failures, dead.own.max_tries), (1, Some(1)));
    let thrice = add(b, sync().max_tries(3)).await;
    for failures in 1..=2 {
        eventually("a failure", async || record(b, thrice).await.failures == failures).await;
        reaches(b, thrice, Status::Failed).await;
        b.clock().advance(Duration::from_secs(1));
    }
    assert_eq!(reaches(b, thrice, Status::DeadLetter).await.failures, 3);
    sweeper.shutdown().await;
}

pub async fn a_notice_added_as_skipped_is_sent_only_if_an_operator_retries_it(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let builder = b.outbox().sweeper().handler("sync", move |notice: Notice<i64>| {
        noted.note(notice.id());
        async { Ok(()) }
    });
    let sweeper = builder.start().await.unwrap();
    let skipped = add(b, sync().skipped("a test order")).await;
    let other = add(b, sync()).await;
    reaches(b, other, Status::Succeeded).await;
    assert_eq!(record(b, skipped).await.status, Status::Cancelled);
    b.outbox().operator("alice").retry(skipped).await.unwrap();
    reaches(b, skipped, Status::Succeeded).await;
    assert_eq!(calls.count(), 2);
    sweeper.shutdown().await;
}
