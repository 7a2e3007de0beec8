//! Leases: their extension, their expiry, and the races around it.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify_core::store::{Lease, Look, NODE_RUNS, Node, RefusedConfig, SeenNode, Settle, Settled};
use solid_notify_core::{NewNotice, NotifyDef, Status};

use super::operating::dead;
use super::{Backend, LEASE, crash, fail, slice_claim, succeed};

const SECOND: Duration = Duration::from_secs(1);

pub async fn an_expired_lease_is_overdue_and_a_running_one_is_not(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    b.clock().advance(LEASE - Duration::from_millis(1));
    assert!(b.overdue(def_id).await.is_empty());
    assert_eq!(b.settle_one(crash(&claimed)).await, Settled::LostLease, "a running lease cannot be judged");
    b.clock().advance(Duration::from_millis(1));
    let overdue = b.overdue(def_id).await;
    assert_eq!(overdue.len(), 1);
    assert_eq!((overdue[0].id, overdue[0].fence, overdue[0].worker.as_str()), (id, 1, "worker-1"));
    assert_eq!(b.record(id).await.fence, 1, "looking claims nothing");
    assert_eq!(b.settle_one(crash(&overdue[0])).await, Settled::Stored);
    let record = b.record(id).await;
    assert_eq!((record.status, record.failures, record.crashes), (Status::Failed, 0, 1));
    assert_eq!(b.claim_slice(def_id, Status::Failed, 10).await.len(), 1, "it is sent again at once");
}

pub async fn a_rescue_loses_against_a_settle_that_was_faster(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let (ended, retried) = (b.add_to("sync").await, b.add_to("sync").await);
    let claimed = b.claim_slice(def_id, Status::NotSent, 2).await;
    b.clock().advance(LEASE);
    let overdue = b.overdue(def_id).await;
    // The sender lives after all, and settles between the rescuer's look and its settle.
    b.settle_one(succeed(&claimed[0])).await;
    b.settle_one(fail(&claimed[1], SECOND)).await;
    assert_eq!(b.settle_one(crash(&overdue[0])).await, Settled::Ended(Status::Succeeded));
    assert_eq!(b.settle_one(crash(&overdue[1])).await, Settled::LostLease);
    assert_eq!(b.record(ended).await.status, Status::Succeeded);
    let record = b.record(retried).await;
    assert_eq!((record.failures, record.crashes), (1, 0));
}

pub async fn a_late_settle_loses_against_a_rescue(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    b.clock().advance(LEASE);
    let overdue = b.overdue(def_id).await.remove(0);
    assert_eq!(b.settle_one(crash(&overdue)).await, Settled::Stored);
    assert_eq!(b.settle_one(succeed(&claimed)).await, Settled::LostLease);
    let record = b.record(id).await;
    assert_eq!((record.status, record.crashes), (Status::Failed, 1));
}

pub async fn a_late_outcome_of_a_dead_letter_is_not_stored_and_says_why(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    b.clock().advance(LEASE + Duration::from_millis(1));
    let overdue = b.overdue(def_id).await.remove(0);
    let last_try = Settle { overdue: true, ..dead(&overdue, None) };
    assert_eq!(b.settle_one(last_try).await, Settled::Stored);
    assert_eq!(b.settle_one(succeed(&claimed)).await, Settled::Ended(Status::DeadLetter));
    assert_eq!(b.record(id).await.status, Status::DeadLetter);
}

pub async fn a_rescue_loses_against_an_extension(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    b.clock().advance(LEASE);
    let overdue = b.overdue(def_id).await.remove(0);
    b.stores().send.extend(&[Lease { id, fence: claimed.fence, lease: LEASE }]).await.unwrap();
    assert_eq!(b.settle_one(crash(&overdue)).await, Settled::LostLease);
    assert_eq!(b.record(id).await.next_call_time, Some(b.clock().now() + LEASE));
    assert_eq!(b.settle_one(succeed(&claimed)).await, Settled::Stored);
}

