//! Delivery: at once, at its time, again and again.

use std::time::Duration;

use solid_notify::{Failure, FirstAttempt, NewNotice, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{Claim, ClaimWhat};
use test_support::sending::{Calls, PATIENCE, add, definition, eventually, reaches, record, seconds};

/// That none of them waits for a poll is tested on virtual time.
pub async fn committed_notices_are_dispatched_and_reported(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = b.outbox().sweeper().handler("sync", |_: Notice<i64>| async { Ok(()) }).start().await.unwrap();
    for n in 0..20 {
        let added = b.add_new(NewNotice::new("sync", n).unwrap()).await;
        let id = added.id();
        assert_eq!(added.first_attempt(PATIENCE).await, FirstAttempt::Succeeded);
        assert_eq!(record(b, id).await.status, Status::Succeeded, "the reply comes only when it is stored");
    }
    assert_eq!(sweeper.shutdown().await.succeeded, 20);
}

pub async fn notices_without_a_dispatch_are_found_by_the_sweep_or_a_wake(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = b
        .outbox()
        .sweeper()
        .first_send(false)
        .handler("sync", |_: Notice<i64>| async { Ok(()) })
        .start()
        .await
        .unwrap();
    let id = add(b, "sync").await;
    reaches(b, id, Status::Succeeded).await;
    for _ in 0..5 {
        let id = add(b, "sync").await;
        b.outbox().wake();
        reaches(b, id, Status::Succeeded).await;
    }
    sweeper.shutdown().await;
}

pub async fn a_delayed_notice_is_sent_at_its_time(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let calls = Calls::default();
    let (noted, clock) = (calls.clone(), b.clock().clone());
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", move |_: Notice<i64>| {
            noted.note(clock.now());
            async { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    let start = b.clock().now();
    let added = b.add_new(NewNotice::new("sync", 1).unwrap().delay(Duration::from_secs(60))).await;
    let id = added.id();
    assert_eq!(added.first_attempt(Duration::ZERO).await, FirstAttempt::StillDue);
    sweeper.idle().await;
    b.clock().advance(Duration::from_secs(59));
    sweeper.idle().await;
    assert_eq!(calls.count(), 0);
    b.clock().advance(Duration::from_secs(1));
    reaches(b, id, Status::Succeeded).await;
    assert_eq!(seconds(start, calls.all()[0]), 60.0);
    sweeper.shutdown().await;
}

pub async fn failures_are_retried_by_the_intervals_and_end_as_a_dead_letter(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("[5s,5m,1h,1d]")).await.unwrap();
    let calls = Calls::default();
    let (noted, clock) = (calls.clone(), b.clock().clone());
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", move |notice: Notice<i64>| {
            let before = noted.note((clock.now(), notice.fence(), notice.attempt()));
            async move { Err(Failure::retry(format!("refused {before}"))) }
        })
        .start()
        .await
        .unwrap();
    let start = b.clock().now();
    let id = add(b, "sync").await;
    for (n, pause) in [5, 300, 3600, 86_400].into_iter().enumerate() {
        let failed = reaches(b, id, Status::Failed).await;
        assert_eq!(failed.next_call_time, Some(b.clock().now() + Duration::from_secs(pause)));
        b.clock().advance(Duration::from_secs(pause) - Duration::from_millis(1));
        sweeper.idle().await;
        assert_eq!(calls.count(), n + 1, "a millisecond too early");
        b.clock().advance(Duration::from_millis(1));
        eventually("the retry", async || calls.count() == n + 2 && record(b, id).await.status != Status::Sending).await;
    }
    let dead = reaches(b, id, Status::DeadLetter).await;
    assert_eq!((dead.fence, dead.failures, dead.crashes), (5, 5, 0));
    assert_eq!(dead.end_reason.as_deref(), Some("all 5 tries failed; the last error: refused 4"));
    let messages: Vec<&str> = dead.errors.iter().map(|attempt| attempt.message.as_str()).collect();
    assert_eq!(messages, ["refused 0", "refused 1", "refused 2", "refused 3", "refused 4"]);
    let times: Vec<f64> = calls.all().iter().map(|(time, ..)| seconds(start, *time)).collect();
    assert_eq!(times, [0.0, 5.0, 305.0, 3905.0, 90_305.0]);
    assert_eq!(
        calls.all().iter().map(|(_, fence, attempt)| (*fence, *attempt)).collect::<Vec<_>>(),
        [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]
    );
    b.clock().advance(Duration::from_secs(1_000_000));
    sweeper.idle().await;
    assert_eq!(calls.count(), 5, "a dead letter is never sent");
    let stopped = sweeper.shutdown().await;
    assert_eq!((stopped.succeeded, stopped.failed, stopped.dead_letters), (0, 4, 1));
}

