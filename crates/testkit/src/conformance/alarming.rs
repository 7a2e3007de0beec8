//! Alerts: stored with the outcomes that raise them, and suppressed by a cool-down that all nodes share.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify_core::alert::StoredAlert;
use solid_notify_core::notice::{ClaimedNotice, millis_from_time};
use solid_notify_core::operate::VerbResult;
use solid_notify_core::store::{Alarm, FollowUpResult, Node, Settle, Settled};
use solid_notify_core::transition::Next;
use solid_notify_core::{ALERT_DEFINITION, AlertReason, NotifyDef, Status};

use super::{Backend, fail, outcome};

const COOLDOWN: Duration = Duration::from_secs(300);
const SECOND: Duration = Duration::from_secs(1);

/// The definitions of a case: one that fails, and that of the alerts.
struct Defs {
    sync: i64,
    alerts: i64,
}

impl Defs {
    async fn new(b: &dyn Backend) -> Self {
        let sync = b.define(NotifyDef::new("sync")).await;
        Self { sync, alerts: b.define(NotifyDef::new(ALERT_DEFINITION)).await }
    }

    fn alarm(&self, message: &str) -> Alarm {
        Alarm {
            alert_def: self.alerts,
            def_id: self.sync,
            definition: "sync".to_owned(),
            reason: AlertReason::FinalFailure,
            cooldown: COOLDOWN,
            notice_id: Some(7),
            class: Some("network".to_owned()),
            message: message.to_owned(),
            node: "node-1".to_owned(),
        }
    }

    fn dead(&self, claimed: &ClaimedNotice, message: &str) -> Settle {
        let next = Next::Finish { status: Status::DeadLetter, reason: Some(message.to_owned()), keep: true };
        let mut settle = outcome(claimed, next);
        settle.alarm = Some(Box::new(self.alarm(message)));
        settle
    }

    /// Makes a notice a dead letter.
    async fn fail_one(&self, b: &dyn Backend, message: &str) -> (i64, Settle) {
        let id = b.add_to("sync").await;
        let settle = self.dead(&b.claim_one(self.sync).await, message);
        assert_eq!(b.settle_one(settle.clone()).await, Settled::Done);
        (id, settle)
    }

    /// Claims the alerts that are due.
    async fn due(&self, b: &dyn Backend) -> Vec<(ClaimedNotice, StoredAlert)> {
        let claimed = b.claim_slice(self.alerts, Status::NotSent, 100).await;
        claimed.into_iter().map(|claimed| (claimed.clone(), serde_json::from_str(&claimed.param).unwrap())).collect()
    }

    /// Sends one alert, suppresses another, and claims the follow-up that reports it.
    async fn first_follow_up(&self, b: &dyn Backend) -> ClaimedNotice {
        self.fail_one(b, "first").await;
        self.due(b).await;
        self.fail_one(b, "second").await;
        b.clock().advance(COOLDOWN);
        self.due(b).await.remove(0).0
    }

    fn told(&self, count: i64, seen: i64, closes: bool) -> Box<FollowUpResult> {
        let (alert_def, def_id, reason) = (self.alerts, self.sync, AlertReason::FinalFailure);
        Box::new(FollowUpResult {
            alert_def,
            def_id,
            reason,
            count,
            seen,
            closes,
            notified: true,
            next: COOLDOWN,
            cooldown: COOLDOWN,
        })
    }

    /// Settles an alert as sent.
    async fn sent(&self, b: &dyn Backend, claimed: &ClaimedNotice, told: Option<Box<FollowUpResult>>) {
        let mut settle = super::succeed(claimed);
        settle.told = told;
        assert_eq!(b.settle_one(settle).await, Settled::Done);
    }
}

pub async fn an_alarm_adds_a_notice_of_the_built_in_definition(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    defs.fail_one(b, "refused \"ü\" 😀").await;
    let (_, alert) = defs.due(b).await.remove(0);
    assert_eq!((alert.def_id, alert.reason, alert.follow_up), (defs.sync, AlertReason::FinalFailure, false));
    assert_eq!((alert.message.as_str(), alert.notice_id), ("refused \"ü\" 😀", Some(7)));
    assert!(defs.due(b).await.is_empty());
}

pub async fn an_alarm_of_an_outcome_that_is_not_stored_is_none(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(defs.sync).await;
    b.outbox().ack(id).await.unwrap();
    assert_eq!(b.settle_one(defs.dead(&claimed, "late")).await, Settled::Ended);
    assert!(defs.due(b).await.is_empty());
}

pub async fn an_alarm_whose_answer_was_lost_is_stored_once(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let (_, settle) = defs.fail_one(b, "refused").await;
    assert_eq!(b.settle_one(settle).await, Settled::Done);
    assert_eq!(defs.due(b).await.len(), 1);
    b.clock().advance(COOLDOWN);
    assert!(defs.due(b).await.is_empty(), "nothing was suppressed");
}

