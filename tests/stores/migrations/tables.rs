//! The schema: concurrent migrations, printed for other tools, beside the application's own, and changed by hand.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::Utc;
use futures_util::future::join_all;
use serde_json::Value;
use solid_notify::sql::Dialect;
use solid_notify::{NewNotice, Notice, NotifyDef, Outbox, OutboxExt, Receipt, Status};
use solid_notify::{add_notice, add_notices};
use sqlx::{AssertSqlSafe, Connection, Pool};
use test_support::databases::Cleanup;
use test_support::sending::{PATIENCE, definition};
use test_support::shell::Shell;
use test_support::{Database, TestDb, on_each_database};

on_each_database!(
    ten_processes_can_migrate_at_once,
    migrating_again_changes_nothing,
    the_printed_schema_is_the_one_that_migrate_makes,
    a_database_that_a_newer_release_has_changed_is_left_alone,
    the_migrations_of_the_application_are_its_own,
    a_definition_and_a_notice_that_people_insert_are_sent,
    tables_refuse_invalid_values,
    a_notice_that_is_added_in_another_time_zone_is_due_at_once,
);

/// The differences between databases in reading a schema.
trait Sql: Dialect {
    /// Everything about the tables, as lines of text.
    const SCHEMA: &'static str;
    /// A session that is not in UTC.
    const FAR_EAST: &'static str;

    async fn texts(pool: &Pool<Self>, sql: &str) -> Vec<String>;
}

macro_rules! sql {
    ($db:ty, $far_east:literal, $schema:literal) => {
        impl Sql for $db {
            const SCHEMA: &'static str = $schema;
            const FAR_EAST: &'static str = $far_east;

            async fn texts(pool: &Pool<Self>, sql: &str) -> Vec<String> {
                sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_all(pool).await.unwrap()
            }
        }
    };
}
sql!(
    sqlx::Postgres,
    "SET TIME ZONE 'Asia/Tokyo'",
    "SELECT concat_ws(' ', table_name, column_name, data_type, column_default, is_nullable)
     FROM information_schema.columns WHERE table_schema = current_schema()
     UNION ALL SELECT replace(indexdef, current_schema(), '') FROM pg_indexes WHERE schemaname = current_schema()
     UNION ALL SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
       WHERE connamespace = current_schema()::regnamespace
     UNION ALL SELECT replace(pg_get_functiondef(oid), current_schema(), '') FROM pg_proc
       WHERE pronamespace = current_schema()::regnamespace
     ORDER BY 1"
);
sql!(
    sqlx::MySql,
    "SET time_zone = '+09:00'",
    "SELECT concat_ws(' ', table_name, column_name, column_type, collation_name, column_default, is_nullable) AS line
     FROM information_schema.columns WHERE table_schema = database()
     UNION ALL SELECT concat_ws(' ', table_name, index_name, seq_in_index, column_name)
       FROM information_schema.statistics WHERE table_schema = database()
     UNION ALL SELECT concat_ws(' ', constraint_name, check_clause)
       FROM information_schema.check_constraints WHERE constraint_schema = database()
     -- The clients leave comments out.
     UNION ALL SELECT concat_ws(' ', routine_name, security_type, sql_data_access, sql_mode,
       regexp_replace(routine_definition, '-- [^\n]*', ''))
       FROM information_schema.routines WHERE routine_schema = database()
     UNION ALL SELECT concat_ws(' ', specific_name, ordinal_position, parameter_mode, parameter_name, dtd_identifier,
       character_set_name, collation_name) FROM information_schema.parameters WHERE specific_schema = database()
     ORDER BY line"
);
sql!(
    sqlx::Sqlite,
    "SELECT 1",
    "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%' ORDER BY name"
);

/// An empty database.
struct Empty<D: Database> {
    pool: Pool<D::Db>,
    cleanup: Cleanup,
}

