//! The error classes of real database errors: constraints, deadlocks, time-outs, unknown accounts.

use solid_notify::{ErrorClass, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_sweeper::class_by_type;
use sqlx::{AssertSqlSafe, Executor};
use test_support::databases::server_url;
use test_support::sending::{add, reaches};
use test_support::{Database, TestDb};

test_support::on_each_database!(
    a_constraint_violation_is_invalid_also_inside_other_errors,
    a_missing_table_or_column_is_no_fault_of_the_notice,
);
mod servers {
    use super::a_deadlock_is_reported_to_its_victim;
    test_support::on_each_server!(a_deadlock_is_reported_to_its_victim);
}

async fn refused<D: Database>(db: &TestDb<D>, sql: &str) -> sqlx::Error
where
    for<'c> &'c sqlx::Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    db.pool.execute(AssertSqlSafe(sql.to_owned())).await.map(|_| ()).unwrap_err()
}

async fn a_constraint_violation_is_invalid_also_inside_other_errors<D: Database>()
where
    for<'c> &'c sqlx::Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    let db = TestDb::<D>::with_hand_clock().await;
    db.sql("CREATE TABLE booking (id integer PRIMARY KEY, seats integer NOT NULL CHECK (seats < 3))").await;
    db.sql("INSERT INTO booking VALUES (1, 1)").await;
    for sql in [
        "INSERT INTO booking VALUES (1, 1)",
        "INSERT INTO booking VALUES (2, 9)",
        "INSERT INTO booking VALUES (2, NULL)",
    ] {
        assert_eq!(class_by_type(&refused(&db, sql).await), Some(ErrorClass::Invalid), "{sql}");
    }
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let pool = db.pool.clone();
    let sweeper = db
        .outbox
        .sweeper()
        .handler("sync", move |_: Notice<i64>| {
            let pool = pool.clone();
            async move {
                use anyhow::Context;
                let again = AssertSqlSafe("INSERT INTO booking VALUES (1, 1)".to_owned());
                pool.execute(again).await.context("booking")?;
                Ok(())
            }
        })
        .start()
        .await
        .unwrap();
    let dead = reaches(&db, add(&db, "sync").await, Status::DeadLetter).await;
    assert_eq!(dead.last_class.as_deref(), Some("invalid"));
    assert!(dead.errors[0].message.starts_with("booking: "), "{}", dead.errors[0].message);
    sweeper.shutdown().await;
    db.close().await;
}

async fn a_missing_table_or_column_is_no_fault_of_the_notice<D: Database>()
where
    for<'c> &'c sqlx::Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    let db = TestDb::<D>::with_real_clock().await;
    assert_eq!(class_by_type(&refused(&db, "INSERT INTO nowhere VALUES (1)").await), None);
    sqlx::raw_sql("DROP TABLE notify_node").execute(&db.pool).await.unwrap();
    let error = db.outbox.operator("alice").nodes().await.unwrap_err().to_string();
    assert!(error.ends_with(" (was `outbox.migrate()` run?)"), "{error}");
    db.close().await;
}

async fn a_deadlock_is_reported_to_its_victim<D: Database>()
where
    for<'c> &'c mut <D::Db as sqlx::Database>::Connection: Executor<'c, Database = D::Db>,
{
    let db = TestDb::<D>::with_real_clock().await;
    db.sql("CREATE TABLE seat (id integer PRIMARY KEY, taken integer)").await;
    db.sql("INSERT INTO seat VALUES (1, 0), (2, 0)").await;
    let (mut one, mut two) = (db.pool.begin().await.unwrap(), db.pool.begin().await.unwrap());
    let (first, second) = ("UPDATE seat SET taken = 1 WHERE id = 1", "UPDATE seat SET taken = 1 WHERE id = 2");
    (&mut *one).execute(first).await.unwrap();
    (&mut *two).execute(second).await.unwrap();
    let other = tokio::spawn(async move { (&mut *two).execute(first).await.err() });
    let mine = (&mut *one).execute(second).await.err();
    drop(one);
    let victim = mine.or(other.await.unwrap()).expect("one of the two is given up");
    assert_eq!(class_by_type(&victim), Some(ErrorClass::Deadlock), "{victim}");
    db.close().await;
}

