//! The examination of a store (`doctor`) on real servers in real states. What a shared server cannot be set to is judged beside the code.

use std::time::Duration;

use chrono::Utc;
use solid_notify::alert::ALERT_DEFINITION;
use solid_notify::operate::{Finding, Severity};
use solid_notify::{Alert, Failure, HandClock, Notice, NotifyDef, Outbox, OutboxExt, add_notice};
use test_support::sending::eventually;
use test_support::{Database, TestDb, on_each_database};

on_each_database!(
    examination_of_a_good_store_has_no_warning_of_its_own,
    examination_finds_missing_tables_migrations_and_indexes,
    examination_finds_definitions_that_cannot_be_sent,
    examination_finds_old_dead_letters,
    examination_finds_a_clock_that_differs,
    examination_finds_notices_that_are_late,
);

async fn examined<D: Database>(db: &TestDb<D>) -> Vec<Finding> {
    db.outbox.operator("alice").examine().await
}

/// Waits until the sweeper has stored its first heartbeat, which makes it a node.
async fn sweeper_is_listed<D: Database>(db: &TestDb<D>) {
    eventually("the node is listed", async || !db.outbox.operator("alice").nodes().await.unwrap().is_empty()).await;
}

/// Returns the finding of a check.
fn of<'f>(findings: &'f [Finding], check: &str) -> &'f Finding {
    let found: Vec<&Finding> = findings.iter().filter(|finding| finding.check == check).collect();
    assert_eq!(found.len(), 1, "{check}: {findings:?}");
    found[0]
}

async fn examination_of_a_good_store_has_no_warning_of_its_own<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = db.outbox.sweeper().handler("sync", async |_: Notice<i64>| Ok(()));
    let sweeper = sweeper.handler(ALERT_DEFINITION, async |_: Notice<Alert>| Ok(())).start().await.unwrap();
    sweeper_is_listed(&db).await;
    let findings = examined(&db).await;
    sweeper.shutdown().await;
    // Test servers have fast settings and no TLS.
    let of_the_server = ["fsync", "innodb_flush_log_at_trx_commit", "sync_binlog", "tls"];
    let bad = findings.iter().filter(|it| it.severity > Severity::Fine && !of_the_server.contains(&it.check));
    assert_eq!(bad.collect::<Vec<_>>(), Vec::<&Finding>::new());
    for check in
        ["connection", "clock", "version", "migrations", "indexes", "privileges", "definitions", "dead_letters"]
    {
        assert_eq!(of(&findings, check).severity, Severity::Fine);
    }
    assert!(findings.is_sorted_by_key(|finding| std::cmp::Reverse(finding.severity)));
    db.close().await;
}

async fn examination_finds_missing_tables_migrations_and_indexes<D: Database>() {
    let (pool, cleanup) = D::create(2).await;
    let empty = Outbox::new(pool.clone()).operator("alice").examine().await;
    let missing = of(&empty, "migrations");
    assert_eq!((missing.severity, missing.remedy.as_str()), (Severity::Problem, "solid-notify migrate"));
    TestDb::<D>::over(Outbox::new(pool.clone()), pool, cleanup).close().await;

    let db = TestDb::<D>::with_real_clock().await;
    db.sql("DELETE FROM notify_schema WHERE version > 2").await;
    db.sql(match <D::Db as sqlx::Database>::NAME {
        "MySQL" => "DROP INDEX notify_msg_due ON notify_msg",
        _ => "DROP INDEX notify_msg_due",
    })
    .await;
    let findings = examined(&db).await;
    assert_eq!(of(&findings, "migrations").severity, Severity::Problem);
    let indexes = of(&findings, "indexes");
    assert_eq!((indexes.severity, indexes.found.as_str()), (Severity::Problem, "missing or invalid: notify_msg_due"));
    db.close().await;
}

async fn examination_finds_definitions_that_cannot_be_sent<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    for name in ["good", "broken", "orphan"] {
        db.outbox.define_if_missing(NotifyDef::new(name)).await.unwrap();
    }
    db.sql("UPDATE notify_def SET timeout = 'soon' WHERE name = 'broken'").await;
    let findings = examined(&db).await;
    let broken = of(&findings, "definitions");
    assert_eq!(broken.severity, Severity::Problem);
    assert!(broken.found.contains("broken") && broken.found.contains("soon"), "{broken:?}");
    assert_eq!(of(&findings, "nodes").found, "no sweeper runs");

    let handler = async |_: Notice<i64>| Ok(());
    let sweeper = db.outbox.sweeper().handler("good", handler).handler("broken", handler).start().await.unwrap();
    sweeper_is_listed(&db).await;
    db.outbox.operator("alice").pause_all("a test").await.unwrap();
    let findings = examined(&db).await;
    sweeper.shutdown().await;
    let handlers = of(&findings, "handlers");
    assert_eq!(handlers.severity, Severity::Problem);
    assert!(handlers.found.contains("orphan") && !handlers.found.contains("good"), "{handlers:?}");
    assert_eq!(of(&findings, "pause").severity, Severity::Problem);
    assert_eq!(of(&findings, "alerts").severity, Severity::Warning);
    db.close().await;
}

