//! Rows that others lock: no statement of the store waits for them, and no statement is left running after a time-out.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use chrono::Utc;
use solid_notify::sql::Dialect;
use solid_notify::{NewNotice, NotifyDef, Status, add_notice};
use solid_notify_conformance::{Backend, succeed};
use solid_notify_core::ClaimedNotice;
use solid_notify_core::error::{FaultKind, StoreError};
use solid_notify_core::store::{Claim, ClaimWhat, Lease, Settle, Settled};
use solid_notify_core::transition::Next;
use sqlx::{AssertSqlSafe, Executor};
use test_support::MariaDb;
use test_support::MySql;
use test_support::Postgres;
use test_support::sending::{PATIENCE, eventually};
use test_support::{Database, TestDb};

use super::lock;

test_support::on_each_server!(
    a_locked_row_keeps_no_other_lease_from_being_extended,
    a_locked_row_holds_back_the_next_one_of_its_key,
    notice_stays_due_while_the_one_in_front_of_it_is_locked,
    blocked_notice_is_unblocked_when_its_lock_is_free_again,
    a_locked_row_keeps_no_other_outcome_from_being_settled,
    a_locked_row_keeps_no_other_first_send_from_being_claimed,
    a_call_that_meets_a_conflict_is_tried_again,
    a_claim_that_others_of_its_key_were_faster_than_is_tried_again,
    claiming_locked_notices_returns_nothing_at_once,
    inserting_a_duplicate_does_not_block_settling_the_other,
    a_duplicate_that_a_snapshot_does_not_show_is_no_error,
);

/// The deadline of a call that must not wait for others. It only ends a test that hangs.
const SOON: Duration = PATIENCE;

/// Claims first sends of the one definition.
async fn claim_slice<D: Database>(db: &TestDb<D>, limit: usize) -> Result<Vec<ClaimedNotice>, StoreError> {
    claim(db, ClaimWhat::Slice(Status::NotSent), limit).await
}

async fn claim<D: Database>(db: &TestDb<D>, what: ClaimWhat, limit: usize) -> Result<Vec<ClaimedNotice>, StoreError> {
    let (def_id, worker) = (db.outbox.definitions().await.unwrap()[0].row.id, "worker".to_owned());
    let claim = Claim { def_id, what, limit, lease: Duration::from_secs(60), worker, quota: None };
    db.outbox.engine().stores().send.claim(&claim).await.map(|claims| claims.notices)
}

async fn claimed<D: Database>(db: &TestDb<D>, count: i64) -> Vec<i64> {
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let mut tx = db.outbox.begin().await.unwrap();
    for k in 0..count {
        add_notice(&mut tx, "sync", k).await.unwrap();
    }
    tx.commit().await.unwrap();
    let claimed = claim_slice(db, 100).await.unwrap();
    assert_eq!(claimed.len(), usize::try_from(count).unwrap());
    claimed.into_iter().map(|notice| notice.id).collect()
}

/// Begins a transaction that locks a notice.
async fn lock_notice<D: Database>(db: &TestDb<D>, id: i64) -> sqlx::Transaction<'static, D::Db> {
    lock(db, &format!("SELECT id FROM notify_msg WHERE id = {id} FOR UPDATE")).await
}

/// A settle locks the row that it changes. A claim at that moment skips locked rows, but still sees their keys.
async fn a_locked_row_holds_back_the_next_one_of_its_key<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let mut tx = db.outbox.begin().await.unwrap();
    for k in 0..2 {
        NewNotice::new("sync", k).unwrap().ordering_key("a").add(&mut tx).await.unwrap();
    }
    tx.commit().await.unwrap();
    let mut other = db.pool.begin().await.unwrap();
    let first = claim_slice(&db, 100).await.unwrap();
    assert_eq!(first.len(), 1);
    let retry = "UPDATE notify_msg SET status = 2, next_call_time = '2100-01-01 00:00:00' WHERE status = 5";
    D::Db::script(&mut other, retry.into()).await.unwrap();
    let claimed = tokio::time::timeout(SOON, claim_slice(&db, 100)).await.expect("it does not wait").unwrap();
    assert_eq!(claimed, [], "the second was claimed before the first");
    other.rollback().await.unwrap();
    db.close().await;
}

/// Otherwise the notice could be blocked just after the settle of the one in front has looked for notices to unblock.
async fn notice_stays_due_while_the_one_in_front_of_it_is_locked<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let add = async || db.add(NewNotice::new("sync", 1).unwrap().ordering_key("a")).await.unwrap().id();
    let first = add().await;
    assert_eq!(claim_slice(&db, 100).await.unwrap()[0].id, first);
    let second = add().await;
    let ends = lock(&db, &format!("DELETE FROM notify_msg WHERE id = {first}")).await;
    let claimed = tokio::time::timeout(SOON, claim_slice(&db, 100)).await.expect("it does not wait").unwrap();
    assert_eq!(claimed, [], "the first may not have ended");
    ends.commit().await.unwrap();
    assert_eq!(claim_slice(&db, 100).await.unwrap()[0].id, second);
    db.close().await;
}

