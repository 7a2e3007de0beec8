//! A store that fails on purpose: outages, lost replies, poison, locked rows. No loop ends, no notice is lost, and only real
//! attempts are counted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use solid_notify::{Failure, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use solid_notify_core::dispatch::{FirstAttemptSender, Fresh};
use solid_notify_core::error::FaultKind;
use solid_notify_core::store::{Claim, ClaimWhat};
use test_support::faulty::{Fault, faulty, good};
use test_support::sending::{Calls, add, definition, eventually, gated, reaches, record, update};

#[tokio::test]
async fn no_loop_ends_when_a_store_call_fails() {
    let kinds = [FaultKind::Outage, FaultKind::Conflict, FaultKind::Permanent];
    for method in ["definitions", "due", "claim", "look", "settle", "extend", "purge", "beat", "write_series"] {
        let (b, store, outbox) = faulty();
        b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
        let (builder, calls) = good(&outbox);
        let sweeper = builder.maintenance_interval(Duration::from_millis(10)).start().await.unwrap();
        // Permanent faults of a settle are poison, which has a test of its own.
        let kinds = if method == "settle" { &kinds[..2] } else { &kinds[..] };
        store.plan(method, kinds.iter().cycle().take(4).map(|kind| Fault::Refused(*kind)));
        let id = add(&b, "sync").await;
        outbox.wake();
        let done = reaches(&b, id, Status::Succeeded).await;
        assert_eq!((done.failures, done.crashes, calls.all()), (0, 0, vec![id]), "{method}");
        // After each fault the next notice is sent, too.
        let next = add(&b, "sync").await;
        outbox.wake();
        reaches(&b, next, Status::Succeeded).await;
        sweeper.shutdown().await;
    }
}

#[tokio::test]
async fn health_shows_an_outage_a_running_attempt_and_the_shutdown() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("slow")).await.unwrap();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let (builder, passes) = (good(&outbox).0, gate.clone());
    let builder = builder.maintenance_interval(Duration::from_millis(10)).handler("slow", move |_: Notice<i64>| {
        let passes = passes.clone();
        async move {
            passes.acquire().await?.forget();
            Ok(())
        }
    });
    let sweeper = builder.start().await.unwrap();
    eventually("it is ready", async || sweeper.health().is_ready()).await;
    eventually("it has reported that it lives", async || sweeper.health().last_heartbeat.is_some()).await;
    assert_eq!((sweeper.health().running, sweeper.health().shutting_down), (0, false));
    let id = add(&b, "slow").await;
    outbox.wake();
    eventually("the attempt runs", async || sweeper.health().running == 1).await;

    store.plan("all", std::iter::repeat_n(Fault::Refused(FaultKind::Outage), 100_000));
    eventually("the outage is seen", async || !sweeper.health().database_answers).await;
    let down = sweeper.health();
    assert!(!down.is_ready() && down.running == 1, "{down:?}");
    eventually("it lasts", async || sweeper.health().database_for > Duration::from_millis(100)).await;
    let down = sweeper.health();
    assert!(!down.database_answers && down.last_sweep.unwrap() >= down.database_for, "{down:?}");
    store.planned.lock().unwrap().clear();
    eventually("it is ready again", async || sweeper.health().is_ready()).await;
    eventually("it swept again", async || sweeper.health().last_sweep.unwrap() <= sweeper.health().database_for).await;

    gate.add_permits(1);
    reaches(&b, id, Status::Succeeded).await;
    let monitor = sweeper.monitor();
    sweeper.shutdown().await;
    let ended = monitor.health();
    assert!(ended.shutting_down && !ended.is_ready() && ended.running == 0, "{ended:?}");
}

#[tokio::test]
async fn a_total_outage_counts_nothing_and_ends_in_delivery() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let (builder, calls) = good(&outbox);
    let sweeper = builder.start().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(add(&b, "sync").await);
    }
    store.plan("all", std::iter::repeat_n(Fault::Refused(FaultKind::Outage), 7));
    outbox.wake();
    for id in &ids {
        let done = reaches(&b, *id, Status::Succeeded).await;
        assert_eq!((done.failures, done.crashes), (0, 0));
    }
    let mut sent = calls.all();
    sent.sort_unstable();
    assert_eq!(sent, ids);
    sweeper.shutdown().await;
}

