//! Alerts: stored with the outcomes that raise them, and suppressed by a cool-down that all nodes share.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify_core::alert::cooldown::AlertRow;
use solid_notify_core::notice::{ClaimedNotice, millis_from_time, rfc3339};
use solid_notify_core::operate::AuditFilter;
use solid_notify_core::store::{Advanced, Alarm, AlertStep, Cause, Edit, Edited, Node, Settle, Settled};
use solid_notify_core::transition::Next;
use solid_notify_core::{ALERT_DEFINITION, Alert, AlertKind, AlertReason, NotifyDef, Status};

use super::{Backend, fail, outcome};

pub(super) const COOLDOWN: Duration = Duration::from_secs(300);
const SECOND: Duration = Duration::from_secs(1);
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// The definitions of a case: one that fails, and that of the alerts.
pub(super) struct Defs {
    pub(super) sync: i64,
    pub(super) alerts: i64,
}

impl Defs {
    pub(super) async fn new(b: &dyn Backend) -> Self {
        let sync = b.define(NotifyDef::new("sync")).await;
        Self { sync, alerts: b.define(NotifyDef::new(ALERT_DEFINITION)).await }
    }

    pub(super) fn alarm(&self, message: &str) -> Alarm {
        Alarm {
            alert_def: self.alerts,
            def_id: self.sync,
            definition: "sync".to_owned(),
            reason: AlertReason::FinalFailure,
            cooldown: COOLDOWN,
            notice_id: Some(7),
            description: Some("order 7".to_owned()),
            class: Some("network".to_owned()),
            message: message.to_owned(),
            cause: Cause {
                tries: Some(5),
                max_tries: Some(6),
                end_reason: Some(format!("ended: {message}")),
                trace_id: Some(TRACE.to_owned()),
            },
            node: "node-1".to_owned(),
        }
    }

    pub(super) fn dead(&self, claimed: &ClaimedNotice, message: &str) -> Settle {
        let next = Next::Finish { status: Status::DeadLetter, reason: Some(message.to_owned()), keep: true };
        let mut settle = outcome(claimed, next);
        settle.alarm = Some(Box::new(self.alarm(message)));
        settle
    }

    /// Makes a notice a dead letter.
    pub(super) async fn fail_one(&self, b: &dyn Backend, message: &str) -> (i64, Settle) {
        let id = b.add_to("sync").await;
        let settle = self.dead(&b.claim_one(self.sync).await, message);
        assert_eq!(b.settle_one(settle.clone()).await, Settled::Stored);
        (id, settle)
    }

    /// Claims the alerts that are due.
    pub(super) async fn due(&self, b: &dyn Backend) -> Vec<Alert> {
        let claimed = b.claim_slice(self.alerts, Status::NotSent, 100).await;
        claimed.into_iter().map(|claimed| serde_json::from_str(&claimed.param).unwrap()).collect()
    }

    pub(super) async fn row(&self, b: &dyn Backend) -> AlertRow {
        b.stores().alerts.alert(self.sync, AlertReason::FinalFailure).await.unwrap().unwrap().0
    }

    /// The step that sends a digest of the row as it was read.
    fn digest(&self, b: &dyn Backend, seen: &AlertRow) -> AlertStep {
        let now = millis_from_time(b.clock().now());
        let due = Some(now + i64::try_from(COOLDOWN.as_millis()).unwrap());
        let mut alert = Alert::new(AlertKind::Digest, AlertReason::FinalFailure, "sync", "no");
        alert.more = seen.suppressed;
        AlertStep {
            def_id: self.sync,
            reason: AlertReason::FinalFailure,
            seen: seen.clone(),
            new: Some(AlertRow { suppressed: 0, last_notified: Some(now), due, ..seen.clone() }),
            notice: Some((self.alerts, alert.to_json())),
        }
    }

