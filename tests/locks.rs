//! Rows that others lock: nothing of ours waits for them, and nothing is left running on the server when we gave up.
#![cfg(any(postgres, mariadb))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, SystemTime};

use solid_notify::{Added, Dialect, NewNotice, NotifyDef, Status, add_notice};
use solid_notify_core::Claimed;
use solid_notify_core::error::StoreError;
use solid_notify_core::store::{Claim, ClaimWhat, Lease, Settle, Settled};
use solid_notify_core::transition::Next;
use solid_notify_testkit::conformance::{Backend, succeed};
#[cfg(mariadb)]
use solid_notify_tests::MariaDb;
#[cfg(postgres)]
use solid_notify_tests::Postgres;
use solid_notify_tests::sending::eventually;
use solid_notify_tests::{Database, TestDb};
use sqlx::{AssertSqlSafe, Executor};

solid_notify_tests::on_each_server!(
    a_locked_row_keeps_no_other_lease_from_being_extended,
    a_locked_row_holds_back_the_next_one_of_its_key,
    a_locked_row_keeps_no_other_outcome_from_being_settled,
    a_locked_row_keeps_no_other_first_send_from_being_claimed,
    a_call_that_meets_a_conflict_is_tried_again,
    a_claim_that_others_of_its_key_were_faster_than_is_tried_again,
    who_claims_what_another_is_just_claiming_gets_nothing_at_once,
    who_adds_a_duplicate_keeps_nobody_from_settling_the_other,
    a_duplicate_that_a_snapshot_does_not_show_is_no_error,
);

/// How long anything may take that must not wait for others.
const SOON: Duration = Duration::from_secs(5);

/// Claims fresh notices of the one definition.
async fn claim_lane<D: Database>(db: &TestDb<D>, limit: usize) -> Result<Vec<Claimed>, StoreError> {
    claim(db, ClaimWhat::Lane(Status::NotSent), limit).await
}

async fn claim<D: Database>(db: &TestDb<D>, what: ClaimWhat, limit: usize) -> Result<Vec<Claimed>, StoreError> {
    let (def_id, worker) = (db.notify.definitions().await.unwrap()[0].row.id, "worker".to_owned());
    let claim = Claim { def_id, what, limit, lease: Duration::from_secs(60), worker, quota: None };
    db.notify.store().claim(&claim).await.map(|claims| claims.notices)
}

async fn claimed<D: Database>(db: &TestDb<D>, count: i64) -> Vec<i64> {
    db.notify.define(NotifyDef::new("sync")).await.unwrap();
    let mut tx = db.notify.begin().await.unwrap();
    for k in 0..count {
        add_notice(&mut tx, "sync", k).await.unwrap();
    }
    tx.commit().await.unwrap();
    let claimed = claim_lane(db, 100).await.unwrap();
    assert_eq!(claimed.len(), usize::try_from(count).unwrap());
    claimed.into_iter().map(|notice| notice.id).collect()
}

/// A settle locks the row that it changes; whoever claims at that moment passes locked rows over, but not their keys.
async fn a_locked_row_holds_back_the_next_one_of_its_key<D: Database>()
where
    for<'c> &'c mut <D::Db as sqlx::Database>::Connection: Executor<'c, Database = D::Db>,
{
    let db = TestDb::<D>::with_real_clock().await;
    db.notify.define(NotifyDef::new("sync")).await.unwrap();
    let mut tx = db.notify.begin().await.unwrap();
    for k in 0..2 {
        NewNotice::new("sync", k).unwrap().ordering_key("a").add(&mut tx).await.unwrap();
    }
    tx.commit().await.unwrap();
    let mut other = db.pool.begin().await.unwrap();
    let first = claim_lane(&db, 100).await.unwrap();
    assert_eq!(first.len(), 1);
    let retry = "UPDATE notify_msg SET status = 2, next_call_time = '2100-01-01 00:00:00' WHERE status = 5";
    (&mut *other).execute(retry).await.unwrap();
    let claimed = tokio::time::timeout(SOON, claim_lane(&db, 100)).await.expect("it does not wait").unwrap();
    assert_eq!(claimed, [], "the second was claimed before the first");
    other.rollback().await.unwrap();
    db.close().await;
}