#[tokio::test]
async fn an_outcome_whose_answer_was_lost_is_counted_once() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("5s")).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = outbox
        .sweeper()
        .handler("sync", move |_: Notice<i64>| {
            noted.note(());
            async { Err(Failure::retry("no")) }
        })
        .start()
        .await
        .unwrap();
    store.plan("settle", [Fault::AnswerLost, Fault::AnswerLost]);
    let id = add(&b, "sync").await;
    outbox.wake();
    eventually("the third settle", async || store.called("settle") == 3).await;
    let failed = record(&b, id).await;
    assert_eq!((failed.status, failed.failures, failed.errors.len(), calls.count()), (Status::Failed, 1, 1, 1));
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_was_lost_is_handed_back_uncounted() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let (builder, calls) = good(&outbox);
    let sweeper = builder.outage_grace(Duration::ZERO).start().await.unwrap();
    store.plan("claim", [Fault::AnswerLost]);
    let id = add(&b, "sync").await;
    outbox.wake();
    reaches(&b, id, Status::Sending).await;
    assert_eq!(calls.count(), 0);
    // No sweeper has it until its lease is over.
    b.clock().advance(Duration::from_secs(60));
    let done = reaches(&b, id, Status::Succeeded).await;
    assert_eq!((done.failures, done.crashes, calls.all()), (0, 0, vec![id]));
    sweeper.shutdown().await;
}

#[tokio::test]
async fn a_poisoned_outcome_is_found_by_halving_and_fails_alone() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync").max_concurrency(50)).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..40 {
        ids.push(add(&b, "sync").await);
    }
    *store.poison.lock().unwrap() = Some(ids[17]);
    let sweeper = outbox
        .sweeper()
        .handler("sync", |_: Notice<i64>| async { Err(Failure::retry("bad bytes")) })
        .start()
        .await
        .unwrap();
    let dead = reaches(&b, ids[17], Status::DeadLetter).await;
    let reason = dead.end_reason.unwrap();
    assert!(reason.contains("could not be stored"), "{reason}");
    assert!(dead.errors.is_empty() && dead.description.is_none(), "no text of its own");
    for id in ids.iter().filter(|id| **id != ids[17]) {
        assert_eq!(reaches(&b, *id, Status::Failed).await.failures, 1);
    }
    sweeper.shutdown().await;
}

#[tokio::test]
async fn a_locked_row_is_settled_later_and_the_others_at_once() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let ids = [add(&b, "sync").await, add(&b, "sync").await, add(&b, "sync").await];
    *store.locked.lock().unwrap() = Some((ids[1], 3));
    let (builder, calls) = good(&outbox);
    let sweeper = builder.start().await.unwrap();
    for id in ids {
        reaches(&b, id, Status::Succeeded).await;
    }
    assert_eq!((calls.count(), store.locked.lock().unwrap().unwrap().1), (3, 0));
    sweeper.shutdown().await;
}