    /// The rows that are due, and how long until the first is due.
    pub(super) async fn due_rows(&self, b: &dyn Backend) -> (Vec<(i64, AlertReason)>, Option<Duration>) {
        (b.stores().alerts.due_alerts(10).await.unwrap(), b.stores().send.due(true).await.unwrap().alerts)
    }
}

pub async fn an_alarm_adds_a_notice_of_the_built_in_definition(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    defs.fail_one(b, "refused \"ü\" 😀").await;
    let alert = defs.due(b).await.remove(0);
    assert_eq!((alert.definition.as_str(), alert.reason), ("sync", AlertReason::FinalFailure));
    assert_eq!((alert.kind, alert.message.as_str()), (AlertKind::Raised, "refused \"ü\" 😀"));
    assert_eq!((alert.notice_id, alert.description.as_deref()), (Some(7), Some("order 7")));
    assert_eq!(alert.since, rfc3339(b.clock().now()));
    assert_eq!((alert.tries, alert.max_tries, alert.trace_id.as_deref()), (Some(5), Some(6), Some(TRACE)));
    assert_eq!(alert.end_reason.as_deref(), Some("ended: refused \"ü\" 😀"));
    assert!(defs.due(b).await.is_empty());
}

pub async fn a_pause_is_stored_with_its_version_and_its_alert_once(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let seen = b.definition("sync").await;
    let alarm = Alarm { reason: AlertReason::Paused, ..defs.alarm("410 Gone") };
    let (new, reason) = (seen.clone().enabled(false), "410 Gone".to_owned());
    let pause = Edit::Pause { seen, new, reason, alarm: Some(alarm) };
    let edited = b.stores().definitions.edit(&pause, "node-1").await.unwrap();
    assert!(matches!(&edited, Edited::Stored(row) if !row.enabled), "{edited:?}");
    let edited = b.stores().definitions.edit(&pause, "node-2").await.unwrap();
    assert!(matches!(&edited, Edited::Conflict(row) if !row.enabled), "{edited:?}");
    let alert = defs.due(b).await.remove(0);
    assert_eq!((alert.reason, alert.message.as_str()), (AlertReason::Paused, "410 Gone"));
    let row = b.stores().alerts.alert(defs.sync, AlertReason::Paused).await.unwrap().unwrap().0;
    assert_eq!((row.suppressed, defs.due(b).await.len()), (0, 0), "the second node raises no alarm");
    let versions = b.outbox().operator("alice").versions("sync").await.unwrap();
    let acts: Vec<_> = versions.iter().map(|version| (version.act.as_str(), version.who.as_str())).collect();
    assert_eq!(acts, [("paused", "node-1"), ("created", "application")]);
    let entry = b.audit(&AuditFilter::all()).await.remove(0);
    assert_eq!((entry.who.as_str(), entry.act.as_str(), entry.def_id), ("node-1", "paused", Some(defs.sync)));
    assert_eq!(entry.detail.as_deref(), Some("definition \"sync\", version 2: enabled; reason: 410 Gone"));
}

pub async fn an_alarm_of_an_outcome_that_is_not_stored_is_none(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(defs.sync).await;
    b.outbox().ack(id).await.unwrap();
    assert_eq!(b.settle_one(defs.dead(&claimed, "late")).await, Settled::Ended(Status::Succeeded));
    assert!(defs.due(b).await.is_empty());
}

pub async fn an_alarm_whose_answer_was_lost_is_stored_once(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let (_, settle) = defs.fail_one(b, "refused").await;
    assert_eq!(b.settle_one(settle).await, Settled::Stored);
    assert_eq!(defs.due(b).await.len(), 1);
    b.clock().advance(COOLDOWN);
    assert!(defs.due(b).await.is_empty(), "nothing was suppressed");
}

