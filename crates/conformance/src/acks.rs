//! Ack: the wait for it, and acks and nacks at any moment.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify_core::ack::{AckResult, Reply};
use solid_notify_core::definition::FOREVER;
use solid_notify_core::notice::{ClaimedNotice, NEVER, time_from_millis};
use solid_notify_core::operate::{AuditFilter, Why};
use solid_notify_core::store::{Look, QueueSlice, Settle, Settled};
use solid_notify_core::transition::Next;
use solid_notify_core::{NewNotice, NotifyDef, Status};

use super::{Backend, fail, outcome, succeed};

const SECOND: Duration = Duration::from_secs(1);

fn await_ack(claimed: &ClaimedNotice, within: Duration) -> Settle {
    outcome(claimed, Next::Wait { status: Status::AwaitingAck, after: within })
}

impl dyn Backend + '_ {
    async fn unacked(&self, def_id: i64) -> Vec<ClaimedNotice> {
        let look = Look::Overdue { def_id, status: Status::AwaitingAck };
        self.stores().send.look(&look, 10).await.unwrap()
    }

    /// Returns a notice that awaits its ack for ten seconds.
    async fn delivered(&self) -> (i64, i64, ClaimedNotice) {
        let def_id = self.define(NotifyDef::new("sync")).await;
        let id = self.add_to("sync").await;
        let claimed = self.claim_one(def_id).await;
        assert_eq!(self.settle_one(await_ack(&claimed, 10 * SECOND)).await, Settled::Stored);
        (def_id, id, claimed)
    }
}

pub async fn a_delivery_that_awaits_its_ack_is_overdue_after_its_time(b: &dyn Backend) {
    let (def_id, id, _) = b.delivered().await;
    let record = b.record(id).await;
    assert_eq!((record.status, record.next_call_time), (Status::AwaitingAck, Some(b.clock().now() + 10 * SECOND)));
    b.clock().advance(Duration::from_millis(9999));
    assert!(b.unacked(def_id).await.is_empty());
    b.clock().advance(Duration::from_millis(1));
    let overdue = b.unacked(def_id).await.remove(0);
    assert_eq!((overdue.id, overdue.fence, overdue.status), (id, 1, Status::AwaitingAck));
    let mut failed = fail(&overdue, SECOND);
    (failed.from, failed.overdue) = (Status::AwaitingAck, true);
    assert_eq!(b.settle_one(failed).await, Settled::Stored);
    assert_eq!(b.record(id).await.status, Status::Failed);
}

pub async fn an_ack_can_be_awaited_for_ever(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    assert_eq!(b.settle_one(await_ack(&claimed, FOREVER)).await, Settled::Stored);
    b.clock().advance(Duration::from_secs(86_400 * 3650));
    assert!(b.unacked(def_id).await.is_empty());
    assert!(b.stores().send.due(true).await.unwrap().slices.is_empty(), "it is never due");
    assert_eq!(b.record(id).await.next_call_time, None);
    let listed =
        b.outbox().engine().stores().browse.list(&QueueSlice::of(def_id, Status::AwaitingAck), 10).await.unwrap();
    assert_eq!(listed[0].time, time_from_millis(NEVER));
    let explained = b.outbox().operator("alice").explain(id).await.unwrap().why;
    assert_eq!(explained, Why::AwaitingAck { until: None });
    assert_eq!(b.outbox().ack(id).await.unwrap(), AckResult::Applied);
}

pub async fn an_ack_ends_a_notice_in_every_live_state(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync").keep_history("none")).await;
    let unsent = b.add_to("sync").await;
    assert_eq!(b.outbox().ack(unsent).await.unwrap(), AckResult::Applied);
    for state in [Status::Sending, Status::Failed, Status::AwaitingAck] {
        let id = b.add_new(NewNotice::new("sync", 1).unwrap().description("d")).await.id();
        let claimed = b.claim_one(def_id).await;
        match state {
            Status::Failed => drop(b.settle_one(fail(&claimed, SECOND)).await),
            Status::AwaitingAck => drop(b.settle_one(await_ack(&claimed, SECOND)).await),
            _ => {}
        }
        assert_eq!(b.outbox().ack(id).await.unwrap(), AckResult::Applied, "{state:?}");
        let record = b.record(id).await;
        assert_eq!((record.status, record.end_reason.as_deref()), (Status::Succeeded, Some("acked")), "{state:?}");
        assert_eq!((record.fence, record.description.as_deref()), (1, Some("d")));
        assert_eq!(b.outbox().ack(id).await.unwrap(), AckResult::AlreadySucceeded, "{state:?}");
        assert_eq!(
            b.settle_one(fail(&claimed, SECOND)).await,
            Settled::Ended(Status::Succeeded),
            "a late settle loses"
        );
        assert_eq!(b.record(id).await.status, Status::Succeeded);
    }
    assert!(b.stores().send.due(true).await.unwrap().slices.is_empty());
}