#[tokio::test]
async fn after_an_outage_own_leases_come_first_and_expired_ones_of_others_wait() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let calls = Calls::default();
    let grace = Duration::from_secs(7);
    let sweeper = outbox
        .sweeper()
        .outage_grace(grace)
        .poll_interval(Duration::from_millis(20))
        .handler("sync", gated(&calls, &gate))
        .start()
        .await
        .unwrap();
    let ours = add(&b, "sync").await;
    outbox.wake();
    eventually("ours is being sent", async || calls.count() == 1).await;
    // An outage of the sweep, while the lease still lasts a minute.
    store.plan("due", std::iter::repeat_n(Fault::Refused(FaultKind::Outage), 3));
    outbox.wake();
    let since_last_fault = || {
        let diary = store.diary.all();
        let last = diary.iter().rposition(|call| *call == "fault");
        last.map_or(Vec::new(), |last| diary[last..].to_vec())
    };
    eventually("the faults", async || store.planned.lock().unwrap()[0].1.is_empty()).await;
    eventually("the sweep looks again", async || since_last_fault().contains(&"due")).await;
    let after = since_last_fault();
    assert_eq!(after.iter().find(|call| ["extend", "due"].contains(call)), Some(&"extend"), "{after:?}");
    store.planned.lock().unwrap().clear();
    // Another node claims a notice, which the sweeper does not know before.
    b.outbox().define_if_missing(NotifyDef::new("held").handler("sync").enabled(false)).await.unwrap();
    let others = add(&b, "held").await;
    let def_id = definition(&b, "held").await.id;
    let claim = Claim {
        def_id,
        what: ClaimWhat::Ids(vec![others]),
        limit: 1,
        lease: Duration::from_secs(60),
        worker: "another".to_owned(),
        quota: None,
    };
    assert_eq!(b.outbox().engine().stores().send.claim(&claim).await.unwrap().notices.len(), 1);
    update(&b, "held", |def| def.enabled(true)).await;
    // Then the database is down while both leases expire.
    store.plan("all", std::iter::repeat_n(Fault::Refused(FaultKind::Outage), 6));
    outbox.wake();
    eventually("the outage", async || store.called("fault") > 3).await;
    b.clock().advance(Duration::from_secs(61));
    eventually("the outage is over", async || {
        store.planned.lock().unwrap().iter().all(|(_, faults)| faults.is_empty())
    })
    .await;
    eventually("our lease is extended", async || {
        record(&b, ours).await.next_call_time.is_some_and(|end| end > b.clock().now())
    })
    .await;
    // The grace period begins when the sweep reaches the database again, perhaps later than the lease loop.
    let last_fault = store.diary.all().iter().rposition(|call| *call == "fault").unwrap();
    eventually("the sweep looks", async || store.diary.all()[last_fault..].contains(&"due")).await;
    let diary = store.diary.all();
    let after: Vec<_> = diary[last_fault..].iter().filter(|call| ["extend", "claim", "look"].contains(call)).collect();
    assert_eq!(after.first(), Some(&&"extend"), "{diary:?}");
    let looks = || store.called("due");
    let before = looks();
    b.clock().advance(grace - Duration::from_millis(1));
    eventually("three sweeps", async || looks() >= before + 3).await;
    assert_eq!(record(&b, others).await.crashes, 0, "its holder may be about to settle");
    b.clock().advance(Duration::from_millis(1));
    eventually("the other's lease is taken at last", async || record(&b, others).await.crashes == 1).await;
    gate.add_permits(9);
    let done = reaches(&b, ours, Status::Succeeded).await;
    assert_eq!((done.fence, done.crashes), (1, 0));
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_during_an_outage_ends_nevertheless() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let (builder, calls) = good(&outbox);
    // The last tries end it, long before the limit of the whole shutdown.
    let sweeper = builder.shutdown_grace(Duration::from_secs(300)).start().await.unwrap();
    store.plan("settle", std::iter::repeat_n(Fault::Refused(FaultKind::Outage), 10_000));
    let id = add(&b, "sync").await;
    outbox.wake();
    eventually("it was sent", async || calls.count() == 1).await;
    let stopped = tokio::time::timeout(Duration::from_secs(30), sweeper.shutdown()).await.expect("it ends");
    assert_eq!(stopped.succeeded, 0);
    assert_eq!(record(&b, id).await.status, Status::Sending, "others take over when the lease is over");
}

