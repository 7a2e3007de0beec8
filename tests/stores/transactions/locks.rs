//! Lock waits: operators never wait for an open business transaction, a batch of outcomes never for a locked row.
//! And settings of the application's connections that ours must share.

use std::time::Duration;

use solid_notify::NotifyDef;
use solid_notify::definition::Updated;
use solid_notify::{Error, NewNotice, add_notice, add_notices};
use solid_notify_conformance::succeed;
use solid_notify_core::Status;
use solid_notify_core::store::{Claim, ClaimWhat, Settled};
use test_support::Database;
use test_support::Postgres;
use test_support::sending::PATIENCE;

use super::{SOON, Scene, Sql, run};

test_support::on_each_server!(
    an_operator_does_not_wait_for_a_transaction_that_added_a_notice,
    operator_can_define_a_name_that_an_open_transaction_did_not_find,
    an_outcome_whose_row_others_lock_is_left_for_later,
    producers_with_snapshots_meet_no_deadlock_of_a_claim,
);

/// Makes the next transactions of a connection keep the snapshot of their first statement.
async fn keep_snapshots<D: Database>(conn: &mut <D::Db as sqlx::Database>::Connection) {
    let sql = match <D::Db as sqlx::Database>::NAME {
        "PostgreSQL" => "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        _ => "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    };
    run::<D>(conn, sql).await.unwrap();
}

async fn an_operator_does_not_wait_for_a_transaction_that_added_a_notice<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::new(4).await;
    let mut conn = scene.db.pool.acquire().await.unwrap();
    keep_snapshots::<D>(&mut conn).await;
    let mut old = sqlx::Connection::begin(&mut *conn).await.unwrap();
    scene.work(&mut old, 1).await;
    let mut plain = scene.db.pool.begin().await.unwrap();
    scene.work(&mut plain, 2).await;
    let mut tx = scene.begin().await;
    scene.work(&mut tx, 3).await;
    let operator = async {
        scene.db.sql("UPDATE notify_def SET timeout = '7s' WHERE name = 'sync'").await;
        scene.db.sql("INSERT INTO notify_def (name) VALUES ('another')").await;
        let definitions = scene.outbox().definitions().await.unwrap();
        let seen = &definitions.iter().find(|definition| definition.row.name == "sync").unwrap().row;
        scene.outbox().update(seen, seen.clone().timeout("8s")).await.unwrap()
    };
    let updated = tokio::time::timeout(SOON, operator).await.expect("an edit never waits for business transactions");
    assert!(matches!(updated, Updated::Stored(_)), "{updated:?}");
    old.commit().await.unwrap();
    plain.commit().await.unwrap();
    tx.commit().await.unwrap();
    drop(conn);
    scene.ends_with(&[1, 2, 3]).await;
}

async fn operator_can_define_a_name_that_an_open_transaction_did_not_find<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::new(1).await;
    keep_snapshots::<D>(&mut *scene.db.pool.acquire().await.unwrap()).await;
    let mut tx = scene.begin().await;
    scene.work(&mut tx, 1).await;
    assert!(matches!(add_notice(&mut tx, "later", 1).await, Err(Error::UnknownDefinition { .. })));
    let mut other = scene.observer.acquire().await.unwrap();
    let operator = run::<D>(&mut other, "INSERT INTO notify_def (name) VALUES ('later')");
    let defined = tokio::time::timeout(SOON, operator).await.expect("an edit never waits for business transactions");
    defined.unwrap();
    drop(other);
    tx.commit().await.unwrap();
    scene.ends_with(&[1]).await;
}