pub async fn alarms_within_the_cool_down_are_suppressed_for_one_follow_up(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    defs.fail_one(b, "first").await;
    assert_eq!(defs.due(b).await.len(), 1);
    b.clock().advance(60 * SECOND);
    for n in 0..3 {
        defs.fail_one(b, &format!("more {n}")).await;
    }
    assert!(defs.due(b).await.is_empty());
    let (row, _) =
        b.outbox().engine().operate().alert_row(defs.sync, AlertReason::FinalFailure).await.unwrap().unwrap();
    assert_eq!((row.suppressed, row.message.as_deref(), row.node.as_deref()), (3, Some("more 2"), Some("node-1")));
    assert_eq!((row.notice_id, row.class.as_deref()), (Some(7), Some("network")));
    b.clock().advance(COOLDOWN - 60 * SECOND - Duration::from_millis(1));
    assert!(defs.due(b).await.is_empty(), "not before the cool-down is over");
    b.clock().advance(Duration::from_millis(1));
    let (claimed, alert) = defs.due(b).await.remove(0);
    assert!(alert.follow_up);
    // Alerts suppressed while the follow-up is being sent are reported by the next one.
    defs.fail_one(b, "meanwhile").await;
    assert!(defs.due(b).await.is_empty());
    defs.sent(b, &claimed, Some(defs.told(row.suppressed, row.last_seen, false))).await;
    let (row, _) =
        b.outbox().engine().operate().alert_row(defs.sync, AlertReason::FinalFailure).await.unwrap().unwrap();
    assert_eq!(row.suppressed, 1);
    b.clock().advance(COOLDOWN);
    assert!(defs.due(b).await.remove(0).1.follow_up, "there is another follow-up");
}

pub async fn an_alarm_during_a_quiet_follow_up_does_not_wait_for_the_next(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let claimed = defs.first_follow_up(b).await;
    let (row, _) =
        b.outbox().engine().operate().alert_row(defs.sync, AlertReason::FinalFailure).await.unwrap().unwrap();
    defs.sent(b, &claimed, Some(defs.told(row.suppressed, row.last_seen, false))).await;
    b.clock().advance(COOLDOWN);
    let (quiet, _) = defs.due(b).await.remove(0);
    defs.fail_one(b, "meanwhile").await;
    let told = FollowUpResult { notified: false, next: 100 * COOLDOWN, ..*defs.told(0, row.last_seen, false) };
    defs.sent(b, &quiet, Some(Box::new(told))).await;
    assert_eq!(defs.due(b).await.len(), 1, "the cool-down is over");
}

pub async fn many_alarms_of_one_batch_are_one_alert_and_a_follow_up(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    for _ in 0..40 {
        b.add_to("sync").await;
    }
    let claimed = b.claim_slice(defs.sync, Status::NotSent, 100).await;
    let batch: Vec<Settle> = claimed.iter().map(|claimed| defs.dead(claimed, "no")).collect();
    assert!(b.store().settle(&batch).await.unwrap().iter().all(|settled| *settled == Settled::Done));
    assert_eq!(defs.due(b).await.len(), 1);
    let (row, _) =
        b.outbox().engine().operate().alert_row(defs.sync, AlertReason::FinalFailure).await.unwrap().unwrap();
    assert_eq!(row.suppressed, 39);
    b.clock().advance(COOLDOWN);
    assert_eq!(defs.due(b).await.len(), 1);
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
    let node = Node { id: "node-1".to_owned(), handlers: Vec::new(), clock_offset_ms: 0, alarms };
    b.store().beat(&node).await.unwrap();
    assert_eq!(defs.due(b).await.len(), 3);
    b.store().beat(&node).await.unwrap();
    assert!(defs.due(b).await.is_empty(), "the same alert again, from any node");
}

pub async fn of_many_nodes_that_alarm_at_once_one_tells(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let beats = (0..8).map(|n| {
        let alarms = vec![defs.alarm("no")];
        let node = Node { id: format!("node-{n}"), handlers: Vec::new(), clock_offset_ms: 0, alarms };
        async move { b.store().beat(&node).await }
    });
    for beat in futures_util::future::join_all(beats).await {
        beat.unwrap();
    }
    assert_eq!(defs.due(b).await.len(), 1);
    let (row, _) =
        b.outbox().engine().operate().alert_row(defs.sync, AlertReason::FinalFailure).await.unwrap().unwrap();
    assert_eq!(row.suppressed, 7);
}

pub async fn alarms_of_many_who_settle_at_once_are_counted_once_each(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    for _ in 0..24 {
        b.add_to("sync").await;
    }
    let claimed = b.claim_slice(defs.sync, Status::NotSent, 100).await;
    let settles = claimed.iter().map(|claimed| {
        let settle = defs.dead(claimed, "no");
        async move {
            // A conflict with other nodes is transient.
            for _ in 0..50 {
                if let Ok(settled) = b.store().settle(std::slice::from_ref(&settle)).await
                    && settled != [Settled::Locked]
                {
                    assert_eq!(settled, [Settled::Done]);
                    return;
                }
            }
            panic!("always in conflict")
        }
    });
    futures_util::future::join_all(settles).await;
    assert_eq!(defs.due(b).await.len(), 1);
    let (row, _) =
        b.outbox().engine().operate().alert_row(defs.sync, AlertReason::FinalFailure).await.unwrap().unwrap();
    assert_eq!(row.suppressed, 23);
}

