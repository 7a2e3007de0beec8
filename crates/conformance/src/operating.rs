//! The operator's verbs: every result of each, their entries in the audit, and why a notice waits.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify_core::error::Error;
use solid_notify_core::notice::{
    AttemptRecord, ClaimedNotice, LATEST_TIME, NEVER, OwnLimits, append_attempt, time_from_millis,
};
use solid_notify_core::operate::{AuditFilter, Why};
use solid_notify_core::store::verb::VerbResult;
use solid_notify_core::store::{AuditEntry, Edit, Node, RefusedConfig, Settle, Settled};
use solid_notify_core::transition::Next;
use solid_notify_core::{ErrorClass, NewNotice, NotifyDef, Operator, Problem, Status};

use super::{Backend, LEASE, crash, fail, outcome, succeed};

const SECOND: Duration = Duration::from_secs(1);

/// Returns the outcome that makes a dead letter of a claimed notice.
pub(crate) fn dead(claimed: &ClaimedNotice, class: Option<ErrorClass>) -> Settle {
    let end = Next::Finish { status: Status::DeadLetter, reason: Some("given up".to_owned()), keep: true };
    let mut settle = outcome(claimed, end);
    settle.transition.failures = 4;
    settle.transition.crashes = 1;
    settle.last_class = class.map(|class| class.as_str().to_owned());
    let record = AttemptRecord::new(claimed, SECOND, class.unwrap_or(ErrorClass::Unknown), "no");
    settle.errors = Some(append_attempt(None, record));
    settle.regroup();
    settle
}

#[allow(clippy::unwrap_used, clippy::expect_used)]
impl dyn Backend + '_ {
    pub(crate) fn alice(&self) -> Operator {
        self.outbox().operator("alice")
    }

    /// Adds a notice and makes it a dead letter.
    pub(crate) async fn add_dead(&self, name: &str, class: Option<ErrorClass>) -> i64 {
        self.kill(NewNotice::new(name, 1).unwrap(), class).await
    }

    pub(crate) async fn kill(&self, notice: NewNotice, class: Option<ErrorClass>) -> i64 {
        let def_id = self.definition(notice.name()).await.id;
        let id = self.add_new(notice).await.id();
        let claimed = self.claim_slice(def_id, Status::NotSent, 10).await;
        let claimed = claimed.iter().find(|claimed| claimed.id == id).expect("it is due");
        assert_eq!(self.settle_one(dead(claimed, class)).await, Settled::Stored);
        id
    }

    /// Adds a notice that is delivered and awaits its ack.
    async fn add_awaiting(&self, def_id: i64) -> i64 {
        self.add_to("sync").await;
        let claimed = self.claim_one(def_id).await;
        let wait = Next::Wait { status: Status::AwaitingAck, after: LEASE };
        assert_eq!(self.settle_one(outcome(&claimed, wait)).await, Settled::Stored);
        claimed.id
    }

    /// Returns the actors and acts of a notice, the latest first.
    async fn acts(&self, id: i64) -> Vec<(String, String)> {
        self.audit_of(id).await.into_iter().map(|entry| (entry.who, entry.act)).collect()
    }

    /// Returns the audit of a notice, the latest entry first.
    pub(crate) async fn audit_of(&self, id: i64) -> Vec<AuditEntry> {
        self.audit(&AuditFilter::all().notice(id)).await
    }

    /// Returns the first entries of the audit that a filter selects.
    pub(crate) async fn audit(&self, filter: &AuditFilter) -> Vec<AuditEntry> {
        self.alice().audit(filter, None, 100).await.unwrap().entries
    }
}

pub async fn a_dead_letter_comes_back_with_its_attempts_and_all_its_tries(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.kill(NewNotice::new("sync", "p").unwrap().description("d"), Some(ErrorClass::Timeout)).await;
    let before = b.record(id).await;
    b.clock().advance(SECOND);
    let wakes = b.outbox().engine().wakes();
    assert_eq!(b.alice().retry(id).await.unwrap(), VerbResult::Applied);
    assert!(wakes.has_changed().unwrap(), "the sweepers look at once");
    let now = b.clock().now();
    let record = b.record(id).await;
    assert_eq!((record.status, record.fence, record.failures, record.crashes), (Status::Failed, 1, 0, 0));
    assert_eq!((record.next_call_time, record.finish_time, record.end_reason.as_deref()), (Some(now), None, None));
    assert_eq!(
        (&record.errors, &record.param, &record.description),
        (&before.errors, &before.param, &before.description)
    );
    assert_eq!((record.create_time, record.last_call_time), (before.create_time, before.last_call_time));
    assert_eq!(record.idempotency_key(), before.idempotency_key());
    let entry = b.audit(&AuditFilter::all()).await.remove(0);
    assert_eq!((entry.who.as_str(), entry.act.as_str(), entry.time), ("alice", "retry", now));
    assert_eq!((entry.def_id, entry.notice_id), (Some(def_id), Some(id)));
    let detail = entry.detail.unwrap();
    assert!(detail.contains("dead letter of class timeout, fence 1, tries used: 5"), "{detail}");
    let claimed = b.claim_slice(def_id, Status::Failed, 10).await.remove(0);
    assert_eq!((claimed.id, claimed.fence), (id, 2));
}

