//! A target that still has an earlier notice of a dedupe key keeps it: the record of the notice that is passed on says so.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{Kept, PassOn, PassedOn, Settle, Settled};
use solid_notify_core::transition::Next;
use solid_notify_core::{NewNotice, Status};

use super::targets::{Defs, order};
use super::{Backend, outcome, succeed};

const KEY: &str = "order 7";

/// Adds a notice of the key to the definition and claims it.
async fn claimed(b: &dyn Backend, defs: &Defs) -> ClaimedNotice {
    b.add_new(order().unique_until_ended(KEY)).await;
    b.claim_one(defs.order).await
}

/// Adds a notice of the key to a target itself. Returns its id.
async fn add_to(b: &dyn Backend, target: &str) -> i64 {
    b.add_new(NewNotice::new(target, 1).unwrap().unique_until_ended(KEY)).await.id()
}

async fn reason(b: &dyn Backend, id: i64) -> Option<String> {
    b.record(id).await.end_reason
}

pub async fn record_says_which_target_kept_its_earlier_notice(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let earlier = add_to(b, "order/mail").await;
    let parent = claimed(b, &defs).await;
    let text = format!("passed on to the target erp; `mail` still has notice {earlier} of this dedupe key");
    // Also where the reply to the first call was lost.
    for _ in 0..2 {
        assert_eq!(b.settle_one(defs.passed_on(&parent)).await, Settled::PassedOn(text.clone()));
    }
    assert_eq!(reason(b, parent.id).await.as_deref(), Some(text.as_str()));
    assert_eq!(b.record(parent.id).await.status, Status::Succeeded);
    let erp = b.claim_one(defs.erp).await;
    assert_eq!(b.record(erp.id).await.parent_id, Some(parent.id));
    assert_eq!(b.claim_one(defs.mail).await.id, earlier, "it has no other one");
    // Beside a notice without a key, and one whose key is free.
    let second = claimed(b, &defs).await;
    b.add_new(order()).await;
    let plain = b.claim_one(defs.order).await;
    b.add_new(order().unique_until_ended("another key")).await;
    let free = b.claim_one(defs.order).await;
    let batch = [&second, &plain, &free].map(|claimed| defs.passed_on(claimed));
    let settled = b.stores().send.settle(&batch).await.unwrap();
    let both = format!(
        "passed on to no target; `erp` still has notice {} of this dedupe key; `mail` still has notice {earlier} of this dedupe key",
        erp.id
    );
    assert_eq!(settled, [Settled::PassedOn(both.clone()), Settled::Stored, Settled::Stored]);
    assert_eq!(reason(b, second.id).await, Some(both));
    for stored in [&plain, &free] {
        assert_eq!(reason(b, stored.id).await.as_deref(), Some("passed on to 2 targets: erp, mail"));
    }
    assert_eq!(defs.counts(b).await, (2, 2));
}

pub async fn kept_notices_are_returned_where_no_record_is_kept(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let earlier = add_to(b, "order/erp").await;
    let mut settle = defs.passed_on(&claimed(b, &defs).await);
    if let Next::Finish { keep, .. } = &mut settle.transition.next {
        *keep = false;
    }
    let text = format!("passed on to the target mail; `erp` still has notice {earlier} of this dedupe key");
    assert_eq!(b.settle_one(settle.clone()).await, Settled::PassedOn(text));
    assert!(b.outbox().find(settle.id).await.unwrap().is_none());
    assert_eq!(defs.counts(b).await, (1, 1));
}

pub async fn key_that_a_target_gave_back_is_passed_on_again(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let earlier = add_to(b, "order/mail").await;
    let of_mail = b.claim_one(defs.mail).await;
    assert_eq!(of_mail.id, earlier);
    let parent = claimed(b, &defs).await;
    assert_eq!(b.settle_one(succeed(&of_mail)).await, Settled::Stored);
    assert_eq!(b.settle_one(defs.passed_on(&parent)).await, Settled::Stored);
    assert_eq!(reason(b, parent.id).await.as_deref(), Some("passed on to 2 targets: erp, mail"));
    assert_eq!(defs.counts(b).await, (1, 1));
}

pub async fn parts_say_which_targets_kept_their_earlier_notices(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let notice = add_to(b, "order/erp").await;
    let parent = claimed(b, &defs).await;
    let kept = vec![Kept { target: defs.erp, notice }];
    let pass_on = async |most: usize| b.stores().send.pass_on(&defs.part_of(&parent, most)).await.unwrap();
    let done = |done| PassedOn::Part { targets: vec![defs.erp, defs.mail], done, kept: kept.clone() };
    let PassedOn::Part { done: 1, .. } = pass_on(1).await else { panic!("the first part is made") };
    // The earlier notice ends. It was there when the part was made.
    let erp = b.claim_one(defs.erp).await;
    assert_eq!((erp.id, b.settle_one(succeed(&erp)).await), (notice, Settled::Stored));
    for _ in 0..3 {
        assert_eq!(pass_on(10).await, done(2));
    }
    assert_eq!(defs.counts(b).await, (0, 1));
    // A target to which it is owed keeps its earlier notice, too.
    let earlier = add_to(b, "order/erp").await;
    let parent = claimed_after(b, &defs, &parent).await;
    let part = PassOn { owed: vec![defs.erp], ..defs.part_of(&parent, 10) };
    let PassedOn::Part { done: 1, .. } = b.stores().send.pass_on(&part).await.unwrap() else { panic!("one is owed") };
    let PassedOn::Part { kept, .. } = b.stores().send.pass_on(&defs.part_of(&parent, 10)).await.unwrap() else {
        panic!("nothing is owed any more")
    };
    let mut kept_by: Vec<i64> = kept.iter().map(|kept| kept.notice).collect();
    kept_by.sort_unstable();
    assert!(kept_by.contains(&earlier) && kept_by.len() == 2, "`mail` has that of the first parent: {kept:?}");
}

/// Ends a notice whose parts are made, and claims the next one of the key.
async fn claimed_after(b: &dyn Backend, defs: &Defs, before: &ClaimedNotice) -> ClaimedNotice {
    let next = Next::Finish { status: Status::Succeeded, reason: None, keep: true };
    let ended = Settle { pass_to: Vec::new(), ..outcome(before, next) };
    assert_eq!(b.settle_one(ended).await, Settled::Stored);
    claimed(b, defs).await
}