pub async fn lease_does_not_grow_with_the_batch(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let (alone, batch) = (b.define(NotifyDef::new("alone")).await, 300);
    b.add_to("alone").await;
    let notices = (0..batch).map(|n| NewNotice::new("sync", n).unwrap()).collect();
    b.add_many(notices).await.unwrap();
    let mut claimed = b.claim_slice(def_id, Status::NotSent, 300).await;
    assert_eq!(claimed.len(), 300);
    claimed.extend(b.claim_slice(alone, Status::NotSent, 1).await);
    for claimed in [&claimed[0], &claimed[299], &claimed[300]] {
        assert_eq!(b.record(claimed.id).await.next_call_time, Some(b.clock().now() + LEASE));
    }
    b.clock().advance(LEASE);
    let look = Look::Overdue { def_id, status: Status::Sending };
    assert_eq!(b.stores().send.look(&look, 500).await.unwrap().len(), 300, "the whole batch, at one time");
}

pub async fn of_two_rescuers_one_wins(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    b.claim_one(def_id).await;
    b.clock().advance(LEASE);
    let one = b.overdue(def_id).await.remove(0);
    let two = b.overdue(def_id).await.remove(0);
    assert_eq!(b.settle_one(crash(&one)).await, Settled::Stored);
    assert_eq!(b.settle_one(crash(&two)).await, Settled::LostLease, "otherwise each would count the crash");
    assert_eq!(b.record(id).await.crashes, 1);
}

pub async fn only_a_held_lease_can_be_extended(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    b.clock().advance(30 * SECOND);
    b.stores().send.extend(&[Lease { id, fence: claimed.fence, lease: LEASE }]).await.unwrap();
    let extended = b.clock().now() + LEASE;
    assert_eq!(b.record(id).await.next_call_time, Some(extended));
    b.clock().advance(SECOND);
    b.stores().send.extend(&[Lease { id, fence: claimed.fence + 1, lease: LEASE }]).await.unwrap();
    assert_eq!(b.record(id).await.next_call_time, Some(extended), "another attempt's lease");
    b.settle_one(fail(&claimed, 5 * SECOND)).await;
    let retry = b.record(id).await.next_call_time;
    b.stores().send.extend(&[Lease { id, fence: claimed.fence, lease: LEASE }]).await.unwrap();
    assert_eq!(b.record(id).await.next_call_time, retry, "a retry time is no lease");
}

pub async fn worker_reads_the_claims_that_the_store_counts_as_its_own(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    for _ in 0..4 {
        b.add_to("sync").await;
    }
    let mine = b.claim_slice(def_id, Status::NotSent, 2).await;
    let mut other = slice_claim(def_id, Status::NotSent, 1);
    other.worker = "worker-2".to_owned();
    b.stores().send.claim(&other).await.unwrap();
    b.settle_one(fail(&mine[0], SECOND)).await;
    let claimed = b.stores().send.look(&Look::ClaimedBy { worker: "worker-1".to_owned() }, 10).await.unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!((claimed[0].id, claimed[0].fence), (mine[1].id, 1));
}

pub async fn any_number_of_leases_is_extended_at_once(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let (first, last) = (b.add_to("sync").await, b.add_to("sync").await);
    b.claim_slice(def_id, Status::NotSent, 2).await;
    b.clock().advance(30 * SECOND);
    let lease = |id| Lease { id, fence: 1, lease: LEASE };
    let mut leases: Vec<Lease> = (1_000_000..1_002_500).map(lease).collect();
    leases.insert(0, lease(first));
    leases.push(lease(last));
    b.stores().send.extend(&leases).await.unwrap();
    for id in [first, last] {
        assert_eq!(b.record(id).await.next_call_time, Some(b.clock().now() + LEASE));
    }
    b.stores().send.extend(&[]).await.unwrap();
}

