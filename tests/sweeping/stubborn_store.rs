//! A store that refuses some outcomes, or delays them: one row, one definition or one handler never stops the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use solid_notify::{Failure, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use solid_notify_core::error::FaultKind;
use solid_notify_core::store::{Claim, ClaimWhat};
use test_support::faulty::{faulty, good};
use test_support::sending::{add, definition, eventually, reaches, record};
use tokio::sync::Semaphore;
use tokio::time::Instant;

#[tokio::test]
async fn a_batch_that_is_too_large_for_the_database_is_halved() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync").max_concurrency(50)).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(add(&b, "sync").await);
    }
    // A packet limit breaks the connection.
    *store.settle_rule.lock().unwrap() = Some(Box::new(|batch| (batch.len() > 6).then_some(FaultKind::Outage)));
    let (builder, calls) = good(&outbox);
    let sweeper = builder.start().await.unwrap();
    for id in &ids {
        reaches(&b, *id, Status::Succeeded).await;
    }
    assert_eq!(calls.count(), 20, "each was sent once");
    sweeper.shutdown().await;
}

#[tokio::test]
async fn a_batch_is_never_larger_than_what_servers_take() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync").max_concurrency(200)).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..100 {
        ids.push(add(&b, "sync").await);
    }
    let largest = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&largest);
    *store.settle_rule.lock().unwrap() = Some(Box::new(move |batch| {
        seen.fetch_max(batch.iter().flat_map(|settle| &settle.description).map(String::len).sum(), Ordering::SeqCst);
        None
    }));
    // All of them end at the same moment.
    let together = Arc::new(tokio::sync::Barrier::new(100));
    let sweeper = outbox
        .sweeper()
        .handler("sync", move |notice: Notice<i64>| {
            let together = Arc::clone(&together);
            async move {
                notice.set_description("x".repeat(60_000));
                together.wait().await;
                Ok(())
            }
        })
        .start()
        .await
        .unwrap();
    for id in &ids {
        reaches(&b, *id, Status::Succeeded).await;
    }
    let largest = largest.load(Ordering::SeqCst);
    assert!((1_000_000..=2 << 20).contains(&largest), "{largest} bytes");
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_row_that_conflicts_for_ever_does_not_stop_the_others() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync").max_concurrency(50)).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(add(&b, "sync").await);
    }
    let stuck = ids.remove(4);
    *store.settle_rule.lock().unwrap() =
        Some(Box::new(move |batch| batch.iter().any(|settle| settle.id == stuck).then_some(FaultKind::Conflict)));
    let (builder, calls) = good(&outbox);
    let sweeper = builder.start().await.unwrap();
    for id in &ids {
        reaches(&b, *id, Status::Succeeded).await;
    }
    let began = Instant::now();
    let later = add(&b, "sync").await;
    outbox.wake();
    reaches(&b, later, Status::Succeeded).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(record(&b, stuck).await.status, Status::Sending);
    *store.settle_rule.lock().unwrap() = None;
    let done = reaches(&b, stuck, Status::Succeeded).await;
    assert_eq!((done.fence, done.crashes, calls.count()), (1, 0, 11));
    sweeper.shutdown().await;
}

/// The bound is of all definitions together in an outage, and of one definition where only its own outcomes cannot be stored.
#[tokio::test(start_paused = true)]
async fn deliveries_without_a_stored_outcome_are_bounded() {
    for (kind, bound) in [(FaultKind::Outage, 2000), (FaultKind::Conflict, 500), (FaultKind::Slow, 500)] {
        deliveries_while_settles_fail(kind, bound).await;
    }
}

