//! Health is true: what the database refuses, what hangs, and a node that is gone show within seconds, and stop nothing else.

use std::time::Duration;

use solid_notify::{NotifyDef, Status};
use solid_notify_conformance::Backend;
use solid_notify_core::error::FaultKind;
use solid_notify_core::store::{BEAT, NODE_RUNS, Node};
use test_support::faulty::{Fault, faulty, good};
use test_support::sending::{add, reaches};

/// Endless faults of this kind.
fn always(kind: FaultKind) -> impl Iterator<Item = Fault> {
    std::iter::repeat_n(Fault::Refused(kind), 100_000)
}

#[tokio::test(start_paused = true)]
async fn refused_claim_is_tried_seldom_and_acks_go_on() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = good(&outbox).0.start().await.unwrap();
    sweeper.idle().await;
    assert!(sweeper.health().is_sending(), "{:?}", sweeper.health());
    store.plan("claim", always(FaultKind::Unusable));
    let id = add(&b, "sync").await;
    for _ in 0..60 {
        outbox.wake();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let health = sweeper.health();
    assert!(health.is_ready() && health.database_answers, "{health:?}");
    assert!(health.not_sending.as_deref().is_some_and(|why| why.contains("refused on purpose")), "{health:?}");
    assert!((2..=8).contains(&store.called("fault")), "{} claims in a minute", store.called("fault"));
    let alice = b.outbox().operator("alice");
    assert!(alice.nodes().await.unwrap()[0].problems[0].contains("refused on purpose"));
    let acked = add(&b, "sync").await;
    assert!(b.outbox().ack(acked).await.is_ok());
    store.planned.lock().unwrap().clear();
    reaches(&b, id, Status::Succeeded).await;
    assert!(sweeper.health().is_sending(), "{:?}", sweeper.health());
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn look_that_is_refused_rests_and_goes_on_when_it_works() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = good(&outbox).0.start().await.unwrap();
    sweeper.idle().await;
    store.plan("due", always(FaultKind::Unusable));
    let before = store.called("fault");
    for _ in 0..60 {
        outbox.wake();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let tries = store.called("fault") - before;
    assert!((4..=20).contains(&tries), "{tries} looks in a minute");
    assert!(sweeper.health().is_ready() && !sweeper.health().is_sending(), "{:?}", sweeper.health());
    store.planned.lock().unwrap().clear();
    let id = add(&b, "sync").await;
    reaches(&b, id, Status::Succeeded).await;
    sweeper.idle().await;
    assert!(sweeper.health().is_sending(), "{:?}", sweeper.health());
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn sweep_that_hangs_is_reported_by_the_node_and_acks_go_on() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = good(&outbox).0.start().await.unwrap();
    sweeper.idle().await;
    *store.look_takes.lock().unwrap() = Duration::from_secs(100_000);
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert!(sweeper.health().is_sending(), "{:?}", sweeper.health());
    tokio::time::sleep(Duration::from_secs(15)).await;
    let health = sweeper.health();
    assert!(health.is_ready(), "{health:?}");
    assert!(health.not_sending.as_deref().is_some_and(|why| why.contains("the sweep hangs")), "{health:?}");
    tokio::time::sleep(BEAT).await;
    let alice = b.outbox().operator("alice");
    assert!(alice.nodes().await.unwrap()[0].problems[0].contains("the sweep hangs"));
    drop(sweeper);
}

#[tokio::test(start_paused = true)]
async fn node_without_a_sign_of_life_is_not_listed_after_two_beats() {
    let (b, _, _) = faulty();
    let alice = b.outbox().operator("alice");
    b.outbox().engine().stores().send.beat(&Node::new("killed", Vec::new())).await.unwrap();
    b.clock().advance(NODE_RUNS - Duration::from_millis(1));
    assert_eq!(alice.nodes().await.unwrap().len(), 1);
    b.clock().advance(Duration::from_millis(1));
    assert_eq!(alice.nodes().await.unwrap(), []);
}