async fn examination_finds_old_dead_letters<D: Database>() {
    let clock = HandClock::new(Utc::now());
    let db = TestDb::<D>::build(8, false, |builder| builder.clock(clock.clone())).await;
    db.outbox.define_if_missing(NotifyDef::new("sync").max_retry_times(0)).await.unwrap();
    let mut tx = db.outbox.begin().await.unwrap();
    add_notice(&mut tx, "sync", 1).await.unwrap();
    tx.commit().await.unwrap();
    let fails = async |_: Notice<i64>| Err(Failure::retry("down"));
    db.outbox.sweeper().handler("sync", fails).run_until_idle().await.unwrap();
    assert_eq!(of(&examined(&db).await, "dead_letters").severity, Severity::Fine);
    clock.advance(Duration::from_hours(4 * 24));
    let old = examined(&db).await;
    let old = of(&old, "dead_letters");
    assert!(old.severity == Severity::Warning && old.found.starts_with("1, the oldest from"), "{old:?}");
    db.close().await;
}

async fn examination_finds_a_clock_that_differs<D: Database>() {
    let clock = HandClock::new(Utc::now());
    let db = TestDb::<D>::build(2, false, |builder| builder.clock(clock.clone())).await;
    assert_eq!(of(&examined(&db).await, "clock").severity, Severity::Fine);
    clock.advance(Duration::from_secs(3600));
    let ahead = examined(&db).await;
    let ahead = of(&ahead, "clock");
    assert!(ahead.severity == Severity::Warning && ahead.found.contains("differs from the store's by 3"), "{ahead:?}");
    db.close().await;
}

/// Counts are taken by sweepers, so one runs. It has no handler of the first definition, and the second one is paused.
async fn examination_finds_notices_that_are_late<D: Database>() {
    let clock = HandClock::new(Utc::now());
    let db = TestDb::<D>::build(8, false, |builder| builder.clock(clock.clone())).await;
    for (name, enabled) in [("orphan", true), ("paused", false)] {
        db.outbox.define_if_missing(NotifyDef::new(name).enabled(enabled)).await.unwrap();
        let mut tx = db.outbox.begin().await.unwrap();
        add_notice(&mut tx, name, 1).await.unwrap();
        tx.commit().await.unwrap();
    }
    let sweeper = db.outbox.sweeper().handler("paused", async |_: Notice<i64>| Ok(())).start().await.unwrap();
    clock.advance(Duration::from_secs(360));
    eventually("both are counted as late", async || {
        let findings = examined(&db).await;
        let late = findings.iter().filter(|it| it.check == "backlog" && it.severity == Severity::Warning);
        let mut late: Vec<&str> = late.map(|it| it.found.as_str()).collect();
        late.sort_unstable();
        late == ["due for more than 5 min: orphan", "of paused definitions, due for more than 5 min: paused"]
    })
    .await;
    sweeper.shutdown().await;
    db.close().await;
}

mod on_postgres {
    use super::*;

    /// READ COMMITTED, idle: it has a transaction id and no snapshot.
    #[tokio::test]
    async fn forgotten_transaction_that_has_written_is_seen_on_postgres() {
        let db = TestDb::<test_support::Postgres>::with_real_clock().await;
        let mut forgotten = db.pool.begin().await.unwrap();
        sqlx::raw_sql("INSERT INTO notify_audit (who, act) VALUES ('alice', 'forgets')")
            .execute(&mut *forgotten)
            .await
            .unwrap();
        finds_an_open_transaction(&db).await;
        forgotten.rollback().await.unwrap();
        db.close().await;
    }

