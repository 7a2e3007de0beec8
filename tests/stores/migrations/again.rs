//! Migrating an existing schema: which rights it needs, which schema it finds, and how long it waits for locks. The tables that
//! migrations make are tested in `tables.rs`.

use std::time::Duration;

use solid_notify::{Error, Outbox};
use solid_notify_core::error::FaultKind;
use sqlx::{AssertSqlSafe, Connection, Executor};
use test_support::TestDb;

/// Longer than a migration waits for locks.
const LIMIT: Duration = Duration::from_secs(120);

fn is_conflict(error: &Error) -> bool {
    let text = error.to_string();
    matches!(error, Error::Store(store) if store.kind == FaultKind::Conflict) && text.contains("try again")
}

mod on_postgres {
    use std::str::FromStr;

    use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
    use sqlx::{Executor, PgPool};
    use test_support::Postgres;
    use test_support::databases::{Cleanup, fresh_name, server_url};

    use super::*;

    /// The database's schema, a role without rights, and a pool whose sessions are that role's with this search path.
    async fn as_role(db: &TestDb<Postgres>, path: &str) -> (String, String, PgPool) {
        let Cleanup::Schema(options, schema) = &db.cleanup else { unreachable!() };
        let role = format!("{schema}_role");
        db.sql(&format!("CREATE ROLE {role}")).await;
        let session = format!("SET ROLE {role}; SET search_path = {path}");
        let pool = PgPoolOptions::new().max_connections(2).after_connect(move |conn, _| {
            let session = session.clone();
            Box::pin(async move { conn.execute(sqlx::raw_sql(AssertSqlSafe(session))).await.map(drop) })
        });
        (schema.clone(), role, pool.connect_with(options.clone()).await.unwrap())
    }

    async fn close(db: TestDb<Postgres>, role: &str, pool: PgPool) {
        pool.close().await;
        db.sql(&format!("DROP OWNED BY {role}")).await;
        db.sql(&format!("DROP ROLE {role}")).await;
        db.close().await;
    }

    #[tokio::test]
    async fn a_schema_that_is_up_to_date_needs_no_right_but_select() {
        let db = TestDb::<Postgres>::with_real_clock().await;
        let schema: String = sqlx::query_scalar("SELECT current_schema()::text").fetch_one(&db.pool).await.unwrap();
        let (schema, role, pool) = as_role(&db, &schema).await;
        db.sql(&format!("GRANT USAGE ON SCHEMA {schema} TO {role}")).await;
        db.sql(&format!("GRANT SELECT ON notify_schema TO {role}")).await;
        Outbox::new(pool.clone()).migrate().await.unwrap();
        close(db, &role, pool).await;
    }

    #[tokio::test]
    async fn a_user_schema_that_appears_later_gets_no_tables() {
        let db = TestDb::<Postgres>::with_real_clock().await;
        let schema: String = sqlx::query_scalar("SELECT current_schema()::text").fetch_one(&db.pool).await.unwrap();
        let (schema, role, pool) = as_role(&db, &format!("\"$user\", {schema}")).await;
        db.sql(&format!("CREATE SCHEMA AUTHORIZATION {role}")).await;
        db.sql(&format!("GRANT ALL ON SCHEMA {schema} TO {role}")).await;
        db.sql(&format!("GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}")).await;
        let relations = async |schema: &str| -> i64 {
            let count = "SELECT count(*) FROM pg_class WHERE relnamespace = $1::regnamespace";
            sqlx::query_scalar(count).bind(schema).fetch_one(&db.pool).await.unwrap()
        };
        Outbox::new(pool.clone()).migrate().await.unwrap();
        assert_eq!(relations(&role).await, 0, "nothing was to be done");
        // The pending migrations run in the schema of the existing tables.
        db.sql(
            "DROP FUNCTION notify_ack; DROP VIEW notify_pending, notify_done, notify_error;
                DELETE FROM notify_schema WHERE version >= 3",
        )
        .await;
        Outbox::new(pool.clone()).migrate().await.unwrap();
        assert_eq!(relations(&role).await, 0);
        let found: Option<String> =
            sqlx::query_scalar("SELECT pronamespace::regnamespace::text FROM pg_proc WHERE oid = to_regproc($1)")
                .bind(format!("{schema}.notify_ack"))
                .fetch_optional(&db.pool)
                .await
                .unwrap();
        assert_eq!(found.as_deref(), Some(&*schema));
        close(db, &role, pool).await;
    }