pub async fn the_producer_learns_the_outcome_of_the_first_attempt(b: &dyn Backend) {
    for def in [
        NotifyDef::new("good"),
        NotifyDef::new("bad"),
        NotifyDef::new("elsewhere"),
        NotifyDef::new("paused").enabled(false),
    ] {
        b.outbox().define_if_missing(def).await.unwrap();
    }
    let lonely = b.add_new(NewNotice::new("good", 1).unwrap()).await;
    assert_eq!(lonely.first_attempt(PATIENCE).await, FirstAttempt::NotHere, "no sweeper runs here");
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("good", |_: Notice<i64>| async { Ok(()) })
        .handler("paused", |_: Notice<i64>| async { Ok(()) })
        .handler("bad", |_: Notice<i64>| async { Err(Failure::retry("refused")) })
        .handler("slow", |_: Notice<i64>| async { std::future::pending().await })
        .start()
        .await
        .unwrap();
    let first = async |name| b.add_new(NewNotice::new(name, 1).unwrap()).await.first_attempt(PATIENCE).await;
    assert_eq!(first("good").await, FirstAttempt::Succeeded);
    assert_eq!(first("bad").await, FirstAttempt::Failed("refused".to_owned()));
    assert_eq!(first("elsewhere").await, FirstAttempt::NotHere);
    assert_eq!(first("paused").await, FirstAttempt::StillDue);
    // Defined while the sweeper runs: known at once, not only at its next reload.
    b.outbox().define_if_missing(NotifyDef::new("late").handler("good")).await.unwrap();
    assert_eq!(first("late").await, FirstAttempt::Succeeded);
    b.outbox().define_if_missing(NotifyDef::new("slow")).await.unwrap();
    let slow = b.add_new(NewNotice::new("slow", 1).unwrap()).await;
    assert_eq!(slow.first_attempt(Duration::from_millis(50)).await, FirstAttempt::StillDue);
    let rolled_back = b.add_and_roll_back(NewNotice::new("good", 1).unwrap()).await.unwrap();
    assert_eq!(rolled_back.first_attempt(PATIENCE).await, FirstAttempt::RolledBack);
    drop(sweeper);
}

pub async fn a_handler_sees_the_notice_and_may_rewrite_its_description(b: &dyn Backend) {
    b.outbox()
        .define_if_missing(NotifyDef::new("sync").retry_interval("5s").handler_config("{\"url\":1}"))
        .await
        .unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", move |notice: Notice<serde_json::Value>| {
            let seen = (notice.id(), notice.idempotency_key(), notice.age(), notice.trace_context().map(str::to_owned));
            let before = noted.note(seen);
            async move {
                assert_eq!(notice.param()["order"], 7);
                assert_eq!(notice.raw_param(), "{\"order\":7}");
                assert_eq!((notice.definition(), notice.handler_config()), ("sync", Some("{\"url\":1}")));
                assert_eq!(notice.description().as_deref(), Some(if before == 0 { "as added" } else { "after try 1" }));
                notice.set_description(format!("after try {}", before + 1));
                if before == 0 { Err(Failure::retry("once")) } else { Ok(()) }
            }
        })
        .start()
        .await
        .unwrap();
    let notice = NewNotice::new("sync", serde_json::json!({ "order": 7 })).unwrap();
    let id = b.add_new(notice.description("as added").trace_context("00-aa-bb-01")).await.id();
    let failed = reaches(b, id, Status::Failed).await;
    assert_eq!(failed.description.as_deref(), Some("after try 1"));
    b.clock().advance(Duration::from_secs(5));
    let done = reaches(b, id, Status::Succeeded).await;
    assert_eq!(done.description.as_deref(), Some("after try 2"));
    let all = calls.all();
    assert_eq!((all[0].0, all[1].0), (id, id));
    assert_eq!(all[0].1, all[1].1, "the idempotency id is stable");
    assert_eq!((all[0].2, all[1].2), (Duration::ZERO, Duration::from_secs(5)));
    assert_eq!(all[0].3.as_deref(), Some("00-aa-bb-01"));
    sweeper.shutdown().await;
}