pub async fn an_incident_that_is_over_is_closed_unless_another_alarm_has_come(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let claimed = defs.first_follow_up(b).await;
    let operate = b.outbox().engine().operate();
    let (row, facts) = operate.alert_row(defs.sync, AlertReason::FinalFailure).await.unwrap().unwrap();
    assert!(facts.succeeded.is_none() && !facts.still_failing);
    defs.fail_one(b, "third").await;
    defs.sent(b, &claimed, Some(defs.told(row.suppressed, row.last_seen, true))).await;
    b.clock().advance(COOLDOWN);
    let (claimed, _) = defs.due(b).await.remove(0);
    b.add_to("sync").await;
    let good = b.claim_one(defs.sync).await;
    b.clock().advance(SECOND);
    b.settle_one(super::succeed(&good)).await;
    b.add_to("sync").await;
    let bad = b.claim_one(defs.sync).await;
    b.settle_one(fail(&bad, SECOND)).await;
    let (row, facts) = operate.alert_row(defs.sync, AlertReason::FinalFailure).await.unwrap().unwrap();
    assert!(facts.succeeded == Some(millis_from_time(b.clock().now())) && facts.still_failing);
    defs.sent(b, &claimed, Some(defs.told(row.suppressed, row.last_seen, true))).await;
    assert!(operate.alert_row(defs.sync, AlertReason::FinalFailure).await.unwrap().is_none());
    b.clock().advance(COOLDOWN);
    assert!(defs.due(b).await.is_empty());
}

pub async fn a_digest_and_more_alarms_in_one_batch_lose_nothing(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let operate = b.outbox().engine().operate();
    let row = async || operate.alert_row(defs.sync, AlertReason::FinalFailure).await.unwrap().unwrap().0;
    for _ in 0..10 {
        defs.fail_one(b, "no").await;
    }
    assert_eq!(defs.due(b).await.len(), 1);
    b.clock().advance(COOLDOWN);
    let (follow_up, _) = defs.due(b).await.remove(0);
    let seen = row().await;
    defs.fail_one(b, "while it is being sent").await;
    let mut digest = super::succeed(&follow_up);
    digest.told = Some(defs.told(seen.suppressed, seen.last_seen, false));
    b.add_to("sync").await;
    let more = defs.dead(&b.claim_one(defs.sync).await, "beside it");
    assert_eq!(b.store().settle(&[digest, more]).await.unwrap(), [Settled::Done, Settled::Done]);
    let now = row().await;
    assert_eq!((now.suppressed, now.opened), (2, seen.opened));
    assert!(defs.due(b).await.is_empty(), "the digest was the alert");
    b.clock().advance(COOLDOWN);
    assert_eq!(defs.due(b).await.len(), 1, "one follow-up");
}

pub async fn a_follow_up_of_a_definition_that_is_gone_counts_for_nothing(b: &dyn Backend) {
    let mut defs = Defs::new(b).await;
    for _ in 0..3 {
        defs.fail_one(b, "no").await;
    }
    let seen = b.definition(ALERT_DEFINITION).await;
    b.outbox().delete(&seen).await.unwrap();
    defs.alerts = b.define(NotifyDef::new(ALERT_DEFINITION)).await;
    b.clock().advance(COOLDOWN);
    defs.fail_one(b, "still").await;
    assert_eq!(defs.due(b).await.len(), 1);
    b.clock().advance(COOLDOWN);
    assert!(defs.due(b).await.remove(0).1.follow_up);
}

pub async fn a_follow_up_that_was_removed_is_made_anew(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let claimed = defs.first_follow_up(b).await;
    let next = Next::Finish { status: Status::Cancelled, reason: None, keep: true };
    b.settle_one(outcome(&claimed, next)).await;
    defs.fail_one(b, "third").await;
    assert_eq!(defs.due(b).await.len(), 1, "the cool-down is over and nothing else would report it");
}

pub async fn a_follow_up_that_an_operator_brought_back_begins_no_second_chain(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let old = defs.first_follow_up(b).await;
    let next = Next::Finish { status: Status::DeadLetter, reason: None, keep: true };
    b.settle_one(outcome(&old, next)).await;
    for message in ["third", "fourth"] {
        defs.fail_one(b, message).await;
    }
    assert_eq!(defs.due(b).await.len(), 1, "and a follow-up of its own");
    assert_eq!(b.outbox().operator("alice").retry(old.id).await.unwrap(), VerbResult::Done);
    let old = b.claim_slice(defs.alerts, Status::Failed, 10).await.remove(0);
    defs.sent(b, &old, Some(defs.told(2, 0, false))).await;
    b.clock().advance(COOLDOWN);
    assert_eq!(defs.due(b).await.len(), 1);
}
