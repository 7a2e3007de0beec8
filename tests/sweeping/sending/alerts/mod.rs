//! Alerts: which ones are sent, how often, and that none is lost. `conditions.rs` has those that no outcome raises, `silence.rs` what
//! operators silence and acknowledge, `nodes.rs` the alerts of several sweepers.

mod conditions;
mod nodes;
mod silence;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use solid_notify::alert::{AlertKind, AlertReason};
use solid_notify::definition::ALERT_DEFINITION;
use solid_notify::{Alert, Failure, Filter, NewNotice, Notice, NotifyDef, OutboxExt, Status, SweeperBuilder};
use solid_notify_conformance::Backend;
use test_support::sending::{Calls, add, eventually, reaches, update};

use crate::turn;

pub use conditions::*;
pub use silence::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Builds a sweeper whose handler `sync` fails while the flag is set, and that records the alerts.
fn failing(b: &dyn Backend, fails: &Arc<AtomicBool>, alerts: &Calls<Alert>) -> SweeperBuilder {
    let alerts = alerts.clone();
    without_alerts(b, fails).handler(ALERT_DEFINITION, move |notice: Notice<Alert>| {
        alerts.note(notice.into_param());
        async { Ok(()) }
    })
}

/// As [`failing`], without a handler of alerts.
fn without_alerts(b: &dyn Backend, fails: &Arc<AtomicBool>) -> SweeperBuilder {
    let fails = Arc::clone(fails);
    b.outbox().sweeper().handler("sync", move |_: Notice<i64>| {
        let fails = fails.load(Ordering::SeqCst);
        async move { if fails { Err(Failure::retry("connection refused")) } else { Ok(()) } }
    })
}

fn on() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(true))
}

async fn told(alerts: &Calls<Alert>, count: usize) -> Vec<Alert> {
    eventually(&format!("{count} alerts"), async || alerts.count() >= count).await;
    let all = alerts.all();
    assert_eq!(all.len(), count, "{all:?}");
    all
}

pub async fn a_final_failure_raises_an_alert_with_all_details(b: &dyn Backend) {
    let def = NotifyDef::new("sync").max_retry_times(0).email("a@example.org, b@example.org").alert_to("ops");
    let def = def.owner("team orders").runbook("https://wiki.example.org/orders");
    b.outbox().define_if_missing(def).await.unwrap();
    let alerts = Calls::default();
    let sweeper = failing(b, &on(), &alerts).base_url("https://ops.example.org/outbox/").start().await.unwrap();
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let notice = NewNotice::new("sync", 1).unwrap().description("order 7");
    let id = b.add_new(notice.trace_context(format!("00-{trace}-00f067aa0ba902b7-01"))).await.id();
    reaches(b, id, Status::DeadLetter).await;
    let alert = told(&alerts, 1).await.remove(0);
    assert_eq!((alert.kind, alert.reason), (AlertKind::Raised, AlertReason::FinalFailure));
    assert_eq!((alert.tries, alert.max_tries, alert.class.as_deref()), (Some(1), Some(1), Some("unknown")));
    assert_eq!(alert.end_reason.as_deref(), Some("the only try failed"));
    assert_eq!((alert.description.as_deref(), alert.trace_id.as_deref()), (Some("order 7"), Some(trace)));
    assert_eq!(alert.link, Some(format!("https://ops.example.org/outbox/notices/{id}")));
    assert_eq!(alert.owner.as_deref(), Some("team orders"));
    assert_eq!(alert.runbook.as_deref(), Some("https://wiki.example.org/orders"));
    assert_eq!((alert.definition.as_str(), alert.notice_id, alert.more), ("sync", Some(id), 0));
    assert!(alert.message.contains("connection refused"), "{}", alert.message);
    assert_eq!(alert.email, ["a@example.org", "b@example.org"]);
    assert_eq!(alert.alert_to, ["ops"]);
    assert_eq!(alert.node, sweeper.node_id());
    sweeper.shutdown().await;
}

