//! Ordering keys, dedupe keys, and many notices at once.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use solid_notify_core::store::verb::VerbResult;
use solid_notify_core::store::{Claim, ClaimWhat};
use solid_notify_core::transition::Next;
use solid_notify_core::{Error, NewNotice, NotifyDef, Receipt, Status};

use super::{Backend, LEASE, fail, outcome, succeed};

fn ordered(key: &str, n: i64) -> NewNotice {
    NewNotice::new("sync", n).unwrap().ordering_key(key)
}

fn deduped(key: &str, n: i64) -> NewNotice {
    NewNotice::new("sync", n).unwrap().unique_until_ended(key)
}

/// Returns the ids that a claim of the queue slice gets.
async fn claim(b: &dyn Backend, def_id: i64, status: Status) -> Vec<i64> {
    b.claim_slice(def_id, status, 100).await.iter().map(|notice| notice.id).collect()
}

pub async fn notices_of_one_key_go_one_at_a_time_in_the_order_of_their_insertion(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for n in 0..3 {
        one.push(b.add_new(ordered("one", n)).await.id());
        two.push(b.add_new(ordered("two", n)).await.id());
    }
    let free = b.add_to("sync").await;
    let first = b.claim_slice(def_id, Status::NotSent, 100).await;
    assert_eq!(first.iter().map(|notice| notice.id).collect::<Vec<_>>(), [one[0], two[0], free]);
    assert_eq!(first[0].ordering_key.as_deref(), Some("one"));
    assert!(claim(b, def_id, Status::NotSent).await.is_empty(), "both keys are under way");
    b.settle_one(succeed(&first[0])).await;
    assert_eq!(claim(b, def_id, Status::NotSent).await, [one[1]]);
}

pub async fn a_live_notice_holds_back_those_behind_it_until_it_has_ended(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let minute = Duration::from_secs(60);
    let delayed = b.add_new(ordered("key", 1).delay(minute)).await.id();
    let behind = b.add_new(ordered("key", 2)).await.id();
    let last = b.add_new(ordered("key", 3)).await.id();
    assert!(claim(b, def_id, Status::NotSent).await.is_empty(), "a delayed one holds them back");
    b.clock().advance(minute);
    let sending = b.claim_one(def_id).await;
    assert_eq!(sending.id, delayed);
    b.settle_one(fail(&sending, minute)).await;
    assert!(claim(b, def_id, Status::NotSent).await.is_empty(), "one that waits for its retry holds them back");
    b.clock().advance(minute);
    let retry = b.claim_slice(def_id, Status::Failed, 100).await.remove(0);
    assert!(claim(b, def_id, Status::NotSent).await.is_empty(), "one that is being sent holds them back");
    b.settle_one(outcome(&retry, Next::Finish { status: Status::DeadLetter, reason: None, keep: true })).await;
    let next = b.claim_one(def_id).await;
    assert_eq!(next.id, behind, "a dead letter does not");
    b.settle_one(outcome(&next, Next::Wait { status: Status::NotSent, after: Duration::ZERO })).await;
    let next = b.claim_one(def_id).await;
    assert_eq!(next.id, behind, "one that was handed back keeps its place");
    b.settle_one(succeed(&next)).await;
    assert_eq!(claim(b, def_id, Status::NotSent).await, [last]);
}

pub async fn a_revived_notice_waits_for_the_claimed_one_of_its_key(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let first = b.add_new(ordered("key", 1)).await.id();
    b.add_new(ordered("key", 2)).await;
    let sending = b.claim_one(def_id).await;
    b.settle_one(outcome(&sending, Next::Finish { status: Status::DeadLetter, reason: None, keep: true })).await;
    let behind = b.claim_one(def_id).await;
    assert!(behind.id > first);
    assert_eq!(b.outbox().operator("alice").retry(first).await.unwrap(), VerbResult::Applied);
    assert!(claim(b, def_id, Status::Failed).await.is_empty(), "another one of its key is being sent");
    b.settle_one(succeed(&behind)).await;
    assert_eq!(claim(b, def_id, Status::Failed).await, [first]);
}

pub async fn a_key_orders_only_the_notices_of_its_definition(b: &dyn Backend) {
    let (one, two) = (b.define(NotifyDef::new("sync")).await, b.define(NotifyDef::new("other")).await);
    let first = b.add_new(ordered("key", 1)).await.id();
    let other = b.add_new(NewNotice::new("other", 1).unwrap().ordering_key("key")).await.id();
    assert_eq!(claim(b, two, Status::NotSent).await, [other]);
    assert_eq!(claim(b, one, Status::NotSent).await, [first]);
}