async fn an_outcome_whose_row_others_lock_is_left_for_later<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::new(2).await;
    let mut tx = scene.begin().await;
    for k in 1..=3 {
        scene.work(&mut tx, k).await;
    }
    tx.commit().await.unwrap();
    let stores = scene.outbox().engine().stores();
    let def_id = scene.outbox().definitions().await.unwrap()[0].row.id;
    let claim = Claim {
        def_id,
        what: ClaimWhat::Slice(Status::NotSent),
        limit: 10,
        lease: Duration::from_secs(60),
        worker: "worker".to_owned(),
        quota: None,
    };
    let batch: Vec<_> = stores.send.claim(&claim).await.unwrap().notices.iter().map(succeed).collect();
    let mut other = scene.db.pool.begin().await.unwrap();
    run::<D>(&mut other, &format!("SELECT id FROM notify_msg WHERE id = {} FOR UPDATE", batch[1].id)).await.unwrap();
    let settled = tokio::time::timeout(SOON, stores.send.settle(&batch)).await.expect("it does not wait").unwrap();
    assert_eq!(settled, [Settled::Stored, Settled::Locked, Settled::Stored]);
    other.rollback().await.unwrap();
    assert_eq!(stores.send.settle(&batch).await.unwrap(), vec![Settled::Stored; 3]);
    scene.ends_with_rows(&[], &[1, 2, 3]).await;
}