async fn deliveries_while_settles_fail(kind: FaultKind, bound: usize) {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync").max_concurrency(100)).await.unwrap();
    for _ in 0..4000 {
        add(&b, "sync").await;
    }
    *store.settle_rule.lock().unwrap() = Some(Box::new(move |_| Some(kind)));
    let (builder, calls) = good(&outbox);
    let sweeper = builder.start().await.unwrap();
    eventually("many are delivered", async || calls.count() >= bound).await;
    // Until it stands still.
    loop {
        let before = calls.count();
        tokio::time::sleep(Duration::from_secs(10)).await;
        if calls.count() == before {
            break;
        }
    }
    // Notices that were claimed before the first settle was found to be stuck.
    assert!(calls.count() <= bound + 600, "{} are delivered and not stored: {kind:?}", calls.count());
    *store.settle_rule.lock().unwrap() = None;
    eventually("all are delivered and stored", async || {
        b.outbox().engine().stores().send.due(true).await.unwrap().slices.is_empty()
    })
    .await;
    assert_eq!(calls.count(), 4000);
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_error_of_one_definition_does_not_stop_the_others() {
    for kind in [FaultKind::Permanent, FaultKind::Unusable, FaultKind::Conflict, FaultKind::Slow, FaultKind::Busy] {
        an_error_of_one_definition(kind).await;
    }
}

async fn an_error_of_one_definition(kind: FaultKind) {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("broken").handler("sync")).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let broken = add(&b, "broken").await;
    let id = definition(&b, "broken").await.id;
    *store.refused_definition.lock().unwrap() = Some((id, kind));
    let (builder, _calls) = good(&outbox);
    let sweeper = builder.start().await.unwrap();
    let began = Instant::now();
    // Many notices, because the definitions take turns: every other look begins with the good one.
    for _ in 0..20 {
        let id = add(&b, "sync").await;
        outbox.wake();
        reaches(&b, id, Status::Succeeded).await;
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(record(&b, broken).await.fence, 0);
    *store.refused_definition.lock().unwrap() = None;
    reaches(&b, broken, Status::Succeeded).await;
    sweeper.shutdown().await;
}

/// Panics wherever it can.
#[derive(Debug)]
struct Nasty;

impl std::fmt::Display for Nasty {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("its text panics")
    }
}

impl std::error::Error for Nasty {}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("its drop panics")
    }
}

#[tokio::test]
async fn nothing_that_panics_in_a_handler_leaves_a_notice_behind() {
    let (b, _store, outbox) = faulty();
    for name in ["text", "dropped", "payload"] {
        b.outbox().define_if_missing(NotifyDef::new(name).timeout("50ms")).await.unwrap();
    }
    let sweeper = outbox
        .sweeper()
        .handler("text", |_: Notice<i64>| async { Err(Failure::retry(Nasty)) })
        .handler("dropped", |_: Notice<i64>| async {
            let _guard = PanicsWhenDropped;
            std::future::pending().await
        })
        .handler("payload", |_: Notice<i64>| async { std::panic::panic_any(PanicsWhenDropped) })
        .start()
        .await
        .unwrap();
    for (name, message) in [("text", "its text panics"), ("dropped", "its drop panics"), ("payload", "no message")] {
        let id = add(&b, name).await;
        outbox.wake();
        let failed = reaches(&b, id, Status::Failed).await;
        assert_eq!(failed.errors[0].message, format!("the handler panicked: {message}"));
    }
    sweeper.shutdown().await;
}

