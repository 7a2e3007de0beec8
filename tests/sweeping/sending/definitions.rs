//! Definitions that change, break and vanish with notices in flight.

use std::sync::Arc;
use std::time::Duration;

use solid_notify::{Failure, NewNotice, Notice, NotifyDef, OutboxExt, Status, SweeperBuilder};
use solid_notify_conformance::Backend;
use test_support::sending::{Calls, add, definition, edit_by_hand, eventually, reaches, record, update};
use tokio::sync::Semaphore;

/// Builds a sweeper whose handler `sync` succeeds and records the ids.
fn good(b: &dyn Backend) -> (SweeperBuilder, Calls<i64>) {
    let calls = Calls::default();
    let noted = calls.clone();
    let builder = b.outbox().sweeper().handler("sync", move |notice: Notice<i64>| {
        noted.note(notice.id());
        async { Ok(()) }
    });
    (builder, calls)
}

pub async fn an_invalid_row_pauses_only_its_own_notices_and_heals(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("broken").handler("sync")).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    edit_by_hand(b, "broken", |def| def.timeout("soon")).await;
    let (builder, calls) = good(b);
    let sweeper = builder.start().await.unwrap();
    let (waits, sent) = (add(b, "broken").await, add(b, "sync").await);
    reaches(b, sent, Status::Succeeded).await;
    sweeper.idle().await;
    let untouched = record(b, waits).await;
    assert_eq!((untouched.status, untouched.fence, untouched.failures), (Status::NotSent, 0, 0));
    let all = b.outbox().definitions().await.unwrap();
    let shown = all.iter().find(|state| state.row.name == "broken").unwrap();
    assert_eq!(shown.problems.len(), 1);
    let problem = shown.problems[0].to_string();
    assert!(problem.contains("timeout = \"soon\"") && problem.contains("30s"), "{problem}");
    edit_by_hand(b, "broken", |def| def.timeout("5s")).await;
    b.outbox().wake();
    reaches(b, waits, Status::Succeeded).await;
    assert_eq!(calls.count(), 2);
    sweeper.shutdown().await;
}

pub async fn a_disabled_definition_sends_and_counts_nothing(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").enabled(false)).await.unwrap();
    let (builder, calls) = good(b);
    let sweeper = builder.start().await.unwrap();
    let id = add(b, "sync").await;
    b.clock().advance(Duration::from_secs(1_000_000));
    sweeper.idle().await;
    assert_eq!((record(b, id).await.fence, calls.count()), (0, 0));
    update(b, "sync", |def| def.enabled(true)).await;
    let done = reaches(b, id, Status::Succeeded).await;
    assert_eq!((done.fence, done.failures, done.crashes), (1, 0, 0));
    sweeper.shutdown().await;
}

pub async fn a_definition_without_a_handler_here_is_left_to_others(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let stranger = b.outbox().sweeper().handler("mail", |_: Notice<i64>| async { Ok(()) }).start().await.unwrap();
    let id = add(b, "sync").await;
    stranger.idle().await;
    let untouched = record(b, id).await;
    assert_eq!((untouched.status, untouched.fence), (Status::NotSent, 0));
    let (builder, calls) = good(b);
    let sweeper = builder.start().await.unwrap();
    reaches(b, id, Status::Succeeded).await;
    assert_eq!(calls.all(), [id]);
    sweeper.shutdown().await;
    stranger.shutdown().await;
}

pub async fn a_renamed_definition_keeps_its_notices(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("named").handler("sync")).await.unwrap();
    let (waits, sent) = (add(b, "sync").await, add(b, "named").await);
    let renamed = |to: &'static str| {
        move |mut def: NotifyDef| {
            def.name = to.to_owned();
            def
        }
    };
    update(b, "sync", renamed("new_sync")).await;
    update(b, "named", renamed("new_named")).await;
    let (builder, calls) = good(b);
    let sweeper = builder.start().await.unwrap();
    // The row names its handler: nothing changes for its notices.
    reaches(b, sent, Status::Succeeded).await;
    sweeper.idle().await;
    // The handler of the old name sent this one, and no node has a handler of the new name yet.
    assert_eq!(record(b, waits).await.fence, 0);
    update(b, "new_sync", |def| def.handler("sync")).await;
    reaches(b, waits, Status::Succeeded).await;
    assert_eq!(calls.count(), 2);
    sweeper.shutdown().await;
}

pub async fn a_deleted_definition_sends_its_notices_in_flight(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("5s")).await.unwrap();
    let id = add(b, "sync").await;
    let failing = b
        .outbox()
        .sweeper()
        .handler("sync", |_: Notice<i64>| async { Err(Failure::retry("no")) })
        .start()
        .await
        .unwrap();
    reaches(b, id, Status::Failed).await;
    failing.shutdown().await;
    b.outbox().delete(&definition(b, "sync").await).await.unwrap();
    // A new definition takes the name, and must not take the old one's notices.
    b.outbox().define_if_missing(NotifyDef::new("sync").handler("another")).await.unwrap();
    let (builder, calls) = good(b);
    let sweeper = builder.start().await.unwrap();
    b.clock().advance(Duration::from_secs(5));
    reaches(b, id, Status::Succeeded).await;
    assert_eq!(calls.all(), [id]);
    sweeper.shutdown().await;
}

pub async fn a_definition_that_this_process_disabled_is_claimed_no_more(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let (builder, calls) = good(b);
    let sweeper = builder.start().await.unwrap();
    let sent = add(b, "sync").await;
    reaches(b, sent, Status::Succeeded).await;
    update(b, "sync", |def| def.enabled(false)).await;
    let waits = add(b, "sync").await;
    sweeper.idle().await;
    assert_eq!((record(b, waits).await.fence, calls.all()), (0, vec![sent]));
    sweeper.shutdown().await;
}

