//! Transactions that the database has given up, or that fail at their commit: they leave no notice, and `commit` says so.

use std::sync::atomic::Ordering;

use solid_notify::Error;
use solid_notify::FirstAttempt;
use solid_notify::add_notice;
use solid_notify_core::error::FaultKind;
use test_support::MariaDb;
use test_support::MySql;
use test_support::Postgres;
use test_support::{Database, on_each_database};

use super::{SOON, Scene, Sql, hook, run};

on_each_database!(
    a_transaction_that_was_rolled_back_by_raw_sql_cannot_be_committed,
    a_transaction_that_raw_sql_has_committed_is_reported_as_lost,
    ack_or_nack_needs_a_transaction,
);

fn is_lost(result: Result<(), Error>) -> bool {
    matches!(result, Err(Error::TransactionLost { .. }))
}

fn kind(result: Result<(), solid_notify::Error>) -> Option<FaultKind> {
    match result {
        Err(solid_notify::Error::Store(error)) => Some(error.kind),
        _ => None,
    }
}

async fn a_transaction_that_was_rolled_back_by_raw_sql_cannot_be_committed<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::swept(1).await;
    let mut tx = scene.begin().await;
    let added = scene.work(&mut tx, 1).await;
    let ran = hook(&mut tx);
    run::<D>(&mut tx, "ROLLBACK").await.unwrap();
    let committed = tx.commit().await;
    assert!(matches!(committed, Err(Error::TransactionLost { .. })), "{committed:?}");
    assert!(!ran.load(Ordering::Relaxed));
    assert_eq!(added.first_attempt(SOON).await, FirstAttempt::RolledBack);
    // The connection still works.
    let mut tx = scene.begin().await;
    scene.work(&mut tx, 2).await;
    tx.commit().await.unwrap();
    scene.ends_with(&[2]).await;
}

/// Its hooks do not run, because the library does not know what raw SQL has done. The sweep finds the notice.
async fn a_transaction_that_raw_sql_has_committed_is_reported_as_lost<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::swept(1).await;
    let mut tx = scene.begin().await;
    scene.work(&mut tx, 1).await;
    let ran = hook(&mut tx);
    run::<D>(&mut tx, "COMMIT").await.unwrap();
    let committed = tx.commit().await;
    assert!(matches!(committed, Err(Error::TransactionLost { .. })), "{committed:?}");
    assert!(!ran.load(Ordering::Relaxed));
    scene.ends_with(&[1]).await;
}

/// It has several steps, which must not be committed one by one.
async fn ack_or_nack_needs_a_transaction<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::swept(1).await;
    let mut conn = scene.db.pool.acquire().await.unwrap();
    let refused = solid_notify::ack_notice(&mut conn, 1).await.unwrap_err();
    assert!(matches!(refused, solid_notify::Error::TransactionLost { .. }), "{refused}");
    let mut tx = sqlx::Connection::begin(&mut *conn).await.unwrap();
    assert_eq!(solid_notify::ack_notice(&mut tx, 1).await.unwrap(), solid_notify::AckResult::Unknown);
    tx.commit().await.unwrap();
    drop(conn);
    scene.ends_with(&[]).await;
}

/// An error that does not abort the transaction: everything depends on its commit alone.
async fn ignored_error_changes_nothing<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::swept(2).await;
    for (k, commits) in [(1, true), (2, false)] {
        let mut tx = scene.begin().await;
        super::row::<D>(&mut tx, k).await;
        run::<D>(&mut tx, &format!("INSERT INTO work VALUES ({k})")).await.unwrap_err();
        let added = add_notice(&mut tx, "sync", k).await.unwrap();
        run::<D>(&mut tx, &format!("INSERT INTO work VALUES ({k})")).await.unwrap_err();
        if commits {
            tx.commit().await.unwrap();
            assert_eq!(added.first_attempt(SOON).await, FirstAttempt::Succeeded);
        } else {
            tx.rollback().await.unwrap();
            assert_eq!(added.first_attempt(SOON).await, FirstAttempt::RolledBack);
        }
    }
    scene.ends_with(&[1]).await;
}