impl<D: Database<Db: Sql>> Empty<D> {
    async fn new() -> Self {
        let (pool, cleanup) = D::create(2).await;
        Self { pool, cleanup }
    }

    async fn schema(&self) -> Vec<String> {
        D::Db::texts(&self.pool, D::Db::SCHEMA).await
    }

    async fn sql(&self, sql: &str) {
        D::sql(&self.pool, sql).await;
    }

    async fn versions(&self) -> Vec<String> {
        let text = if <D::Db as sqlx::Database>::NAME == "MySQL" { "char" } else { "text" };
        let sql = format!("SELECT CAST(version AS {text}) FROM notify_schema ORDER BY version");
        D::Db::texts(&self.pool, &sql).await
    }

    async fn close(self) {
        match &self.cleanup {
            Cleanup::Directory(_) => {}
            Cleanup::Schema(_, name) => self.sql(&format!("DROP SCHEMA {name} CASCADE")).await,
            Cleanup::Database(_, name) => self.sql(&format!("DROP DATABASE {name}")).await,
        }
        self.pool.close().await;
    }
}

/// Returns the schema that one process makes alone.
async fn expected_schema<D: Database<Db: Sql>>() -> Vec<String> {
    let db = Empty::<D>::new().await;
    Outbox::new(db.pool.clone()).migrate().await.unwrap();
    let schema = db.schema().await;
    for name in ["notify_def", "notify_msg", "notify_msg_history", "notify_schema", "notify_add"] {
        assert!(schema.iter().any(|line| line.contains(name)), "{name} is missing");
    }
    db.close().await;
    schema
}

async fn ten_processes_can_migrate_at_once<D: Database<Db: Sql>>() {
    let db = Empty::<D>::new().await;
    let options = (*db.pool.connect_options()).clone();
    ten_migrate(db, options).await;
}

mod on_sqlite {
    use super::*;

    #[tokio::test]
    async fn ten_processes_that_do_not_wait_for_locks_can_migrate_at_once_on_sqlite() {
        let db = Empty::<test_support::Sqlite>::new().await;
        let options = (*db.pool.connect_options()).clone().busy_timeout(Duration::ZERO);
        ten_migrate(db, options).await;
    }

    #[tokio::test]
    async fn readers_do_not_wait_for_writers_on_sqlite() {
        let db = TestDb::<test_support::Sqlite>::with_real_clock().await;
        assert_eq!(<sqlx::Sqlite as Sql>::texts(&db.pool, "PRAGMA journal_mode").await, ["wal"]);
        db.close().await;
    }
}

async fn ten_migrate<D: Database<Db: Sql>>(
    db: Empty<D>,
    options: <<D::Db as sqlx::Database>::Connection as Connection>::Options,
) {
    let one = db.pool.options().clone().max_connections(1);
    let processes: Vec<Outbox<D::Db>> =
        (0..10).map(|_| Outbox::new(one.clone().connect_lazy_with(options.clone()))).collect();
    for migrated in join_all(processes.iter().map(Outbox::migrate)).await {
        migrated.unwrap();
    }
    assert_eq!(db.schema().await, expected_schema::<D>().await);
    assert_eq!(db.versions().await, ["1", "2", "3", "4"]);
    join_all(processes.iter().map(|process| process.pool().close())).await;
    db.close().await;
}

async fn migrating_again_changes_nothing<D: Database<Db: Sql>>() {
    let db = Empty::<D>::new().await;
    let outbox = Outbox::new(db.pool.clone());
    outbox.migrate().await.unwrap();
    let schema = db.schema().await;
    outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    outbox.migrate().await.unwrap();
    Outbox::new(db.pool.clone()).migrate().await.unwrap();
    assert_eq!(db.schema().await, schema);
    assert_eq!(db.versions().await, ["1", "2", "3", "4"]);
    assert_eq!(outbox.definitions().await.unwrap().len(), 1);
    db.close().await;
}