pub async fn ordering_keys_are_compared_byte_by_byte(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let mut ids = Vec::new();
    for key in ["a", "A", "a ", "ä", "a\u{308}", "1", "1.0", "'\"\\"] {
        ids.push(b.add_new(ordered(key, 1).unique_until_ended(key)).await.id());
    }
    assert_eq!(claim(b, def_id, Status::NotSent).await, ids);
}

pub async fn a_claim_by_ids_takes_the_first_of_each_key_and_all_without_a_key(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let mut ids = Vec::new();
    for n in 0..2 {
        ids.push(b.add_to("sync").await);
        ids.push(b.add_new(ordered("key", n)).await.id());
    }
    let what = ClaimWhat::Ids(ids.iter().rev().copied().collect());
    let claim = Claim { def_id, what, limit: 10, lease: LEASE, worker: "w".to_owned(), quota: None };
    let claimed = b.stores().send.claim(&claim).await.unwrap().notices;
    assert_eq!(claimed.iter().map(|notice| notice.id).collect::<Vec<_>>(), ids[..3]);
}

pub async fn the_next_notice_of_a_key_can_be_claimed_when_the_first_has_ended(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(b.add_new(ordered("key", n)).await.id());
    }
    b.add_new(ordered("later", 1).delay(LEASE)).await;
    b.add_new(ordered("not asked for", 1)).await;
    let by_keys = async || {
        let keys = ["key", "later", "unused"].map(str::to_owned).to_vec();
        let what = ClaimWhat::Keys(keys);
        let claim = Claim { def_id, what, limit: 10, lease: LEASE, worker: "w".to_owned(), quota: None };
        b.stores().send.claim(&claim).await.unwrap().notices
    };
    for id in ids {
        let claimed = by_keys().await;
        assert_eq!(claimed.iter().map(|notice| notice.id).collect::<Vec<_>>(), [id]);
        assert!(by_keys().await.is_empty(), "under way");
        b.settle_one(succeed(&claimed[0])).await;
    }
    assert!(by_keys().await.is_empty());
}

pub async fn of_sixteen_claimers_one_gets_the_notice_of_a_key(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    for n in 0..60 {
        b.add_new(ordered(["one", "two", "three"][n % 3], 1)).await;
    }
    let mut order = Vec::new();
    while order.len() < 60 {
        let claims = join_all((0..16).map(|_| b.claim_slice(def_id, Status::NotSent, 2))).await;
        let claimed: Vec<_> = claims.into_iter().flatten().collect();
        let mut keys: Vec<_> = claimed.iter().map(|notice| notice.ordering_key.clone()).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), claimed.len(), "each key once: {claimed:?}");
        for notice in claimed {
            b.settle_one(succeed(&notice)).await;
            order.push((notice.ordering_key, notice.id));
        }
    }
    for key in ["one", "two", "three"] {
        let ids: Vec<i64> = order.iter().filter(|(own, _)| own.as_deref() == Some(key)).map(|(_, id)| *id).collect();
        assert!(ids.len() == 20 && ids.is_sorted(), "{ids:?}");
    }
}

pub async fn a_dedupe_key_is_given_once_among_the_live_notices_of_a_definition(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    b.define(NotifyDef::new("other")).await;
    let first = b.add_new(deduped("key", 1)).await.id();
    b.add_new(deduped("another", 1)).await;
    b.add_new(NewNotice::new("other", 1).unwrap().unique_until_ended("key")).await;
    for n in 2..4 {
        let again = b.add(deduped("key", n)).await.unwrap();
        assert!(again.is_duplicate() && again.id() == first, "{again:?}");
    }
    let record = b.record(first).await;
    assert_eq!((record.param.as_str(), record.dedupe_key.as_deref()), ("1", Some("key")));
    let claimed = b.claim_slice(def_id, Status::NotSent, 100).await;
    assert_eq!(claimed.len(), 2);
    let claimed = claimed.into_iter().find(|notice| notice.id == first).unwrap();
    b.settle_one(fail(&claimed, Duration::ZERO)).await;
    assert!((b.add(deduped("key", 4)).await.unwrap().is_duplicate()), "a retry is live");
    let claimed = b.claim_slice(def_id, Status::Failed, 100).await.remove(0);
    b.settle_one(succeed(&claimed)).await;
    let next = b.add_new(deduped("key", 5)).await.id();
    assert!(next != first && b.record(first).await.dedupe_key.as_deref() == Some("key"));
}