pub async fn an_alarm_makes_the_row_due_at_the_end_of_the_cool_down(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    defs.fail_one(b, "first").await;
    assert_eq!(defs.due(b).await.len(), 1);
    assert_eq!(defs.due_rows(b).await, (vec![], Some(COOLDOWN)), "also a single alarm");
    b.clock().advance(60 * SECOND);
    for n in 0..3 {
        defs.fail_one(b, &format!("more {n}")).await;
    }
    assert!(defs.due(b).await.is_empty());
    let row = defs.row(b).await;
    assert_eq!((row.suppressed, row.message.as_deref(), row.node.as_deref()), (3, Some("more 2"), Some("node-1")));
    assert_eq!((row.notice_id, row.description.as_deref()), (Some(7), Some("order 7")));
    assert_eq!(row.class.as_deref(), Some("network"));
    assert_eq!(defs.due_rows(b).await, (vec![], Some(COOLDOWN - 60 * SECOND)));
    b.clock().advance(COOLDOWN - 60 * SECOND - Duration::from_millis(1));
    assert_eq!(defs.due_rows(b).await, (vec![], Some(Duration::from_millis(1))));
    b.clock().advance(Duration::from_millis(1));
    let due = vec![(defs.sync, AlertReason::FinalFailure)];
    assert_eq!(defs.due_rows(b).await, (due, Some(Duration::ZERO)));
}

pub async fn the_step_of_a_due_alert_is_stored_with_its_notice_once(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    for _ in 0..3 {
        defs.fail_one(b, "no").await;
    }
    defs.due(b).await;
    b.clock().advance(COOLDOWN);
    let step = defs.digest(b, &defs.row(b).await);
    assert_eq!(b.stores().alerts.advance_alert(&step).await.unwrap(), Advanced::Stored);
    assert_eq!(b.stores().alerts.advance_alert(&step).await.unwrap(), Advanced::Changed, "another node was faster");
    let digests = defs.due(b).await;
    assert_eq!(digests.iter().map(|alert| (alert.kind, alert.more)).collect::<Vec<_>>(), [(AlertKind::Digest, 2)]);
    assert_eq!(Some(defs.row(b).await), step.new);
    assert_eq!(defs.due_rows(b).await, (vec![], Some(COOLDOWN)));
}

pub async fn an_alarm_before_the_step_of_a_due_alert_is_not_lost(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    for _ in 0..3 {
        defs.fail_one(b, "no").await;
    }
    defs.due(b).await;
    b.clock().advance(COOLDOWN);
    let step = defs.digest(b, &defs.row(b).await);
    defs.fail_one(b, "meanwhile").await;
    assert!(defs.due(b).await.is_empty(), "the digest that is due reports it");
    assert_eq!(b.stores().alerts.advance_alert(&step).await.unwrap(), Advanced::Changed);
    let row = defs.row(b).await;
    assert_eq!(row.suppressed, 3);
    assert_eq!(b.stores().alerts.advance_alert(&defs.digest(b, &row)).await.unwrap(), Advanced::Stored);
    assert_eq!(defs.due(b).await[0].more, 3);
    defs.fail_one(b, "afterwards").await;
    assert!(defs.due(b).await.is_empty(), "the digest was the alert");
    assert_eq!(defs.row(b).await.suppressed, 1);
    assert_eq!(defs.due_rows(b).await.1, Some(COOLDOWN));
}

pub async fn of_sixteen_nodes_that_advance_an_alert_one_does(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    for _ in 0..3 {
        defs.fail_one(b, "no").await;
    }
    defs.due(b).await;
    b.clock().advance(COOLDOWN);
    let step = defs.digest(b, &defs.row(b).await);
    let steps = (0..16).map(|_| b.stores().alerts.advance_alert(&step));
    let done = futures_util::future::join_all(steps).await;
    assert_eq!(done.into_iter().filter(|done| done.as_ref().is_ok_and(|done| *done == Advanced::Stored)).count(), 1);
    assert_eq!(defs.due(b).await.len(), 1);
}