async fn the_printed_schema_is_the_one_that_migrate_makes<D: Database<Db: Sql>>() {
    let db = Empty::<D>::new().await;
    Shell::new::<D>(&db.cleanup).run(Outbox::<D::Db>::schema()).well();
    let expected = expected_schema::<D>().await;
    assert_eq!(db.schema().await, expected);
    assert_eq!(db.versions().await, ["1", "2", "3", "4"], "the bookkeeping is part of it");
    let outbox = Outbox::new(db.pool.clone());
    outbox.migrate().await.expect("there is nothing left to do");
    assert_eq!(db.schema().await, expected);
    assert_eq!(db.versions().await, ["1", "2", "3", "4"]);
    outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let mut tx = outbox.begin().await.unwrap();
    add_notice(&mut tx, "sync", 1).await.unwrap();
    tx.commit().await.unwrap();
    db.close().await;
}

test_support::on_mysql_family!(a_migration_that_was_cut_short_is_taken_up, texts_are_kept_where_the_default_is_latin1);

/// DDL is committed statement by statement there.
async fn a_migration_that_was_cut_short_is_taken_up<D: Database<Db = sqlx::MySql>>() {
    let db = Empty::<D>::new().await;
    let outbox = Outbox::new(db.pool.clone());
    for cut in [
        "DELETE FROM notify_schema WHERE version >= 2",
        "DROP PROCEDURE notify_add; DELETE FROM notify_schema WHERE version >= 2",
        "DROP PROCEDURE notify_ack; DELETE FROM notify_schema WHERE version >= 3",
        "DROP PROCEDURE notify_add; DROP PROCEDURE notify_add_with; DROP TABLE notify_audit; DELETE FROM notify_schema",
    ] {
        outbox.migrate().await.unwrap();
        let mut shell = db.pool.acquire().await.unwrap();
        <sqlx::MySql as Dialect>::script(&mut shell, cut.into()).await.unwrap();
    }
    outbox.migrate().await.unwrap();
    assert_eq!(db.schema().await, expected_schema::<D>().await);
    assert_eq!(db.versions().await, ["1", "2", "3", "4"]);
    db.close().await;
}

async fn a_database_that_a_newer_release_has_changed_is_left_alone<D: Database<Db: Sql>>() {
    let db = Empty::<D>::new().await;
    db.sql("CREATE TABLE notify_schema (version integer NOT NULL PRIMARY KEY)").await;
    db.sql("INSERT INTO notify_schema (version) VALUES (1000)").await;
    let schema = db.schema().await;
    Outbox::new(db.pool.clone()).migrate().await.unwrap();
    assert_eq!(db.schema().await, schema);
    assert_eq!(db.versions().await, ["1000"]);
    db.close().await;
}

async fn the_migrations_of_the_application_are_its_own<D: Database<Db: Sql>>() {
    let db = Empty::<D>::new().await;
    // The table of sqlx for the application's migrations, whose first one has the number of ours.
    db.sql("CREATE TABLE _sqlx_migrations (version bigint NOT NULL PRIMARY KEY, description varchar(99) NOT NULL)")
        .await;
    db.sql("INSERT INTO _sqlx_migrations VALUES (1, 'orders'), (2, 'notify')").await;
    let book = "SELECT description FROM _sqlx_migrations ORDER BY version";
    Outbox::new(db.pool.clone()).migrate().await.unwrap();
    assert_eq!(D::Db::texts(&db.pool, book).await, ["orders", "notify"]);
    let with_ours: Vec<String> =
        db.schema().await.into_iter().filter(|line| !line.contains("_sqlx_migrations")).collect();
    assert_eq!(with_ours, expected_schema::<D>().await);
    db.close().await;
}

