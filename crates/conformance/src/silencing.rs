//! Alerts that operators silence and acknowledge.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use futures_util::future::{join, join_all};
use solid_notify_core::alert::silence::{AlertChange, AlertVerb};
use solid_notify_core::notice::millis_from_time;
use solid_notify_core::operate::AuditFilter;
use solid_notify_core::store::{Alarm, Node};
use solid_notify_core::{AlertReason, Error, NotifyDef, Status};

use super::Backend;
use super::alarming::{COOLDOWN, Defs};

const HOUR: Duration = Duration::from_secs(3600);

/// Raises alarms as a node does with its heartbeat.
async fn beat(b: &dyn Backend, alarms: Vec<Alarm>) {
    let node = Node { alarms, ..Node::new("node-1".to_owned(), Vec::new()) };
    b.stores().send.beat(&node).await.unwrap();
}

pub async fn alarms_of_a_silenced_definition_are_counted_and_not_sent(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let other = b.define(NotifyDef::new("other")).await;
    let (alice, until) = (b.outbox().operator("alice"), b.clock().now() + HOUR);
    assert!(alice.silence("sync", None, until, "maintenance").await.unwrap());
    for _ in 0..3 {
        defs.fail_one(b, "no").await;
    }
    b.clock().advance(2 * COOLDOWN);
    defs.fail_one(b, "after the cool-down").await;
    assert!(defs.due(b).await.is_empty());
    let row = defs.row(b).await;
    assert_eq!(b.stores().alerts.alerts(100).await.unwrap().len(), AlertReason::ALL.len(), "a row for each reason");
    assert_eq!((row.suppressed, row.last_notified, row.is_open()), (4, None, true));
    assert_eq!((row.silenced_until, row.due), (Some(millis_from_time(until)), Some(millis_from_time(until))));
    assert_eq!(defs.due_rows(b).await, (vec![], Some(HOUR - 2 * COOLDOWN)));
    beat(b, vec![Alarm { def_id: other, definition: "other".to_owned(), ..defs.alarm("no") }]).await;
    assert_eq!(defs.due(b).await.len(), 1, "the others are not silenced");
    b.clock().advance(HOUR - 2 * COOLDOWN);
    defs.fail_one(b, "after the silence").await;
    assert!(defs.due(b).await.is_empty(), "the digest that is due reports it");
    assert!(defs.due_rows(b).await.0.contains(&(defs.sync, AlertReason::FinalFailure)));
    let entry = b.audit(&AuditFilter::all()).await.remove(0);
    assert_eq!((entry.who.as_str(), entry.act.as_str(), entry.def_id), ("alice", "silence", Some(defs.sync)));
    let detail = entry.detail.unwrap();
    assert!(detail.starts_with("all alerts until ") && detail.ends_with("reason: maintenance"), "{detail}");
}

pub async fn a_silence_of_one_reason_leaves_the_others(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let (alice, until) = (b.outbox().operator("alice"), b.clock().now() + HOUR);
    assert!(alice.silence("sync", AlertReason::Backlog, until, "known").await.unwrap());
    beat(b, vec![defs.alarm("no"), Alarm { reason: AlertReason::Backlog, ..defs.alarm("no") }]).await;
    let sent = defs.due(b).await;
    assert_eq!(sent.iter().map(|alert| alert.reason).collect::<Vec<_>>(), [AlertReason::FinalFailure]);
    assert!(!alice.silence("sync", None, b.clock().now(), "too late").await.unwrap());
    assert_eq!(b.audit(&AuditFilter::all()).await.iter().filter(|entry| entry.act == "silence").count(), 1);
}

pub async fn a_silence_needs_a_person_and_a_reason(b: &dyn Backend) {
    Defs::new(b).await;
    let until = b.clock().now() + HOUR;
    for (who, why) in [("alice", ""), ("alice", " \t\n"), ("", "maintenance"), ("  ", "maintenance")] {
        let error = b.outbox().operator(who).silence("sync", None, until, why).await.unwrap_err();
        assert!(matches!(error, Error::Invalid { what: "silence", .. }), "{error}");
    }
    let error = b.outbox().operator(" ").acknowledge("sync", None).await.unwrap_err();
    assert!(matches!(error, Error::Invalid { what: "acknowledge", .. }), "{error}");
    assert_eq!(b.outbox().operator("alice").open_alerts(10).await.unwrap(), []);
    assert!(b.audit(&AuditFilter::all()).await.is_empty());
}

