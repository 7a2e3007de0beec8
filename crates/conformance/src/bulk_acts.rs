//! What a store does for bulk acts: it adds their notices, and stores their progress under the claim by which they are executed.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::operate::{ActClaim, ActRun, AfterStep, AuditFilter, BulkAct, BulkHandle, BulkProgress};
use solid_notify_core::store::{Authority, Purge};
use solid_notify_core::transition::Next;
use solid_notify_core::{Filter, NewNotice, NotifyDef, Status, VerbResult};

use super::{Backend, LEASE, crash, fail, outcome, succeed};

/// The time after which an act may take its next step of two notices, at the rate of these cases.
const A_STEP: Duration = Duration::from_secs(20);

impl dyn Backend + '_ {
    async fn store_progress(&self, claimed: &ClaimedNotice, param: &str) -> bool {
        self.stores().operate.note_progress(claimed.id, claimed.fence, param).await.unwrap()
    }

    /// Cancels `count` notices of `sync`, and starts an act that purges them, two in a step.
    async fn purge_of_cancelled(&self, count: usize) -> (Vec<i64>, BulkHandle) {
        self.define(NotifyDef::new("sync")).await;
        let mut ids = Vec::new();
        for _ in 0..count {
            let id = self.add_to("sync").await;
            self.alice().cancel(id, "not now").await.unwrap();
            ids.push(id);
        }
        let filter = Filter::cancelled().definition("sync");
        (ids, self.alice().start_purge_all(&filter, "old", "1/10s".parse().unwrap()).await.unwrap())
    }

    /// Begins an attempt of an act as a sweeper does.
    pub(crate) async fn run_act(&self, claimed: &ClaimedNotice) -> ActRun {
        let authority = self.stores().send.authority(claimed.id).await.unwrap().unwrap();
        let act = BulkAct::read(&authority, &claimed.param).unwrap();
        let lease_end = claimed.last_call_time + LEASE;
        let claim = ActClaim { id: claimed.id, fence: claimed.fence, created: claimed.create_time, lease_end };
        act.begin(self.outbox(), claim).await.unwrap()
    }

    async fn progress_of(&self, id: i64) -> (BulkProgress, BulkAct) {
        let progress = self.alice().bulk(id).progress().await.unwrap().unwrap();
        let act = progress.act.clone().unwrap();
        (progress, act)
    }

    async fn remaining(&self, ids: &[i64]) -> usize {
        let mut count = 0;
        for id in ids {
            count += usize::from(self.outbox().find(*id).await.unwrap().is_some());
        }
        count
    }
}

pub async fn bulk_act_is_added_as_a_notice_that_is_due_at_once(b: &dyn Backend) {
    let (ids, started) = b.purge_of_cancelled(1).await;
    let notice = b.record(started.id()).await;
    assert_eq!((notice.status, notice.fence, notice.failures), (Status::NotSent, 0, 0));
    assert_eq!((notice.create_time, notice.next_call_time), (b.clock().now(), Some(b.clock().now())));
    let claimed = b.claim_one(b.definition("notify.bulk").await.id).await;
    assert_eq!((claimed.id, &claimed.param), (started.id(), &notice.param));
    let (progress, act) = b.progress_of(started.id()).await;
    assert_eq!((progress.status, act.done.changed, act.done.steps, act.done.cursor), (Status::Sending, 0, 0, None));
    assert_eq!(b.alice().bulks().await.unwrap(), [progress]);
    assert_eq!(b.remaining(&ids).await, 1);
}

pub async fn progress_is_stored_only_under_the_last_claim(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.stores().operate.add(def_id, "0", &Authority::of_alert()).await.unwrap();
    let first = b.claim_one(def_id).await;
    let bytes = r#"{"b": 1, "a": "ü", "a": 1e400}"#;
    assert!(b.store_progress(&first, bytes).await);
    assert_eq!(b.record(id).await.param, bytes);
    assert!(b.store_progress(&first, bytes).await, "the same once more");
    b.settle_one(fail(&first, Duration::ZERO)).await;
    let second = b.claim_slice(def_id, Status::Failed, 1).await.remove(0);
    assert_eq!(second.param, bytes, "the next attempt begins with what was stored");
    assert!(!b.store_progress(&first, "1").await);
    assert_eq!(b.record(id).await.param, bytes);
    assert!(b.store_progress(&second, "2").await);
    assert_eq!(b.record(id).await.param, "2");
}