#[tokio::test]
async fn a_notice_whose_lease_could_not_be_extended_is_late_and_not_dead() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let calls = Calls::default();
    let sweeper = outbox
        .sweeper()
        .poll_interval(Duration::from_millis(10))
        .handler("sync", gated(&calls, &gate))
        .start()
        .await
        .unwrap();
    let id = add(&b, "sync").await;
    eventually("it is being sent", async || calls.count() == 1).await;
    store.plan("extend", std::iter::repeat_n(Fault::Refused(FaultKind::Conflict), 10_000));
    b.clock().advance(Duration::from_secs(61));
    let looks = async || store.called("look") > 3;
    eventually("the sweep finds it expired, again and again", looks).await;
    gate.add_permits(9);
    let done = reaches(&b, id, Status::Succeeded).await;
    assert_eq!((done.fence, done.crashes, calls.count()), (1, 0, 1));
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_notice_just_being_claimed_is_not_taken_for_forgotten() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let (builder, calls) = good(&outbox);
    let sweeper = builder.start().await.unwrap();
    // From now on the node looks for claims that it does not know of.
    store.plan("claim", [Fault::AnswerLost]);
    let forgotten = add(&b, "sync").await;
    outbox.wake();
    reaches(&b, forgotten, Status::Sending).await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    *store.claim_gate.lock().unwrap() = Some(gate.clone());
    let id = add(&b, "sync").await;
    outbox.wake();
    eventually("it is claimed", async || store.diary.all().contains(&"claimed")).await;
    let looks = || store.called("look");
    let before = looks();
    b.clock().advance(Duration::from_millis(1));
    // Meanwhile the lease loop runs.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(looks(), before, "a look would find it, and the node does not know it yet");
    assert_eq!(record(&b, id).await.status, Status::Sending);
    gate.add_permits(100);
    let done = reaches(&b, id, Status::Succeeded).await;
    assert_eq!((done.fence, calls.all().iter().filter(|called| **called == id).count()), (1, 1));
    sweeper.shutdown().await;
}

#[tokio::test]
async fn a_sweeper_is_not_idle_while_a_claim_is_under_way() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let def_id = definition(&b, "sync").await.id;
    let (builder, calls) = good(&outbox);
    let sweeper = builder.start().await.unwrap();
    // From now on the sweep sleeps, and the dispatch is first.
    sweeper.idle().await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    *store.claim_gate.lock().unwrap() = Some(gate.clone());
    let id = add(&b, "sync").await;
    outbox.engine().dispatch().hand(vec![Fresh { id, def_id, report: FirstAttemptSender::new().0 }]);
    eventually("the first-send dispatch claims it", async || store.diary.all().contains(&"claimed")).await;
    // For the sweep nothing is due any more, and nothing is claimed yet.
    let looks = || store.called("due");
    let before = looks();
    {
        let mut idle = std::pin::pin!(sweeper.idle());
        tokio::select! {
            () = &mut idle => panic!("idle before the handler was called"),
            () = eventually("the sweep looks", async || looks() > before + 4) => {}
        }
        gate.add_permits(9);
        idle.await;
    }
    assert_eq!((calls.all(), record(&b, id).await.status), (vec![id], Status::Succeeded));
    sweeper.shutdown().await;
}

#[tokio::test]
async fn an_outcome_whose_text_is_refused_is_stored_in_ascii() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    *store.settle_rule.lock().unwrap() = Some(Box::new(|batch| {
        let texts = batch.iter().flat_map(|settle| [&settle.errors, &settle.description]).flatten();
        (!texts.map(String::as_str).all(str::is_ascii)).then_some(FaultKind::Permanent)
    }));
    let sweeper = outbox.sweeper().handler("sync", |notice: Notice<i64>| async move {
        notice.set_description("für 東京");
        Err(Failure::retry("größer \"als\" 東京"))
    });
    let sweeper = sweeper.start().await.unwrap();
    let id = add(&b, "sync").await;
    outbox.wake();
    let failed = reaches(&b, id, Status::Failed).await;
    assert_eq!(failed.errors[0].message, "gr??er \"als\" ??");
    assert_eq!((failed.description.as_deref(), failed.failures), (Some("f?r ??"), 1));
    sweeper.shutdown().await;
}

#[tokio::test]
async fn an_outcome_that_can_be_stored_in_no_form_counts_a_crash() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync").max_retry_times(0)).await.unwrap();
    // Only the judgement of its expired lease can be stored.
    *store.settle_rule.lock().unwrap() =
        Some(Box::new(|batch| batch.iter().any(|settle| !settle.overdue).then_some(FaultKind::Permanent)));
    let (builder, calls) = good(&outbox);
    let sweeper = builder.start().await.unwrap();
    let id = add(&b, "sync").await;
    outbox.wake();
    eventually("it was sent, and given up", async || calls.count() == 1 && store.outcomes.load(Ordering::SeqCst) == 2)
        .await;
    b.clock().advance(Duration::from_secs(61));
    let dead = reaches(&b, id, Status::DeadLetter).await;
    assert_eq!((dead.fence, dead.failures, dead.crashes, calls.count()), (1, 0, 1, 1));
    sweeper.shutdown().await;
}