    /// Creates a database with these options. Returns a connection to the server, the name, and a pool.
    async fn own_database(options: &str) -> (sqlx::PgConnection, String, PgPool) {
        let server_options = PgConnectOptions::from_str(&server_url("POSTGRES_URL")).unwrap();
        let mut server = sqlx::PgConnection::connect_with(&server_options).await.unwrap();
        let name = fresh_name();
        server.execute(AssertSqlSafe(format!("CREATE DATABASE {name} {options} TEMPLATE template0"))).await.unwrap();
        let pool = PgPoolOptions::new().connect_with(server_options.database(&name)).await.unwrap();
        (server, name, pool)
    }

    async fn drop_database((mut server, name, pool): (sqlx::PgConnection, String, PgPool)) {
        pool.close().await;
        server.execute(AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).await.unwrap();
    }

    /// The migrations of other tests would wait for the lock that a migration has of its database.
    #[tokio::test]
    async fn a_migration_behind_an_open_transaction_gives_up() {
        let (server, name, pool) = own_database("").await;
        let mut other = pool.begin().await.unwrap();
        (&mut *other).execute("CREATE TABLE notify_schema (version integer NOT NULL PRIMARY KEY)").await.unwrap();
        let outbox = Outbox::new(pool.clone());
        let error = tokio::time::timeout(LIMIT, outbox.migrate()).await.expect("it gives up").unwrap_err();
        assert!(is_conflict(&error), "{error}");
        other.rollback().await.unwrap();
        outbox.migrate().await.unwrap();
        drop(outbox);
        drop_database((server, name, pool)).await;
    }

    #[tokio::test]
    async fn a_database_that_is_not_utf8_is_refused() {
        for encoding in ["SQL_ASCII", "LATIN1"] {
            let (server, name, pool) = own_database(&format!("ENCODING '{encoding}' LOCALE 'C'")).await;
            let outbox = Outbox::new(pool.clone());
            let words = format!("the encoding of this database is {encoding}");
            let error = outbox.migrate().await.unwrap_err().to_string();
            assert!(error.contains(&words), "{error}");
            // So do the connections of a sweeper, before they look for tables that another tool may have made.
            let error = outbox.definitions().await.unwrap_err().to_string();
            assert!(error.contains(&words), "{error}");
            drop(outbox);
            drop_database((server, name, pool)).await;
        }
    }

    /// Nothing is to be migrated, but what a restore lost is looked for.
    #[tokio::test]
    async fn look_behind_a_locked_table_gives_up_on_postgres() {
        let db = TestDb::<Postgres>::with_real_clock().await;
        let mut other = db.pool.acquire().await.unwrap();
        let mut tx = other.begin().await.unwrap();
        (&mut *tx).execute("LOCK TABLE notify_msg IN ACCESS EXCLUSIVE MODE").await.unwrap();
        let error = tokio::time::timeout(LIMIT, db.outbox.migrate()).await.expect("it gives up").unwrap_err();
        assert!(is_conflict(&error), "{error}");
        tx.rollback().await.unwrap();
        drop(other);
        db.outbox.migrate().await.unwrap();
        db.close().await;
    }
}

mod on_mariadb {
    use sqlx::mysql::MySqlPoolOptions;
    use test_support::MariaDb;
    use test_support::databases::Cleanup;

    use super::*;

    #[tokio::test]
    async fn a_schema_that_is_up_to_date_needs_no_right_but_select() {
        let db = TestDb::<MariaDb>::with_real_clock().await;
        let Cleanup::Database(options, name) = &db.cleanup else { unreachable!() };
        db.sql(&format!("CREATE USER {name}@'%' IDENTIFIED BY 'secret'")).await;
        db.sql(&format!("GRANT SELECT ON {name}.notify_schema TO {name}@'%'")).await;
        let own = options.clone().username(name).password("secret").database(name);
        let pool = MySqlPoolOptions::new().connect_with(own).await.unwrap();
        Outbox::new(pool.clone()).migrate().await.unwrap();
        pool.close().await;
        db.sql(&format!("DROP USER {name}@'%'")).await;
        db.close().await;
    }

    #[tokio::test]
    async fn a_migration_behind_a_locked_table_gives_up() {
        let db = TestDb::<MariaDb>::with_real_clock().await;
        let mut other = db.pool.acquire().await.unwrap();
        (&mut *other).execute("LOCK TABLES notify_schema WRITE").await.unwrap();
        let error = tokio::time::timeout(LIMIT, db.outbox.migrate()).await.expect("it gives up").unwrap_err();
        assert!(is_conflict(&error), "{error}");
        other.close().await.unwrap();
        db.outbox.migrate().await.unwrap();
        db.close().await;
    }
}