pub async fn progress_is_stored_only_while_the_notice_is_being_sent(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.stores().operate.add(def_id, "0", &Authority::of_alert()).await.unwrap();
    let refused = async |fence: i64, state: &str| {
        assert!(!b.stores().operate.note_progress(id, fence, "1").await.unwrap(), "{state}");
        assert_eq!(b.record(id).await.param, "0", "{state}");
    };
    refused(0, "not sent").await;
    let claimed = b.claim_one(def_id).await;
    b.settle_one(fail(&claimed, Duration::ZERO)).await;
    refused(claimed.fence, "failed").await;
    let claimed = b.claim_slice(def_id, Status::Failed, 1).await.remove(0);
    b.settle_one(outcome(&claimed, Next::Wait { status: Status::AwaitingAck, after: LEASE })).await;
    refused(claimed.fence, "awaiting its ack").await;
    b.alice().cancel(id, "x").await.unwrap();
    refused(claimed.fence, "cancelled").await;
    b.alice().retry(id).await.unwrap();
    refused(claimed.fence, "retried").await;
    let claimed = b.claim_slice(def_id, Status::Failed, 1).await.remove(0);
    b.settle_one(succeed(&claimed)).await;
    refused(claimed.fence, "succeeded").await;
    assert!(!b.stores().operate.note_progress(id + 100_000, 1, "1").await.unwrap(), "no such notice");
}

pub async fn act_that_lost_its_claim_moves_no_cursor(b: &dyn Backend) {
    let (ids, started) = b.purge_of_cancelled(6).await;
    let def_id = b.definition("notify.bulk").await.id;
    let first = b.claim_one(def_id).await;
    let mut late = b.run_act(&first).await;
    assert_eq!(late.step().await.unwrap(), AfterStep::Next);
    let (progress, act) = b.progress_of(started.id()).await;
    assert_eq!((progress.status, act.done.changed, act.done.steps), (Status::Sending, 2, 1));
    assert!(act.done.cursor.is_some());
    b.clock().advance(LEASE + A_STEP);
    let expired = b.overdue(def_id).await.remove(0);
    b.settle_one(crash(&expired)).await;
    let second = b.claim_slice(def_id, Status::Failed, 1).await.remove(0);
    let mut own = b.run_act(&second).await;
    assert_eq!(own.step().await.unwrap(), AfterStep::Next);
    let (_, stored) = b.progress_of(started.id()).await;
    assert_eq!((stored.done.changed, stored.done.steps), (4, 2), "it began where the first claim had ended");
    b.clock().advance(A_STEP);
    assert_eq!(late.step().await.unwrap(), AfterStep::Lost);
    assert_eq!(b.progress_of(started.id()).await.1, stored);
    assert_eq!(b.remaining(&ids).await, 2, "the late step has purged nothing");
    assert_eq!(own.step().await.unwrap(), AfterStep::Next);
    b.clock().advance(A_STEP);
    assert_eq!(own.step().await.unwrap(), AfterStep::Ended);
    assert_eq!(b.remaining(&ids).await, 0);
    let purges = b.alice().audit(&AuditFilter::all().act("purge"), None, 10).await.unwrap().entries;
    let mut purged: Vec<i64> = purges.into_iter().flat_map(|entry| entry.notice_ids).collect();
    purged.sort_unstable();
    assert_eq!(purged, ids);
}