async fn a_locked_row_keeps_no_other_lease_from_being_extended<D: Database>()
where
    for<'c> &'c mut <D::Db as sqlx::Database>::Connection: Executor<'c, Database = D::Db>,
{
    let db = TestDb::<D>::with_real_clock().await;
    let ids = claimed(&db, 3).await;
    let mut other = db.pool.begin().await.unwrap();
    let lock = format!("SELECT id FROM notify_msg WHERE id = {} FOR UPDATE", ids[1]);
    (&mut *other).execute(AssertSqlSafe(lock)).await.unwrap();
    let lease = Duration::from_secs(600);
    let leases: Vec<Lease> = ids.iter().map(|id| Lease { id: *id, attempt: 1, lease }).collect();
    tokio::time::timeout(SOON, db.notify.store().extend(&leases)).await.expect("it does not wait").unwrap();
    let soon = SystemTime::now() + Duration::from_secs(300);
    let mut extended = Vec::new();
    for id in &ids {
        extended.push(db.notify.find(*id).await.unwrap().unwrap().next_call_time.unwrap() > soon);
    }
    assert_eq!(extended, [true, false, true]);
    other.rollback().await.unwrap();
    db.notify.store().extend(&leases).await.unwrap();
    assert!(db.notify.find(ids[1]).await.unwrap().unwrap().next_call_time.unwrap() > soon);
    db.close().await;
}

/// Once without knowing of the lock, and once more after it was met.
async fn a_locked_row_keeps_no_other_outcome_from_being_settled<D: Database>()
where
    for<'c> &'c mut <D::Db as sqlx::Database>::Connection: Executor<'c, Database = D::Db>,
{
    for keep_history in ["30d", "none"] {
        let db = TestDb::<D>::with_real_clock().await;
        db.notify.define(NotifyDef::new("sync").keep_history(keep_history)).await.unwrap();
        for n in 0..5 {
            db.add_new(NewNotice::new("sync", n).unwrap()).await;
        }
        let claimed = claim_lane(&db, 5).await.unwrap();
        let mut other = db.pool.begin().await.unwrap();
        let lock = format!("SELECT id FROM notify_msg WHERE id = {} FOR UPDATE", claimed[1].id);
        (&mut *other).execute(AssertSqlSafe(lock)).await.unwrap();
        let mut outcomes = claimed.iter().map(succeed).collect::<Vec<_>>();
        for outcome in &mut outcomes {
            let Next::Finish { keep, .. } = &mut outcome.transition.next else { panic!("{outcome:?}") };
            *keep = keep_history == "30d";
        }
        let settle = async |outcomes: &[Settle]| {
            let settled = tokio::time::timeout(SOON, db.notify.store().settle(outcomes)).await;
            settled.expect("it does not wait").unwrap()
        };
        assert_eq!(settle(&outcomes[..3]).await, [Settled::Done, Settled::Locked, Settled::Done]);
        assert_eq!(settle(&outcomes[3..]).await, [Settled::Done, Settled::Done]);
        assert_eq!(settle(&outcomes[1..2]).await, [Settled::Locked]);
        other.rollback().await.unwrap();
        assert_eq!(settle(&outcomes[1..2]).await, [Settled::Done]);
        db.close().await;
    }
}

