//! Rows that others lock: nothing of ours waits for them, and nothing is left running on the server when we gave up.
#![cfg(any(postgres, mariadb))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, SystemTime};

use solid_notify::{NotifyDef, Status, add_notice};
use solid_notify_core::store::{Claim, ClaimWhat, Lease};
#[cfg(mariadb)]
use solid_notify_tests::MariaDb;
#[cfg(postgres)]
use solid_notify_tests::Postgres;
use solid_notify_tests::sending::eventually;
use solid_notify_tests::{Database, TestDb};
use sqlx::{AssertSqlSafe, Executor};

solid_notify_tests::on_each_server!(a_locked_row_keeps_no_other_lease_from_being_extended);

/// How long anything may take that must not wait for others.
const SOON: Duration = Duration::from_secs(5);

async fn claimed<D: Database>(db: &TestDb<D>, count: i64) -> Vec<i64> {
    db.notify.define(NotifyDef::new("sync")).await.unwrap();
    let def_id = db.notify.definitions().await.unwrap()[0].row.id;
    let mut tx = db.notify.begin().await.unwrap();
    for k in 0..count {
        add_notice(&mut tx, "sync", k).await.unwrap();
    }
    tx.commit().await.unwrap();
    let (what, worker) = (ClaimWhat::Lane(Status::NotSent), "worker".to_owned());
    let claim = Claim { def_id, what, limit: 100, lease: Duration::from_secs(60), worker };
    let claimed = db.notify.store().claim(&claim).await.unwrap();
    assert_eq!(claimed.len(), usize::try_from(count).unwrap());
    claimed.into_iter().map(|notice| notice.id).collect()
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
    // An editor has to wait for the row.
    db.notify.update(&seen, seen.clone().timeout("7s")).await.unwrap_err();
    eventually("the statement is gone", async || {
        db.pool.fetch_all(AssertSqlSafe(running.to_owned())).await.unwrap().is_empty()
    })
    .await;
    other.rollback().await.unwrap();
    assert_eq!(db.notify.definitions().await.unwrap()[0].row.timeout, "30s");
    db.close().await;
}

#[cfg(postgres)]
#[tokio::test]
async fn a_call_that_timed_out_leaves_nothing_running_on_postgres() {
    a_call_that_timed_out_leaves_nothing_running::<Postgres>(
        "SELECT 1 FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
         WHERE NOT l.granted AND a.datname = current_database() AND a.query LIKE '%FROM notify_def WHERE id = $1%'
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