mod on_postgres {
    use super::*;

    #[tokio::test]
    async fn unknown_accounts_and_time_outs_have_classes_on_postgres() {
        use sqlx::Connection;
        use std::str::FromStr;
        let options = sqlx::postgres::PgConnectOptions::from_str(&server_url("POSTGRES_URL")).unwrap();
        let stranger =
            sqlx::PgConnection::connect_with(&options.clone().username("unknown_account")).await.err().unwrap();
        assert_eq!(class_by_type(&stranger), Some(ErrorClass::Auth), "{stranger}");
        let mut conn = sqlx::PgConnection::connect_with(&options).await.unwrap();
        conn.execute("SET statement_timeout = 20").await.unwrap();
        let late = conn.execute("SELECT pg_sleep(600)").await.unwrap_err();
        assert_eq!(class_by_type(&late), Some(ErrorClass::Timeout), "{late}");
    }
}

mod on_mariadb {
    use super::*;

    #[tokio::test]
    async fn unknown_accounts_and_time_outs_have_classes_on_mariadb() {
        unknown_accounts_and_time_outs_have_classes("MARIADB_URL", "SET max_statement_time = 0.02").await;
    }
}

mod on_mysql {
    use super::*;

    #[tokio::test]
    async fn unknown_accounts_and_time_outs_have_classes_on_mysql() {
        unknown_accounts_and_time_outs_have_classes("MYSQL_URL", "SET max_execution_time = 20").await;
    }
}

async fn unknown_accounts_and_time_outs_have_classes(server: &str, limit: &'static str) {
    use sqlx::Connection;
    use std::str::FromStr;
    let options = sqlx::mysql::MySqlConnectOptions::from_str(&server_url(server)).unwrap();
    let stranger = options.clone().username("unknown_account").password("?");
    let stranger = sqlx::MySqlConnection::connect_with(&stranger).await.err().unwrap();
    assert_eq!(class_by_type(&stranger), Some(ErrorClass::Auth), "{stranger}");
    let mut conn = sqlx::MySqlConnection::connect_with(&options).await.unwrap();
    conn.execute(limit).await.unwrap();
    // Counting is work that the limit ends; a sleep would only return early.
    let long =
        "SELECT count(*) FROM information_schema.columns a, information_schema.columns b, information_schema.columns c";
    let late = conn.execute(long).await.unwrap_err();
    assert_eq!(class_by_type(&late), Some(ErrorClass::Timeout), "{late}");
}

mod on_sqlite {
    use super::*;
    use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
    use test_support::databases::Cleanup;

    #[tokio::test]
    async fn full_database_is_named_and_works_again_on_sqlite() {
        let Cleanup::Directory(directory) = <test_support::databases::Sqlite as Database>::create_empty().await else {
            panic!("not a file")
        };
        // The store's own connections have the options of the pool, too. A table takes the rest of 1 MiB.
        let options = SqliteConnectOptions::new().filename(directory.path().join("full.db")).create_if_missing(true);
        let pool = SqlitePool::connect_with(options.pragma("max_page_count", "256")).await.unwrap();
        let outbox = solid_notify::Outbox::<sqlx::Sqlite>::new(pool.clone());
        outbox.migrate().await.unwrap();
        pool.execute("CREATE TABLE filler (x blob)").await.unwrap();
        while pool.execute("INSERT INTO filler VALUES (zeroblob(10000))").await.is_ok() {}
        let large = || NotifyDef::new("sync").owner("x".repeat(60_000));
        let error = outbox.define_if_missing(large()).await.unwrap_err().to_string();
        assert!(error.ends_with("database or disk is full; free space on the disk of the database"), "{error}");
        pool.execute("DELETE FROM filler").await.unwrap();
        outbox.define_if_missing(large()).await.unwrap();
        pool.close().await;
    }
}