async fn a_definition_and_a_notice_that_people_insert_are_sent<D: Database<Db: Sql>>() {
    let db = TestDb::<D>::with_real_clock().await;
    let sent = Arc::new(Mutex::new(Vec::new()));
    let record = {
        let sent = Arc::clone(&sent);
        move |notice: Notice<Value>| {
            sent.lock().unwrap().push((notice.id(), notice.raw_param().to_owned()));
            async { Ok(()) }
        }
    };
    let sweeper = db.outbox.sweeper().handler("x", record).start().await.unwrap();
    let mut shell = db.pool.acquire().await.unwrap();
    for sql in [
        D::Db::FAR_EAST,
        "INSERT INTO notify_def (name) VALUES ('x')",
        "INSERT INTO notify_msg (def_id, param) SELECT id, '{ }' FROM notify_def WHERE name = 'x'",
    ] {
        D::Db::script(&mut shell, sql.into()).await.unwrap();
    }

    let mut row = definition(&db, "x").await;
    for time in [row.create_time, row.update_time] {
        let now = Utc::now();
        let off = time.map(|time| (now - time).abs().to_std().unwrap()).unwrap();
        assert!(off < Duration::from_secs(600), "the time is off by {off:?}");
    }
    (row.id, row.create_time, row.update_time) = (0, None, None);
    assert_eq!(row, NotifyDef::new("x"), "the table has the documented defaults");

    tokio::time::timeout(PATIENCE, sweeper.idle()).await.expect("the sweeper becomes idle");
    let (id, param) = sent.lock().unwrap().pop().expect("it was sent");
    assert_eq!(param, "{ }");
    let record = db.outbox.find(id).await.unwrap().unwrap();
    assert_eq!((record.status, record.fence), (Status::Succeeded, 1));
    let took = (record.finish_time.unwrap() - record.create_time).to_std().unwrap();
    assert!(took < Duration::from_secs(600), "both times are of one clock in one time zone: {took:?}");
    assert!(sent.lock().unwrap().is_empty(), "and only once");
    sweeper.shutdown().await;
    drop(shell);
    db.close().await;
}

async fn tables_refuse_invalid_values<D: Database<Db: Sql>>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.sql(
        "INSERT INTO notify_def (name, max_retry_times, alert_trigger_type, alert_trigger_fail_times, max_concurrency)
         VALUES ('good', -1, 'after_failures', 1, 1)",
    )
    .await;
    db.sql("INSERT INTO notify_msg (def_id, param, status) VALUES (1, '1', 0), (1, '1', 2), (1, '1', 4), (1, '1', 5)")
        .await;
    let history = |status| {
        format!(
            "INSERT INTO notify_msg_history (id, def_id, param, status, fence, failures, crashes, create_time)
             VALUES ({status}, 1, '1', {status}, 1, 0, 0, '2026-01-01 00:00:00')"
        )
    };
    for status in [1, 3, 6] {
        db.sql(&history(status)).await;
    }
    let mut refused = vec![
        "INSERT INTO notify_def (name) VALUES ('')".to_owned(),
        "INSERT INTO notify_def (name, max_retry_times) VALUES ('bad', -2)".to_owned(),
        "INSERT INTO notify_def (name, alert_trigger_type) VALUES ('bad', 'sometimes')".to_owned(),
        "INSERT INTO notify_def (name, alert_trigger_fail_times) VALUES ('bad', 0)".to_owned(),
        "INSERT INTO notify_def (name, max_concurrency) VALUES ('bad', 0)".to_owned(),
        "UPDATE notify_def SET max_concurrency = -1".to_owned(),
    ];
    refused.extend([0, 2, 4, 5, 7].map(history));
    refused
        .extend([1, 3, 6, 7].map(|s| format!("INSERT INTO notify_msg (def_id, param, status) VALUES (1, '1', {s})")));
    if <D::Db as sqlx::Database>::NAME != "PostgreSQL" {
        refused.push("INSERT INTO notify_def (name, enabled) VALUES ('bad', 2)".to_owned());
        refused.push("INSERT INTO notify_def (name, need_confirm) VALUES ('bad', 2)".to_owned());
    }
    let mut shell = db.pool.acquire().await.unwrap();
    for sql in refused {
        let error = D::Db::script(&mut shell, sql.clone().into()).await.expect_err(&sql);
        assert!(error.as_database_error().is_some_and(|error| error.is_check_violation()), "{sql}: {error}");
    }
    let twice = "INSERT INTO notify_def (name) VALUES ('good')";
    let error = D::Db::script(&mut shell, twice.into()).await.unwrap_err();
    assert!(error.as_database_error().is_some_and(|error| error.is_unique_violation()), "{error}");
    let long = format!("INSERT INTO notify_def (name) VALUES ('{}')", "x".repeat(201));
    D::Db::script(&mut shell, long.into()).await.unwrap_err();
    let nameless = "INSERT INTO notify_def (handler) VALUES ('x')";
    D::Db::script(&mut shell, nameless.into()).await.unwrap_err();
    drop(shell);
    db.close().await;
}