pub async fn an_ack_of_an_earlier_attempt_ends_a_resend(b: &dyn Backend) {
    let (def_id, id, _) = b.delivered().await;
    b.clock().advance(10 * SECOND);
    let overdue = b.unacked(def_id).await.remove(0);
    let mut failed = fail(&overdue, Duration::ZERO);
    (failed.from, failed.overdue) = (Status::AwaitingAck, true);
    b.settle_one(failed).await;
    let resent = b.claim_slice(def_id, Status::Failed, 1).await.remove(0);
    assert_eq!(resent.fence, 2);
    let never_made = Reply::ack(id).to_fence(3);
    assert_eq!(b.apply_ack(&never_made, true).await, AckResult::Unknown);
    assert_eq!(b.apply_ack(&Reply::nack(id, "no").to_fence(1), true).await, AckResult::NotAwaitingAck);
    assert_eq!(b.apply_ack(&Reply::ack(id).to_fence(1), true).await, AckResult::Applied);
    assert_eq!(b.settle_one(await_ack(&resent, SECOND)).await, Settled::Ended(Status::Succeeded));
    assert_eq!(b.record(id).await.status, Status::Succeeded);
}

pub async fn an_acked_dead_letter_becomes_a_success_and_is_audited(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    let next = Next::Finish { status: Status::DeadLetter, reason: Some("gave up".to_owned()), keep: true };
    b.settle_one(outcome(&claimed, next)).await;
    assert_eq!(b.outbox().nack(id, "no").await.unwrap(), AckResult::NotAwaitingAck);
    b.clock().advance(SECOND);
    assert_eq!(b.outbox().ack(id).await.unwrap(), AckResult::DeadLetterAcked);
    let record = b.record(id).await;
    assert_eq!((record.status, record.finish_time), (Status::Succeeded, Some(b.clock().now())));
    assert_eq!(record.end_reason.as_deref(), Some("acked after it had been given up"));
    assert_eq!(b.outbox().ack(id).await.unwrap(), AckResult::AlreadySucceeded);
    let audit = b.audit(&AuditFilter::all()).await;
    assert_eq!(audit.len(), 1, "{audit:?}");
    assert_eq!((audit[0].act.as_str(), audit[0].notice_id, audit[0].def_id), ("ack", Some(id), Some(def_id)));
    assert_eq!(audit[0].time, b.clock().now());
}

pub async fn acks_of_cancelled_and_of_missing_notices_differ(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    let next = Next::Finish { status: Status::Cancelled, reason: None, keep: true };
    b.settle_one(outcome(&claimed, next)).await;
    assert_eq!(b.outbox().ack(id).await.unwrap(), AckResult::Cancelled);
    assert_eq!(b.outbox().nack(id, "no").await.unwrap(), AckResult::Cancelled);
    assert_eq!(b.outbox().ack(id + 1000).await.unwrap(), AckResult::Unknown);
    assert_eq!(b.record(id).await.status, Status::Cancelled);
    assert!(b.audit(&AuditFilter::all()).await.is_empty());
}

pub async fn a_refusal_makes_the_delivery_overdue_at_once_with_its_reason(b: &dyn Backend) {
    let (def_id, id, _) = b.delivered().await;
    assert_eq!(b.outbox().nack(id, "wrong address\0").await.unwrap(), AckResult::Applied);
    assert_eq!(b.outbox().nack(id, "twice").await.unwrap(), AckResult::NotAwaitingAck);
    let overdue = b.unacked(def_id).await.remove(0);
    assert_eq!((overdue.fence, overdue.failures), (1, 0), "a sweeper judges it");
    let record = b.record(id).await;
    assert_eq!(record.errors.len(), 1);
    assert!(record.errors[0].message.contains("wrong address"), "{:?}", record.errors);
    assert_eq!((record.errors[0].fence, record.errors[0].class.as_str()), (1, "unacked"));
}

