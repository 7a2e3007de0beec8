//! Acks, edits and operators' verbs whose row another session has locked: they wait beside the database, and delay no other call.

use std::time::Duration;

use futures_util::future::join_all;
use solid_notify::sql::Dialect;
use solid_notify::{AckResult, Error, Failure, NewNotice, Notice, NotifyDef, OutboxExt, Status, VerbResult};
use solid_notify_conformance::Backend;
use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;
use test_support::sending::{PATIENCE, add, definition, eventually, reaches};
use test_support::{Database, TestDb};

use super::lock;

test_support::on_each_server!(
    locked_notice_delays_no_other_ack,
    locked_definition_delays_neither_acks_nor_operators,
    attempt_does_not_wait_for_the_pause_of_a_locked_definition,
    ack_behind_a_locked_table_gives_up,
);

/// The time-out of calls, which is longer than any test waits.
const LONG: Duration = Duration::from_secs(3600);
/// How many rows are locked: more than the store has connections.
const LOCKED: usize = 12;

async fn database<D: Database>() -> TestDb<D> {
    let db = TestDb::<D>::build(8, false, |builder| builder.call_timeout(LONG)).await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    db
}

/// Acks a notice that nothing locks.
async fn acks_one<D: Database>(db: &TestDb<D>) {
    let id = add(db, "sync").await;
    let acked = tokio::time::timeout(PATIENCE, db.outbox.ack(id)).await.expect("it waits for the locks of others");
    assert_eq!(acked.unwrap(), AckResult::Applied);
}

fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Store(StoreError { kind: FaultKind::Conflict, .. }))
}

/// The locks of the servers' own statements for that have other limits than those of rows.
async fn ack_behind_a_locked_table_gives_up<D: Database>() {
    let db = database::<D>().await;
    let id = add(&db, "sync").await;
    let mut other = db.pool.acquire().await.unwrap().detach();
    let lock = match <D::Db as sqlx::Database>::NAME {
        "MySQL" => "LOCK TABLES notify_msg WRITE",
        _ => "BEGIN; LOCK TABLE notify_msg IN ACCESS EXCLUSIVE MODE",
    };
    D::Db::script(&mut other, lock.into()).await.unwrap();
    let acked = tokio::time::timeout(PATIENCE, db.outbox.ack(id)).await.expect("it waits for the lock");
    assert!(matches!(acked, Err(Error::Store(error)) if error.is_transient()));
    drop(other);
    acks_one(&db).await;
    db.close().await;
}

/// Live notices and dead letters.
async fn locked_notice_delays_no_other_ack<D: Database>() {
    let db = database::<D>().await;
    db.outbox.define_if_missing(NotifyDef::new("dead")).await.unwrap();
    let sweeper = db.outbox.sweeper();
    let sweeper = sweeper.handler("dead", |_: Notice<i64>| async { Err(Failure::give_up("no such customer")) });
    let sweeper = sweeper.start().await.unwrap();
    let mut ids = Vec::new();
    for name in ["sync", "dead"] {
        for _ in 0..LOCKED / 2 {
            ids.push(add(&db, name).await);
        }
    }
    for id in &ids[LOCKED / 2..] {
        reaches(&db, *id, Status::DeadLetter).await;
    }
    sweeper.shutdown().await;
    // One by one: MySQL would lock the gaps between rows that it does not find.
    let lock_each = |table: &str, ids: &[i64]| {
        ids.iter().map(|id| format!("SELECT id FROM {table} WHERE id = {id} FOR UPDATE;")).collect::<String>()
    };
    let (of_live, of_ended) = ids.split_at(LOCKED / 2);
    let live = lock(&db, &lock_each("notify_msg", of_live)).await;
    let ended = lock(&db, &lock_each("notify_msg_history", of_ended)).await;
    let locked = async || join_all(ids.iter().map(|id| db.outbox.ack(*id))).await;
    let operator = db.outbox.operator("alice");
    let (refused, (), ()) = tokio::join!(locked(), acks_one(&db), async {
        // A verb of an operator waits for the lock as long as the time-out of a call, and delays no other.
        let waits = operator.cancel(ids[0], "a test");
        tokio::select! {
            done = waits => panic!("it was not locked: {done:?}"),
            done = async { operator.cancel(add(&db, "sync").await, "a test").await } => assert_eq!(done.unwrap(), VerbResult::Applied),
        }
    });
    for result in refused {
        let error = result.unwrap_err();
        assert!(is_conflict(&error) && error.to_string().contains("another session has locked its row"), "{error}");
    }
    live.rollback().await.unwrap();
    ended.rollback().await.unwrap();
    for (k, result) in locked().await.into_iter().enumerate() {
        let expected = if k < LOCKED / 2 { AckResult::Applied } else { AckResult::DeadLetterAcked };
        assert_eq!(result.unwrap(), expected);
    }
    db.close().await;
}