pub async fn a_late_outcome_of_an_old_attempt_loses_against_a_revived_notice(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let slow = b.claim_one(def_id).await;
    b.clock().advance(LEASE);
    let mut rescue = dead(&b.overdue(def_id).await.remove(0), Some(ErrorClass::Crash));
    rescue.overdue = true;
    assert_eq!(b.settle_one(rescue).await, Settled::Stored);
    assert_eq!(b.alice().retry(id).await.unwrap(), VerbResult::Applied);
    for late in [succeed(&slow), fail(&slow, SECOND), dead(&slow, None)] {
        assert_eq!(b.settle_one(late).await, Settled::LostLease);
    }
    let again = b.claim_slice(def_id, Status::Failed, 10).await.remove(0);
    assert_eq!(again.fence, 2);
    assert_eq!(b.settle_one(succeed(&slow)).await, Settled::LostLease);
    assert_eq!(b.record(id).await.status, Status::Sending);
    assert_eq!(b.settle_one(succeed(&again)).await, Settled::Stored);
}

pub async fn a_cancelled_notice_that_was_never_tried_comes_back_as_a_first_send(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    assert_eq!(b.alice().cancel(id, "wrong").await.unwrap(), VerbResult::Applied);
    assert!(b.stores().send.due(true).await.unwrap().slices.is_empty());
    assert_eq!(b.outbox().operator("bob").retry(id).await.unwrap(), VerbResult::Applied);
    assert_eq!(b.claim_one(def_id).await.fence, 1);
    let acts = [("bob", "retry"), ("alice", "cancel")].map(|(who, act)| (who.to_owned(), act.to_owned()));
    assert_eq!(b.acts(id).await, acts);
}

pub async fn retrying_what_is_no_dead_letter_answers_why_not(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let alice = b.alice();
    assert_eq!(alice.retry(1_000_000).await.unwrap(), VerbResult::NotFound);
    let awaiting = b.add_awaiting(def_id).await;
    assert_eq!(alice.retry(awaiting).await.unwrap(), VerbResult::AwaitingAck);
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    assert_eq!(alice.retry(id).await.unwrap(), VerbResult::BeingSent);
    b.settle_one(succeed(&claimed)).await;
    assert_eq!(alice.retry(id).await.unwrap(), VerbResult::AlreadySucceeded);
    assert!(b.audit(&AuditFilter::all()).await.is_empty(), "nothing was done");
}

pub async fn retrying_what_waits_makes_it_due_now(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    b.settle_one(fail(&claimed, 100 * SECOND)).await;
    let delayed = b.add_new(NewNotice::new("sync", 2).unwrap().delay(100 * SECOND)).await.id();
    for id in [claimed.id, delayed] {
        assert_eq!(b.alice().retry(id).await.unwrap(), VerbResult::Applied);
        assert_eq!(b.record(id).await.next_call_time, Some(b.clock().now()));
    }
    let failures = b.record(claimed.id).await.failures;
    assert_eq!(failures, 1, "a re-timing counts as before");
    b.clock().advance(SECOND);
    assert_eq!(b.alice().retry(delayed).await.unwrap(), VerbResult::Applied);
    assert_eq!(b.record(delayed).await.next_call_time, Some(b.clock().now() - SECOND), "it keeps its place");
}