mod on_sqlite {
    use super::*;

    #[tokio::test]
    async fn ignored_error_changes_nothing_on_sqlite() {
        ignored_error_changes_nothing::<test_support::Sqlite>().await;
    }

    #[tokio::test]
    async fn a_commit_that_a_constraint_refuses_sends_nothing_on_sqlite() {
        a_commit_that_a_constraint_refuses_sends_nothing::<test_support::Sqlite>().await;
    }
}

mod on_mariadb {
    use super::*;

    #[tokio::test]
    async fn ignored_error_changes_nothing_on_mariadb() {
        ignored_error_changes_nothing::<MariaDb>().await;
    }

    /// Otherwise it would be committed by itself, also when the work is rolled back.
    #[tokio::test]
    async fn a_notice_is_refused_where_no_transaction_is_open_any_more_on_mariadb() {
        let scene = Scene::<MariaDb>::new(2).await;
        for end in ["ROLLBACK", "COMMIT"] {
            let mut tx = scene.begin().await;
            run::<MariaDb>(&mut tx, end).await.unwrap();
            assert!(matches!(add_notice(&mut tx, "sync", 1).await, Err(Error::TransactionLost { .. })));
            assert!(is_lost(tx.commit().await));
            let mut tx = scene.db.pool.begin().await.unwrap();
            run::<MariaDb>(&mut tx, end).await.unwrap();
            assert!(matches!(add_notice(&mut tx, "sync", 1).await, Err(Error::TransactionLost { .. })));
        }
        scene.ends_with(&[]).await;
    }

    #[tokio::test]
    async fn a_connection_that_was_killed_commits_nothing_on_mariadb() {
        a_connection_that_was_killed_commits_nothing::<MariaDb>(
            "SELECT CAST(connection_id() AS signed)",
            |id| format!("KILL {id}"),
            |id| format!("SELECT count(*) FROM information_schema.processlist WHERE id = {id}"),
        )
        .await;
    }
}

mod on_mysql {
    use super::*;

    #[tokio::test]
    async fn ignored_error_changes_nothing_on_mysql() {
        ignored_error_changes_nothing::<MySql>().await;
    }

    /// MySQL does not report whether a transaction is open, so the notice is committed by itself.
    #[tokio::test]
    async fn a_commit_behind_a_raw_rollback_says_so_on_mysql() {
        let scene = Scene::<MySql>::swept(1).await;
        let mut tx = scene.begin().await;
        scene.work(&mut tx, 1).await;
        run::<MySql>(&mut tx, "ROLLBACK").await.unwrap();
        add_notice(&mut tx, "sync", 2).await.unwrap();
        assert!(is_lost(tx.commit().await));
        scene.ends_with_rows(&[2], &[]).await;
    }

    #[tokio::test]
    async fn a_connection_that_was_killed_commits_nothing_on_mysql() {
        a_connection_that_was_killed_commits_nothing::<MySql>(
            "SELECT CAST(connection_id() AS signed)",
            |id| format!("KILL {id}"),
            |id| format!("SELECT count(*) FROM information_schema.processlist WHERE id = {id}"),
        )
        .await;
    }
}

mod on_postgres {
    use super::*;

