//! Keys and overlapping transactions: the order of their notices, and which transaction waits.
//!
//! On SQLite transactions that write do not overlap: the second one begins when the first has ended.

use std::time::Duration;

use solid_notify::sql::Dialect;
use solid_notify::{
    Error, NewNotice, Notice, NoticeTx, NotifyDef, OutboxExt, Receipt, Status, add_notice, add_notices,
};
use solid_notify_conformance::Backend;
use solid_notify_core::store::{Claim, ClaimWhat};
use test_support::Postgres;
use test_support::sending::{Calls, eventually, reaches};
use test_support::{Database, MariaDb, MySql, Sqlite, TestDb, on_each_database};
use tokio::sync::Semaphore;

on_each_database!(
    overlapping_transactions_have_no_order_but_go_one_at_a_time,
    a_duplicate_leaves_the_transaction_as_it_was,
    an_insert_waits_for_the_open_transaction_that_added_its_key,
    many_notices_with_keys_in_opposite_orders_meet_in_no_deadlock,
    a_notice_that_covers_a_change_is_not_claimed_before_its_commit,
    the_newest_state_is_sent_after_concurrent_changes,
    many_notices_on_a_bare_connection_are_one_statement_or_refused,
);

type Tx<D> = NoticeTx<'static, <D as Database>::Db>;

/// Begins a transaction beside another one, where the database can.
async fn beside<D: Database>(db: &TestDb<D>) -> Option<Tx<D>> {
    if std::any::TypeId::of::<D>() != std::any::TypeId::of::<Sqlite>() {
        return Some(db.outbox.begin().await.unwrap());
    }
    let begun = tokio::time::timeout(Duration::from_millis(500), db.outbox.begin()).await;
    assert!(begun.is_err(), "on SQLite it waits");
    None
}

async fn ordered<DB: Dialect>(tx: &mut NoticeTx<'_, DB>, text: &str) -> i64 {
    let notice = NewNotice::new("sync", text).unwrap().ordering_key("key");
    notice.add(tx).await.unwrap().id()
}

async fn deduped<DB: Dialect>(tx: &mut NoticeTx<'_, DB>, key: &str) -> Result<Receipt, Error> {
    NewNotice::new("sync", key).unwrap().unique_until_ended(key).add(tx).await
}

async fn overlapping_transactions_have_no_order_but_go_one_at_a_time<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let (calls, gate) = (Calls::default(), std::sync::Arc::new(Semaphore::new(0)));
    let (noted, passes) = (calls.clone(), gate.clone());
    let sweeper = db.outbox.sweeper().handler("sync", move |notice: Notice<String>| {
        noted.note(notice.into_param());
        let passes = passes.clone();
        async move {
            passes.acquire().await?.forget();
            Ok(())
        }
    });
    let sweeper = sweeper.start().await.unwrap();

    let mut early = db.outbox.begin().await.unwrap();
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
    // The first one is not committed yet, so no statement can see it or wait for it.
    eventually("the second one is sent", async || calls.all() == ["committed first"]).await;
    early.commit().await.unwrap();
    let mut next = db.outbox.begin().await.unwrap();
    let third = ordered(&mut next, "after both").await;
    next.commit().await.unwrap();
    // One at a time, although its id is the smaller one: a look at all that is due claims neither.
    db.outbox.wake();
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
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let mut tx = db.outbox.begin().await.unwrap();
    let there = deduped(&mut tx, "key").await.unwrap().id();
    tx.commit().await.unwrap();

    let mut tx = db.outbox.begin().await.unwrap();
    let before = add_notice(&mut tx, "sync", "before").await.unwrap().id();
    assert!(deduped(&mut tx, "key").await.is_ok_and(|it| it.is_duplicate() && it.id() == there));
    let mut inner = tx.begin().await.unwrap();
    assert!(deduped(&mut inner, "key").await.is_ok_and(|it| it.is_duplicate() && it.id() == there));
    let within = add_notice(&mut inner, "sync", "within").await.unwrap().id();
    inner.commit().await.unwrap();
    let own = deduped(&mut tx, "own key").await.unwrap().id();
    assert!(deduped(&mut tx, "own key").await.is_ok_and(|it| it.is_duplicate() && it.id() == own));
    tx.commit().await.unwrap();
    for id in [before, within, own] {
        assert!(db.outbox.find(id).await.unwrap().is_some());
    }
    db.close().await;
}