pub async fn every_trigger_raises_the_alerts_that_it_names(b: &dyn Backend) {
    for (name, trigger) in
        [("final", "final_failure"), ("each", "each_failure"), ("never", "never"), ("third", "after_failures")]
    {
        let def = NotifyDef::new(name).handler("sync").alert_trigger_type(trigger).retry_interval("[1m,1m,1m,1m]");
        b.outbox().define_if_missing(def.alert_cooldown("1ms")).await.unwrap();
    }
    let alerts = Calls::default();
    let sweeper = failing(b, &on(), &alerts).start().await.unwrap();
    let mut ids = Vec::new();
    for name in ["final", "each", "never", "third"] {
        ids.push(add(b, name).await);
    }
    for tries in 1..=5 {
        for id in &ids {
            eventually("the attempt has failed", async || {
                b.outbox().find(*id).await.unwrap().unwrap().failures == tries
            })
            .await;
        }
        sweeper.idle().await;
        b.clock().advance(MINUTE);
    }
    eventually("all are sent", async || alerts.count() >= 9).await;
    let of = |name: &str| {
        let all = alerts.all().into_iter().filter(|alert| alert.definition == name);
        all.map(|alert| alert.reason).collect::<Vec<_>>()
    };
    use AlertReason::{Failure, FinalFailure, RepeatedFailures};
    assert_eq!(of("final"), [FinalFailure]);
    assert_eq!(of("each"), [Failure, Failure, Failure, Failure, FinalFailure]);
    assert_eq!(of("never"), []);
    assert_eq!(of("third"), [RepeatedFailures, RepeatedFailures, FinalFailure]);
    sweeper.shutdown().await;
}

pub async fn suppressed_alerts_come_in_a_digest_before_the_recovery(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").max_retry_times(0)).await.unwrap();
    let (alerts, fails) = (Calls::default(), on());
    let sweeper = failing(b, &fails, &alerts).start().await.unwrap();
    let began = b.clock().now();
    let id = add(b, "sync").await;
    reaches(b, id, Status::DeadLetter).await;
    told(&alerts, 1).await;
    // Its outcome is stored: else the clock would be turned beyond its lease.
    sweeper.idle().await;
    b.clock().advance(MINUTE);
    for _ in 0..12 {
        let id = add(b, "sync").await;
        reaches(b, id, Status::DeadLetter).await;
    }
    sweeper.idle().await;
    told(&alerts, 1).await;
    b.clock().advance(4 * MINUTE);
    let digest = told(&alerts, 2).await.remove(1);
    assert_eq!((digest.kind, digest.more), (AlertKind::Digest, 12));
    assert!(digest.title().starts_with("sync: 12 more failures since "), "{}", digest.title());
    assert_eq!(digest.since, solid_notify_core::notice::rfc3339(began));
    // Nothing new, and nothing has succeeded: no alert is sent.
    sweeper.idle().await;
    b.clock().advance(5 * MINUTE);
    sweeper.idle().await;
    told(&alerts, 2).await;
    fails.store(false, Ordering::SeqCst);
    let id = add(b, "sync").await;
    reaches(b, id, Status::Succeeded).await;
    b.clock().advance(60 * MINUTE);
    let recovered = told(&alerts, 3).await.remove(2);
    assert_eq!((recovered.kind, recovered.lasted_ms), (AlertKind::Recovered, Some(600_000)));
    assert_eq!(recovered.title(), "sync: recovered after 10 min", "until the first success");
    // Once.
    sweeper.idle().await;
    b.clock().advance(60 * MINUTE);
    sweeper.idle().await;
    told(&alerts, 3).await;
    sweeper.shutdown().await;
}

pub async fn a_single_alert_is_followed_by_its_recovery(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").max_retry_times(0)).await.unwrap();
    let (alerts, fails) = (Calls::default(), on());
    let sweeper = failing(b, &fails, &alerts).start().await.unwrap();
    for (count, wait) in [(1, 3 * MINUTE), (3, 7 * MINUTE)] {
        fails.store(true, Ordering::SeqCst);
        let began = b.clock().now();
        let id = add(b, "sync").await;
        reaches(b, id, Status::DeadLetter).await;
        sweeper.idle().await;
        let raised = told(&alerts, count).await.remove(count - 1);
        assert_eq!((raised.kind, raised.more), (AlertKind::Raised, 0));
        // The first look, at the end of the cool-down, is too early for the second success.
        b.clock().advance(wait);
        sweeper.idle().await;
        fails.store(false, Ordering::SeqCst);
        let id = add(b, "sync").await;
        reaches(b, id, Status::Succeeded).await;
        sweeper.idle().await;
        b.clock().advance(10 * MINUTE);
        let recovered = told(&alerts, count + 1).await.remove(count);
        assert_eq!(recovered.kind, AlertKind::Recovered);
        assert_eq!(recovered.since, solid_notify_core::notice::rfc3339(began), "each incident has its own beginning");
        sweeper.idle().await;
    }
    sweeper.shutdown().await;
}