pub async fn retrying_a_notice_on_its_last_try_gives_one_more(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync").max_retry_times(2).retry_interval("10s")).await;
    let id = b.add_to("sync").await;
    for (status, last) in [(Status::NotSent, false), (Status::Failed, true)] {
        let claimed = b.claim_slice(def_id, status, 10).await.remove(0);
        b.settle_one(fail(&claimed, 10 * SECOND)).await;
        assert_eq!(b.alice().is_on_last_try(id).await.unwrap(), last);
        if !last {
            b.clock().advance(10 * SECOND);
        }
    }
    assert_eq!(b.alice().retry(id).await.unwrap(), VerbResult::Applied);
    let retried = b.record(id).await;
    assert_eq!((retried.failures, retried.crashes, retried.fence), (1, 0, 2));
    assert_eq!(retried.next_call_time, Some(b.clock().now()));
    assert!(!b.alice().is_on_last_try(id).await.unwrap());
    let detail = b.audit_of(id).await.remove(0).detail.unwrap();
    assert!(detail.ends_with("tries used: 2; it was on its last try, and has one more"), "{detail}");
    let claimed = b.claim_slice(def_id, Status::Failed, 10).await.remove(0);
    assert_eq!((claimed.id, claimed.failures), (id, 1));
    b.settle_one(fail(&claimed, 10 * SECOND)).await;
    assert_eq!(b.record(id).await.status, Status::Failed);
    // What makes it due without a try more.
    assert_eq!(b.alice().reschedule(id, b.clock().now()).await.unwrap(), VerbResult::Applied);
    assert_eq!(b.record(id).await.failures, 2);
}

pub async fn a_waiting_notice_is_cancelled_and_an_ended_one_is_not(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let alice = b.alice();
    let awaiting = b.add_awaiting(def_id).await;
    b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    b.settle_one(fail(&claimed, SECOND)).await;
    let fresh = b.add_to("sync").await;
    for id in [awaiting, claimed.id, fresh] {
        assert_eq!(alice.cancel(id, "the order is gone").await.unwrap(), VerbResult::Applied);
        let record = b.record(id).await;
        assert_eq!((record.status, record.end_reason.as_deref()), (Status::Cancelled, Some("the order is gone")));
        assert_eq!((record.finish_time, record.next_call_time), (Some(b.clock().now()), None));
        assert_eq!(alice.cancel(id, "again").await.unwrap(), VerbResult::AlreadyEnded(Status::Cancelled));
    }
    let detail = b.audit_of(fresh).await.remove(0).detail.unwrap();
    assert!(detail.contains("not sent") && detail.contains("the order is gone"), "{detail}");
    let id = b.add_dead("sync", None).await;
    assert_eq!(alice.cancel(id, "x").await.unwrap(), VerbResult::AlreadyEnded(Status::DeadLetter));
    assert_eq!(alice.cancel(1_000_000, "x").await.unwrap(), VerbResult::NotFound);
    assert!(b.stores().send.due(true).await.unwrap().slices.is_empty());
}

pub async fn a_claimed_notice_is_cancelled_and_its_outcome_comes_too_late(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    assert_eq!(b.alice().cancel(id, "stop").await.unwrap(), VerbResult::CancelledDuringAttempt);
    for late in [succeed(&claimed), fail(&claimed, SECOND)] {
        assert_ne!(b.settle_one(late).await, Settled::Stored);
    }
    assert_eq!(b.record(id).await.status, Status::Cancelled);
    assert_eq!(b.acts(id).await, [("alice".to_owned(), "cancel".to_owned())]);
}

pub async fn a_claimed_ordered_notice_is_cancelled_only_after_its_lease(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_new(NewNotice::new("sync", 1).unwrap().ordering_key("k")).await.id();
    b.claim_one(def_id).await;
    assert_eq!(b.alice().cancel(id, "stop").await.unwrap(), VerbResult::BeingSent);
    assert!(b.acts(id).await.is_empty());
    b.clock().advance(LEASE);
    assert_eq!(b.alice().cancel(id, "stop").await.unwrap(), VerbResult::Applied);
}

pub async fn an_edited_dead_letter_is_retried_with_its_new_parameter(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.kill(NewNotice::new("sync", "secret").unwrap(), Some(ErrorClass::Invalid)).await;
    let param = serde_json::json!({ "b": 1, "a": "hidden ü" });
    assert_eq!(b.alice().edit(id, &param).await.unwrap(), VerbResult::Applied);
    let claimed = b.claim_slice(def_id, Status::Failed, 10).await.remove(0);
    assert_eq!((claimed.param, claimed.fence), (param.to_string(), 2));
    let entry = b.audit_of(id).await.remove(0);
    let detail = entry.detail.unwrap();
    assert_eq!(entry.act, "edit");
    assert!(
        detail.contains("8 bytes, SHA-256") && !detail.contains("secret") && !detail.contains("hidden"),
        "{detail}"
    );
}

