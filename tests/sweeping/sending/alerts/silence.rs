//! Alerts that operators silence and acknowledge.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, Utc};
use solid_notify::alert::{AlertKind, AlertReason};
use solid_notify::{Alert, NotifyDef, Status, Sweeper};
use solid_notify_conformance::Backend;
use test_support::sending::{Calls, add, eventually, reaches};

use super::{MINUTE, failing, on, told};
use crate::turn;

/// A definition whose notices become dead letters at once while the flag is set.
async fn begin(b: &dyn Backend) -> (Sweeper, Calls<Alert>, Arc<AtomicBool>) {
    b.outbox().define_if_missing(NotifyDef::new("sync").max_retry_times(0)).await.unwrap();
    let (alerts, fails) = (Calls::default(), on());
    let sweeper = failing(b, &fails, &alerts).start().await.unwrap();
    (sweeper, alerts, fails)
}

async fn fail(b: &dyn Backend, sweeper: &Sweeper, times: usize) {
    for _ in 0..times {
        let id = add(b, "sync").await;
        reaches(b, id, Status::DeadLetter).await;
    }
    sweeper.idle().await;
}

fn hour_from_now(b: &dyn Backend) -> DateTime<Utc> {
    b.clock().now() + 60 * MINUTE
}

pub async fn a_silenced_alert_is_a_digest_when_the_silence_ends(b: &dyn Backend) {
    let (sweeper, alerts, _) = begin(b).await;
    let alice = b.outbox().operator("alice");
    assert!(alice.silence("sync", None, hour_from_now(b), "maintenance").await.unwrap());
    fail(b, &sweeper, 2).await;
    // After the cool-down as well.
    b.clock().advance(30 * MINUTE);
    fail(b, &sweeper, 1).await;
    b.clock().advance(29 * MINUTE);
    sweeper.idle().await;
    assert_eq!(alerts.all(), []);
    b.clock().advance(MINUTE);
    let digest = told(&alerts, 1).await.remove(0);
    assert_eq!((digest.kind, digest.reason, digest.more), (AlertKind::Digest, AlertReason::FinalFailure, 3));
    // From then on as ever.
    sweeper.idle().await;
    b.clock().advance(6 * MINUTE);
    fail(b, &sweeper, 1).await;
    assert_eq!(told(&alerts, 2).await.remove(1).kind, AlertKind::Raised);
    sweeper.shutdown().await;
}

pub async fn a_silence_that_ends_after_the_problem_has_no_digest(b: &dyn Backend) {
    let (sweeper, alerts, fails) = begin(b).await;
    fail(b, &sweeper, 1).await;
    told(&alerts, 1).await;
    b.outbox().operator("alice").silence("sync", AlertReason::FinalFailure, hour_from_now(b), "known").await.unwrap();
    fail(b, &sweeper, 2).await;
    fails.store(false, Ordering::SeqCst);
    let id = add(b, "sync").await;
    reaches(b, id, Status::Succeeded).await;
    sweeper.idle().await;
    b.clock().advance(59 * MINUTE);
    sweeper.idle().await;
    told(&alerts, 1).await;
    b.clock().advance(MINUTE);
    let recovered = told(&alerts, 2).await.remove(1);
    assert_eq!((recovered.kind, recovered.more), (AlertKind::Recovered, 2), "the recovery has the suppressed alarms");
    sweeper.idle().await;
    assert_eq!(b.outbox().operator("alice").open_alerts(10).await.unwrap(), []);
    sweeper.shutdown().await;
}

pub async fn a_silence_that_an_operator_ends_is_over_at_once(b: &dyn Backend) {
    let (sweeper, alerts, _) = begin(b).await;
    let alice = b.outbox().operator("alice");
    alice.silence("sync", None, hour_from_now(b), "maintenance").await.unwrap();
    fail(b, &sweeper, 2).await;
    assert_eq!(alerts.all(), []);
    assert!(alice.unsilence("sync", None).await.unwrap());
    let digest = told(&alerts, 1).await.remove(0);
    assert_eq!((digest.kind, digest.more), (AlertKind::Digest, 2));
    assert!(!alice.unsilence("sync", None).await.unwrap());
    sweeper.shutdown().await;
}

pub async fn an_acknowledged_alert_sends_only_its_recovery(b: &dyn Backend) {
    let (sweeper, alerts, fails) = begin(b).await;
    fail(b, &sweeper, 1).await;
    told(&alerts, 1).await;
    let alice = b.outbox().operator("alice");
    assert!(alice.acknowledge("sync", AlertReason::FinalFailure).await.unwrap());
    for _ in 0..3 {
        b.clock().advance(6 * MINUTE);
        fail(b, &sweeper, 2).await;
    }
    told(&alerts, 1).await;
    let open = alice.open_alerts(10).await.unwrap().remove(0);
    assert_eq!((open.suppressed, open.acknowledged_by.as_deref()), (6, Some("alice")));
    fails.store(false, Ordering::SeqCst);
    let id = add(b, "sync").await;
    reaches(b, id, Status::Succeeded).await;
    sweeper.idle().await;
    b.clock().advance(60 * MINUTE);
    let recovered = told(&alerts, 2).await.remove(1);
    assert_eq!((recovered.kind, recovered.more), (AlertKind::Recovered, 6));
    sweeper.idle().await;
    // The next incident is not acknowledged.
    fails.store(true, Ordering::SeqCst);
    fail(b, &sweeper, 1).await;
    assert_eq!(told(&alerts, 3).await.remove(2).kind, AlertKind::Raised);
    sweeper.shutdown().await;
}

pub async fn a_silenced_condition_is_reported_when_the_silence_ends(b: &dyn Backend) {
    let def = NotifyDef::new("slow").handler("not_here").backlog_alert_age("10m");
    b.outbox().define_if_missing(def).await.unwrap();
    let (sweeper, alerts, _) = begin(b).await;
    b.outbox().operator("alice").silence("slow", None, hour_from_now(b), "its owner knows").await.unwrap();
    add(b, "slow").await;
    for _ in 0..59 {
        turn(b, &sweeper, MINUTE).await;
        sweeper.idle().await;
    }
    assert_eq!(alerts.all(), []);
    b.clock().advance(MINUTE);
    let digests = || alerts.all().iter().map(|alert| (alert.kind, alert.reason)).collect::<Vec<_>>();
    let backlog = (AlertKind::Digest, AlertReason::Backlog);
    eventually("the condition is reported", async || digests().contains(&backlog)).await;
    sweeper.shutdown().await;
}