pub async fn a_node_that_beats_hears_the_time_of_the_store(b: &dyn Backend) {
    let node = Node { clock_offset_ms: -5, ..Node::new("node-1", vec!["sync".to_owned()]) };
    let view = b.stores().send.beat(&node).await.unwrap();
    assert_eq!(view.now, b.clock().now());
    assert!(view.handlers.contains("sync"));
    b.clock().advance(SECOND);
    assert_eq!(b.stores().send.beat(&node).await.unwrap().now, b.clock().now());
}

pub async fn node_is_listed_with_what_it_last_reported(b: &dyn Backend) {
    let refused = vec![RefusedConfig::new(7, "url: missing \"start_time\":4")];
    let handlers = vec!["mail".to_owned(), "sync".to_owned()];
    let problems = vec!["the sweep hangs: \"due\"".to_owned(), "an attempt of sync goes on".to_owned()];
    let (version, param_keys) = ("0.1.0".to_owned(), vec!["2025".to_owned(), "2026".to_owned()]);
    let first = Node { version, refused, problems, param_keys, ..Node::new("node-1", handlers) };
    b.stores().send.beat(&first).await.unwrap();
    let start_time = b.clock().now();
    b.clock().advance(SECOND);
    b.stores().send.beat(&first).await.unwrap();
    assert_eq!(b.alice().nodes().await.unwrap(), [SeenNode::new(first.clone(), start_time, b.clock().now())]);
    b.clock().advance(SECOND);
    let (refused, problems, param_keys) = (Vec::new(), Vec::new(), Vec::new());
    let second = Node { clock_offset_ms: -5, refused, problems, param_keys, ..first };
    b.stores().send.beat(&second).await.unwrap();
    let seen = [SeenNode::new(second, start_time, b.clock().now())];
    assert_eq!(b.alice().nodes().await.unwrap(), seen);
    b.clock().advance(NODE_RUNS - Duration::from_millis(1));
    assert_eq!(b.alice().nodes().await.unwrap(), seen, "two beats are not over");
    b.clock().advance(Duration::from_millis(1));
    assert_eq!(b.alice().nodes().await.unwrap(), []);
}

pub async fn stopped_node_is_not_listed_and_its_handlers_live_on_for_a_while(b: &dyn Backend) {
    let running = Node::new("node-1", vec!["sync".to_owned()]);
    b.stores().send.beat(&running).await.unwrap();
    assert_eq!(b.alice().nodes().await.unwrap().len(), 1);
    let view = b.stores().send.beat(&Node { stopped: true, ..running }).await.unwrap();
    assert!(view.handlers.contains("sync"), "a restart raises no alarm");
    assert_eq!(b.alice().nodes().await.unwrap(), []);
    b.clock().advance(180 * SECOND);
    let view = b.stores().send.beat(&Node::new("node-2", Vec::new())).await.unwrap();
    assert!(view.handlers.is_empty());
}

pub async fn node_lives_near_the_time_at_which_it_was_seen(b: &dyn Backend) {
    let node = |id: &str| {
        let (id, handlers) = (id.to_owned(), vec![format!("of-{id}")]);
        Node::new(id, handlers)
    };
    let now = b.clock().now();
    let minutes = |minutes: u32| now + minutes * 60 * SECOND;
    for (id, seen) in [("wrong", minutes(60 * 24 * 365)), ("dead", minutes(10)), ("early", now)] {
        b.clock().set(seen);
        b.stores().send.beat(&node(id)).await.unwrap();
    }
    b.clock().set(minutes(2));
    let view = b.stores().send.beat(&node("new")).await.unwrap();
    assert_eq!(view.handlers.into_iter().collect::<Vec<_>>(), ["of-early", "of-new"], "the others are of a wrong time");
    let listed = b.outbox().engine().stores().browse.nodes(180 * SECOND).await.unwrap();
    assert_eq!(listed.iter().map(|seen| seen.id.as_str()).collect::<Vec<_>>(), ["early", "new"]);
}