pub async fn a_key_that_is_unique_until_claimed_is_free_after_the_claim(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let keyed = |n: i64| NewNotice::new("sync", n).unwrap().unique_until_claimed("key");
    let first = b.add_new(keyed(1)).await.id();
    let again = b.add(keyed(2)).await.unwrap();
    assert!(again.is_duplicate() && again.id() == first, "{again:?}");
    let sending = b.claim_one(def_id).await;
    // A change made while the notice is being sent needs another notice.
    let second = b.add_new(keyed(3)).await.id();
    let again = b.add_many(vec![keyed(4), NewNotice::new("sync", 5).unwrap()]).await.unwrap();
    assert!(again[0].is_duplicate() && again[0].id() == second && !again[1].is_duplicate(), "{again:?}");
    // The first notice returns to its retry, beside the one that has the key now.
    b.settle_one(fail(&sending, Duration::ZERO)).await;
    let again = b.add(keyed(6)).await.unwrap();
    assert!(again.is_duplicate() && again.id() == second, "{again:?}");
    let retry = b.claim_slice(def_id, Status::Failed, 100).await.remove(0);
    assert_eq!(retry.id, first);
    b.settle_one(outcome(&retry, Next::Finish { status: Status::DeadLetter, reason: None, keep: true })).await;
    let again = b.add(keyed(7)).await.unwrap();
    assert!(again.is_duplicate() && again.id() == second, "the end of the first frees no key: {again:?}");
    // The revived notice comes back without its key.
    assert_eq!(b.outbox().operator("alice").retry(first).await.unwrap(), VerbResult::Applied);
    let record = b.record(first).await;
    assert_eq!((record.dedupe_key.as_deref(), record.unique_key()), (Some("key"), None));
    assert_eq!(b.record(second).await.unique_key(), Some("key"));
    assert_eq!(claim(b, def_id, Status::NotSent).await.len(), 2);
    b.add_new(keyed(8)).await;
}

pub async fn duplicates_are_found_among_many_dedupe_keys_of_both_kinds(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let claimed = |key: &str| NewNotice::new("sync", 1).unwrap().unique_until_claimed(key);
    for key in ["a", "b"] {
        b.add_new(claimed(key)).await;
        b.add_new(deduped(&format!("{key} ended"), 1)).await;
    }
    assert_eq!(claim(b, def_id, Status::NotSent).await.len(), 4);
    let waits = b.add_new(claimed("b")).await.id();
    let notices = ["a", "b", "c", "a"].map(claimed).into_iter().chain(["a ended", "b"].map(|key| deduped(key, 1)));
    let added = b.add_many(notices.collect()).await.unwrap();
    let is_new: Vec<bool> = added.iter().map(|added| !added.is_duplicate()).collect();
    assert_eq!(is_new, [true, false, true, false, false, false], "{added:?}");
    assert_eq!((added[1].id(), added[3].id(), added[5].id()), (waits, added[0].id(), waits));
    assert_eq!(claim(b, def_id, Status::NotSent).await.len(), 3);
}

pub async fn of_rolled_back_work_no_dedupe_key_is_left(b: &dyn Backend) {
    b.define(NotifyDef::new("sync")).await;
    b.add_and_roll_back(deduped("key", 1)).await.unwrap();
    b.add_new(deduped("key", 2)).await;
}

pub async fn of_many_who_add_the_same_key_at_once_one_does(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let added = join_all((0..8).map(|n| b.add(deduped("key", n)))).await;
    let new = added.iter().filter(|added| added.as_ref().is_ok_and(|added| !added.is_duplicate())).count();
    let duplicates = added.iter().filter(|added| added.as_ref().is_ok_and(Receipt::is_duplicate)).count();
    assert_eq!((new, duplicates), (1, 7), "{added:?}");
    assert_eq!(claim(b, def_id, Status::NotSent).await.len(), 1);
}