async fn a_locked_row_keeps_no_other_first_send_from_being_claimed<D: Database>()
where
    for<'c> &'c mut <D::Db as sqlx::Database>::Connection: Executor<'c, Database = D::Db>,
{
    let db = TestDb::<D>::with_real_clock().await;
    db.notify.define(NotifyDef::new("sync")).await.unwrap();
    let mut ids = Vec::new();
    for n in 0..4 {
        ids.push(db.add_new(NewNotice::new("sync", n).unwrap()).await.id());
    }
    let mut other = db.pool.begin().await.unwrap();
    let lock = format!("SELECT id FROM notify_msg WHERE id = {} FOR UPDATE", ids[1]);
    (&mut *other).execute(AssertSqlSafe(lock)).await.unwrap();
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
    let script = match <D::Db as sqlx::Database>::NAME {
        "PostgreSQL" => [
            "CREATE SEQUENCE met".to_owned(),
            format!(
                "CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                     IF nextval('met') <= 2 THEN RAISE 'met' USING ERRCODE = '{on_postgres}'; END IF;
                     RETURN new;
                 END $$;
                 CREATE TRIGGER meet BEFORE UPDATE ON notify_msg FOR EACH ROW EXECUTE FUNCTION meet()"
            ),
        ],
        _ => [
            "CREATE TABLE met (n integer) ENGINE = MyISAM".to_owned(),
            format!(
                "CREATE TRIGGER meet BEFORE UPDATE ON notify_msg FOR EACH ROW BEGIN
                     INSERT INTO met VALUES (1);
                     IF (SELECT count(*) FROM met) <= 2 THEN SIGNAL SQLSTATE {on_mysql}; END IF;
                 END"
            ),
        ],
    };
    for sql in script {
        D::Db::script(&mut *db.pool.acquire().await.unwrap(), sql.into()).await.unwrap();
    }
    db.notify.define(NotifyDef::new("sync")).await.unwrap();
    db.add_new(NewNotice::new("sync", 1).unwrap()).await;
    // Postgres answers an error before it gives up the locks: a try that follows at once may pass over the row.
    eventually("it is claimed", async || !claim_lane(&db, 1).await.unwrap().is_empty()).await;
    db.close().await;
}

/// A trigger holds the first claim up until the test lets it go.
async fn who_claims_what_another_is_just_claiming_gets_nothing_at_once<D: Database>()
where
    for<'c> &'c sqlx::Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    let db = TestDb::<D>::with_real_clock().await;
    db.notify.define(NotifyDef::new("sync")).await.unwrap();
    db.add_new(NewNotice::new("sync", 1).unwrap()).await;
    let key = fastrand::i64(..);
    let (close, trigger, waits, open) = match <D::Db as sqlx::Database>::NAME {
        "PostgreSQL" => (
            format!("SELECT pg_advisory_lock({key})"),
            format!(
                "CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
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
            format!("CREATE TRIGGER gate BEFORE UPDATE ON notify_msg FOR EACH ROW SET @gate = GET_LOCK('{key}', 60)"),
            "SELECT 1 FROM information_schema.processlist WHERE state = 'User lock' AND db = database()".to_owned(),
            format!("DO RELEASE_LOCK('{key}')"),
        ),
    };
    D::Db::script(&mut *db.pool.acquire().await.unwrap(), trigger.into()).await.unwrap();
    let mut gate = db.pool.acquire().await.unwrap();
    D::Db::script(&mut gate, close.into()).await.unwrap();
    let first = async { claim_lane(&db, 1).await.unwrap() };
    let second = async {
        let is_waiting = async || !db.pool.fetch_all(AssertSqlSafe(waits.clone())).await.unwrap().is_empty();
        eventually("the first is under way", is_waiting).await;
        let second = tokio::time::timeout(SOON, claim_lane(&db, 1)).await;
        D::Db::script(&mut gate, open.into()).await.unwrap();
        second.expect("it does not wait").unwrap()
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.len(), second.len()), (1, 0));
    drop(gate);
    db.close().await;
}