#[tokio::test]
async fn definition_newer_than_the_snapshot_can_be_used_on_postgres() {
    let scene = Scene::<Postgres>::new(3).await;
    let mut conn = scene.db.pool.acquire().await.unwrap();
    keep_snapshots::<Postgres>(&mut conn).await;
    let mut old = sqlx::Connection::begin(&mut *conn).await.unwrap();
    let mut tx = scene.begin().await;
    run::<Postgres>(&mut tx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    for snapshot in [&mut *old, &mut *tx] {
        run::<Postgres>(snapshot, "SELECT count(*) FROM notify_def").await.unwrap();
    }
    scene.outbox().define_if_missing(NotifyDef::new("young").handler("sync")).await.unwrap();
    // The transaction of the application says what to do, and goes on.
    let error = add_notice(&mut old, "young", 1).await.unwrap_err();
    assert!(matches!(&error, Error::NotInSnapshot { name } if name == "young"), "{error}");
    assert!(error.to_string().contains("run the transaction again"), "{error}");
    scene.work(&mut old, 1).await;
    old.commit().await.unwrap();
    // The outbox looks outside of its own.
    scene.work(&mut tx, 2).await;
    add_notice(&mut tx, "young", 2).await.unwrap();
    let notices = [3, 4].map(|n| NewNotice::new("young", n).unwrap());
    add_notices(&mut tx, notices).await.unwrap();
    assert!(matches!(add_notice(&mut tx, "none", 1).await, Err(Error::UnknownDefinition { .. })));
    tx.commit().await.unwrap();
    let young = "SELECT count(*) FROM notify_msg m JOIN notify_def d ON d.id = m.def_id WHERE d.name = 'young'";
    assert_eq!(<Postgres as Database>::number(&scene.db.pool, young).await, 3);
}

async fn producers_with_snapshots_meet_no_deadlock_of_a_claim<D: Database<Db: Sql>>() {
    const EACH: i64 = 20;
    let scene = Scene::<D>::new(3).await;
    let def_id = scene.outbox().definitions().await.unwrap()[0].row.id;
    let produce = async |first: i64| {
        let mut conn = scene.db.pool.acquire().await.unwrap();
        keep_snapshots::<D>(&mut conn).await;
        for k in (first..first + EACH).step_by(2) {
            let mut tx = sqlx::Connection::begin(&mut *conn).await.unwrap();
            scene.work(&mut tx, k).await;
            // A claim has its turn while the transaction is open.
            tokio::task::yield_now().await;
            scene.work(&mut tx, k + 1).await;
            tx.commit().await.unwrap();
        }
    };
    let claim = Claim {
        def_id,
        what: ClaimWhat::Slice(Status::NotSent),
        limit: 7,
        lease: Duration::from_secs(60),
        worker: "worker".to_owned(),
        quota: None,
    };
    let consume = async {
        let send = &scene.outbox().engine().stores().send;
        let mut sent = 0;
        while sent < 3 * EACH as usize {
            let claimed = send.claim(&claim).await.unwrap().notices;
            let outcomes: Vec<_> = claimed.iter().map(succeed).collect();
            let settled = send.settle(&outcomes).await.unwrap();
            assert!(settled.iter().all(|settled| *settled == Settled::Stored), "{settled:?}");
            sent += settled.len();
        }
    };
    let all = async { tokio::join!(produce(1), produce(101), produce(201), consume) };
    tokio::time::timeout(PATIENCE, all).await.expect("neither waits for the other");
}

test_support::on_mysql_family!(a_definition_that_is_younger_than_the_snapshot_can_be_used);

async fn a_definition_that_is_younger_than_the_snapshot_can_be_used<D: Database<Db = sqlx::MySql>>() {
    let scene = Scene::<D>::new(2).await;
    let mut conn = scene.db.pool.acquire().await.unwrap();
    keep_snapshots::<D>(&mut conn).await;
    let mut tx = sqlx::Connection::begin(&mut *conn).await.unwrap();
    for defined in [false, true] {
        if defined {
            scene.outbox().define_if_missing(NotifyDef::new("young").handler("sync")).await.unwrap();
        }
        assert_eq!(sqlx::MySql::numbers(&mut tx, "SELECT count(*) FROM notify_def").await, [1], "a snapshot");
    }
    super::row::<D>(&mut tx, 1).await;
    add_notice(&mut tx, "young", 1).await.unwrap();
    tx.commit().await.unwrap();
    drop(conn);

    // With our own transaction no session has to wait for it even then.
    let scene_of_one = Scene::<D>::new(1).await;
    keep_snapshots::<D>(&mut *scene_of_one.db.pool.acquire().await.unwrap()).await;
    let mut tx = scene_of_one.begin().await;
    scene_of_one.work(&mut tx, 1).await;
    scene_of_one.outbox().define_if_missing(NotifyDef::new("young").handler("sync")).await.unwrap();
    super::row::<D>(&mut tx, 2).await;
    add_notice(&mut tx, "young", 2).await.unwrap();
    let mut other = scene_of_one.observer.acquire().await.unwrap();
    let edit = run::<D>(&mut other, "UPDATE notify_def SET timeout = '7s' WHERE name = 'young'");
    tokio::time::timeout(SOON, edit).await.expect("an edit never waits for business transactions").unwrap();
    drop(other);
    tx.commit().await.unwrap();
    scene_of_one.ends_with(&[1, 2]).await;
    scene.ends_with(&[1]).await;
}

mod on_postgres {
    use super::*;

    #[tokio::test]
    async fn a_late_search_path_holds_for_our_connections_too_on_postgres() {
        use std::str::FromStr;
        use std::sync::Arc;

        use solid_notify::{FirstAttempt, Outbox};
        use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
        use sqlx::{AssertSqlSafe, Executor};
        use test_support::databases::server_url;

        let scene = Scene::<Postgres>::new(1).await;
        let path = "SELECT set_config('search_path', current_schema(), false)";
        let path: String = sqlx::query_scalar(path).fetch_one(&scene.db.pool).await.unwrap();
        let options = PgPoolOptions::new().max_connections(1).after_connect(move |conn, _| {
            let set = AssertSqlSafe(format!("SET search_path TO {path}"));
            Box::pin(async move { conn.execute(set).await.map(|_| ()) })
        });
        let options = options.connect_with(PgConnectOptions::from_str(&server_url("POSTGRES_URL")).unwrap());
        let outbox = Outbox::new(options.await.unwrap());
        let sent = Arc::default();
        let sweeper = super::super::sweeper(&outbox, &sent).await;
        let mut tx = outbox.begin().await.unwrap();
        let added = scene.work(&mut tx, 1).await;
        tx.commit().await.unwrap();
        assert_eq!(added.first_attempt(SOON).await, FirstAttempt::Succeeded);
        assert_eq!(*sent.lock().unwrap(), [1]);
        sweeper.shutdown().await;
        outbox.pool().close().await;
        scene.ends_with_rows(&[], &[1]).await;
    }
}