#[tokio::test]
async fn a_sweeper_dropped_during_a_claim_ends_what_it_claimed() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    *store.claim_gate.lock().unwrap() = Some(gate.clone());
    let (builder, calls) = good(&outbox);
    let sweeper = builder.start().await.unwrap();
    let id = add(&b, "sync").await;
    outbox.wake();
    eventually("it is claimed", async || store.diary.all().contains(&"claimed")).await;
    drop(sweeper);
    gate.add_permits(1);
    let done = reaches(&b, id, Status::Succeeded).await;
    assert_eq!((done.fence, done.crashes, calls.count()), (1, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_although_a_row_stays_locked() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let id = add(&b, "sync").await;
    *store.locked.lock().unwrap() = Some((id, u32::MAX));
    let (builder, calls) = good(&outbox);
    let sweeper = builder.start().await.unwrap();
    eventually("it is sent", async || calls.count() == 1).await;
    tokio::time::timeout(Duration::from_secs(20), sweeper.shutdown()).await.expect("it ends");
    assert_eq!(record(&b, id).await.status, Status::Sending);
}

#[tokio::test(start_paused = true)]
async fn an_expired_lease_is_judged_once() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync").max_concurrency(500)).await.unwrap();
    for _ in 0..200 {
        add(&b, "sync").await;
    }
    let claim = Claim {
        def_id: definition(&b, "sync").await.id,
        what: ClaimWhat::Slice(Status::NotSent),
        limit: 200,
        lease: Duration::from_secs(60),
        worker: "dead".to_owned(),
        quota: None,
    };
    assert_eq!(b.outbox().engine().stores().send.claim(&claim).await.unwrap().notices.len(), 200);
    b.clock().advance(Duration::from_secs(60));
    // The judgements cannot be stored for a while, and the sweep is woken all the time.
    *store.settle_rule.lock().unwrap() = Some(Box::new(|_| Some(FaultKind::Conflict)));
    let (builder, calls) = good(&outbox);
    let sweeper = builder.outage_grace(Duration::ZERO).start().await.unwrap();
    for _ in 0..50 {
        outbox.wake();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let looked = store.called("look");
    assert!(looked > 5, "the sweep looked {looked} times");
    // One batch, tried again with growing pauses; not two hundred outcomes for each look.
    let outcomes = store.outcomes.load(Ordering::SeqCst);
    assert!(outcomes <= 200 * 6, "{outcomes} outcomes after {looked} looks");
    *store.settle_rule.lock().unwrap() = None;
    eventually("all are delivered", async || {
        b.outbox().engine().stores().send.due(true).await.unwrap().slices.is_empty()
    })
    .await;
    assert_eq!(calls.count(), 200);
    sweeper.shutdown().await;
}

#[tokio::test]
async fn batch_in_hand_is_written_after_the_store_panicked() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync").max_concurrency(50)).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..30 {
        ids.push(add(&b, "sync").await);
    }
    let panics = AtomicUsize::new(0);
    *store.settle_rule.lock().unwrap() = Some(Box::new(move |_| {
        assert!(panics.fetch_add(1, Ordering::SeqCst) >= 3, "on purpose");
        None
    }));
    let (builder, calls) = good(&outbox);
    let sweeper = builder.start().await.unwrap();
    for id in &ids {
        let record = reaches(&b, *id, Status::Succeeded).await;
        assert_eq!((record.fence, record.crashes), (1, 0));
    }
    assert_eq!(calls.count(), 30);
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_within_25_seconds_despite_hanging_calls() {
    for hangs in ["handler", "claim", "settle", "look"] {
        let (b, store, outbox) = faulty();
        b.outbox().define_if_missing(NotifyDef::new("sync").timeout("1h")).await.unwrap();
        let id = add(&b, "sync").await;
        let never = Arc::new(Semaphore::new(0));
        match hangs {
            "claim" => *store.claim_gate.lock().unwrap() = Some(never),
            "settle" => *store.settle_gate.lock().unwrap() = Some(never),
            _ => {}
        }
        let sweeper = outbox
            .sweeper()
            .handler("sync", |_: Notice<i64>| async { std::future::pending().await })
            .start()
            .await
            .unwrap();
        if hangs == "look" {
            *store.look_takes.lock().unwrap() = Duration::from_secs(86_400);
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        let began = Instant::now();
        sweeper.shutdown().await;
        let took = began.elapsed();
        assert!(took <= Duration::from_secs(25), "{hangs}: {took:?}");
        if hangs == "handler" {
            let record = record(&b, id).await;
            assert_eq!((record.status, record.crashes, record.failures), (Status::NotSent, 0, 0), "it is handed back");
            assert!(took >= Duration::from_secs(15), "handlers get their grace: {took:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn attempt_whose_span_panics_is_counted_as_a_crash() {
    /// Panics where a span of an attempt is entered.
    struct Panics;
    impl tracing::Subscriber for Panics {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            metadata.target() == "solid_notify::attempt"
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, _: &tracing::Event<'_>) {}
        fn enter(&self, _: &tracing::span::Id) {
            panic!("a tracing layer");
        }
        fn exit(&self, _: &tracing::span::Id) {}
    }
    let (b, _store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync").max_retry_times(0)).await.unwrap();
    let (builder, _calls) = good(&outbox);
    let panics = tracing::subscriber::set_default(Panics);
    let id = add(&b, "sync").await;
    let sweeper = builder.start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(record(&b, id).await.status, Status::Sending);
    drop(panics);
    for _ in 0..3 {
        b.clock().advance(Duration::from_secs(70));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let record = record(&b, id).await;
    assert_eq!((record.status, record.crashes), (Status::DeadLetter, 1), "nothing holds it any more");
    sweeper.shutdown().await;
}

/// Each ack wakes the sweeper, and so does each commit of an application.
#[tokio::test(start_paused = true)]
async fn wakes_in_a_row_take_a_tenth_of_the_time() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = good(&outbox).0.poll_interval(Duration::from_secs(1)).start().await.unwrap();
    *store.look_takes.lock().unwrap() = Duration::from_millis(50);
    let count = |method| store.diary.all().iter().filter(|called| **called == method).count();
    let before = (count("due"), count("definitions"));
    for _ in 0..1000 {
        outbox.wake();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // In ten seconds; the look for conditions comes on top.
    let (looks, readings) = (count("due") - before.0, count("definitions") - before.1);
    assert!((10..=25).contains(&looks) && (5..=25).contains(&readings), "{looks} {readings}");
    sweeper.shutdown().await;
}