pub async fn a_try_that_an_edit_has_just_given_is_used(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("1h").max_retry_times(3)).await.unwrap();
    let sweeper = b.outbox().sweeper().handler("sync", |notice: Notice<i64>| async move {
        if notice.attempt() == 1 { Err(Failure::retry("not yet")) } else { Ok(()) }
    });
    let sweeper = sweeper.start().await.unwrap();
    let id = add(b, "sync").await;
    reaches(b, id, Status::Failed).await;
    edit_by_hand(b, "sync", |def| def.max_retry_times(0)).await;
    b.outbox().wake();
    sweeper.idle().await;
    // The sweeper does not know of this edit when the notice becomes due.
    edit_by_hand(b, "sync", |def| def.max_retry_times(3)).await;
    b.clock().advance(Duration::from_secs(3600));
    let sent = reaches(b, id, Status::Succeeded).await;
    assert_eq!((sent.failures, sent.crashes), (1, 0));
    sweeper.shutdown().await;
}

/// That it is in force within five seconds is tested on virtual time.
pub async fn an_edit_by_hand_comes_into_force_without_a_wake(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").enabled(false)).await.unwrap();
    let (builder, _calls) = good(b);
    let sweeper = builder.start().await.unwrap();
    let id = add(b, "sync").await;
    sweeper.idle().await;
    assert_eq!(record(b, id).await.fence, 0);
    edit_by_hand(b, "sync", |def| def.enabled(true)).await;
    reaches(b, id, Status::Succeeded).await;
    sweeper.shutdown().await;
}

pub async fn a_lowered_limit_ends_a_notice_without_another_try(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("5s").max_retry_times(9)).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", move |_: Notice<i64>| {
            noted.note(());
            async { Err(Failure::retry("no")) }
        })
        .start()
        .await
        .unwrap();
    let id = add(b, "sync").await;
    for tries in 1..=3 {
        eventually("a failed try", async || {
            let record = record(b, id).await;
            record.failures == tries && record.status == Status::Failed
        })
        .await;
        if tries < 3 {
            b.clock().advance(Duration::from_secs(5));
        }
    }
    update(b, "sync", |def| def.max_retry_times(1)).await;
    sweeper.idle().await;
    b.clock().advance(Duration::from_secs(5));
    let dead = reaches(b, id, Status::DeadLetter).await;
    assert_eq!((dead.failures, calls.count()), (3, 3), "it was ended, not tried");
    assert_eq!(dead.end_reason.as_deref(), Some("all 3 tries failed; the last error: no"));
    assert_eq!(dead.last_class.as_deref(), Some("unknown"));
    sweeper.shutdown().await;
}

pub async fn an_outcome_is_judged_by_the_definition_as_it_is_when_the_attempt_ends(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("5s")).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let calls = Calls::default();
    let (wait, noted) = (gate.clone(), calls.clone());
    let (builder, _) = good(b);
    let sweeper = builder
        .handler("slow", move |_: Notice<i64>| {
            noted.note(());
            let wait = wait.clone();
            async move {
                wait.acquire().await?.forget();
                Err(Failure::retry("no"))
            }
        })
        .start()
        .await
        .unwrap();
    b.outbox().define_if_missing(NotifyDef::new("slow").retry_interval("5s")).await.unwrap();
    let id = add(b, "slow").await;
    eventually("it is being sent", async || calls.count() == 1).await;
    update(b, "slow", |def| def.retry_interval("7m")).await;
    gate.add_permits(1);
    let failed = reaches(b, id, Status::Failed).await;
    assert_eq!(failed.next_call_time, Some(b.clock().now() + Duration::from_secs(420)));
    sweeper.shutdown().await;
}

pub async fn notices_of_a_missing_row_wait_and_count_nothing(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("lost").handler("fails").retry_interval("5s")).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let wait = Arc::clone(&gate);
    let (builder, calls) = good(b);
    let noted = calls.clone();
    let builder = builder.handler("fails", move |notice: Notice<i64>| {
        noted.note(notice.id());
        let wait = Arc::clone(&wait);
        async move {
            wait.acquire().await?.forget();
            Err(Failure::retry("no"))
        }
    });
    let sweeper = builder.start().await.unwrap();
    let failed = add(b, "lost").await;
    gate.add_permits(1);
    reaches(b, failed, Status::Failed).await;
    let under_way = add(b, "lost").await;
    eventually("it is being sent", async || calls.count() == 2).await;
    let id = definition(b, "lost").await.id;
    let fresh = b.add_new(NewNotice::new("lost", 1).unwrap().delay(Duration::from_secs(5))).await.id();
    b.delete_by_hand(id).await;
    b.outbox().wake();
    gate.add_permits(1);
    let ended = reaches(b, under_way, Status::Failed).await;
    assert_eq!((ended.failures, ended.crashes), (1, 0), "it is judged by the row of its claim");
    b.outbox().wake();
    sweeper.idle().await;
    for _ in 0..5 {
        b.clock().advance(Duration::from_secs(3600));
        b.outbox().wake();
        let sent = add(b, "sync").await;
        reaches(b, sent, Status::Succeeded).await;
        sweeper.idle().await;
    }
    let state = async |id| {
        let record = record(b, id).await;
        (record.status, record.fence, record.failures, record.crashes)
    };
    assert_eq!(state(failed).await, (Status::Failed, 1, 1, 0));
    assert_eq!(state(under_way).await, (Status::Failed, 1, 1, 0));
    assert_eq!(state(fresh).await, (Status::NotSent, 0, 0, 0));
    assert_eq!(calls.count(), 7, "none of them is attempted");
    sweeper.shutdown().await;
}
