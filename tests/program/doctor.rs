//! `doctor` on servers that are set wrongly, and whose roles lack rights. Each test has a private server, because the settings and the roles
//! are those of a server. The findings that a shared server shows are in the tests of the stores.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use sqlx::{Connection, Executor};
use test_servers::servers::{Server, mariadb, mysql, postgres};
use test_support::sending::eventually;
use tokio::task::spawn_blocking;

use crate::verbs::Program;

/// The file of the tests that make a server of which `doctor` says something bad, for each check of the book.
const PRODUCED: &[(&str, &[&str])] = &[
    (
        "stores/examine.rs",
        &[
            "alerts",
            "backlog",
            "clock",
            "connection",
            "dead_letters",
            "definitions",
            "handlers",
            "indexes",
            "journal_mode",
            "migrations",
            "nodes",
            "oldest_transaction",
            "pause",
            "privileges",
            "synchronous",
            "synchronous_commit",
        ],
    ),
    ("stores/restore.rs", &["ids", "objects"]),
    ("stores/pooler.rs", &["pooler"]),
    ("stores/redis/examine.rs", &["append_only_file", "eviction", "persistence", "replication", "snapshot", "version"]),
    (
        "program/doctor.rs",
        &[
            "binlog_format",
            "bloat",
            "fsync",
            "grants",
            "innodb_flush_log_at_trx_commit",
            "isolation",
            "sql_mode",
            "sync_binlog",
            "tls",
        ],
    ),
];

