//! Notices for targets and alarms on their way to other slots: in steps of a limited size, and without other definitions waiting for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use solid_notify::{NewNotice, NotifyDef, Status, add_notice};
use solid_notify_conformance::outcome;
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{Claim, ClaimWhat, NamedTarget, Settle, Settled};
use solid_notify_core::transition::Next;
use solid_notify_redis::RedisOutbox;
use test_support::redis::OwnPrefix;
use test_support::sending::eventually;
use test_support::{RedisServer, on_each_redis};

use super::target_parts::Disturbed;

on_each_redis!(
    large_notices_are_forwarded_in_steps,
    notices_on_their_way_hold_up_neither_settles_nor_looks,
    arrival_that_is_repeated_gives_the_same_answers
);

/// The claimed notices of a definition.
async fn claim(outbox: &RedisOutbox, def_id: i64) -> Vec<ClaimedNotice> {
    let (what, lease) = (ClaimWhat::Slice(Status::NotSent), Duration::from_secs(60));
    let claim = Claim { def_id, what, limit: 500, lease, worker: "worker-1".to_owned(), quota: None };
    outbox.engine().stores().send.claim(&claim).await.unwrap().notices
}

/// Adds notices of a definition with a target, and claims them. Returns their outcomes, which pass them on, and the target.
async fn passed_on(outbox: &RedisOutbox, params: Vec<String>) -> (Vec<Settle>, i64) {
    for def in [NotifyDef::new("order"), NotifyDef::target("order", "erp")] {
        outbox.define_if_missing(def).await.unwrap();
    }
    let rows = outbox.definitions().await.unwrap();
    let id = |name: &str| rows.iter().find(|state| state.row.name == name).unwrap().row.id;
    let (order, target) = (id("order"), id("order/erp"));
    for param in params {
        add_notice(&mut outbox.clone(), "order", param).await.unwrap();
    }
    let of = |claimed: &ClaimedNotice| {
        let next = Next::Finish { status: Status::Succeeded, reason: Some("passed on".to_owned()), keep: true };
        Settle { pass_to: vec![NamedTarget::new(target, "erp")], ..outcome(claimed, next) }
    };
    (claim(outbox, order).await.iter().map(of).collect(), target)
}

async fn large_notices_are_forwarded_in_steps<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let outbox = own.outbox_with_calls(move |call| count.store(call, Ordering::SeqCst)).await;
    let (settles, target) = passed_on(&outbox, vec!["x".repeat(250_000); 10]).await;
    let before = calls.load(Ordering::SeqCst);
    assert_eq!(outbox.engine().stores().send.settle(&settles).await.unwrap(), vec![Settled::Stored; 10]);
    // Four of them in a step of three calls: a look, an insert, an end. The settle is one more, and the look that finds nothing.
    let all = 1 + 3 * 3 + 1;
    let made = || calls.load(Ordering::SeqCst) - before;
    eventually("the last call", async || made() >= all).await;
    let other = own.outbox().await;
    assert!(!other.engine().stores().send.due(true).await.unwrap().is_forwarding);
    assert_eq!((claim(&other, target).await.len(), made()), (10, all));
    own.close();
}

/// What takes long to arrive is sent on beside a settle, and beside a look of another node.
async fn notices_on_their_way_hold_up_neither_settles_nor_looks<R: RedisServer>() {
    const COUNT: usize = 100;
    let own = OwnPrefix::of::<R>();
    let (outbox, other) = (own.outbox().await, own.outbox().await);
    let (settles, target) = passed_on(&outbox, vec!["x".repeat(250_000); COUNT]).await;
    let is_forwarding =
        async |outbox: &RedisOutbox| outbox.engine().stores().send.due(true).await.unwrap().is_forwarding;
    assert_eq!(outbox.engine().stores().send.settle(&settles).await.unwrap(), vec![Settled::Stored; COUNT]);
    let after_settle = claim(&outbox, target).await.len();
    assert!(is_forwarding(&other).await);
    let after_look = after_settle + claim(&other, target).await.len();
    assert!(after_look < COUNT, "{after_settle} and {after_look} have arrived, so these calls waited for all of them");
    eventually("all have arrived", async || !is_forwarding(&outbox).await).await;
    assert_eq!(after_look + claim(&outbox, target).await.len(), COUNT);
    own.close();
}

/// Another node finds what has arrived still in the list: it sends it again, before this one has deleted it.
async fn arrival_that_is_repeated_gives_the_same_answers<R: RedisServer>() {
    // The settle, the part, the look for what to forward, the insert for the target.
    const BEFORE_THE_END: usize = 4;
    let own = OwnPrefix::of::<R>();
    let (disturbed, other) = (Disturbed::new(&own).await, own.outbox().await);
    let outbox = &disturbed.outbox;
    let (_, target) = passed_on(outbox, Vec::new()).await;
    let order = outbox.definitions().await.unwrap().iter().find(|state| state.row.name == "order").unwrap().row.id;
    let keyed = |name: &str| NewNotice::new(name, 1).unwrap().unique_until_ended("order 7");
    let earlier = keyed("order/erp").add(&mut outbox.clone()).await.unwrap().id();
    keyed("order").add(&mut outbox.clone()).await.unwrap();
    let claimed = claim(outbox, order).await.remove(0);
    let reason = Some("passed on to the target erp".to_owned());
    let next = Next::Finish { status: Status::Succeeded, reason, keep: true };
    let settle = Settle { pass_to: vec![NamedTarget::new(target, "erp")], ..outcome(&claimed, next) };
    let repeat = move || {
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { other.engine().stores().send.due(true).await.unwrap() })
        });
        assert!(thread.join().unwrap().is_forwarding, "it was still in the list");
    };
    disturbed.plan(BEFORE_THE_END, Box::new(repeat));
    let settled = outbox.engine().stores().send.settle(&[settle]).await.unwrap();
    let kept = format!("passed on to no target; `erp` still has notice {earlier} of this dedupe key");
    assert_eq!(settled, [Settled::PassedOn(kept)]);
    let got: Vec<i64> = claim(outbox, target).await.iter().map(|notice| notice.id).collect();
    assert_eq!(got, [earlier]);
    own.close();
}
