//! Limits of one notice, and notices that are added as skipped.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify_core::dispatch::FirstAttempt;
use solid_notify_core::notice::{Status, later};
use solid_notify_core::store::verb::VerbResult;
use solid_notify_core::transition::Next;
use solid_notify_core::{Error, ErrorClass, NewNotice, NotifyDef, Receipt};

use super::{Backend, fail, outcome};

const HOUR: Duration = Duration::from_secs(3600);

fn sync() -> NewNotice {
    NewNotice::new("sync", 1).expect("a number is JSON")
}

pub async fn own_limits_of_a_notice_come_with_its_claim_and_its_record(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let expiry = later(b.clock().now(), HOUR).unwrap();
    let limited = || sync().max_tries(7).expires_at(expiry);
    let one = b.add_new(limited()).await.id();
    let many = b.add_many(vec![limited(), sync(), limited().unique_until_ended("a")]).await.unwrap();
    let (own, none) = ((Some(7), Some(expiry)), (None, None));
    let expected = [(one, own), (many[0].id(), own), (many[1].id(), none), (many[2].id(), own)];
    let claimed = b.claim_slice(def_id, Status::NotSent, 10).await;
    let mut claimed: Vec<_> =
        claimed.iter().map(|claimed| (claimed.id, (claimed.own.max_tries, claimed.own.expires_at))).collect();
    claimed.sort_unstable();
    assert_eq!(claimed, expected);
    for (id, own) in expected {
        let record = b.record(id).await;
        assert_eq!((record.own.max_tries, record.own.expires_at), own);
    }
}

pub async fn own_limits_stay_with_an_ended_notice(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let expiry = later(b.clock().now(), HOUR).unwrap();
    for status in [Status::Succeeded, Status::DeadLetter, Status::Cancelled] {
        let id = b.add_new(sync().max_tries(7).expires_at(expiry)).await.id();
        let reason = (status != Status::Succeeded).then(|| "a reason".to_owned());
        let claimed = b.claim_one(def_id).await;
        let ended = Next::Finish { status, reason, keep: true };
        b.settle_one(outcome(&claimed, ended)).await;
        let record = b.record(id).await;
        assert_eq!((record.status, record.own.max_tries, record.own.expires_at), (status, Some(7), Some(expiry)));
    }
}

pub async fn limits_that_no_notice_can_have_are_refused(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let now = b.clock().now();
    for wrong in [
        sync().max_tries(0),
        sync().max_tries(u32::MAX),
        sync().at(later(now, HOUR).unwrap()).expires_at(later(now, HOUR).unwrap()),
        sync().skipped("a\0b"),
        sync().skipped("x".repeat(4097)),
    ] {
        let error = b.add(wrong).await.unwrap_err();
        assert!(matches!(error, Error::InvalidNotice { .. }), "{error}");
    }
    assert!(b.claim_slice(def_id, Status::NotSent, 10).await.is_empty());
}

pub async fn a_skipped_notice_is_in_history_from_its_commit_on(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let skipped = || sync().description("order 7").skipped("a test order");
    let rolled_back = b.add_and_roll_back(skipped()).await.unwrap().id();
    let one = b.add_new(skipped()).await.id();
    let many = b.add_many(vec![skipped(), sync(), skipped()]).await.unwrap();
    for id in [one, many[0].id(), many[2].id()] {
        let record = b.record(id).await;
        assert_eq!((record.status, record.end_reason.as_deref()), (Status::Cancelled, Some("a test order")));
        assert_eq!((record.description.as_deref(), record.fence), (Some("order 7"), 0));
        assert_eq!(record.finish_time, Some(b.clock().now()));
    }
    if rolled_back != one {
        assert_eq!(b.outbox().find(rolled_back).await.unwrap(), None);
    }
    assert_eq!(b.claim_one(def_id).await.id, many[1].id(), "the only one that is to be sent");
    assert_eq!(b.outbox().operator("alice").retry(one).await.unwrap(), VerbResult::Applied);
    assert_eq!(b.claim_one(def_id).await.id, one, "an operator sends it after all");
}

pub async fn a_skipped_notice_takes_no_dedupe_key(b: &dyn Backend) {
    b.define(NotifyDef::new("sync")).await;
    let keyed = || sync().unique_until_ended("order 7");
    let skipped = b.add_new(keyed().skipped("a test order")).await.id();
    let many = b.add_many(vec![keyed().skipped("another"), sync().unique_until_ended("order 8")]).await.unwrap();
    assert!(many.iter().all(|receipt| !receipt.is_duplicate()));
    let sent = b.add_new(keyed()).await.id();
    assert_ne!(sent, skipped);
    assert!(b.add(keyed()).await.unwrap().is_duplicate());
}

