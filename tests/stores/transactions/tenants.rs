//! A schema per tenant, chosen on the application's own connection by `SET LOCAL search_path` or `USE`: every notice belongs to the
//! definition of its name in the tables that hold it.

use solid_notify::{NewNotice, NotifyDef, Outbox, add_notice, add_notices};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{AssertSqlSafe, Executor};
use test_support::MariaDb;
use test_support::Postgres;
use test_support::TestDb;

const NAMES: [&str; 3] = ["first", "second", "third"];

/// The same definitions in both, in opposite orders, so that an id of one means another definition in the other.
async fn define<DB: solid_notify::sql::Dialect>(outbox: &Outbox<DB>, tenant: &Outbox<DB>) {
    for name in NAMES {
        outbox.define_if_missing(NotifyDef::new(name)).await.unwrap();
    }
    for name in NAMES.iter().rev() {
        tenant.define_if_missing(NotifyDef::new(*name)).await.unwrap();
    }
    // The ids are known from now on.
    outbox.definitions().await.unwrap();
}

/// Notices of each way to insert them; the parameter is the name of the definition.
async fn add<DB: solid_notify::sql::Dialect>(tx: &mut solid_notify::NoticeTx<'_, DB>, k: usize) {
    let name = NAMES[k % 3];
    let notice = || NewNotice::new(name, name).unwrap();
    match k / 3 % 3 {
        0 => drop(add_notice(tx, name, name).await.unwrap()),
        1 => drop(notice().description("text").add(tx).await.unwrap()),
        _ => drop(add_notices(tx, [notice()]).await.unwrap()),
    }
}

mod on_postgres {
    use super::*;

    /// The outbox looks for a newer definition on its own connection, which sees other tables.
    #[tokio::test]
    async fn definition_of_another_schema_is_not_a_newer_one_on_postgres() {
        let (db, other) = (TestDb::<Postgres>::with_real_clock().await, TestDb::<Postgres>::with_real_clock().await);
        db.outbox.define_if_missing(NotifyDef::new("here")).await.unwrap();
        let tenant: String = sqlx::query_scalar("SELECT current_schema()::text").fetch_one(&other.pool).await.unwrap();
        let mut tx = db.outbox.begin().await.unwrap();
        (&mut *tx).execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await.unwrap();
        (&mut *tx).execute(AssertSqlSafe(format!("SET LOCAL search_path = {tenant}"))).await.unwrap();
        assert!(add_notice(&mut tx, "here", 1).await.is_err());
        let notices = [1, 2].map(|n| NewNotice::new("here", n).unwrap());
        assert!(add_notices(&mut tx, notices).await.is_err());
        tx.rollback().await.unwrap();
        db.close().await;
        other.close().await;
    }

    #[tokio::test]
    async fn notices_of_a_search_path_belong_to_its_definitions_on_postgres() {
        let (db, other) = (TestDb::<Postgres>::with_real_clock().await, TestDb::<Postgres>::with_real_clock().await);
        define(&db.outbox, &other.outbox).await;
        let tenant: String = sqlx::query_scalar("SELECT current_schema()::text").fetch_one(&other.pool).await.unwrap();
        for k in 0..36 {
            let mut tx = db.outbox.begin().await.unwrap();
            if k % 2 == 1 {
                (&mut *tx).execute(AssertSqlSafe(format!("SET LOCAL search_path = {tenant}"))).await.unwrap();
            }
            // The transaction has written something: without that an insert looks its definition up anyway.
            (&mut *tx).execute("INSERT INTO notify_audit (who, act) VALUES ('test', 'test')").await.unwrap();
            add(&mut tx, k).await;
            tx.commit().await.unwrap();
        }
        let wrong =
            "SELECT count(*) FROM notify_msg m JOIN notify_def d ON d.id = m.def_id WHERE d.name <> m.param #>> '{}'";
        for db in [&db, &other] {
            let all: i64 = sqlx::query_scalar("SELECT count(*) FROM notify_msg").fetch_one(&db.pool).await.unwrap();
            let wrong: i64 = sqlx::query_scalar(wrong).fetch_one(&db.pool).await.unwrap();
            assert_eq!((all, wrong), (18, 0));
        }
        db.close().await;
        other.close().await;
    }
}

mod on_mariadb {
    use super::*;

    /// Prepared statements stay with the database in which they were prepared, so the test does not check which one has a notice.
    #[tokio::test]
    async fn notices_after_a_use_belong_to_the_definition_of_their_name_on_mariadb() {
        use test_support::databases::Cleanup;

        let (db, other) = (TestDb::<MariaDb>::with_real_clock().await, TestDb::<MariaDb>::with_real_clock().await);
        define(&db.outbox, &other.outbox).await;
        let (Cleanup::Database(options, home), Cleanup::Database(_, tenant)) = (&db.cleanup, &other.cleanup) else {
            unreachable!()
        };
        let r#use = |name: &str| AssertSqlSafe(format!("USE {name}"));
        for used_first in [false, true] {
            let pool =
                MySqlPoolOptions::new().max_connections(1).connect_with(options.clone().database(home)).await.unwrap();
            let outbox = Outbox::new(pool.clone());
            if used_first {
                (&pool).execute(sqlx::raw_sql(r#use(tenant))).await.unwrap();
            }
            outbox.definitions().await.unwrap();
            for k in 0..36 {
                let mut tx = outbox.begin().await.unwrap();
                (&mut *tx).execute(sqlx::raw_sql(r#use(if k % 2 == 1 { tenant } else { home }))).await.unwrap();
                add(&mut tx, k).await;
                tx.commit().await.unwrap();
            }
            pool.close().await;
        }
        let wrong = "SELECT count(*) FROM notify_msg m JOIN notify_def d ON d.id = m.def_id WHERE concat('\"', d.name, '\"') <> m.param";
        let mut all = 0;
        for db in [&db, &other] {
            all += sqlx::query_scalar::<_, i64>("SELECT count(*) FROM notify_msg").fetch_one(&db.pool).await.unwrap();
            let wrong: i64 = sqlx::query_scalar(wrong).fetch_one(&db.pool).await.unwrap();
            assert_eq!(wrong, 0);
        }
        assert_eq!(all, 72);
        db.close().await;
        other.close().await;
    }
}