/// A claim that passes over a blocked notice may keep it locked until its transaction ends.
async fn blocked_notice_is_unblocked_when_its_lock_is_free_again<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let stores = db.outbox.engine().stores();
    for key in 0.. {
        let notice = || NewNotice::new("sync", 1).unwrap().ordering_key(format!("key {key}"));
        let (first, second) = (db.add_new(notice()).await.id(), db.add_new(notice()).await.id());
        let claimed = claim_slice(&db, 100).await.unwrap();
        let batch = [succeed(claimed.iter().find(|notice| notice.id == first).unwrap())];
        let other = lock_notice(&db, second).await;
        let began = Instant::now();
        let frees = async {
            tokio::time::sleep(Duration::from_millis(60)).await;
            other.rollback().await.unwrap();
            began.elapsed()
        };
        let (settled, freed) = tokio::join!(stores.send.settle(&batch), frees);
        assert_eq!(settled.unwrap(), [Settled::Stored]);
        if claim_slice(&db, 100).await.unwrap().iter().any(|notice| notice.id == second) {
            break;
        }
        // The settle tries for a tenth of a second. On a busy machine the lock may be free only after that.
        assert!(freed > Duration::from_millis(80), "the lock was free after {freed:?}");
    }
    db.close().await;
}

async fn a_locked_row_keeps_no_other_lease_from_being_extended<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    let ids = claimed(&db, 3).await;
    let other = lock_notice(&db, ids[1]).await;
    let lease = Duration::from_secs(600);
    let leases: Vec<Lease> = ids.iter().map(|id| Lease { id: *id, fence: 1, lease }).collect();
    let told = tokio::time::timeout(SOON, db.outbox.engine().stores().send.extend(&leases))
        .await
        .expect("it does not wait")
        .unwrap();
    assert_eq!(told.into_iter().collect::<HashSet<_>>(), HashSet::from([ids[0], ids[2]]));
    let soon = Utc::now() + Duration::from_secs(300);
    let mut extended = Vec::new();
    for id in &ids {
        extended.push(db.outbox.find(*id).await.unwrap().unwrap().next_call_time.unwrap() > soon);
    }
    assert_eq!(extended, [true, false, true]);
    other.rollback().await.unwrap();
    assert_eq!(db.outbox.engine().stores().send.extend(&leases).await.unwrap().len(), 3);
    assert!(db.outbox.find(ids[1]).await.unwrap().unwrap().next_call_time.unwrap() > soon);
    db.close().await;
}

/// The first settle does not expect the lock, and the second one does.
async fn a_locked_row_keeps_no_other_outcome_from_being_settled<D: Database>() {
    for keep_history in ["30d", "none"] {
        let db = TestDb::<D>::with_real_clock().await;
        db.outbox.define_if_missing(NotifyDef::new("sync").keep_history(keep_history)).await.unwrap();
        for n in 0..5 {
            db.add_new(NewNotice::new("sync", n).unwrap()).await;
        }
        let claimed = claim_slice(&db, 5).await.unwrap();
        let other = lock_notice(&db, claimed[1].id).await;
        let mut outcomes = claimed.iter().map(succeed).collect::<Vec<_>>();
        for outcome in &mut outcomes {
            let Next::Finish { keep, .. } = &mut outcome.transition.next else { panic!("{outcome:?}") };
            *keep = keep_history == "30d";
        }
        let settle = async |outcomes: &[Settle]| {
            let settled = tokio::time::timeout(SOON, db.outbox.engine().stores().send.settle(outcomes)).await;
            settled.expect("it does not wait").unwrap()
        };
        // Postgres answers a try before it gives up its locks, so the next one may pass over rows.
        let others = async || settle(&outcomes[..3]).await == [Settled::Stored, Settled::Locked, Settled::Stored];
        eventually("the others are settled", others).await;
        assert_eq!(settle(&outcomes[3..]).await, [Settled::Stored, Settled::Stored]);
        assert_eq!(settle(&outcomes[1..2]).await, [Settled::Locked]);
        other.rollback().await.unwrap();
        assert_eq!(settle(&outcomes[1..2]).await, [Settled::Stored]);
        db.close().await;
    }
}

