//! Keys and transactions that overlap: what order means then, and who waits for whom.
//!
//! On SQLite transactions that write do not overlap: the second one begins when the first has ended.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify::{Added, Dialect, Done, Error, NewNotice, Notice, NoticeTx, NotifyDef, Status, Sweeper, add_notice};
use solid_notify_tests::sending::{Calls, eventually, reaches};
use solid_notify_tests::{Database, Sqlite, TestDb, on_each_database};
use tokio::sync::Semaphore;

on_each_database!(
    transactions_that_overlap_have_no_order_and_are_still_sent_one_at_a_time,
    a_duplicate_leaves_the_transaction_as_it_was,
    whoever_adds_a_key_waits_for_the_transaction_that_has_just_added_it,
);

type Tx<D> = NoticeTx<'static, <D as Database>::Db>;

/// Begins a transaction beside another one, where the database can.
async fn beside<D: Database>(db: &TestDb<D>) -> Option<Tx<D>> {
    let begun = tokio::time::timeout(Duration::from_millis(500), db.notify.begin()).await;
    let is_sqlite = std::any::TypeId::of::<D>() == std::any::TypeId::of::<Sqlite>();
    assert_eq!(begun.is_err(), is_sqlite, "only on SQLite it waits");
    begun.ok().map(Result::unwrap)
}

async fn ordered<DB: Dialect>(tx: &mut NoticeTx<'_, DB>, text: &str) -> i64 {
    let notice = NewNotice::new("sync", text).unwrap().ordering_key("key");
    notice.add(tx).await.unwrap().id().unwrap()
}

async fn deduped<DB: Dialect>(tx: &mut NoticeTx<'_, DB>, key: &str) -> Result<Added, Error> {
    NewNotice::new("sync", key).unwrap().dedupe_key(key).add(tx).await
}

async fn transactions_that_overlap_have_no_order_and_are_still_sent_one_at_a_time<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.notify.define(NotifyDef::new("sync")).await.unwrap();
    let (calls, gate) = (Calls::default(), std::sync::Arc::new(Semaphore::new(0)));
    let (noted, passes) = (calls.clone(), gate.clone());
    let sweeper = Sweeper::builder(&db.notify).handler("sync", move |notice: Notice<String>| {
        noted.note(notice.into_param());
        let passes = passes.clone();
        async move {
            passes.acquire().await?.forget();
            Ok(Done::Ok)
        }
    });
    let sweeper = sweeper.start().await.unwrap();

    let mut early = db.notify.begin().await.unwrap();
    let first = ordered(&mut early, "inserted first").await;
    let Some(mut late) = beside(&db).await else {
        // Nothing is inserted beside an open transaction: the order of insertion is that of the commits.
        early.commit().await.unwrap();
        gate.add_permits(1);
        reaches(&db, first, Status::Succeeded).await;
        sweeper.shutdown().await;
        return db.close().await;
    };
    let second = ordered(&mut late, "committed first").await;
    assert!(first < second);
    late.commit().await.unwrap();
    // Nobody can know of the first one yet, nor wait for it.
    eventually("the second one is sent", async || calls.all() == ["committed first"]).await;
    early.commit().await.unwrap();
    let mut next = db.notify.begin().await.unwrap();
    let third = ordered(&mut next, "after both").await;
    next.commit().await.unwrap();
    // One at a time, although its id is the smaller one: a look at all that is due claims neither.
    db.notify.wake();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(calls.all(), ["committed first"]);
    gate.add_permits(3);
    reaches(&db, third, Status::Succeeded).await;
    assert_eq!(calls.all(), ["committed first", "inserted first", "after both"]);
    sweeper.shutdown().await;
    db.close().await;
}

async fn a_duplicate_leaves_the_transaction_as_it_was<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.notify.define(NotifyDef::new("sync")).await.unwrap();
    let mut tx = db.notify.begin().await.unwrap();
    let there = deduped(&mut tx, "key").await.unwrap().id().unwrap();
    tx.commit().await.unwrap();

    let mut tx = db.notify.begin().await.unwrap();
    let before = add_notice(&mut tx, "sync", "before").await.unwrap().id();
    assert!(matches!(deduped(&mut tx, "key").await, Ok(Added::Duplicate(Some(id))) if id == there));
    let mut inner = tx.begin().await.unwrap();
    assert!(matches!(deduped(&mut inner, "key").await, Ok(Added::Duplicate(Some(id))) if id == there));
    let within = add_notice(&mut inner, "sync", "within").await.unwrap().id();
    inner.commit().await.unwrap();
    let own = deduped(&mut tx, "own key").await.unwrap().id().unwrap();
    assert!(matches!(deduped(&mut tx, "own key").await, Ok(Added::Duplicate(Some(id))) if id == own));
    tx.commit().await.unwrap();
    for id in [before, within, own] {
        assert!(db.notify.find(id).await.unwrap().is_some());
    }
    db.close().await;
}

async fn whoever_adds_a_key_waits_for_the_transaction_that_has_just_added_it<D: Database>() {
    for commits in [true, false] {
        let db = TestDb::<D>::with_real_clock().await;
        db.notify.define(NotifyDef::new("sync")).await.unwrap();
        let mut one = db.notify.begin().await.unwrap();
        let first = deduped(&mut one, "key").await.unwrap().id().unwrap();
        let Some(mut other) = beside(&db).await else {
            one.rollback().await.unwrap();
            return db.close().await;
        };
        let waiting = tokio::spawn(async move {
            let added = deduped(&mut other, "key").await;
            (added.map(|added| matches!(added, Added::New(_))), other.commit().await)
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!waiting.is_finished(), "it cannot know yet");
        if commits {
            one.commit().await.unwrap()
        } else {
            one.rollback().await.unwrap()
        }
        let (is_new, committed) = waiting.await.unwrap();
        assert_eq!(is_new.unwrap(), !commits);
        committed.unwrap();
        assert_eq!(db.notify.find(first).await.unwrap().is_some(), commits);
        db.close().await;
    }
}