pub async fn many_alarms_of_one_batch_are_one_alert_and_a_digest(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    for _ in 0..40 {
        b.add_to("sync").await;
    }
    let claimed = b.claim_slice(defs.sync, Status::NotSent, 100).await;
    let batch: Vec<Settle> = claimed.iter().map(|claimed| defs.dead(claimed, "no")).collect();
    assert!(b.stores().send.settle(&batch).await.unwrap().iter().all(|settled| *settled == Settled::Stored));
    assert_eq!(defs.due(b).await.len(), 1);
    let row = defs.row(b).await;
    assert_eq!((row.suppressed, defs.due_rows(b).await.1), (39, Some(COOLDOWN)));
}

pub async fn a_cool_down_is_of_one_definition_and_reason(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let other = b.define(NotifyDef::new("other")).await;
    let alarm = |def_id, reason| Alarm { def_id, reason, ..defs.alarm("no") };
    let alarms = vec![
        alarm(defs.sync, AlertReason::FinalFailure),
        alarm(defs.sync, AlertReason::Backlog),
        alarm(other, AlertReason::FinalFailure),
    ];
    let node = Node { alarms, ..Node::new("node-1".to_owned(), Vec::new()) };
    b.stores().send.beat(&node).await.unwrap();
    assert_eq!(defs.due(b).await.len(), 3);
    b.stores().send.beat(&node).await.unwrap();
    assert!(defs.due(b).await.is_empty(), "the same alert again, from any node");
}

pub async fn of_many_nodes_that_alarm_at_once_one_alerts(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let beats = (0..8).map(|n| {
        let alarms = vec![defs.alarm("no")];
        let node = Node { alarms, ..Node::new(format!("node-{n}"), Vec::new()) };
        async move { b.stores().send.beat(&node).await.unwrap().alarms_left }
    });
    // On a busy machine a heartbeat may give up an alarm whose row the others lock.
    let left: usize = futures_util::future::join_all(beats).await.into_iter().sum();
    assert_eq!(defs.due(b).await.len(), 1);
    assert_eq!(defs.row(b).await.suppressed, 7 - i64::try_from(left).unwrap(), "{left} alarms are left");
}

pub async fn alarms_of_many_who_settle_at_once_are_counted_once_each(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    for _ in 0..24 {
        b.add_to("sync").await;
    }
    let claimed = b.claim_slice(defs.sync, Status::NotSent, 100).await;
    let settles = claimed.iter().map(|claimed| b.settle_beside_others(defs.dead(claimed, "no")));
    futures_util::future::join_all(settles).await;
    assert_eq!(defs.due(b).await.len(), 1);
    let row = defs.row(b).await;
    assert_eq!(row.suppressed, 23);
}

pub async fn an_alert_that_is_over_is_closed_and_the_facts_show_it(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    for _ in 0..2 {
        defs.fail_one(b, "no").await;
    }
    defs.due(b).await;
    let (seen, facts) = b.stores().alerts.alert(defs.sync, AlertReason::FinalFailure).await.unwrap().unwrap();
    assert!(facts.succeeded.is_none() && !facts.still_failing);
    b.add_to("sync").await;
    let good = b.claim_one(defs.sync).await;
    b.clock().advance(SECOND);
    b.settle_one(super::succeed(&good)).await;
    b.add_to("sync").await;
    let bad = b.claim_one(defs.sync).await;
    b.settle_one(fail(&bad, SECOND)).await;
    let (row, facts) = b.stores().alerts.alert(defs.sync, AlertReason::FinalFailure).await.unwrap().unwrap();
    assert_eq!(row, seen);
    assert!(facts.succeeded == Some(millis_from_time(b.clock().now())) && facts.still_failing);
    b.clock().advance(COOLDOWN);
    let step = AlertStep { new: None, notice: None, ..defs.digest(b, &row) };
    assert_eq!(b.stores().alerts.advance_alert(&step).await.unwrap(), Advanced::Stored);
    assert!(b.stores().alerts.alert(defs.sync, AlertReason::FinalFailure).await.unwrap().is_none());
    assert_eq!(defs.due_rows(b).await, (vec![], None));
    assert!(defs.due(b).await.is_empty());
}