pub async fn an_alert_goes_to_whom_the_definition_names_when_it_is_sent(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").max_retry_times(0).email("old@example.org")).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("other").handler("sync").max_retry_times(0)).await.unwrap();
    let alerts = Calls::default();
    let sweeper = failing(b, &on(), &alerts).start().await.unwrap();
    update(b, ALERT_DEFINITION, |def| def.enabled(false).email("all@example.org")).await;
    // It has read that.
    sweeper.idle().await;
    let (id, other) = (add(b, "sync").await, add(b, "other").await);
    reaches(b, id, Status::DeadLetter).await;
    reaches(b, other, Status::DeadLetter).await;
    update(b, "sync", |def| def.email("new@example.org")).await;
    update(b, ALERT_DEFINITION, |def| def.enabled(true)).await;
    let mut told = told(&alerts, 2).await;
    told.sort_by(|one, other| other.definition.cmp(&one.definition));
    assert_eq!(told[0].email, ["new@example.org"]);
    assert_eq!(told[1].email, ["all@example.org"], "of the built-in definition, for those without receivers");
    sweeper.shutdown().await;
}

pub async fn no_alert_is_raised_about_an_alert(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").max_retry_times(0)).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = without_alerts(b, &on())
        .handler(ALERT_DEFINITION, move |notice: Notice<Alert>| {
            noted.note(notice.id());
            async { Err(Failure::give_up("the mail server is gone")) }
        })
        .start()
        .await
        .unwrap();
    update(b, ALERT_DEFINITION, |def| def.alert_trigger_type("each_failure")).await;
    // It has read that.
    sweeper.idle().await;
    let id = add(b, "sync").await;
    reaches(b, id, Status::DeadLetter).await;
    eventually("the alert was tried", async || calls.count() == 1).await;
    let dead = reaches(b, calls.all()[0], Status::DeadLetter).await;
    assert!(dead.end_reason.unwrap().contains("mail server"));
    sweeper.idle().await;
    assert_eq!(calls.count(), 1);
    sweeper.shutdown().await;
}

pub async fn an_alert_that_could_not_be_sent_is_sent_again(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").max_retry_times(0)).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = without_alerts(b, &on())
        .handler(ALERT_DEFINITION, move |notice: Notice<Alert>| {
            let first = noted.note((notice.id(), notice.param().notice_id)) == 0;
            async move { if first { Err(Failure::retry("greylisted")) } else { Ok(()) } }
        })
        .start()
        .await
        .unwrap();
    let id = add(b, "sync").await;
    eventually("the alert was tried", async || calls.count() == 1).await;
    reaches(b, calls.all()[0].0, Status::Failed).await;
    b.clock().advance(MINUTE);
    reaches(b, calls.all()[0].0, Status::Succeeded).await;
    assert_eq!(calls.all()[1].1, Some(id));
    sweeper.shutdown().await;
}

pub async fn alert_that_no_node_sends_waits_until_one_does(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").max_retry_times(0)).await.unwrap();
    let alice = b.outbox().operator("alice");
    let sweeper = without_alerts(b, &on()).start().await.unwrap();
    turn(b, &sweeper, MINUTE).await;
    for _ in 0..3 {
        let id = add(b, "sync").await;
        reaches(b, id, Status::DeadLetter).await;
    }
    // Long after the cool-down there is no digest of what no person got.
    for _ in 0..12 {
        turn(b, &sweeper, MINUTE).await;
        sweeper.idle().await;
    }
    let waiting = alice.list(&Filter::live().definition(ALERT_DEFINITION), None, 10).await.unwrap().notices;
    let states: Vec<_> = waiting.iter().map(|alert| (alert.status, alert.failures, alert.fence)).collect();
    assert_eq!(states, [(Status::NotSent, 0, 0)]);
    assert!(alice.list(&Filter::ended().definition(ALERT_DEFINITION), None, 10).await.unwrap().notices.is_empty());
    let found = alice.examine().await;
    let found: Vec<_> =
        found.iter().filter(|finding| finding.check == "alerts").map(|finding| &finding.found).collect();
    assert_eq!(found, ["no living node sends them, and 1 wait"]);
    sweeper.shutdown().await;

    let alerts = Calls::default();
    let sweeper = failing(b, &on(), &alerts).start().await.unwrap();
    assert_eq!(told(&alerts, 1).await[0].kind, AlertKind::Raised);
    for _ in 0..6 {
        turn(b, &sweeper, MINUTE).await;
        sweeper.idle().await;
    }
    let digest = told(&alerts, 2).await.remove(1);
    assert_eq!((digest.kind, digest.more), (AlertKind::Digest, 2));
    sweeper.shutdown().await;
}