#[test]
fn every_check_of_the_book_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let book = std::fs::read_to_string(root.join("docs/src/operations.md")).unwrap();
    let section = book.split("\n## Doctor\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let cells = section.lines().filter(|line| line.starts_with("| `")).map(|line| line.split(" | ").next().unwrap());
    let listed: BTreeSet<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let produced = PRODUCED.iter().flat_map(|(_, checks)| *checks).copied();
    assert_eq!(listed, produced.collect());
    for (file, checks) in PRODUCED {
        let text = std::fs::read_to_string(root.join("tests").join(file)).unwrap();
        for check in *checks {
            let uses = text.matches(&format!("\"{check}\"")).count();
            assert!(uses > usize::from(*file == "program/doctor.rs"), "{file} has no test of {check}");
        }
    }
}

/// A statement that sets something wrongly, the check that finds it, its severity, a part of what it finds, and the statement that sets it right.
type Wrong = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// A private server with migrated tables.
struct Site {
    server: Arc<Mutex<Server>>,
    program: Program,
}

impl Site {
    async fn start(start: fn() -> anyhow::Result<Server>) -> Self {
        let server = spawn_blocking(start).await.unwrap().unwrap();
        let program = Program { url: server.url().to_owned() };
        program.json(0, &["migrate"]).await;
        Self { server: Arc::new(Mutex::new(server)), program }
    }

    async fn sql(&self, sql: &str) {
        let (server, sql) = (Arc::clone(&self.server), sql.to_owned());
        spawn_blocking(move || server.lock().unwrap().query(&sql).unwrap()).await.unwrap();
    }

    /// Returns what `doctor` says of a check. No sweeper runs, so its exit code is that of a problem.
    async fn finding(&self, check: &str) -> Value {
        let findings = self.program.json(1, &["doctor"]).await;
        let of_check = |finding: &&Value| finding["check"] == check;
        findings.as_array().unwrap().iter().find(of_check).unwrap_or_else(|| panic!("{check}: {findings}")).clone()
    }

    async fn expect(&self, check: &str, severity: &str, found: &str) {
        let finding = self.finding(check).await;
        assert_eq!(finding["severity"], severity, "{finding}");
        assert!(finding["found"].as_str().unwrap().contains(found), "{check}: {finding}");
        let is_well = severity == "fine";
        for part in ["meaning", "remedy"] {
            assert_eq!(finding[part].as_str().unwrap().is_empty(), is_well, "{finding}");
        }
    }

    async fn finds(&self, wrong: &[Wrong]) {
        for (set, check, severity, found, right) in wrong {
            self.sql(set).await;
            self.expect(check, severity, found).await;
            self.sql(right).await;
            self.expect(check, "fine", "").await;
        }
    }

    /// Gives the roles their rights by the statements of `schema --roles`, takes one of them away, and follows the remedy.
    async fn finds_missing_rights(&self, database: &str, revoke: &str) {
        let (code, roles, errors) = self.program.run(&["schema", database, "--roles"]).await;
        assert_eq!(code, 0, "{errors}");
        self.sql(&roles).await;
        self.expect("grants", "fine", "").await;
        self.sql(revoke).await;
        self.expect("grants", "warning", "missing: notify_sweeper: DELETE on notify_msg").await;
        let remedy = self.finding("grants").await["remedy"].to_string();
        assert!(remedy.contains(&format!("schema {database} --roles")), "{remedy}");
        self.sql(&roles).await;
        self.expect("grants", "fine", "").await;
    }
}

mod on_postgres {
    use super::*;

    #[tokio::test]
    async fn doctor_finds_wrong_settings_and_missing_rights_on_private_postgres() {
        let site = Site::start(postgres::start).await;
        site.finds(&[
            (
                "ALTER DATABASE notify SET synchronous_commit = off",
                "synchronous_commit",
                "problem",
                "off",
                "ALTER DATABASE notify RESET synchronous_commit",
            ),
            (
                "ALTER DATABASE notify SET default_transaction_isolation = 'repeatable read'",
                "isolation",
                "warning",
                "repeatable read",
                "ALTER DATABASE notify RESET default_transaction_isolation",
            ),
        ])
        .await;
        // Servers of tests do not wait for the disk.
        site.expect("fsync", "problem", "off, full_page_writes off").await;
        site.finds_missing_rights("postgres", "REVOKE DELETE ON notify_msg FROM notify_sweeper").await;
    }

    #[tokio::test]
    async fn doctor_finds_dead_rows_on_private_postgres() {
        let site = Site::start(postgres::start).await;
        site.expect("bloat", "fine", "few").await;
        site.program.json(0, &["def", "create", "sync"]).await;
        site.sql("ALTER TABLE notify_msg SET (autovacuum_enabled = off)").await;
        site.sql("INSERT INTO notify_msg (def_id, param) SELECT 1, '1' FROM generate_series(1, 100100)").await;
        site.sql("DELETE FROM notify_msg").await;
        // The server counts them a moment later.
        eventually("they are counted", async || site.finding("bloat").await["severity"] == "warning").await;
        site.expect("bloat", "warning", "100100 dead rows").await;
        site.sql("VACUUM notify_msg").await;
        eventually("they are gone", async || site.finding("bloat").await["severity"] == "fine").await;
    }

    /// For the sessions of `doctor` it is ten minutes later, and the server is on another machine.
    #[tokio::test]
    async fn doctor_finds_an_old_transaction_and_no_tls_on_private_postgres() {
        let site = Site::start(postgres::start).await;
        site.expect("tls", "fine", "local").await;
        let mut session = sqlx::PgConnection::connect(&site.program.url).await.unwrap();
        session.execute("BEGIN; SELECT pg_current_xact_id()").await.unwrap();
        site.expect("oldest_transaction", "fine", "open for").await;
        site.sql(
            "CREATE SCHEMA later;
             CREATE FUNCTION later.statement_timestamp() RETURNS timestamptz LANGUAGE sql AS
               $$ SELECT pg_catalog.statement_timestamp() + interval '10 minutes' $$;
             CREATE FUNCTION later.inet_server_addr() RETURNS inet LANGUAGE sql AS $$ SELECT inet '192.0.2.7' $$;
             ALTER DATABASE notify SET search_path = public, later, pg_catalog",
        )
        .await;
        site.expect("oldest_transaction", "warning", "open for 60").await;
        site.expect("tls", "warning", "not encrypted").await;
        session.execute("ROLLBACK").await.unwrap();
        site.expect("oldest_transaction", "fine", "open for").await;
    }
}

/// The settings that MySQL and MariaDB have in common.
const OF_BOTH: &[Wrong] = &[
    (
        "SET GLOBAL innodb_flush_log_at_trx_commit = 2",
        "innodb_flush_log_at_trx_commit",
        "problem",
        "2",
        "SET GLOBAL innodb_flush_log_at_trx_commit = 1",
    ),
    (
        "SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "isolation",
        "warning",
        "SERIALIZABLE",
        "SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED",
    ),
    (
        "SET GLOBAL sql_mode = 'NO_ENGINE_SUBSTITUTION'",
        "sql_mode",
        "problem",
        "NO_ENGINE_SUBSTITUTION",
        "SET GLOBAL sql_mode = concat(@@global.sql_mode, ',STRICT_TRANS_TABLES')",
    ),
];

/// For the sessions of `doctor` it is ten minutes later. Its account is an ordinary one, because the server runs `init_connect` for no superuser.
async fn doctor_finds_an_old_transaction(start: fn() -> anyhow::Result<Server>) {
    let site = Site::start(start).await;
    let mut session = sqlx::MySqlConnection::connect(&site.program.url).await.unwrap();
    session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT").await.unwrap();
    session.execute("DELETE FROM notify_msg").await.unwrap();
    site.sql(
        "CREATE USER someone IDENTIFIED BY 'x'; GRANT ALL ON notify.* TO someone; GRANT PROCESS ON *.* TO someone;
         SET GLOBAL init_connect = 'SET timestamp = unix_timestamp() + 600'",
    )
    .await;
    let program = Program { url: site.program.url.replace("//root@", "//someone:x@") };
    let site = Site { program, ..site };
    site.expect("oldest_transaction", "warning", "open for 60").await;
    session.execute("ROLLBACK").await.unwrap();
    // MariaDB shows what it saw for a moment.
    eventually("it is gone", async || site.finding("oldest_transaction").await["severity"] == "fine").await;
}

const REVOKE: &str = "REVOKE DELETE ON notify.notify_msg FROM notify_sweeper";

mod on_mysql {
    use super::*;

    #[tokio::test]
    async fn doctor_finds_wrong_settings_and_missing_rights_on_private_mysql() {
        let site = Site::start(mysql::start).await;
        site.finds(OF_BOTH).await;
        site.finds(&[
            ("SET GLOBAL sync_binlog = 0", "sync_binlog", "warning", "0", "SET GLOBAL sync_binlog = 1"),
            (
                "SET GLOBAL binlog_format = 'MIXED'",
                "binlog_format",
                "warning",
                "MIXED",
                "SET GLOBAL binlog_format = 'ROW'",
            ),
        ])
        .await;
        site.expect("tls", "warning", "not encrypted").await;
        site.finds_missing_rights("mysql", REVOKE).await;
    }

    #[tokio::test]
    async fn doctor_finds_an_old_transaction_on_private_mysql() {
        doctor_finds_an_old_transaction(mysql::start).await;
    }

    /// The file of the table grows by two gigabytes at once.
    #[tokio::test]
    async fn doctor_finds_free_space_on_private_mysql() {
        let site = Site::start(mysql::start).await;
        // Tables of tests share a file.
        site.sql("SET PERSIST information_schema_stats_expiry = 0; SET GLOBAL innodb_file_per_table = ON").await;
        site.sql("ALTER TABLE notify_msg TABLESPACE = innodb_file_per_table").await;
        site.expect("bloat", "fine", "MiB are free").await;
        site.sql("ALTER TABLE notify_msg AUTOEXTEND_SIZE = 2G; ALTER TABLE notify_msg ENGINE = InnoDB").await;
        site.expect("bloat", "warning", "MiB of the tables of notices are free").await;
        site.sql("ALTER TABLE notify_msg AUTOEXTEND_SIZE = 0; OPTIMIZE TABLE notify_msg").await;
        site.expect("bloat", "fine", "MiB are free").await;
    }
}

mod on_mariadb {
    use super::*;

    #[tokio::test]
    async fn doctor_finds_wrong_settings_and_missing_rights_on_private_mariadb() {
        let site = Site::start(mariadb::start).await;
        site.finds(OF_BOTH).await;
        site.expect("binlog_format", "fine", "no binary log").await;
        site.finds_missing_rights("mysql", REVOKE).await;
    }

    #[tokio::test]
    async fn doctor_finds_an_old_transaction_on_private_mariadb() {
        doctor_finds_an_old_transaction(mariadb::start).await;
    }
}

mod on_sqlite {
    use sqlx::SqliteConnection;

    use super::*;

    #[tokio::test]
    async fn doctor_finds_free_pages_on_sqlite() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}?mode=rwc", folder.path().join("x.db").display());
        let program = Program { url: url.clone() };
        program.json(0, &["migrate"]).await;
        let severity = async |check: &str| {
            let findings = program.json(1, &["doctor"]).await;
            findings.as_array().unwrap().iter().find(|it| it["check"] == check).unwrap()["severity"].clone()
        };
        assert_eq!(severity("bloat").await, "fine");
        let mut file = SqliteConnection::connect(&url).await.unwrap();
        for sql in ["CREATE TABLE large AS SELECT zeroblob(110000000) AS bytes", "DROP TABLE large"] {
            file.execute(sql).await.unwrap();
        }
        assert_eq!(severity("bloat").await, "warning");
        file.execute("VACUUM").await.unwrap();
        assert_eq!(severity("bloat").await, "fine");
    }
}