async fn a_notice_that_is_added_in_another_time_zone_is_due_at_once<D: Database<Db: Sql>>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let mut tx = db.outbox.begin().await.unwrap();
    D::Db::script(&mut tx, D::Db::FAR_EAST.into()).await.unwrap();
    // One with defaults, one with options, and some at once, because they are inserted in different ways.
    let mut ids = vec![add_notice(&mut tx, "sync", 1).await.unwrap().id()];
    let said = || NewNotice::new("sync", 1).unwrap().description("said");
    ids.push(said().add(&mut tx).await.unwrap().id());
    ids.extend(add_notices(&mut tx, [said(), said()]).await.unwrap().iter().map(Receipt::id));
    tx.commit().await.unwrap();
    assert_eq!(ids.len(), 4);
    for id in ids {
        let record = db.outbox.find(id).await.unwrap().unwrap();
        for time in [record.create_time, record.next_call_time.unwrap()] {
            let now = Utc::now();
            let off = (time - now).abs().to_std().unwrap();
            assert!(off < Duration::from_secs(600), "the time is off by {off:?}");
        }
    }
    db.close().await;
}

async fn texts_are_kept_where_the_default_is_latin1<D: Database<Db = sqlx::MySql>>() {
    use solid_notify::Failure;
    let text = "Grüße, 東京 😀";
    let email = format!("\"{text}\" <gruss@example.org>");
    let db = Empty::<D>::new().await;
    db.sql("ALTER DATABASE CHARACTER SET latin1 COLLATE latin1_swedish_ci").await;
    let outbox = Outbox::new(db.pool.clone());
    outbox.migrate().await.unwrap();
    outbox.define_if_missing(NotifyDef::new(text).description(text).email(&email)).await.unwrap();
    let fail = move |notice: Notice<String>| async move {
        notice.set_description(format!("{text} {}", notice.param()));
        Err(Failure::give_up(text))
    };
    let sweeper = outbox.sweeper().handler(text, fail).node_name(text).start().await.unwrap();
    let mut tx = outbox.begin().await.unwrap();
    let added = NewNotice::new(text, text).unwrap().description(text).add(&mut tx).await.unwrap();
    let id = added.id();
    tx.commit().await.unwrap();
    added.first_attempt(PATIENCE).await;
    sweeper.shutdown().await;

    let row = outbox.definitions().await.unwrap().remove(0).row;
    let stored = (row.name.as_str(), row.description.as_deref(), row.email.as_deref());
    assert_eq!(stored, (text, Some(text), Some(email.as_str())));
    let record = outbox.find(id).await.unwrap().unwrap();
    assert_eq!(record.status, Status::DeadLetter);
    assert_eq!(record.param, format!("\"{text}\""));
    assert_eq!(record.description.unwrap(), format!("{text} {text}"));
    assert_eq!(record.errors[0].message, text);
    assert!(record.end_reason.unwrap().contains(text));
    assert!(record.worker.unwrap().starts_with(text));
    db.close().await;
}