pub async fn a_notice_that_waits_is_edited_in_its_place(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let alice = b.alice();
    let id = b.add_new(NewNotice::new("sync", 1).unwrap().delay(SECOND)).await.id();
    assert_eq!(alice.edit(id, 2).await.unwrap(), VerbResult::Applied);
    let record = b.record(id).await;
    assert_eq!((record.param.as_str(), record.next_call_time), ("2", Some(b.clock().now() + SECOND)));
    let refused = alice.edit(id, "\0").await;
    assert!(matches!(refused, Err(Error::InvalidNotice { .. })), "{refused:?}");
    assert_eq!((b.record(id).await.param.as_str(), b.acts(id).await.len()), ("2", 1));
    b.clock().advance(SECOND);
    let claimed = b.claim_one(def_id).await;
    assert_eq!(alice.edit(id, 3).await.unwrap(), VerbResult::BeingSent);
    b.settle_one(succeed(&claimed)).await;
    assert_eq!(alice.edit(id, 3).await.unwrap(), VerbResult::AlreadySucceeded);
    let awaiting = b.add_awaiting(def_id).await;
    assert_eq!(alice.edit(awaiting, 3).await.unwrap(), VerbResult::AwaitingAck);
    assert_eq!(alice.edit(1_000_000, 3).await.unwrap(), VerbResult::NotFound);
}

pub async fn a_notice_that_waits_is_due_when_the_operator_says(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let alice = b.alice();
    let id = b.add_to("sync").await;
    let now = b.clock().now();
    let (latest, later) = (time_from_millis(LATEST_TIME), time_from_millis(NEVER));
    let earliest = time_from_millis(-LATEST_TIME);
    let soon = now + 100 * SECOND;
    for (at, due) in [(soon, soon), (later, latest), (earliest, now), (now - SECOND, now)] {
        assert_eq!(alice.reschedule(id, at).await.unwrap(), VerbResult::Applied);
        assert_eq!(b.record(id).await.next_call_time, Some(due));
    }
    let detail = b.audit_of(id).await.remove(0).detail.unwrap();
    assert!(detail.contains("due at 20"), "{detail}");
    let claimed = b.claim_one(def_id).await;
    assert_eq!(alice.reschedule(id, now).await.unwrap(), VerbResult::BeingSent);
    b.settle_one(succeed(&claimed)).await;
    assert_eq!(alice.reschedule(id, now).await.unwrap(), VerbResult::AlreadySucceeded);
    let id = b.add_dead("sync", None).await;
    assert_eq!(alice.reschedule(id, now).await.unwrap(), VerbResult::AlreadyEnded(Status::DeadLetter));
}

pub async fn a_dead_letter_stays_while_a_live_notice_has_its_dedupe_key(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let keyed = || NewNotice::new("sync", 1).unwrap().unique_until_ended("k");
    let id = b.kill(keyed(), None).await;
    let other = b.add_new(keyed()).await.id();
    assert_eq!(b.alice().retry(id).await.unwrap(), VerbResult::DedupeKeyTaken(other));
    assert_eq!(b.alice().edit(id, 2).await.unwrap(), VerbResult::DedupeKeyTaken(other));
    assert_eq!((b.record(id).await.status, b.acts(id).await.len()), (Status::DeadLetter, 0));
    let claimed = b.claim_one(def_id).await;
    b.settle_one(succeed(&claimed)).await;
    assert_eq!(b.alice().retry(id).await.unwrap(), VerbResult::Applied);
    assert!(b.add(keyed()).await.unwrap().is_duplicate(), "now it has the key");
}

pub async fn a_revived_notice_goes_before_those_behind_it_in_its_key(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let keyed = || NewNotice::new("sync", 1).unwrap().ordering_key("k");
    let first = b.kill(keyed(), None).await;
    let second = b.add_new(keyed()).await.id();
    assert_eq!(b.alice().retry(first).await.unwrap(), VerbResult::Applied);
    assert!(b.claim_slice(def_id, Status::NotSent, 10).await.is_empty());
    assert_eq!(b.alice().explain(second).await.unwrap().why, Why::NoNode { since: b.clock().now() });
    let claimed = b.claim_slice(def_id, Status::Failed, 10).await.remove(0);
    assert_eq!(claimed.id, first);
    b.settle_one(succeed(&claimed)).await;
    assert_eq!(b.claim_one(def_id).await.id, second);
}