    #[tokio::test]
    async fn ignored_error_is_detected_by_the_commit_on_postgres() {
        let scene = Scene::<Postgres>::swept(1).await;
        let mut tx = scene.begin().await;
        let added = scene.work(&mut tx, 1).await;
        let ran = hook(&mut tx);
        run::<Postgres>(&mut tx, "SELECT 1 / 0").await.unwrap_err();
        assert!(matches!(add_notice(&mut tx, "sync", 1).await, Err(Error::Store(_))));
        assert!(is_lost(tx.commit().await));
        assert!(!ran.load(Ordering::Relaxed));
        assert_eq!(added.first_attempt(SOON).await, FirstAttempt::RolledBack);

        // sqlx's own commit says Ok of the same.
        let mut tx = scene.db.pool.begin().await.unwrap();
        scene.work(&mut tx, 2).await;
        run::<Postgres>(&mut tx, "SELECT 1 / 0").await.unwrap_err();
        tx.commit().await.unwrap();

        // A savepoint confines it.
        let mut tx = scene.begin().await;
        let mut inner = tx.begin().await.unwrap();
        let inner_ran = hook(&mut inner);
        let gone = scene.work(&mut inner, 3).await;
        run::<Postgres>(&mut inner, "SELECT 1 / 0").await.unwrap_err();
        inner.commit().await.unwrap_err();
        let kept = scene.work(&mut tx, 4).await;
        tx.commit().await.unwrap();
        assert!(!inner_ran.load(Ordering::Relaxed));
        assert_eq!(gone.first_attempt(SOON).await, FirstAttempt::RolledBack);
        assert_eq!(kept.first_attempt(SOON).await, FirstAttempt::Succeeded);
        scene.ends_with(&[4]).await;
    }

    #[tokio::test]
    async fn a_prepared_transaction_is_sent_after_its_commit_on_postgres() {
        let mut scene = Scene::<Postgres>::swept(2).await;
        let name = format!("solid_notify_{:016x}", fastrand::u64(..));
        let mut tx = scene.begin().await;
        scene.work(&mut tx, 1).await;
        let ran = hook(&mut tx);
        run::<Postgres>(&mut tx, &format!("PREPARE TRANSACTION '{name}'")).await.unwrap();
        assert!(is_lost(tx.commit().await));
        assert!(!ran.load(Ordering::Relaxed));
        assert_eq!(scene.sent().await, [0_i64; 0]);
        assert_eq!(scene.observe("SELECT count(*) FROM notify_msg").await, 0);
        scene.db.sql(&format!("COMMIT PREPARED '{name}'")).await;
        scene.ends_with(&[1]).await;
    }

    #[tokio::test]
    async fn a_commit_that_a_constraint_refuses_sends_nothing_on_postgres() {
        a_commit_that_a_constraint_refuses_sends_nothing::<Postgres>().await;
    }

    #[tokio::test]
    async fn a_connection_that_was_killed_commits_nothing_on_postgres() {
        a_connection_that_was_killed_commits_nothing::<Postgres>(
            "SELECT pg_backend_pid()::bigint",
            |id| format!("SELECT pg_terminate_backend({id})"),
            |id| format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {id}"),
        )
        .await;
    }
}

test_support::on_mysql_family!(ignored_deadlock_is_detected_by_the_next_notice_and_commit);

async fn ignored_deadlock_is_detected_by_the_next_notice_and_commit<D: Database<Db = sqlx::MySql>>() {
    let scene = Scene::<D>::swept(3).await;
    // MySQL does not report whether a transaction is open.
    let version: String = sqlx::query_scalar("SELECT version()").fetch_one(&scene.db.pool).await.unwrap();
    let tells = version.contains("MariaDB");
    let rows: Vec<String> = (1001..=1100).map(|id| format!("({id})")).collect();
    scene.db.sql("CREATE TABLE stock (id int PRIMARY KEY, n int NOT NULL DEFAULT 0)").await;
    scene.db.sql(&format!("INSERT INTO stock (id) VALUES (1), (2), {}", rows.join(", "))).await;
    for (k, adds, nested, ours) in
        [(10, false, false, true), (20, true, false, true), (30, false, true, true), (40, true, false, false)]
    {
        let mut strong = scene.begin().await;
        scene.work(&mut strong, k).await;
        // The server gives up the one that changed fewer rows.
        run::<D>(&mut strong, "UPDATE stock SET n = n + 1 WHERE id = 1 OR id > 1000").await.unwrap();
        if ours {
            let mut weak = scene.begin().await;
            let added = scene.work(&mut weak, k + 1).await;
            let ran = hook(&mut weak);
            if nested {
                let mut inner = weak.begin().await.unwrap();
                meet::<D>(&mut strong, &mut inner).await;
                inner.commit().await.unwrap_err();
            } else {
                meet::<D>(&mut strong, &mut weak).await;
            }
            if adds && tells {
                assert!(matches!(add_notice(&mut weak, "sync", k).await, Err(Error::TransactionLost { .. })));
            }
            assert!(is_lost(weak.commit().await));
            assert!(!ran.load(Ordering::Relaxed));
            assert_eq!(added.first_attempt(SOON).await, FirstAttempt::RolledBack);
        } else {
            let mut weak = scene.db.pool.begin().await.unwrap();
            scene.work(&mut weak, k + 1).await;
            meet::<D>(&mut strong, &mut weak).await;
            if adds && tells {
                assert!(matches!(add_notice(&mut weak, "sync", k).await, Err(Error::TransactionLost { .. })));
            }
            // sqlx's own commit says Ok of the same.
            weak.commit().await.unwrap();
        }
        strong.commit().await.unwrap();
    }
    scene.ends_with(&[10, 20, 30, 40]).await;
}