async fn an_insert_waits_for_the_open_transaction_that_added_its_key<D: Database>() {
    for commits in [true, false] {
        let db = TestDb::<D>::with_real_clock().await;
        db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
        let mut one = db.outbox.begin().await.unwrap();
        let first = deduped(&mut one, "key").await.unwrap().id();
        let Some(mut other) = beside(&db).await else {
            one.rollback().await.unwrap();
            return db.close().await;
        };
        let waiting = tokio::spawn(async move {
            let added = deduped(&mut other, "key").await;
            (added.map(|added| !added.is_duplicate()), other.commit().await)
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
        assert_eq!(db.outbox.find(first).await.unwrap().is_some(), commits);
        db.close().await;
    }
}

/// One key in three definitions. The middle one is locked until both calls wait, so each call has inserted what it inserts
/// before it: in the caller's orders that would be a deadlock.
async fn many_notices_with_keys_in_opposite_orders_meet_in_no_deadlock<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    let names = ["first", "middle", "last"];
    for name in names {
        db.outbox.define_if_missing(NotifyDef::new(name)).await.unwrap();
    }
    let keyed = |name: &str| NewNotice::new(name, name).unwrap().unique_until_ended("key");
    let mut locker = db.outbox.begin().await.unwrap();
    keyed("middle").add(&mut locker).await.unwrap();
    let mut waiting = Vec::new();
    for order in [names, [names[2], names[1], names[0]]] {
        let Some(mut tx) = beside(&db).await else {
            locker.rollback().await.unwrap();
            return db.close().await;
        };
        // An ordering key elsewhere in the call changes nothing.
        let ordered = NewNotice::new("first", "ordered").unwrap().ordering_key("order");
        let notices: Vec<_> = std::iter::once(ordered).chain(order.map(keyed)).collect();
        waiting.push(tokio::spawn(async move {
            let added = add_notices(&mut tx, notices).await?;
            tx.commit().await?;
            Ok::<_, Error>(added.iter().filter(|added| !added.is_duplicate()).count())
        }));
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!(waiting.iter().all(|call| !call.is_finished()), "both wait for the middle one");
    locker.rollback().await.unwrap();
    let mut new = Vec::new();
    for call in waiting {
        new.push(call.await.unwrap().unwrap());
    }
    new.sort_unstable();
    assert_eq!(new, [1, 4], "one call adds the keys, the other one only the notices without a key");
    db.close().await;
}

/// Its handler would not see the changes of the transaction.
async fn a_notice_that_covers_a_change_is_not_claimed_before_its_commit<D: Database>() {
    for many in [false, true] {
        let db = TestDb::<D>::with_real_clock().await;
        db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
        let keyed = || NewNotice::new("sync", 1).unwrap().unique_until_claimed("key");
        let there = db.add_new(keyed()).await.id();
        let mut tx = db.outbox.begin().await.unwrap();
        let added = match many {
            true => add_notices(&mut tx, [NewNotice::new("sync", 2).unwrap(), keyed()]).await.unwrap().pop().unwrap(),
            false => keyed().add(&mut tx).await.unwrap(),
        };
        assert!(added.is_duplicate() && added.id() == there, "{added:?}");
        let def_id = db.outbox.definitions().await.unwrap().iter().find(|def| def.row.name == "sync").unwrap().row.id;
        let first = async || {
            let (what, worker) = (ClaimWhat::Ids(vec![there]), "worker".to_owned());
            let claim = Claim { def_id, what, limit: 1, lease: Duration::from_secs(60), worker, quota: None };
            db.outbox.engine().stores().send.claim(&claim).await.unwrap().notices.first().map(|notice| notice.id)
        };
        match beside(&db).await {
            // One writer: the claim would wait.
            None => {}
            Some(other) => {
                other.rollback().await.unwrap();
                assert_eq!(first().await, None, "its handler would not see the change");
            }
        }
        tx.commit().await.unwrap();
        assert_eq!(first().await, Some(there));
        db.close().await;
    }
}

/// Each change is committed with a notice of the same key; each attempt sends the state that it reads. The last state is sent.
async fn the_newest_state_is_sent_after_concurrent_changes<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    db.sql("CREATE TABLE state (n bigint)").await;
    db.sql("INSERT INTO state VALUES (0)").await;
    let told = std::sync::Arc::new(std::sync::atomic::AtomicI64::new(0));
    let (telling, pool) = (told.clone(), db.pool.clone());
    let sweeper = db.outbox.sweeper().handler("sync", move |_: Notice<i64>| {
        let (telling, pool) = (telling.clone(), pool.clone());
        async move {
            let n = D::number(&pool, "SELECT n FROM state").await;
            telling.fetch_max(n, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        }
    });
    let sweeper = sweeper.start().await.unwrap();
    let mut changed = 0;
    for round in 0..20 {
        let changes = (0..6).map(|_| async {
            let mut tx = db.outbox.begin().await.unwrap();
            // Added first: the change is committed some time after the look for a duplicate.
            let added = NewNotice::new("sync", round).unwrap().unique_until_claimed("state").add(&mut tx).await;
            if added.is_err() {
                // A deadlock, which the caller tries again.
                return 0;
            }
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..8))).await;
            D::Db::script(&mut tx, "UPDATE state SET n = n + 1".into()).await.unwrap();
            tx.commit().await.unwrap();
            1
        });
        changed += futures_util::future::join_all(changes).await.into_iter().sum::<i64>();
        assert!(changed > 0);
        eventually("the newest state is sent", async || told.load(std::sync::atomic::Ordering::Relaxed) == changed)
            .await;
    }
    sweeper.shutdown().await;
    db.close().await;
}