pub async fn explain_returns_the_reason_why_a_notice_waits(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync").handler("h").enabled(false)).await;
    let alice = b.alice();
    let node = |handlers: &[&str]| Node::new("node", handlers.iter().map(ToString::to_string).collect());
    assert_eq!(alice.explain(1_000_000).await.unwrap().why, Why::NotFound);
    let now = b.clock().now();
    let keyed = || NewNotice::new("sync", 1).unwrap().ordering_key("k");
    let first = b.add_new(keyed()).await.id();
    let second = b.add_new(keyed()).await.id();
    assert_eq!(alice.explain(first).await.unwrap().why, Why::Paused { definition: "sync".to_owned() });
    // As an edit by hand would write it.
    let seen = b.definition("sync").await;
    b.stores().definitions.edit(&Edit::Replace { new: seen.clone().timeout("soon"), seen }, "a test").await.unwrap();
    let invalid = alice.explain(first).await.unwrap().why;
    let column = |problems: &[Problem]| problems.iter().any(|problem| problem.column == "timeout");
    assert!(matches!(&invalid, Why::InvalidDefinition { problems, .. } if column(problems)), "{invalid:?}");
    let row = b.definition("sync").await;
    b.outbox().update(&row, row.clone().timeout("30s").enabled(true)).await.unwrap();
    assert_eq!(alice.explain(first).await.unwrap().why, Why::NoNode { since: now });
    b.stores().send.beat(&node(&["other"])).await.unwrap();
    assert_eq!(alice.explain(first).await.unwrap().why, Why::NoHandler { handler: "h".to_owned(), nodes: 1 });
    let refusing = Node { refused: vec![RefusedConfig::new(def_id, "url: missing")], ..node(&["h"]) };
    b.stores().send.beat(&refusing).await.unwrap();
    let refused = Why::ConfigRefused { handler: "h".to_owned(), problem: "url: missing".to_owned() };
    assert_eq!(alice.explain(first).await.unwrap().why, refused);
    b.stores().send.beat(&node(&["h"])).await.unwrap();
    assert_eq!(alice.explain(first).await.unwrap().why, Why::Due { since: now, nodes: 1 });
    assert_eq!(alice.explain(second).await.unwrap().why, Why::Behind { id: first });
    let claimed = b.claim_one(def_id).await;
    let (worker, until) = ("worker-1".to_owned(), now + LEASE);
    assert_eq!(alice.explain(first).await.unwrap().why, Why::BeingSent { worker: worker.clone(), until });
    assert_eq!(alice.explain(second).await.unwrap().why, Why::Behind { id: first });
    b.clock().advance(LEASE);
    b.stores().send.beat(&node(&["h"])).await.unwrap();
    let expired = Why::LeaseExpired { worker, since: until, nodes: 1 };
    assert_eq!(alice.explain(first).await.unwrap().why, expired);
    let mut crashed = crash(&claimed);
    crashed.transition.next = Next::Wait { status: Status::Failed, after: SECOND };
    crashed.last_class = Some("crash".to_owned());
    assert_eq!(b.settle_one(crashed).await, Settled::Stored);
    let at = b.clock().now() + SECOND;
    let (last_class, last_error) =
        (Some("crash".to_owned()), b.record(first).await.errors.last().map(|last| last.message.clone()));
    let retry =
        Why::RetryAt { at, last_class, last_error, response: None, tries: 1, own: OwnLimits::default(), problem: None };
    assert_eq!(alice.explain(first).await.unwrap().why, retry);
    let delayed = b.add_new(NewNotice::new("sync", 1).unwrap().delay(SECOND)).await.id();
    assert_eq!(
        alice.explain(delayed).await.unwrap().why,
        Why::NotDueUntil { at, own: OwnLimits::default(), problem: None }
    );
    alice.cancel(delayed, "why").await.unwrap();
    let (status, reason) = (Status::Cancelled, Some("why".to_owned()));
    let ended = Why::Ended { status, at: Some(b.clock().now()), reason, response: None };
    assert_eq!(alice.explain(delayed).await.unwrap().why, ended);
    let awaiting = b.add_awaiting(def_id).await;
    let until = Some(b.clock().now() + LEASE);
    assert_eq!(alice.explain(awaiting).await.unwrap().why, Why::AwaitingAck { until });
    b.clock().advance(Duration::from_secs(200));
    assert!(matches!(alice.explain(first).await.unwrap().why, Why::NoNode { .. }), "the node is silent");
}