/// The insert that fails for a duplicate would lock that until the end of its transaction.
async fn who_adds_a_duplicate_keeps_nobody_from_settling_the_other<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.notify.define(NotifyDef::new("sync")).await.unwrap();
    let keyed = |n: i64| NewNotice::new("sync", n).unwrap().dedupe_key("key");
    let id = db.add_new(keyed(1)).await.id();
    let claimed = claim_lane(&db, 1).await.unwrap();
    assert_eq!(claimed.len(), 1);
    let mut tx = db.notify.begin().await.unwrap();
    assert!(matches!(keyed(2).add(&mut tx).await.unwrap(), Added::Duplicate(Some(there)) if there == id));
    let settled =
        tokio::time::timeout(SOON, db.notify.store().settle(&[succeed(&claimed[0])])).await.expect("it does not wait");
    assert_eq!(settled.unwrap(), [Settled::Done]);
    tx.rollback().await.unwrap();
    db.close().await;
}

/// As MySQL's transactions have one by default.
async fn a_duplicate_that_a_snapshot_does_not_show_is_no_error<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.notify.define(NotifyDef::new("sync")).await.unwrap();
    let keyed = |n: i64| NewNotice::new("sync", n).unwrap().dedupe_key("key");
    let mut tx = db.notify.begin().await.unwrap();
    D::Db::script(&mut tx, "SELECT count(*) FROM notify_msg".into()).await.unwrap();
    db.add_new(keyed(1)).await;
    let added = keyed(2).add(&mut tx).await.unwrap();
    assert!(matches!(added, Added::Duplicate(_)), "{added:?}");
    tx.commit().await.unwrap();
    db.close().await;
}

/// A call that gave up waiting must not leave its statement behind, to change things when nobody expects it any more.
async fn a_call_that_timed_out_leaves_nothing_running<D: Database>(running: &str)
where
    for<'c> &'c mut <D::Db as sqlx::Database>::Connection: Executor<'c, Database = D::Db>,
    for<'c> &'c sqlx::Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    let db = TestDb::<D>::build(4, false, |builder| builder.call_timeout(Duration::from_secs(2))).await;
    db.notify.define(NotifyDef::new("sync")).await.unwrap();
    let seen = db.notify.definitions().await.unwrap().remove(0).row;
    let mut other = db.pool.begin().await.unwrap();
    (&mut *other).execute("SELECT id FROM notify_def FOR UPDATE").await.unwrap();
    let is_running = async || !db.pool.fetch_all(AssertSqlSafe(running.to_owned())).await.unwrap().is_empty();
    // An editor has to wait for the row.
    let edit = db.notify.update(&seen, seen.clone().timeout("7s"));
    let (edited, ()) = tokio::join!(edit, eventually("the statement waits", &is_running));
    edited.unwrap_err();
    eventually("the statement is gone", async || !is_running().await).await;
    other.rollback().await.unwrap();
    assert_eq!(db.notify.definitions().await.unwrap()[0].row.timeout, "30s");
    db.close().await;
}

#[cfg(postgres)]
#[tokio::test]
async fn a_call_that_timed_out_leaves_nothing_running_on_postgres() {
    // Of a long statement the server tells only the beginning.
    a_call_that_timed_out_leaves_nothing_running::<Postgres>(
        "SELECT 1 FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
         WHERE NOT l.granted AND a.datname = current_database() AND a.query LIKE 'SELECT id, name, handler%'
         AND pg_blocking_pids(a.pid) && ARRAY(SELECT pid FROM pg_locks WHERE granted AND relation = 'notify_def'::regclass)",
    )
    .await;
}

#[cfg(mariadb)]
#[tokio::test]
async fn a_call_that_timed_out_leaves_nothing_running_on_mariadb() {
    a_call_that_timed_out_leaves_nothing_running::<MariaDb>(
        "SELECT 1 FROM information_schema.processlist
         WHERE id <> connection_id() AND db = database() AND info LIKE '%FROM notify_def WHERE id = ? FOR UPDATE%'",
    )
    .await;
}