pub async fn acks_and_nacks_by_an_operator_are_audited(b: &dyn Backend) {
    let (def_id, id, claimed) = b.delivered().await;
    let alice = b.alice();
    assert_eq!(alice.nack(id, "they never got it\0").await.unwrap(), AckResult::Applied);
    assert_eq!(alice.nack(id, "twice").await.unwrap(), AckResult::NotAwaitingAck);
    let message = b.record(id).await.errors.remove(0).message;
    assert!(message.contains("alice nacked it: they never got it"), "{message}");
    assert_eq!(alice.ack(id).await.unwrap(), AckResult::Applied);
    assert_eq!(alice.ack(id).await.unwrap(), AckResult::AlreadySucceeded);
    assert_eq!(b.settle_one(await_ack(&claimed, SECOND)).await, Settled::Ended(Status::Succeeded));
    assert_eq!(alice.ack(id + 100_000).await.unwrap(), AckResult::Unknown);
    let entries = b.audit_of(id).await;
    let shown: Vec<_> = entries.iter().map(|entry| (entry.who.as_str(), entry.act.as_str(), entry.def_id)).collect();
    assert_eq!(shown, [("alice", "ack", Some(def_id)), ("alice", "nack", Some(def_id))]);
    let details: Vec<_> = entries.iter().filter_map(|entry| entry.detail.as_deref()).collect();
    assert_eq!(details[0], "it was awaiting its ack");
    assert!(details[1].starts_with("it was awaiting its ack; reason: they never got it"), "{details:?}");
    assert_eq!(entries[0].time, b.clock().now());

    let dead = b.add_dead("sync", None).await;
    assert_eq!(alice.nack(dead, "no").await.unwrap(), AckResult::NotAwaitingAck);
    assert_eq!(alice.ack(dead).await.unwrap(), AckResult::DeadLetterAcked);
    let entry = b.audit_of(dead).await.remove(0);
    assert_eq!((entry.who.as_str(), entry.act.as_str()), ("alice", "ack"));

    let by_its_receiver = b.add_to("sync").await;
    b.claim_one(def_id).await;
    assert_eq!(b.outbox().ack(by_its_receiver).await.unwrap(), AckResult::Applied);
    assert!(b.audit_of(by_its_receiver).await.is_empty(), "its record has that");
}

pub async fn a_refusal_before_the_handler_returned_is_not_lost(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    assert_eq!(b.outbox().nack(id, "no").await.unwrap(), AckResult::Applied);
    assert_eq!(b.settle_one(succeed(&claimed)).await, Settled::LostLease, "its receiver knows better");
    assert_eq!(b.unacked(def_id).await.len(), 1);
    assert_eq!(b.record(id).await.errors.len(), 1);
}

pub async fn an_outcome_beside_the_judgement_of_its_refusal_changes_nothing(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    b.outbox().nack(id, "no").await.unwrap();
    let refused = b.unacked(def_id).await.remove(0);
    let mut failed = fail(&refused, SECOND);
    (failed.from, failed.overdue) = (Status::AwaitingAck, true);
    let batch = [await_ack(&claimed, FOREVER), failed];
    assert_eq!(b.stores().send.settle(&batch).await.unwrap()[1], Settled::Stored);
    let record = b.record(id).await;
    assert_eq!((record.status, record.failures), (Status::Failed, 1));
}

pub async fn ack_or_nack_counts_if_and_only_if_its_transaction_commits(b: &dyn Backend) {
    let (_, id, _) = b.delivered().await;
    assert_eq!(b.apply_ack(&Reply::ack(id), false).await, AckResult::Applied);
    assert_eq!(b.record(id).await.status, Status::AwaitingAck);
    assert_eq!(b.apply_ack(&Reply::nack(id, "no"), false).await, AckResult::Applied);
    assert!(b.record(id).await.errors.is_empty());
    assert_eq!(b.apply_ack(&Reply::ack(id), true).await, AckResult::Applied);
    assert_eq!(b.record(id).await.status, Status::Succeeded);
}

pub async fn a_notice_that_awaits_its_ack_blocks_its_ordering_key(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let keyed = || NewNotice::new("sync", 1).unwrap().ordering_key("k");
    let first = b.add_new(keyed()).await.id();
    let second = b.add_new(keyed()).await.id();
    let claimed = b.claim_one(def_id).await;
    assert_eq!(claimed.id, first);
    b.settle_one(await_ack(&claimed, FOREVER)).await;
    assert!(b.claim_slice(def_id, Status::NotSent, 10).await.is_empty());
    b.outbox().ack(first).await.unwrap();
    assert_eq!(b.claim_one(def_id).await.id, second);
}

pub async fn of_many_who_ack_at_once_one_does(b: &dyn Backend) {
    let (_, id, _) = b.delivered().await;
    let all = futures_util::future::join_all((0..8).map(|_| b.outbox().ack(id))).await;
    let done = all.into_iter().map(Result::unwrap).filter(|answered| *answered == AckResult::Applied).count();
    assert_eq!(done, 1);
    assert_eq!(b.record(id).await.status, Status::Succeeded);
}
