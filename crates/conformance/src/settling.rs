//! Settling outcomes, and the fence.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify_core::notice::{AttemptRecord, append_attempt};
use solid_notify_core::store::Settled;
use solid_notify_core::transition::Next;
use solid_notify_core::{ErrorClass, NewNotice, NotifyDef, Status};

use super::{Backend, LEASE, crash, fail, outcome, succeed};

const SECOND: Duration = Duration::from_secs(1);

pub async fn a_success_moves_to_history(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let notice = NewNotice::new("sync", "p").unwrap().description("d").trace_context("t");
    let id = b.add_new(notice).await.id();
    b.clock().advance(SECOND);
    let claimed = b.claim_one(def_id).await;
    b.clock().advance(SECOND);
    assert_eq!(b.settle_one(succeed(&claimed)).await, Settled::Stored);
    let record = b.record(id).await;
    assert_eq!((record.status, record.def_id, record.param.as_str()), (Status::Succeeded, def_id, "\"p\""));
    assert_eq!((record.description.as_deref(), record.trace_context.as_deref()), (Some("d"), Some("t")));
    assert_eq!((record.fence, record.worker.as_deref()), (1, Some("worker-1")));
    assert_eq!(record.finish_time, Some(b.clock().now()));
    assert_eq!(record.create_time, b.clock().now() - 2 * SECOND);
    assert_eq!((record.next_call_time, record.end_reason), (None, None));
    assert!(b.stores().send.due(true).await.unwrap().slices.is_empty());
}

pub async fn success_without_history_is_deleted(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    let vanish = outcome(&claimed, Next::Finish { status: Status::Succeeded, reason: None, keep: false });
    assert_eq!(b.settle_one(vanish.clone()).await, Settled::Stored);
    assert!(b.outbox().find(id).await.unwrap().is_none());
    assert_eq!(b.settle_one(vanish).await, Settled::Stored, "its answer may have been lost");
}

pub async fn a_failure_waits_for_its_time_with_its_errors(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    let mut failed = fail(&claimed, 5 * SECOND);
    let record = AttemptRecord::new(&claimed, SECOND, ErrorClass::Timeout, "no answer");
    failed.errors = Some(append_attempt(None, record.clone()));
    failed.last_class = Some("timeout".to_owned());
    failed.description = Some("rewritten".to_owned());
    b.clock().advance(SECOND);
    assert_eq!(b.settle_one(failed).await, Settled::Stored);
    let stored = b.record(id).await;
    assert_eq!((stored.status, stored.fence, stored.failures, stored.crashes), (Status::Failed, 1, 1, 0));
    assert_eq!(stored.next_call_time, Some(b.clock().now() + 5 * SECOND), "counted from the settle");
    assert_eq!(stored.errors, [record]);
    assert_eq!((stored.last_class.as_deref(), stored.description.as_deref()), (Some("timeout"), Some("rewritten")));
    b.clock().advance(Duration::from_millis(4999));
    assert!(b.claim_slice(def_id, Status::Failed, 10).await.is_empty());
    b.clock().advance(Duration::from_millis(1));
    let again = b.claim_slice(def_id, Status::Failed, 10).await.remove(0);
    assert_eq!((again.fence, again.failures, again.errors.is_some()), (2, 1, true));
    assert_eq!(again.description.as_deref(), Some("rewritten"));
}

pub async fn a_dead_letter_moves_to_history_with_its_reason(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync").keep_history("none")).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    let reason = Some("all 5 tries failed: ü😀".to_owned());
    let mut dead = outcome(&claimed, Next::Finish { status: Status::DeadLetter, reason: reason.clone(), keep: true });
    dead.transition.failures = 3;
    dead.transition.crashes = 2;
    assert_eq!(b.settle_one(dead).await, Settled::Stored);
    let record = b.record(id).await;
    assert_eq!((record.status, record.end_reason), (Status::DeadLetter, reason));
    assert_eq!((record.failures, record.crashes), (3, 2));
}

pub async fn a_notice_that_was_handed_back_is_due_and_counted_nothing(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    let back = outcome(&claimed, Next::Wait { status: Status::NotSent, after: Duration::ZERO });
    assert_eq!(b.settle_one(back).await, Settled::Stored);
    let again = b.claim_one(def_id).await;
    assert_eq!((again.id, again.fence, again.failures, again.crashes), (id, 2, 0, 0));
}

pub async fn the_fence_goes_up_with_every_claim_and_never_back(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    b.add_to("sync").await;
    let mut claimed = b.claim_one(def_id).await;
    for fence in 2..6 {
        b.settle_one(fail(&claimed, Duration::ZERO)).await;
        claimed = b.claim_slice(def_id, Status::Failed, 1).await.remove(0);
        assert_eq!(claimed.fence, fence);
    }
}

pub async fn a_lost_lease_cannot_settle(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let slow = b.claim_one(def_id).await;
    b.clock().advance(LEASE);
    let expired = b.overdue(def_id).await.remove(0);
    assert_eq!(b.settle_one(crash(&expired)).await, Settled::Stored);
    let other = b.claim_slice(def_id, Status::Failed, 10).await.remove(0);
    for late in [succeed(&slow), fail(&slow, SECOND)] {
        assert_eq!(b.settle_one(late).await, Settled::LostLease);
    }
    let record = b.record(id).await;
    assert_eq!((record.status, record.fence, record.failures), (Status::Sending, 2, 0));
    assert_eq!(b.settle_one(succeed(&other)).await, Settled::Stored);
    assert_eq!(b.settle_one(fail(&slow, SECOND)).await, Settled::LostLease, "also after its end");
    assert_eq!(b.record(id).await.status, Status::Succeeded);
}