async fn a_locked_row_keeps_no_other_first_send_from_being_claimed<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let mut ids = Vec::new();
    for n in 0..4 {
        ids.push(db.add_new(NewNotice::new("sync", n).unwrap()).await.id());
    }
    let other = lock_notice(&db, ids[1]).await;
    let claim = async |ids: &[i64]| {
        let claimed = tokio::time::timeout(SOON, claim(&db, ClaimWhat::Ids(ids.to_vec()), 10)).await;
        claimed.expect("it does not wait").unwrap().into_iter().map(|notice| notice.id).collect::<Vec<_>>()
    };
    assert_eq!(claim(&ids[..3]).await, [ids[0], ids[2]]);
    assert_eq!(claim(&ids).await, ids[3..]);
    other.rollback().await.unwrap();
    assert_eq!(claim(&ids).await, ids[1..2]);
    db.close().await;
}

async fn a_call_that_meets_a_conflict_is_tried_again<D: Database>() {
    a_claim_that_fails_twice_is_tried_again::<D>("40P01", "'40001' SET MYSQL_ERRNO = 1213").await;
}

/// The index that lets one of them says so.
async fn a_claim_that_others_of_its_key_were_faster_than_is_tried_again<D: Database>() {
    a_claim_that_fails_twice_is_tried_again::<D>("23505", "'23000' SET MYSQL_ERRNO = 1062").await;
}

/// A trigger raises the error twice, and counts where no rollback reaches.
async fn a_claim_that_fails_twice_is_tried_again<D: Database>(on_postgres: &str, on_mysql: &str) {
    let db = TestDb::<D>::with_real_clock().await;
    let is_postgres = <D::Db as sqlx::Database>::NAME == "PostgreSQL";
    let script = match is_postgres {
        true => [
            "CREATE SEQUENCE met".to_owned(),
            format!(
                "CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                     IF nextval('met') <= 2 THEN RAISE 'met' USING ERRCODE = '{on_postgres}'; END IF;
                     RETURN new;
                 END $$;
                 CREATE TRIGGER meet BEFORE UPDATE ON notify_msg FOR EACH ROW EXECUTE FUNCTION meet()"
            ),
        ],
        false => [
            "CREATE TABLE met (n bigint AUTO_INCREMENT PRIMARY KEY)".to_owned(),
            format!(
                "CREATE TRIGGER meet BEFORE UPDATE ON notify_msg FOR EACH ROW BEGIN
                     INSERT INTO met VALUES ();
                     IF LAST_INSERT_ID() <= 2 THEN SIGNAL SQLSTATE {on_mysql}; END IF;
                 END"
            ),
        ],
    };
    for sql in script {
        db.sql(&sql).await;
    }
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    db.add_new(NewNotice::new("sync", 1).unwrap()).await;
    // Postgres answers an error before it gives up the locks: a try that follows at once may pass over the row.
    eventually("it is claimed", async || {
        let began = Instant::now();
        match claim_slice(&db, 1).await {
            Ok(claimed) => !claimed.is_empty(),
            // The store does not repeat a call that took so long.
            Err(error) if error.kind == FaultKind::Conflict && began.elapsed() >= Duration::from_millis(900) => {
                db.sql(if is_postgres { "ALTER SEQUENCE met RESTART" } else { "TRUNCATE met" }).await;
                false
            }
            Err(error) => panic!("{error}"),
        }
    })
    .await;
    db.close().await;
}

/// A trigger holds the first claim up until the test lets it go. For this wait the claim has no limit.
async fn claiming_locked_notices_returns_nothing_at_once<D: Database>()
where
    for<'c> &'c sqlx::Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    db.add_new(NewNotice::new("sync", 1).unwrap()).await;
    let key = fastrand::i64(..);
    let (close, trigger, waits, open) = match <D::Db as sqlx::Database>::NAME {
        "PostgreSQL" => (
            format!("SELECT pg_advisory_lock({key})"),
            format!(
                "CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$ BEGIN
                     PERFORM pg_advisory_xact_lock_shared({key});
                     RETURN new;
                 END $$;
                 CREATE TRIGGER gate BEFORE UPDATE ON notify_msg FOR EACH ROW EXECUTE FUNCTION gate()"
            ),
            format!(
                "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                 AND (classid::bigint << 32) | objid::bigint = {key}"
            ),
            format!("SELECT pg_advisory_unlock({key})"),
        ),
        _ => (
            format!("DO GET_LOCK('{key}', 0)"),
            format!("CREATE TRIGGER gate BEFORE UPDATE ON notify_msg FOR EACH ROW SET @gate = GET_LOCK('{key}', 3600)"),
            "SELECT 1 FROM information_schema.processlist WHERE state = 'User lock' AND db = database()".to_owned(),
            format!("DO RELEASE_LOCK('{key}')"),
        ),
    };
    db.sql(&trigger).await;
    let mut gate = db.pool.acquire().await.unwrap();
    D::Db::script(&mut gate, close.into()).await.unwrap();
    let first = async { claim_slice(&db, 1).await.unwrap() };
    let second = async {
        let is_waiting = async || !db.pool.fetch_all(AssertSqlSafe(waits.clone())).await.unwrap().is_empty();
        eventually("the first is under way", is_waiting).await;
        let second = tokio::time::timeout(SOON, claim_slice(&db, 1)).await;
        D::Db::script(&mut gate, open.into()).await.unwrap();
        second.expect("it does not wait").unwrap()
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.len(), second.len()), (1, 0));
    drop(gate);
    db.close().await;
}