/// Claims the notice of a definition as a worker that dies at once.
pub(super) async fn claim_and_die(b: &dyn Backend, name: &str, what: ClaimWhat) -> ClaimedNotice {
    let def_id = definition(b, name).await.id;
    let claim =
        Claim { def_id, what, limit: 1, lease: Duration::from_secs(60), worker: "dead-worker".to_owned(), quota: None };
    let mut claimed = b.outbox().engine().stores().send.claim(&claim).await.unwrap().notices;
    assert_eq!(claimed.len(), 1);
    claimed.remove(0)
}

pub async fn a_notice_whose_sender_died_is_sent_again_and_the_crash_is_counted(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let id = add(b, "sync").await;
    claim_and_die(b, "sync", ClaimWhat::Slice(Status::NotSent)).await;
    let sweeper = b.outbox().sweeper().handler("sync", |_: Notice<i64>| async { Ok(()) }).start().await.unwrap();
    sweeper.idle().await;
    b.clock().advance(Duration::from_secs(59));
    sweeper.idle().await;
    assert_eq!(record(b, id).await.status, Status::Sending, "its lease still runs");
    b.clock().advance(Duration::from_secs(1));
    let done = reaches(b, id, Status::Succeeded).await;
    assert_eq!((done.fence, done.failures, done.crashes), (2, 0, 1));
    assert_eq!(done.errors.len(), 1);
    assert_eq!((done.errors[0].class.as_str(), done.errors[0].node.as_str()), ("crash", "dead-worker"));
    sweeper.shutdown().await;
}

pub async fn a_notice_that_kills_its_process_each_time_runs_out(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("1s").max_retry_times(2)).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("block").timeout("1d")).await.unwrap();
    // The one slot of this node is taken: it judges, and cannot send.
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", |_: Notice<i64>| async { Ok(()) })
        .handler("block", move |_: Notice<i64>| {
            noted.note(());
            async { std::future::pending().await }
        })
        .max_running(1)
        .shutdown_grace(Duration::ZERO)
        .start()
        .await
        .unwrap();
    add(b, "block").await;
    eventually("the slot is taken", async || calls.count() == 1).await;
    let id = add(b, "sync").await;
    let claims = [ClaimWhat::Slice(Status::NotSent), ClaimWhat::Slice(Status::Failed), ClaimWhat::CrashLooping];
    for (crashes, what) in (1..).zip(claims) {
        claim_and_die(b, "sync", what).await;
        b.clock().advance(Duration::from_secs(60));
        eventually("the judgement", async || record(b, id).await.crashes == crashes).await;
        b.clock().advance(Duration::from_secs(5));
    }
    let dead = record(b, id).await;
    assert_eq!((dead.status, dead.fence, dead.failures, dead.crashes), (Status::DeadLetter, 3, 0, 3));
    assert_eq!(dead.end_reason.as_deref(), Some("all 3 tries used, in 3 of them the process died"));
    assert_eq!(dead.errors.len(), 3);
    sweeper.shutdown().await;
}

pub async fn a_long_wait_for_the_handler_keeps_its_lease(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").timeout("10m")).await.unwrap();
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let calls = Calls::default();
    let (noted, wait) = (calls.clone(), gate.clone());
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", move |_: Notice<i64>| {
            noted.note(());
            let wait = wait.clone();
            async move {
                let _permit = wait.acquire().await;
                Ok(())
            }
        })
        .start()
        .await
        .unwrap();
    let id = add(b, "sync").await;
    eventually("the handler is called", async || calls.count() == 1).await;
    // The lease is 630 s. Each step leaves 15 s of it, and the handler is still running.
    for _ in 0..10 {
        b.clock().advance(Duration::from_secs(615));
        eventually("the lease is extended", async || {
            record(b, id).await.next_call_time.is_some_and(|end| end > b.clock().now() + Duration::from_secs(19))
        })
        .await;
    }
    gate.add_permits(1);
    let done = reaches(b, id, Status::Succeeded).await;
    assert_eq!((done.fence, done.crashes, calls.count()), (1, 0, 1));
    sweeper.shutdown().await;
}