pub async fn an_expired_lease_without_a_new_claim_can_still_settle(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    b.clock().advance(10 * LEASE);
    assert_eq!(b.settle_one(succeed(&claimed)).await, Settled::Stored);
    assert_eq!(b.record(id).await.status, Status::Succeeded);
}

pub async fn outcomes_of_a_batch_are_independent(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    for _ in 0..5 {
        b.add_to("sync").await;
    }
    let claimed = b.claim_slice(def_id, Status::NotSent, 5).await;
    let mut stale = succeed(&claimed[1]);
    stale.fence = 0;
    let mut unknown = succeed(&claimed[0]);
    unknown.id = 1_000_000;
    let dead = Next::Finish { status: Status::DeadLetter, reason: Some("x".to_owned()), keep: true };
    let batch = [
        succeed(&claimed[0]),
        stale,
        unknown,
        fail(&claimed[2], SECOND),
        outcome(&claimed[3], dead),
        outcome(&claimed[4], Next::Wait { status: Status::NotSent, after: Duration::ZERO }),
    ];
    let answers = b.stores().send.settle(&batch).await.unwrap();
    use Settled::{LostLease, Stored};
    assert_eq!(answers, [Stored, LostLease, LostLease, Stored, Stored, Stored]);
    let mut statuses = Vec::new();
    for notice in &claimed {
        statuses.push(b.record(notice.id).await.status);
    }
    use Status::{DeadLetter, Failed, NotSent, Sending, Succeeded};
    assert_eq!(statuses, [Succeeded, Sending, Failed, DeadLetter, NotSent]);
}

pub async fn an_outcome_whose_answer_was_lost_is_settled_already(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    b.add_to("sync").await;
    b.add_to("sync").await;
    let claimed = b.claim_slice(def_id, Status::NotSent, 2).await;
    let batch = [succeed(&claimed[0]), fail(&claimed[1], SECOND)];
    let first = b.stores().send.settle(&batch).await.unwrap();
    let second = b.stores().send.settle(&batch).await.unwrap();
    assert_eq!((first, second), (vec![Settled::Stored; 2], vec![Settled::Stored; 2]));
    assert_eq!(b.record(claimed[1].id).await.failures, 1, "and it counted once");
    assert_eq!(b.settle_one(succeed(&claimed[1])).await, Settled::LostLease, "another outcome is not that one");
}

pub async fn an_id_is_never_given_again(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(b.add_to("sync").await);
        let claimed = b.claim_one(def_id).await;
        b.settle_one(succeed(&claimed)).await;
    }
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
}

pub async fn any_text_can_be_an_error_or_a_description(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    for text in
        ["", "quote ' \" ` \\ \u{1} \t\r\n", "𝕌𝕟𝕚 😀 \u{202e} ﷽", "{\"a\":[1,{}]} %s $1 ? :x", &"ß".repeat(1000)]
    {
        let id = b.add_to("sync").await;
        let claimed = b.claim_one(def_id).await;
        let mut dead =
            outcome(&claimed, Next::Finish { status: Status::DeadLetter, reason: Some(text.to_owned()), keep: true });
        let record = AttemptRecord::new(&claimed, SECOND, ErrorClass::Unknown, text);
        dead.errors = Some(append_attempt(None, record));
        dead.description = Some(text.to_owned());
        assert_eq!(b.settle_one(dead).await, Settled::Stored);
        let stored = b.record(id).await;
        assert_eq!(stored.errors[0].message, text);
        assert_eq!((stored.description.as_deref(), stored.end_reason.as_deref()), (Some(text), Some(text)));
    }
}

pub async fn a_large_batch_settles_at_once(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    for _ in 0..300 {
        b.add_to("sync").await;
    }
    let claimed = b.claim_slice(def_id, Status::NotSent, 500).await;
    assert_eq!(claimed.len(), 300);
    let batch: Vec<_> = claimed.iter().map(succeed).collect();
    assert_eq!(b.stores().send.settle(&batch).await.unwrap(), vec![Settled::Stored; 300]);
    assert!(b.stores().send.due(true).await.unwrap().slices.is_empty());
}

/// A rescuer that was slower than another one, and then claimed and failed the notice itself, settles both in one batch.
pub async fn a_stale_outcome_beside_one_of_the_next_attempt_changes_nothing(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let first = b.claim_one(def_id).await;
    b.clock().advance(LEASE);
    let expired = b.overdue(def_id).await.remove(0);
    assert_eq!(b.settle_one(crash(&expired)).await, Settled::Stored);
    let second = b.claim_slice(def_id, Status::Failed, 10).await.remove(0);
    assert_eq!((first.fence, second.fence), (1, 2));
    let batch = [crash(&expired), fail(&second, SECOND)];
    assert_eq!(b.stores().send.settle(&batch).await.unwrap(), [Settled::LostLease, Settled::Stored]);
    let stored = b.record(id).await;
    assert_eq!((stored.fence, stored.failures, stored.crashes), (2, 1, 1));
    assert_eq!(stored.next_call_time, Some(b.clock().now() + SECOND));
}