pub async fn many_are_added_at_once_each_with_its_own_id_in_their_order(b: &dyn Backend) {
    let (one, two) = (b.define(NotifyDef::new("sync")).await, b.define(NotifyDef::new("other")).await);
    let notices = (0..4500).map(|n| {
        let name = if n % 3 == 0 { "other" } else { "sync" };
        let notice = NewNotice::new(name, serde_json::json!({ "n": n, "text": "ä'\"\\\u{1F600}" })).unwrap();
        match n % 5 {
            0 => notice.description("a text").trace_context("00-1").ordering_key(format!("key {n}")),
            1 => notice.delay(Duration::from_secs(60)),
            2 => notice.unique_until_ended(format!("key {n}")),
            _ => notice,
        }
    });
    let added = b.add_many(notices.collect()).await.unwrap();
    let ids: Vec<i64> = added.into_iter().map(|added| added.id()).collect();
    // Notices with a dedupe key are inserted last, in the order of their keys.
    let without = ids.iter().enumerate().filter(|(n, _)| n % 5 != 2).map(|(_, id)| *id);
    assert!(ids.len() == 4500 && without.is_sorted());
    let places: HashMap<i64, usize> = ids.iter().enumerate().map(|(n, id)| (*id, n)).collect();
    assert_eq!(places.len(), 4500);
    let mut seen = 0;
    for (def_id, is_of) in [(one, false), (two, true)] {
        let mut claimed = Vec::new();
        while claimed.len() < 3600 {
            let more = b.claim_slice(def_id, Status::NotSent, 1000).await;
            if more.is_empty() {
                break;
            }
            claimed.extend(more);
        }
        for notice in claimed {
            let n = places[&notice.id];
            assert_eq!((n.is_multiple_of(3), n % 5 == 1), (is_of, false), "{n}");
            assert_eq!(notice.param, format!(r#"{{"n":{n},"text":"ä'\"\\😀"}}"#));
            assert_eq!(notice.ordering_key, (n.is_multiple_of(5)).then(|| format!("key {n}")));
            assert_eq!(notice.trace_context.is_some(), n.is_multiple_of(5));
            seen += 1;
        }
    }
    assert_eq!(seen, 3600);
    let delayed = b.record(ids[1]).await;
    assert_eq!(delayed.next_call_time, Some(delayed.create_time + Duration::from_secs(60)));
    assert_eq!(b.record(ids[2]).await.dedupe_key.as_deref(), Some("key 2"));
}

pub async fn of_many_at_once_all_are_added_or_none(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let plain = |n: i64| NewNotice::new("sync", n).unwrap();
    for bad in [NewNotice::new("snyc", 1).unwrap(), plain(1).description("\0"), plain(1).unique_until_ended("")] {
        let error = b.add_many(vec![plain(1), plain(2), bad]).await.unwrap_err();
        assert!(matches!(error, Error::UnknownDefinition { .. } | Error::InvalidNotice { .. }), "{error}");
    }
    assert!(claim(b, def_id, Status::NotSent).await.is_empty());
    assert!(b.add_many(Vec::new()).await.unwrap().is_empty());
}

pub async fn duplicates_are_found_among_many_notices(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let there = b.add_new(deduped("there", 0)).await.id();
    // Notices with an ordering key keep their places, whatever their dedupe keys are.
    for ordering in [None, Some("key")] {
        let with = |notice: NewNotice| match ordering {
            Some(key) => notice.ordering_key(key),
            None => notice,
        };
        let tag = ordering.unwrap_or("none");
        let notices = vec![
            with(deduped(&format!("z {tag}"), 0)),
            with(NewNotice::new("sync", 1).unwrap()),
            with(deduped("there", 2)),
            with(deduped(&format!("a {tag}"), 3)),
            with(deduped(&format!("z {tag}"), 4)),
            with(NewNotice::new("sync", 5).unwrap()),
        ];
        let added = b.add_many(notices).await.unwrap();
        let is_new: Vec<bool> = added.iter().map(|added| !added.is_duplicate()).collect();
        assert_eq!(is_new, [true, true, false, true, false, true], "{added:?}");
        let ids: Vec<i64> = added.iter().map(|added| added.id()).collect();
        assert_eq!((ids[2], ids[4]), (there, ids[0]));
        for n in [0, 1, 3, 5] {
            assert_eq!(b.record(ids[n]).await.param, n.to_string());
        }
        if ordering.is_some() {
            assert!(ids[0] < ids[1] && ids[1] < ids[3] && ids[3] < ids[5], "{ids:?}");
        }
    }
    assert_eq!(
        claim(b, def_id, Status::NotSent).await.len(),
        6,
        "five without a key to wait for, and the first of a key"
    );
}

pub async fn many_large_notices_are_added_at_once(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let large = NewNotice::new("sync", "x".repeat(1_000_000)).unwrap();
    assert_eq!(b.add_many(vec![large; 20]).await.unwrap().len(), 20);
    assert_eq!(claim(b, def_id, Status::NotSent).await.len(), 20);
}
