//! Limits over all nodes, circuits and the one switch, with running sweepers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use solid_notify::alert::AlertReason;
use solid_notify::{
    Alert, ErrorClass, Failure, FirstAttempt, NewNotice, Notice, NotifyDef, OutboxExt, Status, SweeperBuilder,
};
use solid_notify_conformance::Backend;
use test_support::sending::{Calls, PATIENCE, add, definition, eventually, gated, reaches, record};
use tokio::sync::Semaphore;

use super::turn;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Builds a sweeper whose handler `sync` records the ids, and fails while the flag is set.
fn sending(b: &dyn Backend, calls: &Calls<i64>, fails: &Arc<AtomicBool>) -> SweeperBuilder {
    let (calls, fails) = (calls.clone(), Arc::clone(fails));
    b.outbox().sweeper().handler("sync", move |notice: Notice<i64>| {
        calls.note(notice.id());
        let fails = fails.load(Ordering::SeqCst);
        async move { if fails { Err(Failure::retry("out of service").class(ErrorClass::Unavailable)) } else { Ok(()) } }
    })
}

async fn backlog(b: &dyn Backend, name: &str, count: i64) -> Vec<i64> {
    let notices = (0..count).map(|n| NewNotice::new(name, n).unwrap()).collect();
    let added = b.add_many(notices).await.unwrap();
    added.into_iter().map(|added| added.id()).collect()
}

pub async fn three_sweepers_keep_one_rate_in_every_window(b: &dyn Backend) {
    const LIMIT: usize = 10;
    b.outbox().define_if_missing(NotifyDef::new("sync").rate_limit("10/1s").retry_interval("1s")).await.unwrap();
    let calls = Calls::default();
    let mut sweepers = Vec::new();
    for _ in 0..3 {
        sweepers.push(sending(b, &calls, &Arc::default()).start().await.unwrap());
    }
    let mut ids = backlog(b, "sync", 20).await;
    // Some of them arrive one by one.
    for _ in 0..10 {
        ids.push(add(b, "sync").await);
    }
    let began = b.clock().now();
    while calls.count() < ids.len() {
        for sweeper in &sweepers {
            sweeper.idle().await;
        }
        b.clock().advance(Duration::from_millis(70));
        assert!(b.clock().now() < began + 10 * SECOND, "{} were sent", calls.count());
    }
    let mut starts: Vec<DateTime<Utc>> = Vec::new();
    for id in &ids {
        let done = reaches(b, *id, Status::Succeeded).await;
        assert_eq!((done.fence, done.failures), (1, 0), "a waiting notice was not tried");
        starts.push(done.last_call_time.unwrap());
    }
    starts.sort_unstable();
    for start in &starts {
        let window = starts.iter().filter(|other| *other >= start && **other < *start + SECOND).count();
        assert!(window <= LIMIT, "{window} within a second: {starts:?}");
    }
    let took = (starts[29] - starts[0]).to_std().unwrap();
    assert!(took >= 2 * SECOND && took <= 2 * SECOND + Duration::from_millis(500), "as fast as it may: {took:?}");
    for sweeper in sweepers {
        sweeper.shutdown().await;
    }
}

pub async fn three_sweepers_send_no_more_at_once_than_the_total(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").max_concurrency_total(4)).await.unwrap();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let gate = Arc::new(Semaphore::new(0));
    let mut sweepers = Vec::new();
    for _ in 0..3 {
        let (running, most, gate) = (running.clone(), most.clone(), gate.clone());
        let builder = b.outbox().sweeper().poll_interval(Duration::from_millis(50));
        let handler = move |_: Notice<i64>| {
            let (running, most, gate) = (running.clone(), most.clone(), gate.clone());
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let _permit = gate.acquire().await?;
                tokio::time::sleep(Duration::from_millis(3)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        };
        sweepers.push(builder.handler("sync", handler).start().await.unwrap());
    }
    let ids = backlog(b, "sync", 60).await;
    b.outbox().wake();
    eventually("as many run as may", async || running.load(Ordering::SeqCst) == 4).await;
    gate.add_permits(60);
    for id in ids {
        assert_eq!(reaches(b, id, Status::Succeeded).await.fence, 1);
    }
    assert_eq!(most.load(Ordering::SeqCst), 4);
    for sweeper in sweepers {
        sweeper.shutdown().await;
    }
}

pub async fn a_limited_backlog_takes_nothing_from_others(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("slow").handler("sync").rate_limit("2/1h")).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let slow = backlog(b, "slow", 200).await;
    let calls = Calls::default();
    // For a poll interval the node remembers that the rate is used up; it replies at once while it does.
    let builder = sending(b, &calls, &Arc::default()).poll_interval(10 * SECOND);
    let sweeper = builder.max_running(3).start().await.unwrap();
    eventually("the rate allows two", async || calls.count() == 2).await;
    let receipt = b.add_new(NewNotice::new("slow", 1).unwrap()).await;
    let told = tokio::time::timeout(PATIENCE, receipt.first_attempt(Duration::MAX)).await;
    assert_eq!(told.expect("the reply comes at once"), FirstAttempt::StillDue);
    for _ in 0..5 {
        let receipt = b.add_new(NewNotice::new("sync", 1).unwrap()).await;
        assert_eq!(receipt.first_attempt(PATIENCE).await, FirstAttempt::Succeeded);
    }
    for _ in 0..3 {
        sweeper.idle().await;
    }
    assert_eq!(calls.count(), 7);
    b.clock().advance(60 * MINUTE);
    eventually("the next two", async || calls.count() == 9).await;
    let mut attempts: BTreeMap<i64, usize> = BTreeMap::new();
    for id in slow {
        *attempts.entry(record(b, id).await.fence).or_default() += 1;
    }
    assert!(attempts[&0] >= 196, "nothing that waits burns an fence: {attempts:?}");
    sweeper.shutdown().await;
}