pub async fn a_skipped_notice_of_the_same_call_takes_no_dedupe_key(b: &dyn Backend) {
    b.define(NotifyDef::new("sync")).await;
    let until_ended = || sync().unique_until_ended("order 7");
    let until_claimed = || sync().unique_until_claimed("order 8");
    let all = vec![
        until_ended().skipped("a test order"),
        until_claimed().skipped("a test order"),
        until_ended(),
        until_claimed(),
        until_ended().skipped("too late"),
        until_claimed().skipped("too late"),
        until_ended(),
        until_claimed(),
    ];
    let receipts = b.add_many(all).await.unwrap();
    let duplicates: Vec<bool> = receipts.iter().map(Receipt::is_duplicate).collect();
    assert_eq!(duplicates, [false, false, false, false, false, false, true, true]);
    assert_eq!((receipts[6].id(), receipts[7].id()), (receipts[2].id(), receipts[3].id()));
    for (at, status) in
        [Status::Cancelled, Status::Cancelled, Status::NotSent, Status::NotSent, Status::Cancelled, Status::Cancelled]
            .into_iter()
            .enumerate()
    {
        let record = b.record(receipts[at].id()).await;
        let key = if at % 2 == 0 { "order 7" } else { "order 8" };
        assert_eq!((record.status, record.dedupe_key.as_deref()), (status, Some(key)), "{at}");
        assert_eq!(record.unique_until_ended, at % 2 == 0, "{at}");
    }
}

pub async fn a_skipped_notice_is_no_duplicate_of_a_live_one(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let keyed = || sync().unique_until_ended("order 7");
    let live = b.add_new(keyed()).await.id();
    let skipped = b.add(keyed().skipped("it is being sent already")).await.unwrap();
    let many = b.add_many(vec![keyed().skipped("again"), sync()]).await.unwrap();
    for id in [skipped.id(), many[0].id()] {
        let record = b.record(id).await;
        assert_eq!((record.status, record.dedupe_key.as_deref()), (Status::Cancelled, Some("order 7")));
    }
    assert!(!skipped.is_duplicate() && !many[0].is_duplicate());
    let alice = b.outbox().operator("alice");
    let taken = alice.retry(skipped.id()).await.unwrap();
    assert_eq!(taken, VerbResult::DedupeKeyTaken(live), "the key is that of the live notice");
    let claimed = b.claim_slice(def_id, Status::NotSent, 1).await.remove(0);
    b.settle_one(outcome(&claimed, Next::Finish { status: Status::Succeeded, reason: None, keep: true })).await;
    assert_eq!(alice.retry(skipped.id()).await.unwrap(), VerbResult::Applied);
    assert!(b.add(keyed()).await.unwrap().is_duplicate(), "retried, it has the key");
}

pub async fn a_skipped_notice_has_no_first_attempt(b: &dyn Backend) {
    b.define(NotifyDef::new("sync")).await;
    let one = b.add_new(sync().skipped("a test order")).await;
    let many = b.add_many(vec![sync().skipped("a test order"), sync().skipped("another")]).await.unwrap();
    for receipt in many.into_iter().chain([one]) {
        assert_eq!(receipt.first_attempt(Duration::ZERO).await, FirstAttempt::NotHere);
    }
}

pub async fn a_revived_notice_keeps_an_expiry_ahead_and_drops_a_past_one(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let expiry = later(b.clock().now(), HOUR).unwrap();
    let id = b.add_new(sync().max_tries(7).expires_at(expiry)).await.id();
    let alice = b.outbox().operator("alice");
    assert_eq!(alice.cancel(id, "wrong").await.unwrap(), VerbResult::Applied);
    assert_eq!(alice.retry(id).await.unwrap(), VerbResult::Applied);
    assert_eq!(b.record(id).await.own.expires_at, Some(expiry));
    assert_eq!(alice.cancel(id, "wrong").await.unwrap(), VerbResult::Applied);
    b.clock().advance(HOUR);
    assert_eq!(alice.retry(id).await.unwrap(), VerbResult::Applied);
    let record = b.record(id).await;
    assert_eq!((record.own.max_tries, record.own.expires_at), (Some(7), None));
    assert_eq!(b.claim_one(def_id).await.own.expires_at, None);
}

pub async fn waiting_retries_are_counted_by_their_own_limit_of_tries(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync").max_retry_times(1)).await;
    for notice in [sync(), sync().max_tries(9)] {
        b.add_new(notice).await;
        let mut failed = fail(&b.claim_one(def_id).await, HOUR);
        failed.last_class = Some(ErrorClass::Busy.as_str().to_owned());
        b.settle_one(failed).await;
    }
    let row = b.definition("sync").await;
    let stricter = row.clone().max_retry_times(0);
    let preview = b.outbox().operator("alice").preview_edit(&row, &stricter).await.unwrap();
    assert_eq!((preview.retries.count, preview.out_of_tries), (2, 1), "{preview}");
}
