//! Health is true: what the database refuses, what hangs, and a node that is gone show within seconds, and stop nothing else.

use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use solid_notify::alert::{ALERT_DEFINITION, Alert, AlertKind, AlertReason};
use solid_notify::{Notice, NotifyDef, Status};
use solid_notify_conformance::Backend;
use solid_notify_core::error::FaultKind;
use solid_notify_core::store::{BEAT, NODE_RUNS, Node};
use test_support::faulty::{Fault, faulty, good};
use test_support::memory::MemoryBackend;
use test_support::sending::{add, add_alert, definition, gated, reaches};

use crate::observing::recorded::{recorder, value};

/// Endless faults of this kind.
fn always(kind: FaultKind) -> impl Iterator<Item = Fault> {
    std::iter::repeat_n(Fault::Refused(kind), 100_000)
}

/// Whether the alert is stored, and the gauge says so, that a node does not send.
async fn is_reported(b: &MemoryBackend, shown: &PrometheusHandle) -> bool {
    let alerts = b.outbox().engine().stores().alerts.alerts(100).await.unwrap();
    let is_stored = alerts.iter().any(|(_, reason, _)| *reason == AlertReason::NotSending);
    let sending = value(shown, "solid_notify_sending", "");
    assert_eq!(is_stored, sending == 0.0, "{alerts:?} {sending}");
    is_stored
}

#[tokio::test(start_paused = true)]
async fn refused_claim_is_tried_seldom_and_acks_go_on() {
    let recorder = recorder();
    let (shown, _recorder) = (recorder.handle(), metrics::set_default_local_recorder(&recorder));
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
    // The claims of the notice, and those of the alert about it.
    assert!((2..=14).contains(&store.called("fault")), "{} claims in a minute", store.called("fault"));
    let alice = b.outbox().operator("alice");
    assert!(alice.nodes().await.unwrap()[0].problems[0].contains("refused on purpose"));
    assert!(is_reported(&b, &shown).await);
    let acked = add(&b, "sync").await;
    assert!(b.outbox().ack(acked).await.is_ok());
    store.planned.lock().unwrap().clear();
    reaches(&b, id, Status::Succeeded).await;
    // The alert is sent, too.
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(sweeper.health().is_sending(), "{:?}", sweeper.health());
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn look_that_is_refused_rests_and_goes_on_when_it_works() {
    let recorder = recorder();
    let (shown, _recorder) = (recorder.handle(), metrics::set_default_local_recorder(&recorder));
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = good(&outbox).0.outage_grace(Duration::ZERO).start().await.unwrap();
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
    assert!(is_reported(&b, &shown).await);
    store.planned.lock().unwrap().clear();
    let id = add(&b, "sync").await;
    reaches(&b, id, Status::Succeeded).await;
    sweeper.idle().await;
    assert!(sweeper.health().is_sending(), "{:?}", sweeper.health());
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn sweep_that_hangs_is_reported_by_the_node_and_acks_go_on() {
    let recorder = recorder();
    let (shown, _recorder) = (recorder.handle(), metrics::set_default_local_recorder(&recorder));
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = good(&outbox).0.outage_grace(Duration::ZERO).start().await.unwrap();
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
    assert!(is_reported(&b, &shown).await);
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

#[tokio::test(start_paused = true)]
async fn slow_calls_of_one_round_are_not_a_sweep_that_hangs() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = good(&outbox).0.start().await.unwrap();
    sweeper.idle().await;
    // A reading of the definitions and a look, one after the other.
    *store.look_takes.lock().unwrap() = Duration::from_secs(12);
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(sweeper.health().is_sending(), "{:?}", sweeper.health());
    }
    drop(sweeper);
}

#[tokio::test(start_paused = true)]
async fn sweep_of_a_definition_that_hangs_beside_the_others_is_reported() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = good(&outbox).0.first_send(false).start().await.unwrap();
    sweeper.idle().await;
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    *store.claim_gate.lock().unwrap() = Some(gate.clone());
    let id = add(&b, "sync").await;
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert!(sweeper.health().is_sending(), "{:?}", sweeper.health());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let why = sweeper.health().not_sending.unwrap_or_default();
    assert!(why.contains("the sweep of sync hangs"), "{why}");
    gate.add_permits(10);
    reaches(&b, id, Status::Succeeded).await;
    assert!(sweeper.health().is_sending(), "{:?}", sweeper.health());
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn extension_of_leases_that_hangs_is_reported() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("slow").timeout("10m")).await.unwrap();
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let builder = good(&outbox).0.handler("slow", gated(&Default::default(), &gate));
    let sweeper = builder.start().await.unwrap();
    let id = add(&b, "slow").await;
    outbox.wake();
    reaches(&b, id, Status::Sending).await;
    *store.hangs.lock().unwrap() = Some("extend");
    b.clock().advance(Duration::from_secs(620));
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert!(sweeper.health().is_sending(), "{:?}", sweeper.health());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let why = sweeper.health().not_sending.unwrap_or_default();
    assert!(why.contains("leases are not extended"), "{why}");
    gate.add_permits(1);
    drop(sweeper);
}