pub async fn a_circuit_opens_is_probed_and_closes(b: &dyn Backend) {
    // One at a time, so that none begins before the failure of the one before is stored.
    let def =
        NotifyDef::new("sync").breaker_failures(3).breaker_pause("5m").retry_interval("1s").max_concurrency_total(1);
    b.outbox().define_if_missing(def).await.unwrap();
    let (calls, alerts) = (Calls::default(), Calls::default());
    let fails = Arc::new(AtomicBool::new(true));
    let told = alerts.clone();
    let note = move |alert: Notice<Alert>| {
        told.note(alert.param().clone());
        async { Ok(()) }
    };
    let one = sending(b, &calls, &fails).handler("notify.alert", note).start().await.unwrap();
    // The other node logs alerts itself unless it sees a living node that takes them.
    eventually("it lives", async || {
        let nodes = b.outbox().engine().stores().browse.nodes(MINUTE).await.unwrap();
        nodes.iter().any(|node| node.handlers.iter().any(|handler| handler == "notify.alert"))
    })
    .await;
    let other = sending(b, &calls, &fails).start().await.unwrap();
    let idle = async || {
        // Each node may have left notices to the other.
        for _ in 0..2 {
            one.idle().await;
            other.idle().await;
        }
    };
    let ids = backlog(b, "sync", 12).await;
    b.outbox().wake();
    eventually("the circuit opens", async || calls.count() == 3).await;
    idle().await;
    eventually("the alert is sent", async || alerts.count() == 1).await;
    let alert = alerts.all().remove(0);
    assert_eq!((alert.reason, alert.class.as_deref()), (AlertReason::CircuitOpen, Some("unavailable")));
    b.clock().advance(5 * MINUTE - SECOND);
    idle().await;
    assert_eq!(calls.count(), 3, "it is open");
    b.clock().advance(SECOND);
    eventually("the probe", async || calls.count() == 4).await;
    idle().await;
    assert_eq!(calls.count(), 4, "one probe over all nodes");
    let mut failures = 0;
    for id in &ids {
        failures += record(b, *id).await.failures;
    }
    assert_eq!(failures, 4, "a waiting notice uses no attempt");
    fails.store(false, Ordering::SeqCst);
    b.clock().advance(5 * MINUTE);
    for id in ids {
        reaches(b, id, Status::Succeeded).await;
    }
    one.shutdown().await;
    other.shutdown().await;
}

pub async fn the_switch_pauses_everything_without_loss_or_alert(b: &dyn Backend) {
    let def = NotifyDef::new("sync").max_concurrency(1).timeout("1d").backlog_alert_age("10m");
    b.outbox().define_if_missing(def).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("probe")).await.unwrap();
    let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
    let sweeper = b
        .outbox()
        .sweeper()
        .maintenance_interval(Duration::from_millis(10))
        .handler("sync", gated(&calls, &gate))
        .handler("probe", |_: Notice<i64>| async { Ok(()) })
        .start()
        .await
        .unwrap();
    let running = add(b, "sync").await;
    eventually("it is being sent", async || calls.count() == 1).await;
    let operator = b.outbox().operator("alice");
    assert!(operator.pause_all("maintenance of the target").await.unwrap());
    eventually_still_due(b, "probe").await;
    let begun = calls.count();
    let waits = add(b, "sync").await;
    add(b, "sync").await;
    // Running attempts end and are settled.
    gate.add_permits(1);
    reaches(b, running, Status::Succeeded).await;
    sweeper.idle().await;
    let def_id = definition(b, "sync").await.id;
    let backlog = async || b.outbox().engine().stores().alerts.alert(def_id, AlertReason::Backlog).await.unwrap();
    for _ in 0..3 {
        b.clock().advance(30 * MINUTE);
        sweeper.idle().await;
    }
    let untouched = record(b, waits).await;
    assert_eq!((untouched.status, untouched.fence, calls.count()), (Status::NotSent, 0, begun));
    assert!(operator.resume_all().await.unwrap());
    eventually("one is being sent, the others wait for it", async || calls.count() == begun + 1).await;
    // Each turn of the clock makes the node look for backlogs; when it begins the second time, it has ended the first.
    for _ in 0..2 {
        turn(b, &sweeper, MINUTE).await;
    }
    assert!(backlog().await.is_none(), "a pause is no backlog");
    gate.add_permits(100);
    let done = reaches(b, waits, Status::Succeeded).await;
    assert_eq!((done.fence, done.failures), (1, 0));
    sweeper.shutdown().await;
}

/// Adds until the pause is in force: then `first_attempt` returns `StillDue` although there are slots.
async fn eventually_still_due(b: &dyn Backend, name: &str) {
    eventually("the pause is in force", async || {
        let receipt = b.add_new(NewNotice::new(name, 1).unwrap()).await;
        receipt.first_attempt(PATIENCE).await == FirstAttempt::StillDue
    })
    .await;
}