pub async fn cancelled_act_stores_no_step_and_continues_at_its_cursor(b: &dyn Backend) {
    let (ids, started) = b.purge_of_cancelled(6).await;
    let def_id = b.definition("notify.bulk").await.id;
    let mut run = b.run_act(&b.claim_one(def_id).await).await;
    assert_eq!(run.step().await.unwrap(), AfterStep::Next);
    assert_eq!(b.alice().cancel(started.id(), "stop").await.unwrap(), VerbResult::CancelledDuringAttempt);
    let (stopped, act) = b.progress_of(started.id()).await;
    assert_eq!((stopped.status, stopped.end_reason.as_deref()), (Status::Cancelled, Some("stop")));
    // On Redis a step is refused at the end of the lease.
    b.clock().advance(LEASE);
    assert_eq!(run.step().await.unwrap(), AfterStep::Lost);
    assert_eq!(b.progress_of(started.id()).await, (stopped.clone(), act.clone()));
    assert_eq!(b.alice().bulks().await.unwrap(), [stopped], "an act that has ended is listed");
    assert_eq!((act.done.changed, b.remaining(&ids).await), (2, 4), "the step has changed nothing");
    assert_eq!(b.alice().retry(started.id()).await.unwrap(), VerbResult::Applied);
    let claimed = b.claim_slice(def_id, Status::Failed, 1).await.remove(0);
    let mut run = b.run_act(&claimed).await;
    for _ in 0..2 {
        assert_eq!(run.step().await.unwrap(), AfterStep::Next);
        b.clock().advance(A_STEP);
    }
    assert_eq!(run.step().await.unwrap(), AfterStep::Ended);
    let (_, ended) = b.progress_of(started.id()).await;
    assert_eq!((ended.done.changed, ended.done.passed_over, b.remaining(&ids).await), (6, 0, 0));
}

pub async fn authority_is_kept_with_its_notice_and_purged_after_it(b: &dyn Backend) {
    let (_, started) = b.purge_of_cancelled(1).await;
    let (id, stores) = (started.id(), b.stores());
    let authority = stores.send.authority(id).await.unwrap().unwrap();
    assert_eq!((authority.who.as_str(), authority.act.as_str()), ("alice", "purge"));
    assert!(authority.detail.as_deref().unwrap().contains(r#""definition":"sync""#), "{authority:?}");
    assert_eq!(b.record(id).await.param.find("sync"), None, "the notice itself has no order");
    let purge = async || stores.send.purge(&Purge::Orphans { limit: 10 }).await.unwrap().len();
    assert_eq!(purge().await, 0, "live");
    b.alice().cancel(id, "stop").await.unwrap();
    assert_eq!((purge().await, stores.send.authority(id).await.unwrap()), (0, Some(authority)), "ended");
    let (def_id, status) = (b.definition("notify.bulk").await.id, Status::Cancelled);
    let ended = Purge::History { def_id, status, older_than: Duration::ZERO, limit: 10 };
    assert_eq!(stores.send.purge(&ended).await.unwrap().len(), 1);
    purge().await;
    assert_eq!(stores.send.authority(id).await.unwrap(), None, "gone");
}

pub async fn notice_that_the_library_did_not_add_has_no_authority(b: &dyn Backend) {
    let (_, started) = b.purge_of_cancelled(1).await;
    let def_id = b.definition("notify.bulk").await.id;
    let forged = b.stores().operate.add_test(def_id, "{}", "mallory").await.unwrap();
    assert_eq!(b.stores().send.authority(forged).await.unwrap(), None);
    assert!(b.stores().send.authority(started.id()).await.unwrap().is_some());
    for name in ["notify.bulk", "notify.purge", "notify.alert", "notify.dead_letters"] {
        let refused = b.add(NewNotice::new(name, 0).unwrap()).await.unwrap_err().to_string();
        assert!(refused.contains("built in"), "{name}: {refused}");
        let many = [NewNotice::new("sync", 0).unwrap(), NewNotice::new(name, 0).unwrap()];
        let refused = b.add_many(many.to_vec()).await.unwrap_err().to_string();
        assert!(refused.contains("built in"), "{name} among others: {refused}");
    }
}

pub async fn authority_is_used_by_each_claim(b: &dyn Backend) {
    let (_, started) = b.purge_of_cancelled(1).await;
    let def_id = b.definition("notify.bulk").await.id;
    let used = async |claimed: &ClaimedNotice| b.stores().send.use_authority(claimed).await.unwrap().map(|it| it.who);
    let first = b.claim_one(def_id).await;
    assert_eq!((first.id, used(&first).await.as_deref()), (started.id(), Some("alice")));
    b.settle_one(fail(&first, Duration::ZERO)).await;
    let second = b.claim_slice(def_id, Status::Failed, 1).await.remove(0);
    assert_eq!(used(&second).await.as_deref(), Some("alice"));
    let forged = b.stores().operate.add_test(def_id, "{}", "mallory").await.unwrap();
    let forged_claim = b.claim_one(def_id).await;
    assert_eq!((forged_claim.id, used(&forged_claim).await), (forged, None));
}