/// The insert that fails for a duplicate would lock that until the end of its transaction.
async fn inserting_a_duplicate_does_not_block_settling_the_other<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let keyed = |n: i64| NewNotice::new("sync", n).unwrap().unique_until_ended("key");
    let id = db.add_new(keyed(1)).await.id();
    let claimed = claim_slice(&db, 1).await.unwrap();
    assert_eq!(claimed.len(), 1);
    let mut tx = db.outbox.begin().await.unwrap();
    assert!(keyed(2).add(&mut tx).await.unwrap().id() == id);
    let settled = tokio::time::timeout(SOON, db.outbox.engine().stores().send.settle(&[succeed(&claimed[0])]))
        .await
        .expect("it does not wait");
    assert_eq!(settled.unwrap(), [Settled::Stored]);
    tx.rollback().await.unwrap();
    db.close().await;
}

/// As MySQL's transactions have one by default.
async fn a_duplicate_that_a_snapshot_does_not_show_is_no_error<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let keyed = |n: i64| NewNotice::new("sync", n).unwrap().unique_until_ended("key");
    let mut tx = db.outbox.begin().await.unwrap();
    D::Db::script(&mut tx, "SELECT count(*) FROM notify_msg".into()).await.unwrap();
    db.add_new(keyed(1)).await;
    let added = keyed(2).add(&mut tx).await.unwrap();
    assert!(added.is_duplicate(), "{added:?}");
    tx.commit().await.unwrap();
    db.close().await;
}

/// A call that ended must not leave its statement running, because it would change rows later.
async fn a_call_that_timed_out_leaves_nothing_running<D: Database>(running: &str)
where
    for<'c> &'c mut <D::Db as sqlx::Database>::Connection: Executor<'c, Database = D::Db>,
    for<'c> &'c sqlx::Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    let db = TestDb::<D>::build(4, false, |builder| builder.call_timeout(Duration::from_secs(5))).await;
    let alice = db.outbox.operator("alice");
    assert!(alice.pause_all("a test").await.unwrap() && alice.resume_all().await.unwrap());
    let mut other = db.pool.begin().await.unwrap();
    (&mut *other).execute("SELECT id FROM notify_switch FOR UPDATE").await.unwrap();
    let is_running = async || !db.pool.fetch_all(AssertSqlSafe(running.to_owned())).await.unwrap().is_empty();
    let pause = alice.pause_all("a test");
    let (paused, ()) = tokio::join!(pause, eventually("the statement waits", &is_running));
    paused.unwrap_err();
    eventually("the statement is gone", async || !is_running().await).await;
    other.rollback().await.unwrap();
    assert_eq!(alice.paused().await.unwrap(), None);
    db.close().await;
}

mod on_postgres {
    use super::*;

    #[tokio::test]
    async fn a_call_that_timed_out_leaves_nothing_running_on_postgres() {
        a_call_that_timed_out_leaves_nothing_running::<Postgres>(
            "SELECT 1 FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
             WHERE NOT l.granted AND a.datname = current_database() AND a.query LIKE '%notify_switch%'
             AND pg_blocking_pids(a.pid) && ARRAY(SELECT pid FROM pg_locks WHERE granted AND relation = 'notify_switch'::regclass)",
        )
        .await;
    }
}

mod on_mariadb {
    use super::*;

    #[tokio::test]
    async fn a_call_that_timed_out_leaves_nothing_running_on_mariadb() {
        a_call_that_timed_out_leaves_nothing_running::<MariaDb>(
            "SELECT 1 FROM information_schema.processlist
             WHERE id <> connection_id() AND db = database() AND info LIKE '%notify_switch%'",
        )
        .await;
    }
}

mod on_mysql {
    use super::*;

    #[tokio::test]
    async fn a_call_that_timed_out_leaves_nothing_running_on_mysql() {
        a_call_that_timed_out_leaves_nothing_running::<MySql>(
            "SELECT 1 FROM information_schema.processlist
             WHERE id <> connection_id() AND db = database() AND info LIKE '%notify_switch%'",
        )
        .await;
    }
}