async fn locked_definition_delays_neither_acks_nor_operators<D: Database>() {
    let db = database::<D>().await;
    db.outbox.define_if_missing(NotifyDef::new("edited")).await.unwrap();
    let seen = definition(&db, "edited").await;
    let other = lock(&db, "SELECT id FROM notify_def WHERE name = 'edited' FOR UPDATE").await;
    let edits = (0..LOCKED).map(|k| {
        let (outbox, seen) = (db.outbox.clone(), seen.clone());
        tokio::spawn(async move { outbox.update(&seen, seen.clone().max_retry_times(i64::try_from(k).unwrap())).await })
    });
    let edits: Vec<_> = edits.collect();
    for _ in 0..3 {
        acks_one(&db).await;
        let alice = db.outbox.operator("alice");
        tokio::time::timeout(PATIENCE, alice.snapshot()).await.expect("it waits behind edits").unwrap();
        let edit = async {
            let seen = definition(&db, "sync").await;
            db.outbox.update(&seen, seen.clone().owner("team")).await
        };
        tokio::time::timeout(PATIENCE, edit).await.expect("it waits behind other edits").unwrap();
    }
    assert!(edits.iter().all(|edit| !edit.is_finished()));
    other.rollback().await.unwrap();
    let edited = join_all(edits).await.into_iter().map(|edit| edit.unwrap().unwrap());
    assert_eq!(
        edited.filter(|edit| matches!(edit, solid_notify::definition::Updated::Stored(_))).count(),
        1,
        "the others saw an older row"
    );
    db.close().await;
}

/// The attempt ends by its own time limit, and an attempt after the lock pauses the definition.
async fn attempt_does_not_wait_for_the_pause_of_a_locked_definition<D: Database>() {
    let db = database::<D>().await;
    let gone = NotifyDef::new("gone").retry_interval("1ms").max_retry_times(1_000_000);
    db.outbox.define_if_missing(gone).await.unwrap();
    let sweeper = db.outbox.sweeper().max_running(2);
    let sweeper = sweeper.handler("gone", |_: Notice<i64>| async { Err(Failure::pause("410 Gone")) });
    let sweeper = sweeper.handler("sync", |_: Notice<i64>| async { Ok(()) }).start().await.unwrap();
    let other = lock(&db, "SELECT id FROM notify_def WHERE name = 'gone' FOR UPDATE").await;
    let mut ids = Vec::new();
    for k in 0..4 {
        ids.push(db.add(NewNotice::new("gone", k).unwrap()).await.unwrap().id());
    }
    let attempts = async |id| db.outbox.find(id).await.unwrap().unwrap().errors.len();
    eventually("each of them has been attempted", async || {
        for id in &ids {
            if attempts(*id).await == 0 {
                return false;
            }
        }
        true
    })
    .await;
    let id = add(&db, "sync").await;
    reaches(&db, id, Status::Succeeded).await;
    acks_one(&db).await;
    other.rollback().await.unwrap();
    eventually("the definition is paused", async || !definition(&db, "gone").await.enabled).await;
    sweeper.shutdown().await;
    db.close().await;
}

/// Sessions whose locks are those of REPEATABLE READ, the default of MySQL and MariaDB.
mod gaps {
    use solid_notify::ack_notice;

    use super::*;

    test_support::on_mysql_family!(
        ack_in_a_transaction_holds_up_no_other_ack_and_no_settle,
        ack_that_may_not_insert_into_the_history_is_refused,
    );

    async fn settles_one<D: Database>(db: &TestDb<D>) {
        let sweeper = db.outbox.sweeper().handler("sync", |_: Notice<i64>| async { Ok(()) }).start().await.unwrap();
        let id = add(db, "sync").await;
        reaches(db, id, Status::Succeeded).await;
        sweeper.shutdown().await;
    }

    /// By the library and by plain SQL. A lock on the gap where the notice goes would keep the history of all later notices.
    async fn ack_in_a_transaction_holds_up_no_other_ack_and_no_settle<D: Database>() {
        let db = database::<D>().await;
        let ids = [add(&db, "sync").await, add(&db, "sync").await];
        let mut tx = db.outbox.begin().await.unwrap();
        assert_eq!(ack_notice(&mut tx, ids[0]).await.unwrap(), AckResult::Applied);
        let other = lock(&db, &format!("CALL notify_ack({}, @result)", ids[1])).await;
        let mut third = db.outbox.begin().await.unwrap();
        NewNotice::new("sync", 1).unwrap().skipped("no need").add(&mut third).await.unwrap();
        for _ in 0..3 {
            acks_one(&db).await;
        }
        settles_one(&db).await;
        tx.commit().await.unwrap();
        other.commit().await.unwrap();
        third.commit().await.unwrap();
        for id in ids {
            assert_eq!(db.outbox.find(id).await.unwrap().unwrap().status, Status::Succeeded);
        }
        db.close().await;
    }

    /// Another session has locked the gap behind the last ended notice, for which the shortest wait is a second.
    async fn ack_that_may_not_insert_into_the_history_is_refused<D: Database>() {
        let db = database::<D>().await;
        let id = add(&db, "sync").await;
        let other = lock(&db, "SELECT id FROM notify_msg_history WHERE id > 0 FOR UPDATE").await;
        let refused = db.outbox.ack(id).await.unwrap_err();
        assert!(is_conflict(&refused), "{refused}");
        other.rollback().await.unwrap();
        assert_eq!(db.outbox.ack(id).await.unwrap(), AckResult::Applied);
        db.close().await;
    }
}