pub async fn a_digest_that_could_not_be_sent_loses_nothing(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").max_retry_times(0)).await.unwrap();
    let digests = Calls::default();
    let noted = digests.clone();
    let sweeper = without_alerts(b, &on())
        .handler(ALERT_DEFINITION, move |notice: Notice<Alert>| {
            let alert = notice.param();
            let refused = alert.kind == AlertKind::Digest && noted.note(alert.more) == 0;
            async move { if refused { Err(Failure::retry("greylisted")) } else { Ok(()) } }
        })
        .start()
        .await
        .unwrap();
    for _ in 0..4 {
        let id = add(b, "sync").await;
        reaches(b, id, Status::DeadLetter).await;
    }
    sweeper.idle().await;
    b.clock().advance(5 * MINUTE);
    eventually("the digest is refused", async || digests.count() == 1).await;
    sweeper.idle().await;
    let id = add(b, "sync").await;
    reaches(b, id, Status::DeadLetter).await;
    sweeper.idle().await;
    b.clock().advance(MINUTE);
    eventually("it is sent", async || digests.count() == 2).await;
    sweeper.idle().await;
    b.clock().advance(6 * MINUTE);
    eventually("the next digest is sent", async || digests.count() == 3).await;
    assert_eq!(digests.all(), [3, 3, 1]);
    sweeper.idle().await;
    b.clock().advance(6 * MINUTE);
    sweeper.idle().await;
    assert_eq!(digests.count(), 3, "all of it was reported");
    sweeper.shutdown().await;
}

pub async fn an_alert_needs_no_ack(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new(ALERT_DEFINITION).need_confirm(true)).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("sync").max_retry_times(0)).await.unwrap();
    let alerts = Calls::default();
    let sweeper = failing(b, &on(), &alerts).start().await.unwrap();
    for _ in 0..2 {
        let id = add(b, "sync").await;
        reaches(b, id, Status::DeadLetter).await;
    }
    told(&alerts, 1).await;
    sweeper.idle().await;
    for count in 2..4 {
        b.clock().advance(5 * MINUTE);
        assert_eq!(told(&alerts, count).await[count - 1].more, 1);
        sweeper.idle().await;
        let id = add(b, "sync").await;
        reaches(b, id, Status::DeadLetter).await;
        // Its alarm is counted before the clock is turned: Redis stores it a moment after the outcome.
        sweeper.idle().await;
    }
    sweeper.shutdown().await;
}

pub async fn sweepers_share_a_cool_down(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").max_retry_times(0)).await.unwrap();
    let (alerts, fails) = (Calls::default(), on());
    let mut sweepers = Vec::new();
    for _ in 0..3 {
        sweepers.push(failing(b, &fails, &alerts).start().await.unwrap());
    }
    let mut ids = Vec::new();
    for _ in 0..30 {
        ids.push(add(b, "sync").await);
    }
    for id in ids {
        reaches(b, id, Status::DeadLetter).await;
    }
    told(&alerts, 1).await;
    for sweeper in &sweepers {
        sweeper.idle().await;
    }
    b.clock().advance(5 * MINUTE);
    let digest = told(&alerts, 2).await.remove(1);
    assert_eq!(digest.more, 29, "{digest:?}");
    for sweeper in sweepers {
        sweeper.shutdown().await;
    }
}

pub async fn an_overdue_ack_raises_an_alert(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").need_confirm(true).max_confirm_delay("10m")).await.unwrap();
    let alerts = Calls::default();
    let sweeper = failing(b, &Arc::default(), &alerts).start().await.unwrap();
    let id = add(b, "sync").await;
    reaches(b, id, Status::AwaitingAck).await;
    b.clock().advance(10 * MINUTE);
    let alert = told(&alerts, 1).await.remove(0);
    assert_eq!((alert.reason, alert.notice_id), (AlertReason::AckOverdue, Some(id)));
    sweeper.shutdown().await;
}
