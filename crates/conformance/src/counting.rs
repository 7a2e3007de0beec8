//! The snapshot of counts.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use futures_util::future::join_all;
use solid_notify_core::store::{DefinitionCounts, Purge, RECENT};
use solid_notify_core::transition::Next;
use solid_notify_core::{NewNotice, NotifyDef, Status};

use super::{Backend, fail, outcome, succeed};

/// Long, because a count that takes more than a twentieth of it delays the next one.
const EVERY: Duration = Duration::from_secs(600);

impl dyn Backend + '_ {
    async fn refresh(&self, def_id: i64) -> bool {
        self.outbox().engine().stores().browse.refresh_counts(def_id, EVERY).await.expect("refresh_counts")
    }

    async fn counts_of(&self, def_id: i64) -> DefinitionCounts {
        let all = self.outbox().operator("test").snapshot().await.expect("snapshot");
        all.into_iter().find(|row| row.def_id == def_id).expect("a row of each definition")
    }
}

pub async fn the_snapshot_says_how_many_there_are_of_each_state(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let other = b.define(NotifyDef::new("other")).await;
    for _ in 0..10 {
        b.add_to("sync").await;
    }
    b.add_to("other").await;
    let claimed = b.claim_slice(def_id, Status::NotSent, 9).await;
    b.settle_one(succeed(&claimed[0])).await;
    b.settle_one(succeed(&claimed[1])).await;
    let dead = Next::Finish { status: Status::DeadLetter, reason: None, keep: true };
    b.settle_one(outcome(&claimed[2], dead)).await;
    let cancelled = Next::Finish { status: Status::Cancelled, reason: None, keep: true };
    b.settle_one(outcome(&claimed[3], cancelled)).await;
    b.settle_one(fail(&claimed[4], Duration::from_secs(5))).await;
    b.settle_one(fail(&claimed[5], Duration::from_secs(3600))).await;
    let awaits = Next::Wait { status: Status::AwaitingAck, after: Duration::from_secs(3600) };
    b.settle_one(outcome(&claimed[6], awaits)).await;
    // Two are being sent, one was never claimed, and one is delayed.
    b.add_new(NewNotice::new("sync", 1).unwrap().delay(Duration::from_secs(3600))).await;
    b.clock().advance(Duration::from_secs(7));
    assert!(b.refresh(def_id).await);
    let row = b.counts_of(def_id).await;
    let (counts, _) = row.taken.clone().unwrap();
    assert_eq!((counts.not_sent, counts.failed, counts.sending, counts.awaiting_ack), (2, 2, 2, 1), "{counts:?}");
    assert_eq!((counts.dead_letters, counts.cancelled, counts.recently_succeeded), (1, 1, 2), "{counts:?}");
    assert_eq!(counts.live(), 7);
    assert_eq!(row.oldest_due_for(), Duration::from_secs(7));
    assert_eq!((row.definition.as_str(), row.age, row.due_in), ("sync", Duration::ZERO, EVERY));
    assert_eq!(b.counts_of(other).await.taken, None, "another definition was not counted");
    // A notice that is due later is not late.
    b.settle_one(succeed(&b.claim_slice(def_id, Status::NotSent, 9).await[0])).await;
    b.settle_one(succeed(&b.claim_slice(def_id, Status::Failed, 9).await[0])).await;
    b.clock().advance(EVERY);
    assert!(b.refresh(def_id).await);
    let row = b.counts_of(def_id).await;
    let (counts, _) = row.taken.clone().unwrap();
    assert_eq!((counts.not_sent, counts.failed, counts.oldest_due), (1, 1, None));
    assert_eq!(row.oldest_due_for(), Duration::ZERO);
}

pub async fn a_definition_that_was_never_counted_says_so(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let row = b.counts_of(def_id).await;
    assert_eq!((row.taken, row.age, row.due_in), (None, Duration::ZERO, Duration::ZERO));
}

pub async fn definition_is_counted_again_only_when_it_is_due(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let count = async || b.counts_of(def_id).await.taken.unwrap().0.not_sent;
    assert!(b.refresh(def_id).await);
    b.add_to("sync").await;
    assert!(!b.refresh(def_id).await, "it was counted a moment ago");
    b.clock().advance(EVERY - Duration::from_millis(1));
    assert!(!b.refresh(def_id).await, "a millisecond too early");
    let row = b.counts_of(def_id).await;
    assert_eq!((row.age, row.due_in), (EVERY - Duration::from_millis(1), Duration::from_millis(1)));
    assert_eq!(count().await, 0);
    b.clock().advance(Duration::from_millis(1));
    assert!(b.refresh(def_id).await);
    assert_eq!(count().await, 1);
}

pub async fn definition_is_counted_before_it_is_due_on_demand(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    assert!(b.refresh(def_id).await);
    b.add_to("sync").await;
    assert!(!b.refresh(def_id).await);
    let now = b.outbox().engine().stores().browse.refresh_counts(def_id, Duration::ZERO).await.unwrap();
    assert_eq!((now, b.counts_of(def_id).await.taken.map(|(counts, _)| counts.live())), (true, Some(1)));
    let fresh = b.define(NotifyDef::new("fresh")).await;
    assert!(b.outbox().engine().stores().browse.refresh_counts(fresh, Duration::ZERO).await.unwrap());
    assert!(b.counts_of(fresh).await.taken.is_some());
}

pub async fn of_sixteen_nodes_one_counts(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    for round in ["the first time", "the next time"] {
        let counted = join_all((0..16).map(|_| b.refresh(def_id))).await;
        assert_eq!(counted.into_iter().filter(|counted| *counted).count(), 1, "{round}");
        b.clock().advance(EVERY);
    }
}

pub async fn only_the_successes_of_the_last_five_minutes_are_counted(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    for _ in 0..2 {
        b.add_to("sync").await;
        let claimed = b.claim_one(def_id).await;
        b.settle_one(succeed(&claimed)).await;
        b.clock().advance(RECENT - Duration::from_secs(1));
    }
    b.refresh(def_id).await;
    assert_eq!(b.counts_of(def_id).await.taken.unwrap().0.recently_succeeded, 1);
}

pub async fn a_definition_that_is_gone_is_not_in_the_snapshot(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    b.refresh(def_id).await;
    b.outbox().delete(&b.definition("sync").await).await.unwrap();
    assert_eq!(b.counts_of(def_id).await.definition, b.outbox().definitions().await.unwrap()[0].row.name);
    b.clock().advance(Duration::from_secs(60));
    b.purge(&Purge::Definition { def_id, older_than: Duration::ZERO }).await;
    assert!(b.outbox().operator("test").snapshot().await.unwrap().is_empty());
}
