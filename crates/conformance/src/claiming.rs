//! Claims, and the due times that tell when the next claim can succeed.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use solid_notify_core::store::{Claim, ClaimWhat, DueSlice, LARGE_PARAM};
use solid_notify_core::{NewNotice, NotifyDef, Status};

use super::{Backend, LEASE, fail, slice_claim};

pub async fn a_claim_takes_the_longest_due_up_to_its_limit(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(b.add_to("sync").await);
        b.clock().advance(Duration::from_millis(10));
    }
    let first = b.claim_slice(def_id, Status::NotSent, 3).await;
    assert_eq!(first.iter().map(|notice| notice.id).collect::<Vec<_>>(), ids[..3]);
    let rest = b.claim_slice(def_id, Status::NotSent, 3).await;
    assert_eq!(rest.iter().map(|notice| notice.id).collect::<Vec<_>>(), ids[3..]);
    assert!(b.claim_slice(def_id, Status::NotSent, 3).await.is_empty());
}

/// So a claim of hundreds takes a limited amount of memory.
pub async fn a_large_parameter_is_left_in_the_store_until_it_is_read(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    // Two quotes; the characters have two bytes each.
    let text = |bytes: usize| "ä".repeat((bytes - 2) / 2);
    let add = async |bytes| b.add_new(NewNotice::new("sync", text(bytes)).unwrap()).await.id();
    let (large, small) = (add(LARGE_PARAM + 2).await, add(LARGE_PARAM).await);
    let claimed = b.claim_slice(def_id, Status::NotSent, 10).await;
    let of = |id| claimed.iter().find(|claimed| claimed.id == id).unwrap();
    let (large, small) = (of(large), of(small));
    assert!(!small.param_is_left && small.param == format!("\"{}\"", text(LARGE_PARAM)));
    assert!(large.param_is_left && large.param.is_empty());
    let send = &b.stores().send;
    assert_eq!(send.param_bytes(large).await.unwrap(), Some(LARGE_PARAM + 2));
    assert_eq!(send.param(large).await.unwrap(), Some(format!("\"{}\"", text(LARGE_PARAM + 2))));
    b.clock().advance(LEASE * 2);
    assert!(b.overdue(def_id).await.iter().all(|overdue| overdue.param_is_left == (overdue.id == large.id)));
    // The claim is over.
    b.settle_one(fail(large, Duration::ZERO)).await;
    let again = b.claim_slice(def_id, Status::Failed, 10).await;
    assert!(again[0].param_is_left && send.param(&again[0]).await.unwrap().is_some());
    assert_eq!((send.param_bytes(large).await.unwrap(), send.param(large).await.unwrap()), (None, None));
}

pub async fn claim_takes_only_its_definition_and_slice(b: &dyn Backend) {
    let one = b.define(NotifyDef::new("one")).await;
    let two = b.define(NotifyDef::new("two")).await;
    b.add_to("one").await;
    let claimed = b.claim_one(one).await;
    b.settle_one(fail(&claimed, Duration::ZERO)).await;
    let fresh = b.add_to("one").await;
    b.add_to("two").await;
    let fresh_slice = b.claim_slice(one, Status::NotSent, 10).await;
    assert_eq!(fresh_slice.iter().map(|notice| notice.id).collect::<Vec<_>>(), [fresh]);
    let retries = b.claim_slice(one, Status::Failed, 10).await;
    assert_eq!(retries.iter().map(|notice| notice.id).collect::<Vec<_>>(), [claimed.id]);
    assert_eq!(b.claim_slice(two, Status::NotSent, 10).await.len(), 1);
}

pub async fn a_claim_by_ids_takes_only_what_exists_was_never_attempted_and_is_due(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let other_def = b.define(NotifyDef::new("other")).await;
    let retried = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    b.settle_one(fail(&claimed, Duration::ZERO)).await;
    let sending = b.add_to("sync").await;
    b.claim_one(def_id).await;
    let fresh = b.add_to("sync").await;
    let not_wanted = b.add_to("sync").await;
    let of_another = b.add_to("other").await;
    let later = NewNotice::new("sync", 1).unwrap().delay(Duration::from_secs(1));
    let later = b.add_new(later).await.id();
    let wanted = vec![retried, sending, fresh, of_another, later, 1_000_000];
    let claim = Claim {
        def_id,
        what: ClaimWhat::Ids(wanted.clone()),
        limit: wanted.len(),
        lease: LEASE,
        worker: "w".to_owned(),
        quota: None,
    };
    let claimed = b.stores().send.claim(&claim).await.unwrap().notices;
    assert_eq!(claimed.iter().map(|notice| notice.id).collect::<Vec<_>>(), [fresh]);
    assert_eq!(b.record(not_wanted).await.status, Status::NotSent);
    assert_eq!(b.claim_slice(other_def, Status::NotSent, 10).await.len(), 1);
}