pub async fn the_end_of_a_silence_makes_what_was_suppressed_due(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let (alice, until) = (b.outbox().operator("alice"), b.clock().now() + HOUR);
    alice.silence("sync", None, until, "maintenance").await.unwrap();
    defs.fail_one(b, "no").await;
    b.clock().advance(COOLDOWN);
    assert!(alice.unsilence("sync", None).await.unwrap());
    let due = vec![(defs.sync, AlertReason::FinalFailure)];
    assert_eq!(defs.due_rows(b).await, (due, Some(Duration::ZERO)), "the reasons without alarms have no row any more");
    assert_eq!(alice.open_alerts(100).await.unwrap().len(), 1);
    assert!(!alice.unsilence("sync", None).await.unwrap());
    let acts: Vec<String> = b.audit(&AuditFilter::all()).await.into_iter().map(|entry| entry.act).collect();
    assert_eq!(acts[..2], ["unsilence", "silence"]);
}

pub async fn an_open_alert_is_acknowledged_once(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let (alice, bob) = (b.outbox().operator("alice"), b.outbox().operator("bob"));
    assert!(!alice.acknowledge("sync", None).await.unwrap(), "no alert is open");
    defs.fail_one(b, "no").await;
    assert_eq!(defs.due(b).await.len(), 1);
    let began = b.clock().now();
    b.clock().advance(COOLDOWN);
    let acknowledged = b.clock().now();
    assert!(alice.acknowledge("sync", AlertReason::FinalFailure).await.unwrap());
    assert!(!bob.acknowledge("sync", None).await.unwrap());
    b.clock().advance(COOLDOWN);
    defs.fail_one(b, "more").await;
    assert!(defs.due(b).await.is_empty(), "the operator knows of it");
    let mut open = bob.open_alerts(10).await.unwrap();
    assert_eq!(open.len(), 1);
    let open = open.remove(0);
    assert_eq!((open.definition.as_str(), open.reason), ("sync", AlertReason::FinalFailure));
    assert_eq!((open.since, open.suppressed, open.silenced_until), (Some(began), 1, None));
    assert_eq!((open.acknowledged_by.as_deref(), open.acknowledged_at), (Some("alice"), Some(acknowledged)));
    assert_eq!((open.notice_id, open.message.as_deref()), (Some(7), Some("more")));
    let entries = b.audit(&AuditFilter::all()).await;
    let acts: Vec<_> = entries.iter().filter(|entry| entry.act == "acknowledge").collect();
    assert_eq!((acts.len(), acts[0].who.as_str(), acts[0].detail.as_deref()), (1, "alice", Some("final_failure")));
}

pub async fn silences_are_listed_until_they_end(b: &dyn Backend) {
    Defs::new(b).await;
    let (alice, until) = (b.outbox().operator("alice"), b.clock().now() + HOUR);
    alice.silence("sync", AlertReason::Backlog, until, "known").await.unwrap();
    let open = alice.open_alerts(10).await.unwrap();
    assert_eq!(open.iter().map(|open| (open.since, open.silenced_until)).collect::<Vec<_>>(), [(None, Some(until))]);
    b.clock().advance(HOUR);
    assert_eq!(alice.open_alerts(10).await.unwrap(), []);
}

pub async fn alarms_beside_a_silence_are_sent_or_counted(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let until = b.clock().now() + HOUR;
    let verb = AlertVerb::Silence { until, reason: "maintenance".to_owned() };
    let change = AlertChange { def_id: defs.sync, reason: Some(AlertReason::FinalFailure), verb };
    // A conflict with the other calls is transient.
    let silence = async || {
        for _ in 0..200 {
            if let Ok(changed) = b.stores().alerts.change_alerts(&change, "alice").await {
                return assert!(changed);
            }
        }
        panic!("always in conflict");
    };
    let silences = (0..4).map(|_| async {
        for _ in 0..10 {
            silence().await;
        }
    });
    for _ in 0..60 {
        b.add_to("sync").await;
    }
    let claimed = b.claim_slice(defs.sync, Status::NotSent, 60).await;
    let alarms = claimed.chunks(10).map(async |some| {
        for claimed in some {
            b.settle_beside_others(defs.dead(claimed, "no")).await;
        }
    });
    join(join_all(silences), join_all(alarms)).await;
    let row = defs.row(b).await;
    let sent = i64::try_from(defs.due(b).await.len()).unwrap();
    assert_eq!(row.suppressed + sent, 60, "{sent} of them sent");
    assert_eq!(row.silenced_until, Some(millis_from_time(until)));
}
