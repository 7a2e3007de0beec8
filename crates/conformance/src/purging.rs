//! Purging old rows.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify_core::notice::{AttemptRecord, ClaimedNotice, append_attempt};
use solid_notify_core::store::{Purge, Purged};
use solid_notify_core::transition::Next;
use solid_notify_core::{ErrorClass, NotifyDef, Status};

use super::{Backend, outcome, succeed};

const DAY: Duration = Duration::from_secs(86_400);

fn history(def_id: i64, status: Status, older_than: Duration, limit: usize) -> Purge {
    Purge::History { def_id, status, older_than, limit }
}

pub async fn only_what_is_old_enough_is_purged_in_steps(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(b.add_to("sync").await);
        let claimed = b.claim_one(def_id).await;
        b.settle_one(succeed(&claimed)).await;
        b.clock().advance(Duration::from_secs(1));
    }
    let young = b.add_to("sync").await;
    b.clock().advance(DAY);
    let claimed = b.claim_one(def_id).await;
    b.settle_one(succeed(&claimed)).await;
    let step = history(def_id, Status::Succeeded, DAY, 3);
    let mut first = b.purge(&step).await;
    first.sort_unstable();
    assert_eq!(first, ids[..3], "the oldest first");
    assert_eq!(b.purge(&step).await.len(), 2);
    assert!(b.purge(&step).await.is_empty());
    assert!(b.outbox().find(ids[0]).await.unwrap().is_none());
    assert!(b.outbox().find(young).await.unwrap().is_some());
}

pub async fn a_purge_takes_only_its_definition_and_status(b: &dyn Backend) {
    let one = b.define(NotifyDef::new("one")).await;
    let two = b.define(NotifyDef::new("two")).await;
    for name in ["one", "one", "two"] {
        b.add_to(name).await;
    }
    let of_one = b.claim_slice(one, Status::NotSent, 2).await;
    let of_two = b.claim_one(two).await;
    b.settle_one(succeed(&of_one[0])).await;
    let dead = Next::Finish { status: Status::DeadLetter, reason: None, keep: true };
    b.settle_one(outcome(&of_one[1], dead)).await;
    b.settle_one(succeed(&of_two)).await;
    let live = b.add_to("one").await;
    let purged = b.purge(&history(one, Status::Succeeded, Duration::ZERO, 10)).await;
    assert_eq!(purged, [of_one[0].id]);
    for id in [of_one[1].id, of_two.id, live] {
        assert!(b.outbox().find(id).await.unwrap().is_some());
    }
}

pub async fn a_purge_returns_what_the_log_needs_of_an_undelivered_notice(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    for status in [Status::DeadLetter, Status::Cancelled, Status::Succeeded] {
        let id = b.add_to("sync").await;
        let claimed = b.claim_one(def_id).await;
        let mut settle = outcome(&claimed, Next::Finish { status, reason: Some("no \"ü\" 😀".to_owned()), keep: true });
        (settle.transition.failures, settle.transition.crashes) = (2, 1);
        settle.last_class = Some("network".to_owned());
        for (fence, message) in [(1, "first"), (2, "last \"ü\" 😀")] {
            let attempt = ClaimedNotice { fence, ..claimed.clone() };
            let record = AttemptRecord::new(&attempt, Duration::ZERO, ErrorClass::Network, message);
            settle.errors = Some(append_attempt(settle.errors.as_deref(), record));
        }
        b.settle_one(settle).await;
        let purged = b.stores().send.purge(&history(def_id, status, Duration::ZERO, 10)).await.unwrap();
        let expected = Purged {
            id,
            tries: 3,
            class: Some("network".to_owned()),
            error: (status != Status::Succeeded).then(|| "last \"ü\" 😀".to_owned()),
            reason: Some("no \"ü\" 😀".to_owned()),
        };
        assert_eq!(purged, [expected]);
    }
}

pub async fn a_deleted_definition_is_purged_when_nothing_refers_to_it(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    b.add_to("sync").await;
    let purge = Purge::Definition { def_id, older_than: DAY };
    b.clock().advance(2 * DAY);
    assert!(b.purge(&purge).await.is_empty(), "it is not deleted");
    let seen = b.definition("sync").await;
    b.outbox().delete(&seen).await.unwrap();
    // No notice refers to this one.
    let unused = b.define(NotifyDef::new("unused")).await;
    b.outbox().delete(&b.definition("unused").await).await.unwrap();
    let purge_unused = Purge::Definition { def_id: unused, older_than: DAY };
    for purge in [&purge, &purge_unused] {
        assert!(b.purge(purge).await.is_empty(), "too early");
    }
    b.clock().advance(DAY);
    assert_eq!(b.purge(&purge_unused).await, [unused]);
    assert!(b.purge(&purge).await.is_empty(), "a live notice refers to it");
    let claimed = b.claim_one(def_id).await;
    b.settle_one(succeed(&claimed)).await;
    assert!(b.purge(&purge).await.is_empty(), "an ended notice refers to it");
    b.purge(&history(def_id, Status::Succeeded, Duration::ZERO, 10)).await;
    assert_eq!(b.purge(&purge).await, [def_id]);
    assert!(b.outbox().definitions().await.unwrap().is_empty());
}
