//! Inboxes of receivers in overlapping transactions: which one waits, what each of them gets, and that a purge waits for none.
//!
//! On SQLite transactions that write do not overlap: the second one begins when the first has ended.

use std::time::Duration;

use solid_notify::sql::Dialect;
use solid_notify::{Error, Inbox};
use solid_notify_conformance::Backend;
use solid_notify_core::store::Purge;
use test_support::sending::PATIENCE;
use test_support::{Database, TestDb, on_each_database, on_each_server};

on_each_database!(
    of_many_deliveries_at_the_same_moment_one_is_the_first,
    a_transaction_of_sqlx_keeps_the_mark_with_its_work,
);

mod servers {
    use super::*;

    on_each_server!(
        a_duplicate_waits_for_the_open_transaction_that_marked_its_key,
        after_a_rollback_one_of_those_that_wait_is_the_first,
        a_duplicate_makes_no_other_delivery_wait,
        a_purge_waits_for_no_open_transaction_of_a_receiver,
        a_purge_leaves_a_key_that_was_marked_anew,
    );
}

const A_WHILE: Duration = Duration::from_millis(500);
/// The deadline of a call that must not wait for others. It only ends a test that hangs.
const SOON: Duration = PATIENCE;

fn warehouse() -> Inbox {
    Inbox::new("warehouse", "shop")
}

async fn of_many_deliveries_at_the_same_moment_one_is_the_first<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    for key in ["1", "2", "3", "4", "5"] {
        let inbox = warehouse();
        let all = futures_util::future::join_all((0..8).map(|_| db.first_time(&inbox, key, true))).await;
        let first = all.into_iter().map(Result::unwrap).filter(|first| *first).count();
        assert_eq!(first, 1, "{key}");
    }
    db.close().await;
}

async fn a_transaction_of_sqlx_keeps_the_mark_with_its_work<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    for commit in [false, true] {
        let mut tx = db.pool.begin().await.unwrap();
        assert!(warehouse().first_time(&mut tx, "7").await.unwrap());
        assert!(!warehouse().first_time(&mut tx, "7").await.unwrap(), "in the same transaction");
        match commit {
            true => tx.commit().await.unwrap(),
            false => tx.rollback().await.unwrap(),
        }
    }
    let mut tx = db.outbox.begin().await.unwrap();
    let mut inner = tx.begin().await.unwrap();
    assert!(!warehouse().first_time(&mut inner, "7").await.unwrap());
    assert!(warehouse().first_time(&mut inner, "8").await.unwrap());
    inner.rollback().await.unwrap();
    assert!(warehouse().first_time(&mut tx, "8").await.unwrap(), "the savepoint was rolled back");
    tx.commit().await.unwrap();
    assert!(!db.first_time(&warehouse(), "8", true).await.unwrap());

    let mut alone = db.pool.acquire().await.unwrap();
    let error = warehouse().first_time(&mut alone, "9").await.unwrap_err();
    assert!(matches!(error, Error::Invalid { .. }) && error.to_string().contains("no open transaction"), "{error}");
    drop(alone);
    assert!(db.first_time(&warehouse(), "9", true).await.unwrap());
    db.close().await;
}

async fn a_duplicate_waits_for_the_open_transaction_that_marked_its_key<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    for commits in [false, true] {
        let mut tx = db.outbox.begin().await.unwrap();
        assert!(warehouse().first_time(&mut tx, "7").await.unwrap());
        let inbox = warehouse();
        let mut waiting = std::pin::pin!(db.first_time(&inbox, "7", false));
        assert!(tokio::time::timeout(A_WHILE, &mut waiting).await.is_err(), "it is not known yet");
        match commits {
            true => tx.commit().await.unwrap(),
            false => tx.rollback().await.unwrap(),
        }
        assert_eq!(waiting.await.unwrap(), !commits);
    }
    db.close().await;
}

