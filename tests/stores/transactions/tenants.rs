//! A schema or database per tenant, chosen on the application's own connection by `SET LOCAL search_path` or `USE`, by a pool for each, or by
//! the names of tables: every notice belongs to the definition of its name in the tables that hold it.

use solid_notify::sql::Dialect;
use solid_notify::{NewNotice, Notice, NoticeTx, NotifyDef, Outbox, OutboxExt, add_notice, add_notices};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{AssertSqlSafe, Executor};
use test_support::databases::Cleanup;
use test_support::sending::Calls;
use test_support::{Database, Postgres, TestDb};

const NAMES: [&str; 3] = ["first", "second", "third"];

/// The same definitions in both, in opposite orders, so that an id of one means another definition in the other.
async fn define<DB: Dialect>(outbox: &Outbox<DB>, tenant: &Outbox<DB>) {
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
async fn add<DB: Dialect>(tx: &mut NoticeTx<'_, DB>, k: usize) {
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
    async fn pool_for_each_tenant_keeps_their_notices_apart_on_postgres() {
        pool_for_each_tenant_keeps_their_notices_apart::<Postgres>().await;
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
            assert_eq!(sent_by(&db.outbox).await.len(), 18, "the sweepers of that schema find them");
        }
        db.close().await;
        other.close().await;
    }
}

test_support::on_mysql_family!(
    notices_after_a_use_belong_to_the_definition_of_their_name,
    tables_of_a_tenant_and_the_store_change_together,
    pool_for_each_tenant_keeps_their_notices_apart,
);

fn name<D: Database>(db: &TestDb<D>) -> &str {
    let (Cleanup::Schema(_, name) | Cleanup::Database(_, name)) = &db.cleanup else { unreachable!() };
    name
}

/// Prepared statements stay with the database in which they were prepared, so the test does not check which one has a notice.
async fn notices_after_a_use_belong_to_the_definition_of_their_name<D: Database<Db = sqlx::MySql>>() {
    let (db, other) = (TestDb::<D>::with_real_clock().await, TestDb::<D>::with_real_clock().await);
    define(&db.outbox, &other.outbox).await;
    let (home, tenant) = (name(&db), name(&other));
    let Cleanup::Database(options, _) = &db.cleanup else { unreachable!() };
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
        all += D::number(&db.pool, "SELECT count(*) FROM notify_msg").await;
        assert_eq!(D::number(&db.pool, wrong).await, 0);
    }
    assert_eq!(all, 72);
    db.close().await;
    other.close().await;
}

/// The store has a database of its own, and each tenant one with its tables. One transaction of the server changes both.
async fn tables_of_a_tenant_and_the_store_change_together<D: Database<Db = sqlx::MySql>>() {
    let store = TestDb::<D>::with_real_clock().await;
    store.outbox.define_if_missing(NotifyDef::new("first")).await.unwrap();
    let mut tenants = Vec::new();
    for _ in 0..2 {
        let (pool, cleanup) = D::create(1).await;
        D::sql(&pool, "CREATE TABLE orders (id bigint) ENGINE = InnoDB").await;
        tenants.push((pool, cleanup));
    }
    for (_, cleanup) in &tenants {
        let Cleanup::Database(_, tenant) = cleanup else { unreachable!() };
        for commit in [true, false] {
            let mut tx = store.outbox.begin().await.unwrap();
            (&mut *tx).execute(AssertSqlSafe(format!("INSERT INTO {tenant}.orders VALUES (7)"))).await.unwrap();
            add_notice(&mut tx, "first", tenant).await.unwrap();
            match commit {
                true => tx.commit().await.unwrap(),
                false => tx.rollback().await.unwrap(),
            }
        }
    }
    assert_eq!(D::number(&store.pool, "SELECT count(*) FROM notify_msg").await, 2);
    for (pool, cleanup) in tenants {
        assert_eq!(D::number(&pool, "SELECT count(*) FROM orders").await, 1);
        pool.close().await;
        cleanup.run().await;
    }
    store.close().await;
}

/// The way that the book recommends for MySQL and MariaDB. An id means another definition in the other database, and the definitions are known.
async fn pool_for_each_tenant_keeps_their_notices_apart<D: Database>() {
    let tenants = [TestDb::<D>::with_real_clock().await, TestDb::<D>::with_real_clock().await];
    define(&tenants[0].outbox, &tenants[1].outbox).await;
    tenants[1].outbox.definitions().await.unwrap();
    for k in 0..36 {
        let tenant = &tenants[k % 2];
        let mut tx = tenant.outbox.begin().await.unwrap();
        let param = name(tenant);
        match k / 2 % 2 {
            0 => drop(add_notice(&mut tx, NAMES[k % 3], param).await.unwrap()),
            _ => drop(add_notices(&mut tx, [NewNotice::new(NAMES[k % 3], param).unwrap()]).await.unwrap()),
        }
        tx.commit().await.unwrap();
    }
    for tenant in &tenants {
        let sent = sent_by(&tenant.outbox).await;
        assert!(sent.len() == 18 && sent.iter().all(|param| param == name(tenant)), "{sent:?}");
    }
    for tenant in tenants {
        tenant.close().await;
    }
}

/// Sends all notices of a store whose parameters are texts. Returns the parameters.
async fn sent_by<DB: Dialect>(outbox: &Outbox<DB>) -> Vec<String> {
    let sent = Calls::default();
    let mut builder = outbox.sweeper();
    for name in NAMES {
        builder = builder.handler_with(name, sent.clone(), async |sent: Calls<String>, notice: Notice<String>| {
            sent.note(notice.param().clone());
            Ok(())
        });
    }
    builder.run_until_idle().await.unwrap();
    sent.all()
}