/// `strong` holds row 1 and `weak` takes row 2; then each wants the other's. The weak one's error is ignored.
async fn meet<D: Database<Db = sqlx::MySql>>(strong: &mut sqlx::MySqlConnection, weak: &mut sqlx::MySqlConnection) {
    run::<D>(weak, "UPDATE stock SET n = n + 1 WHERE id = 2").await.unwrap();
    let both = async {
        tokio::join!(
            run::<D>(strong, "UPDATE stock SET n = n + 1 WHERE id = 2"),
            run::<D>(weak, "UPDATE stock SET n = n + 1 WHERE id = 1"),
        )
    };
    let (won, lost) = tokio::time::timeout(SOON, both).await.expect("a deadlock is found at once");
    won.unwrap();
    let error = lost.unwrap_err();
    assert_eq!(error.as_database_error().and_then(|error| error.code()).as_deref(), Some("40001"), "{error}");
}

/// A constraint that is checked at the commit.
async fn a_commit_that_a_constraint_refuses_sends_nothing<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::swept(1).await;
    scene.db.sql("CREATE TABLE part (work bigint REFERENCES work (id) DEFERRABLE INITIALLY DEFERRED)").await;
    let mut tx = scene.begin().await;
    let added = scene.work(&mut tx, 1).await;
    let ran = hook(&mut tx);
    run::<D>(&mut tx, "INSERT INTO part VALUES (77)").await.unwrap();
    assert_eq!(kind(tx.commit().await), Some(FaultKind::Permanent));
    assert!(!ran.load(Ordering::Relaxed));
    assert_eq!(added.first_attempt(SOON).await, FirstAttempt::RolledBack);
    let mut tx = scene.begin().await;
    scene.work(&mut tx, 2).await;
    tx.commit().await.unwrap();
    scene.ends_with(&[2]).await;
}

/// The connection dies before the commit. `whoami` is an SQL expression of its id, `kill` ends it.
async fn a_connection_that_was_killed_commits_nothing<D: Database<Db: Sql>>(
    whoami: &str,
    kill: impl Fn(i64) -> String,
    alive: impl Fn(i64) -> String,
) {
    let scene = Scene::<D>::swept(1).await;
    let mut tx = scene.begin().await;
    let added = scene.work(&mut tx, 1).await;
    let ran = hook(&mut tx);
    let victim = D::Db::numbers(&mut tx, whoami).await[0];
    run::<D>(&mut *scene.observer.acquire().await.unwrap(), &kill(victim)).await.unwrap();
    let died = async { while scene.observe(&alive(victim)).await > 0 {} };
    tokio::time::timeout(SOON, died).await.expect("the connection dies");
    assert_eq!(kind(tx.commit().await), Some(FaultKind::Outage));
    assert!(!ran.load(Ordering::Relaxed));
    let outcome = added.first_attempt(SOON).await;
    assert!(matches!(outcome, FirstAttempt::RolledBack | FirstAttempt::StillDue), "{outcome:?}");
    let mut tx = scene.begin().await;
    scene.work(&mut tx, 2).await;
    tx.commit().await.unwrap();
    scene.ends_with(&[2]).await;
}