    #[tokio::test]
    async fn examination_on_postgres_judges_the_settings_and_rights_of_the_account() {
        use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
        use sqlx::{AssertSqlSafe, Executor};

        let db = TestDb::<test_support::Postgres>::with_real_clock().await;
        let schema: String = sqlx::query_scalar("SELECT current_schema()::text").fetch_one(&db.pool).await.unwrap();
        let account = format!("reader_{schema}");
        let script = format!(
            "CREATE ROLE {account} LOGIN PASSWORD 'x'; GRANT USAGE ON SCHEMA {schema} TO {account};
             GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {account};
             ALTER ROLE {account} SET synchronous_commit = off; ALTER ROLE {account} SET search_path = {schema};
             ALTER ROLE {account} SET default_transaction_isolation = 'serializable'"
        );
        db.pool.execute(AssertSqlSafe(script)).await.unwrap();
        let url = test_support::databases::server_url("POSTGRES_URL");
        let options: PgConnectOptions = url.parse().unwrap();
        let pool = PgPoolOptions::new().connect_lazy_with(options.username(&account).password("x"));
        let outbox = Outbox::new(pool);
        let findings = outbox.operator("alice").examine().await;
        outbox.pool().close().await;
        assert_eq!(of(&findings, "synchronous_commit").severity, Severity::Problem);
        assert_eq!(of(&findings, "isolation").found, "serializable");
        let rights = of(&findings, "privileges");
        assert_eq!(rights.severity, Severity::Warning);
        assert!(
            rights.found.starts_with("this account may read; it may not add (") && rights.found.contains("send ("),
            "{rights:?}"
        );
        db.pool.execute(AssertSqlSafe(format!("DROP OWNED BY {account}; DROP ROLE {account}"))).await.unwrap();
        db.close().await;
    }
}

/// Waits until the examination finds a transaction that has been open for two seconds. Transactions of other tests end sooner, or do not
/// disturb the result.
async fn finds_an_open_transaction<D: Database>(db: &TestDb<D>) {
    eventually("the transaction is seen", async || {
        let findings = examined(db).await;
        let found = &of(&findings, "oldest_transaction").found;
        let seconds = found.strip_prefix("open for ").and_then(|rest| rest.strip_suffix(" s")).unwrap();
        seconds.parse::<u64>().unwrap() >= 2
    })
    .await;
}

mod on_mysql {
    use super::*;

    test_support::on_mysql_family!(forgotten_transaction_that_has_written_is_seen);

    async fn forgotten_transaction_that_has_written_is_seen<D: Database<Db = sqlx::MySql>>() {
        let db = TestDb::<D>::with_real_clock().await;
        let mut forgotten = db.pool.begin().await.unwrap();
        sqlx::raw_sql("INSERT INTO notify_audit (who, act) VALUES ('alice', 'forgets')")
            .execute(&mut *forgotten)
            .await
            .unwrap();
        finds_an_open_transaction(&db).await;
        forgotten.rollback().await.unwrap();
        db.close().await;
    }

    #[tokio::test]
    async fn examination_on_mysql_finds_a_mode_that_cuts_values() {
        use sqlx::Executor;

        let db = TestDb::<test_support::MySql>::with_real_clock().await;
        let lax = sqlx::mysql::MySqlPoolOptions::new().after_connect(|conn, _| {
            Box::pin(async move { conn.execute("SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION'").await.map(drop) })
        });
        let outbox = Outbox::new(lax.connect_lazy_with((*db.pool.connect_options()).clone()));
        let findings = outbox.operator("alice").examine().await;
        outbox.pool().close().await;
        assert_eq!(of(&findings, "sql_mode").severity, Severity::Problem);
        db.close().await;
    }
}

mod on_sqlite {
    use super::*;

    #[tokio::test]
    async fn examination_on_sqlite_finds_files_that_a_power_failure_destroys() {
        use sqlx::sqlite::{SqlitePoolOptions, SqliteSynchronous};

        let db = TestDb::<test_support::Sqlite>::with_real_clock().await;
        let options = (*db.pool.connect_options()).clone().synchronous(SqliteSynchronous::Off);
        let outbox = Outbox::new(SqlitePoolOptions::new().connect_lazy_with(options));
        let findings = outbox.operator("alice").examine().await;
        outbox.pool().close().await;
        assert_eq!(of(&findings, "synchronous").severity, Severity::Problem);
        db.close().await;

        let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
        let outbox = Outbox::new(pool);
        outbox.migrate().await.unwrap();
        let findings = outbox.operator("alice").examine().await;
        assert_eq!(of(&findings, "journal_mode").found, "memory");
    }
}

#[tokio::test]
async fn examination_of_a_store_that_does_not_answer_is_one_problem() {
    let options = "postgres://app@127.0.0.1:1/nothing".parse::<sqlx::postgres::PgConnectOptions>().unwrap();
    let outbox = Outbox::new(sqlx::postgres::PgPoolOptions::new().connect_lazy_with(options));
    let findings = outbox.operator("alice").examine().await;
    assert_eq!((findings.len(), of(&findings, "connection").severity), (1, Severity::Problem));
}