mod on_postgres {
    use super::*;

    /// Another session locks the duplicate first. The insert does not wait for that session, but the look for the duplicate does.
    #[tokio::test]
    async fn a_notice_is_inserted_again_when_its_duplicate_loses_its_key() {
        let db = TestDb::<Postgres>::with_real_clock().await;
        db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
        let add = async || db.add_new(NewNotice::new("sync", 1).unwrap().unique_until_claimed("key")).await;
        let first = add().await.id();
        let mut other = db.pool.begin().await.unwrap();
        sqlx::Postgres::script(&mut other, "SELECT id FROM notify_msg FOR UPDATE".into()).await.unwrap();
        let session: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *other).await.unwrap();
        let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND $1 = ANY (pg_blocking_pids(pid)))";
        let claim = async {
            eventually("the look waits", async || {
                sqlx::query_scalar(waits).bind(session).fetch_one(&db.pool).await.unwrap()
            })
            .await;
            sqlx::Postgres::script(&mut other, "UPDATE notify_msg SET fence = 1".into()).await.unwrap();
            other.commit().await.unwrap();
        };
        let (added, ()) = tokio::join!(add(), claim);
        assert!(!added.is_duplicate() && added.id() > first, "{added:?}");
        db.close().await;
    }
}

async fn many_notices_on_a_bare_connection_are_one_statement_or_refused<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let many = |count: usize| (0..count).map(|n| NewNotice::new("sync", n).unwrap());
    {
        let mut bare = db.pool.acquire().await.unwrap();
        let is = std::any::TypeId::of::<D>();
        let most =
            if is == std::any::TypeId::of::<MySql>() || is == std::any::TypeId::of::<MariaDb>() { 1 } else { 2000 };
        let refused = add_notices(&mut bare, many(most + 1)).await.unwrap_err();
        assert!(refused.to_string().contains("begin a transaction"), "{refused}");
        assert_eq!(add_notices(&mut bare, many(most)).await.unwrap().len(), most);
    }
    db.sql("DELETE FROM notify_msg").await;
    let mut tx = db.pool.begin().await.unwrap();
    let receipts = add_notices(&mut tx, many(2001)).await.unwrap();
    tx.commit().await.unwrap();
    for (n, receipt) in receipts.iter().enumerate() {
        assert_eq!(db.outbox.find(receipt.id()).await.unwrap().unwrap().param, n.to_string());
    }
    assert_eq!(D::number(&db.pool, "SELECT count(*) FROM notify_msg").await, 2001);
    db.close().await;
}