#[tokio::test(start_paused = true)]
async fn attempt_whose_authority_is_refused_is_tried_seldom_and_reported() {
    let (b, store, outbox) = faulty();
    let builder = good(&outbox).0.handler(ALERT_DEFINITION, |_: Notice<Alert>| async { Ok(()) });
    let sweeper = builder.start().await.unwrap();
    sweeper.idle().await;
    store.plan("use_authority", always(FaultKind::Unusable));
    let alert = Alert::new(AlertKind::Raised, AlertReason::Clock, "sync".to_owned(), "");
    let id = add_alert(b.outbox(), &alert).await;
    for _ in 0..60 {
        outbox.wake();
        b.clock().advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let tries = store.called("fault");
    // The alert about it is refused, too.
    assert!((4..=20).contains(&tries), "{tries} tries in a minute");
    let why = sweeper.health().not_sending.unwrap_or_default();
    assert!(why.contains("use_authority: refused on purpose"), "{why}");
    store.planned.lock().unwrap().clear();
    b.clock().advance(Duration::from_secs(10));
    reaches(&b, id, Status::Succeeded).await;
    assert!(sweeper.health().is_sending(), "{:?}", sweeper.health());
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn refused_outcome_is_reported_until_one_of_its_definition_is_stored() {
    let (b, store, outbox) = faulty();
    for name in ["sync", "other"] {
        b.outbox().define_if_missing(NotifyDef::new(name).handler("sync")).await.unwrap();
    }
    let sweeper = good(&outbox).0.start().await.unwrap();
    let refused = definition(&b, "sync").await.id;
    let rule = move |batch: &[solid_notify_core::store::Settle]| {
        batch.iter().any(|settle| settle.def_id == refused).then_some(FaultKind::Unusable)
    };
    *store.settle_rule.lock().unwrap() = Some(Box::new(rule));
    let id = add(&b, "sync").await;
    for _ in 0..20 {
        let other = add(&b, "other").await;
        outbox.wake();
        reaches(&b, other, Status::Succeeded).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let why = sweeper.health().not_sending.unwrap_or_default();
        assert!(why.contains("settle: refused on purpose"), "{why}");
    }
    *store.settle_rule.lock().unwrap() = None;
    reaches(&b, id, Status::Succeeded).await;
    assert!(sweeper.health().is_sending(), "{:?}", sweeper.health());
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn refused_ticks_looks_and_alerts_are_reported_and_tried_seldom() {
    for (method, definition) in [
        ("tick", NotifyDef::new("sync").schedule("0 0 * * * *")),
        ("look", NotifyDef::new("sync").need_confirm(true).max_confirm_delay("1m")),
        ("advance_alert", NotifyDef::new("sync").need_confirm(true).max_confirm_delay("1m").max_retry_times(0)),
    ] {
        let (b, store, outbox) = faulty();
        b.outbox().define_if_missing(definition).await.unwrap();
        let sweeper = good(&outbox).0.outage_grace(Duration::ZERO).start().await.unwrap();
        let id = add(&b, "sync").await;
        outbox.wake();
        sweeper.idle().await;
        if method == "advance_alert" {
            b.clock().advance(Duration::from_secs(61));
            reaches(&b, id, Status::DeadLetter).await;
            // The alert has been raised; its cool-down ends.
        }
        store.plan(method, always(FaultKind::Unusable));
        let before = store.called("fault");
        b.clock().advance(Duration::from_secs(7200));
        for _ in 0..60 {
            outbox.wake();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let tries = store.called("fault") - before;
        assert!((4..=20).contains(&tries), "{method}: {tries} in a minute");
        let why = sweeper.health().not_sending.unwrap_or_default();
        assert!(why.contains(&format!("{method}: refused on purpose")), "{method}: {why}");
        let next = add(&b, "sync").await;
        reaches(&b, next, if method == "tick" { Status::Succeeded } else { Status::AwaitingAck }).await;
        store.planned.lock().unwrap().clear();
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert!(sweeper.health().is_sending(), "{method}: {:?}", sweeper.health());
        sweeper.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_accepts_no_writes_is_down_until_it_does() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = good(&outbox).0.start().await.unwrap();
    sweeper.idle().await;
    for write in ["beat", "claim", "write_series"] {
        store.plan(write, always(FaultKind::Outage));
    }
    tokio::time::sleep(2 * BEAT).await;
    let health = sweeper.health();
    assert!(!health.is_ready() && !health.is_sending() && !health.database_answers, "{health:?}");
    let id = add(&b, "sync").await;
    for second in 0..60 {
        outbox.wake();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let health = sweeper.health();
        assert!(health.database_for >= Duration::from_secs(second), "it flaps: {health:?}");
    }
    store.planned.lock().unwrap().clear();
    reaches(&b, id, Status::Succeeded).await;
    sweeper.idle().await;
    assert!(sweeper.health().is_ready() && sweeper.health().is_sending(), "{:?}", sweeper.health());
    sweeper.shutdown().await;
}