pub async fn a_claimed_notice_is_sending_with_a_lease_and_one_attempt_more(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    b.clock().advance(Duration::from_secs(7));
    let claimed = b.claim_one(def_id).await;
    assert_eq!((claimed.status, claimed.fence, claimed.worker.as_str()), (Status::Sending, 1, "worker-1"));
    assert_eq!(claimed.last_call_time, b.clock().now());
    assert_eq!((claimed.last_call_time - claimed.create_time).to_std().unwrap(), Duration::from_secs(7));
    let record = b.record(id).await;
    assert_eq!((record.status, record.fence, record.worker.as_deref()), (Status::Sending, 1, Some("worker-1")));
    assert_eq!(record.next_call_time, Some(b.clock().now() + LEASE));
    assert_eq!(record.last_call_time, Some(b.clock().now()));
    assert_eq!(record.idempotency_key().split('-').next(), Some(id.to_string().as_str()));
    assert_eq!((record.failures, record.crashes), (0, 0), "a claim counts no try");
}

pub async fn a_notice_whose_process_died_twice_is_claimed_apart_from_the_others(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let mut ids = Vec::new();
    for crashes in 0..4 {
        ids.push(b.add_to("sync").await);
        let claimed = b.claim_one(def_id).await;
        let mut settle = fail(&claimed, Duration::ZERO);
        settle.transition.crashes = crashes;
        b.settle_one(settle).await;
    }
    let mut claim = slice_claim(def_id, Status::Failed, 10);
    let ordinary = b.stores().send.claim(&claim).await.unwrap().notices;
    assert_eq!(ordinary.iter().map(|notice| notice.id).collect::<Vec<_>>(), ids[..2]);
    claim.what = ClaimWhat::CrashLooping;
    claim.limit = 1;
    for id in &ids[2..] {
        let crash_looping = b.stores().send.claim(&claim).await.unwrap().notices;
        assert_eq!(crash_looping.iter().map(|notice| notice.id).collect::<Vec<_>>(), [*id]);
    }
    assert!(b.stores().send.claim(&claim).await.unwrap().notices.is_empty());
}

pub async fn sixteen_claimers_get_each_attempt_once(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let mut ids = HashSet::new();
    for _ in 0..500 {
        ids.insert(b.add_to("sync").await);
    }
    let claimers = (0..16).map(|n| async move {
        let mut got = Vec::new();
        let mut idle = 0;
        // A claim skips rows that another one is claiming, so one empty result does not mean the end.
        while idle < 3 {
            let mut claim = slice_claim(def_id, Status::NotSent, 7);
            claim.worker = format!("worker-{n}");
            let claimed = b.stores().send.claim(&claim).await.unwrap().notices;
            idle = if claimed.is_empty() { idle + 1 } else { 0 };
            got.extend(claimed.into_iter().map(|notice| (notice.id, notice.fence)));
        }
        got
    });
    let mut got: Vec<(i64, i64)> = join_all(claimers).await.into_iter().flatten().collect();
    loop {
        let rest = b.claim_slice(def_id, Status::NotSent, 100).await;
        if rest.is_empty() {
            break;
        }
        got.extend(rest.into_iter().map(|notice| (notice.id, notice.fence)));
    }
    let attempts: HashSet<(i64, i64)> = got.iter().copied().collect();
    assert_eq!(attempts.len(), got.len(), "an attempt was handed out twice");
    assert!(got.iter().all(|(_, fence)| *fence == 1));
    assert_eq!(got.into_iter().map(|(id, _)| id).collect::<HashSet<_>>(), ids);
}

pub async fn earliest_due_time_is_returned_per_definition_and_slice(b: &dyn Backend) {
    let one = b.define(NotifyDef::new("one")).await;
    let two = b.define(NotifyDef::new("two")).await;
    b.define(NotifyDef::new("idle")).await;
    assert!(b.stores().send.due(true).await.unwrap().slices.is_empty());
    let second = Duration::from_secs(1);
    b.add_to("one").await;
    let claimed = b.claim_one(one).await;
    b.settle_one(fail(&claimed, 5 * second)).await;
    b.add_to("one").await;
    b.claim_one(one).await;
    b.add_new(NewNotice::new("one", 1).unwrap().delay(9 * second)).await;
    b.add_new(NewNotice::new("one", 1).unwrap().delay(3 * second)).await;
    b.add_to("two").await;
    b.clock().advance(second);
    let mut slices = b.stores().send.due(true).await.unwrap().slices;
    slices.sort_by_key(|slice| (slice.def_id, slice.status));
    let zero = Duration::ZERO;
    let slice = |def_id, status, after, late| DueSlice { def_id, status, after, late };
    let mut expected = [
        slice(one, Status::NotSent, 2 * second, zero),
        slice(one, Status::Failed, 4 * second, zero),
        slice(one, Status::Sending, LEASE - second, zero),
        slice(two, Status::NotSent, zero, second),
    ];
    expected.sort_by_key(|slice| (slice.def_id, slice.status));
    assert_eq!(slices, expected);
}