async fn after_a_rollback_one_of_those_that_wait_is_the_first<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    let mut tx = db.outbox.begin().await.unwrap();
    assert!(warehouse().first_time(&mut tx, "7").await.unwrap());
    let inbox = warehouse();
    // InnoDB may end some of those that wait with a deadlock. They are delivered again.
    let delivered = async || loop {
        match db.first_time(&inbox, "7", true).await {
            Ok(first) => return first,
            Err(Error::Store(error)) if error.is_transient() => {}
            Err(error) => panic!("{error}"),
        }
    };
    let waiting = futures_util::future::join_all((0..4).map(|_| delivered()));
    let rolled_back = async {
        tokio::time::sleep(A_WHILE).await;
        tx.rollback().await.unwrap();
    };
    let (all, ()) = tokio::join!(waiting, rolled_back);
    let first = all.into_iter().filter(|first| *first).count();
    assert_eq!(first, 1);
    db.close().await;
}

/// A delivery that was repeated late, and whose transaction is open for long.
async fn a_duplicate_makes_no_other_delivery_wait<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    for key in ["10", "20", "30"] {
        assert!(db.first_time(&warehouse(), key, true).await.unwrap());
    }
    let mut open = db.outbox.begin().await.unwrap();
    assert!(!warehouse().first_time(&mut open, "20").await.unwrap());
    for (key, is_first) in [("20", false), ("15", true), ("25", true), ("40", true)] {
        let other = tokio::time::timeout(SOON, db.first_time(&warehouse(), key, true)).await;
        assert_eq!(other.expect("it does not wait").unwrap(), is_first, "{key}");
    }
    open.commit().await.unwrap();
    db.close().await;
}

async fn a_purge_waits_for_no_open_transaction_of_a_receiver<D: Database>() {
    let db = TestDb::<D>::with_hand_clock().await;
    assert!(db.first_time(&warehouse(), "old", true).await.unwrap());
    db.clock().advance(Duration::from_secs(10));
    let mut tx = db.outbox.begin().await.unwrap();
    for key in ["new", "zzz", "aaa"] {
        assert!(warehouse().first_time(&mut tx, key).await.unwrap());
    }
    let step = Purge::Inbox { older_than: Duration::from_secs(5), limit: 500 };
    let send = &db.outbox.engine().stores().send;
    let purged = tokio::time::timeout(SOON, send.purge(&step)).await.expect("it does not wait");
    assert_eq!(purged.unwrap().len(), 1);
    tx.commit().await.unwrap();
    assert!(!db.first_time(&warehouse(), "new", true).await.unwrap());
    assert!(db.first_time(&warehouse(), "old", true).await.unwrap());
    db.close().await;
}

/// Another purge has deleted the key, and its receiver has marked it again, before this purge deletes what it has found.
async fn a_purge_leaves_a_key_that_was_marked_anew<D: Database>() {
    let db = TestDb::<D>::with_hand_clock().await;
    assert!(db.first_time(&warehouse(), "old", true).await.unwrap());
    db.clock().advance(Duration::from_secs(10));
    let mut tx = db.outbox.begin().await.unwrap();
    D::Db::script(&mut *tx, "DELETE FROM notify_inbox".into()).await.unwrap();
    assert!(warehouse().first_time(&mut tx, "old").await.unwrap());
    let step = Purge::Inbox { older_than: Duration::from_secs(5), limit: 500 };
    let ends = async {
        tokio::time::sleep(A_WHILE).await;
        tx.commit().await.unwrap();
    };
    let (purged, ()) = tokio::join!(db.outbox.engine().stores().send.purge(&step), ends);
    purged.unwrap();
    assert!(!db.first_time(&warehouse(), "old", true).await.unwrap());
    db.close().await;
}

mod on_mariadb {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn mariadb_marks_nothing_after_a_raw_rollback() {
        let db = TestDb::<test_support::MariaDb>::with_real_clock().await;
        let mut tx = db.outbox.begin().await.unwrap();
        sqlx::raw_sql("ROLLBACK").execute(&mut *tx).await.unwrap();
        let error = warehouse().first_time(&mut tx, "7").await.unwrap_err();
        assert!(matches!(error, Error::TransactionLost { .. }), "{error}");
        drop(tx);
        assert!(db.first_time(&warehouse(), "7", true).await.unwrap());
        db.close().await;
    }
}
