//! The databases: each run has a private one, which it may restart, burden and disturb.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use solid_notify::sql::Dialect;
use sqlx::{ConnectOptions, Executor, Pool, Row};
use test_servers::servers::{Server, mariadb, mysql, postgres};
use test_support::proxy::Proxy;
use tokio::task::spawn_blocking;

use crate::faults::injected::Fault;

/// MariaDB has triggers by row only, so a batch fails the more likely the more rows it has. A sequence counts what is
/// rolled back, too. Deadlock and lock wait time-out take turns.
macro_rules! conflict {
    ($operation:literal, $table:literal) => {
        concat!(
            "CREATE SEQUENCE IF NOT EXISTS fault_",
            $operation,
            "_",
            $table,
            " NOCACHE;
             CREATE OR REPLACE TRIGGER fault_",
            $operation,
            "_",
            $table,
            " BEFORE ",
            $operation,
            " ON ",
            $table,
            " FOR EACH ROW
             IF rand() < IF('",
            $table,
            "' = 'notify_node', 0.5, 0.02) THEN
                 IF nextval(fault_",
            $operation,
            "_",
            $table,
            ") % 2 = 0 THEN
                     SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'on purpose';
                 ELSE
                     SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'on purpose';
                 END IF;
             END IF;"
        )
    };
}

/// A macro, because each database meets sqlx's bounds on what it decodes, and no generic function can state them for all.
macro_rules! speak {
    () => {
        async fn sql(pool: &Pool<Self::Db>, sql: &str) -> sqlx::Result<u64> {
            let done = pool.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()))).await?;
            Ok(done.rows_affected())
        }

        async fn rows(pool: &Pool<Self::Db>, sql: &str) -> sqlx::Result<Vec<Vec<Option<String>>>> {
            let rows = sqlx::query(sqlx::AssertSqlSafe(sql.to_owned())).fetch_all(pool).await?;
            let row = |row: &<Self::Db as sqlx::Database>::Row| {
                (0..row.len()).map(|column| row.try_get_unchecked(column)).collect::<sqlx::Result<Vec<_>>>()
            };
            rows.iter().map(row).collect()
        }
    };
}

/// A database of our own.
#[allow(async_fn_in_trait)]
pub trait Bench: Sized + Send + Sync + 'static {
    type Db: Dialect;
    const NAME: &str;
    /// The faults of this database, in this order.
    const FAULTS: &[Fault];
    /// Statements that make every statement on our tables fail now and then, as in a deadlock, and count it; and that end
    /// this. None: it has no such errors.
    const CONFLICTS: Option<(&str, &str)> = None;
    /// How often they did: the statement's kind and the number.
    const COUNT_CONFLICTS: &str = "";

    async fn start(directory: &Path) -> Self;

    /// The URL for the harness.
    fn url(&self) -> String;

    /// The URL for the processes, which use the proxy if there is one.
    fn node_url(&self) -> String {
        self.url()
    }

    fn far(&self) -> Option<&Far> {
        None
    }

    /// Ends the sessions of the processes; returns how many.
    async fn end_sessions(&self) -> usize {
        0
    }

    async fn sql(pool: &Pool<Self::Db>, sql: &str) -> sqlx::Result<u64>;

    /// Every column as text, null as none.
    async fn rows(pool: &Pool<Self::Db>, sql: &str) -> sqlx::Result<Vec<Vec<Option<String>>>>;
}

/// A server, and the proxy in front of it.
pub struct Far {
    pub server: Arc<Mutex<Server>>,
    pub proxy: Proxy,
    url: String,
}

impl Far {
    async fn start(start: fn() -> anyhow::Result<Server>, prepare: &'static str) -> Self {
        let server = spawn_blocking(move || {
            let server = start().unwrap();
            server.query(prepare).unwrap();
            server
        });
        let server = server.await.unwrap();
        let proxy = Proxy::start((Ipv4Addr::LOCALHOST, server.port()).into(), || ()).await;
        let url = server.url().to_owned();
        Self { server: Arc::new(Mutex::new(server)), proxy, url }
    }

    /// Calls the server on a thread for blocking work.
    pub async fn server<R: Send + 'static>(&self, talk: impl FnOnce(&mut Server) -> R + Send + 'static) -> R {
        let server = Arc::clone(&self.server);
        spawn_blocking(move || talk(&mut server.lock().unwrap())).await.unwrap()
    }

    fn through_the_proxy(&self) -> String {
        let port = self.server.lock().unwrap().port();
        self.url.replace(&format!(":{port}/"), &format!(":{}/", self.proxy.port))
    }
}

pub struct Sqlite {
    url: String,
}

impl Bench for Sqlite {
    type Db = sqlx::Sqlite;
    const NAME: &str = "SQLite";
    const FAULTS: &[Fault] = &[Fault::Kills, Fault::WriterLock, Fault::Exhaustion, Fault::WrongClocks, Fault::Edits];

    async fn start(directory: &Path) -> Self {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(directory.join("test.db"));
        options.clone().create_if_missing(true).connect().await.unwrap();
        Self { url: options.to_url_lossy().to_string() }
    }

    fn url(&self) -> String {
        self.url.clone()
    }

    speak!();
}

pub struct Postgres(Far);

impl Bench for Postgres {
    type Db = sqlx::Postgres;
    const NAME: &str = "Postgres";
    const FAULTS: &[Fault] = Fault::OF_SERVERS;
    // By statement, not by row: a batch of many rows is as likely to fail as one of few. A sequence counts what is rolled
    // back, too.
    const CONFLICTS: Option<(&str, &str)> = Some((
        "CREATE SEQUENCE IF NOT EXISTS fault_insert_notify_msg;
         CREATE SEQUENCE IF NOT EXISTS fault_update_notify_msg;
         CREATE SEQUENCE IF NOT EXISTS fault_delete_notify_msg;
         CREATE SEQUENCE IF NOT EXISTS fault_insert_notify_msg_history;
         CREATE SEQUENCE IF NOT EXISTS fault_insert_notify_node;
         CREATE SEQUENCE IF NOT EXISTS fault_update_notify_node;
         CREATE OR REPLACE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF random() < (CASE TG_TABLE_NAME WHEN 'notify_node' THEN 0.5 ELSE 0.15 END) THEN
                 PERFORM nextval('fault_' || lower(TG_OP) || '_' || TG_TABLE_NAME);
                 IF random() < 0.5 THEN RAISE 'on purpose' USING ERRCODE = '40001'; END IF;
                 RAISE 'on purpose' USING ERRCODE = '40P01';
             END IF;
             RETURN NULL;
         END $$;
         CREATE TRIGGER fault BEFORE INSERT OR UPDATE OR DELETE ON notify_msg EXECUTE FUNCTION fault();
         CREATE TRIGGER fault BEFORE INSERT ON notify_msg_history EXECUTE FUNCTION fault();
         CREATE TRIGGER fault BEFORE INSERT OR UPDATE ON notify_node EXECUTE FUNCTION fault()",
        "DROP TRIGGER IF EXISTS fault ON notify_msg; DROP TRIGGER IF EXISTS fault ON notify_msg_history;
         DROP TRIGGER IF EXISTS fault ON notify_node",
    ));
    const COUNT_CONFLICTS: &str =
        "SELECT substr(sequencename::text, 7), coalesce(last_value, 0)::text FROM pg_sequences
         WHERE sequencename LIKE 'fault%'";

    async fn start(_directory: &Path) -> Self {
        Self(Far::start(postgres::start, "SELECT 1").await)
    }

    fn url(&self) -> String {
        self.0.url.clone()
    }

    fn node_url(&self) -> String {
        format!("{}?application_name=node", self.0.through_the_proxy())
    }

    fn far(&self) -> Option<&Far> {
        Some(&self.0)
    }

    async fn end_sessions(&self) -> usize {
        let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'node'";
        // No answer: the server is just being restarted.
        self.0.server(|server| server.query(sql)).await.map_or(0, |ended| ended.parse().unwrap())
    }

    speak!();
}

pub struct MariaDb(Far);

impl Bench for MariaDb {
    type Db = sqlx::MySql;
    const NAME: &str = "MariaDB";
    const FAULTS: &[Fault] = Fault::OF_SERVERS;
    const CONFLICTS: Option<(&str, &str)> = Some((
        concat!(
            conflict!("INSERT", "notify_msg"),
            conflict!("UPDATE", "notify_msg"),
            conflict!("DELETE", "notify_msg"),
            conflict!("INSERT", "notify_msg_history"),
            conflict!("INSERT", "notify_node"),
            conflict!("UPDATE", "notify_node"),
        ),
        "DROP TRIGGER IF EXISTS fault_INSERT_notify_msg; DROP TRIGGER IF EXISTS fault_UPDATE_notify_msg;
         DROP TRIGGER IF EXISTS fault_DELETE_notify_msg; DROP TRIGGER IF EXISTS fault_INSERT_notify_msg_history;
         DROP TRIGGER IF EXISTS fault_INSERT_notify_node; DROP TRIGGER IF EXISTS fault_UPDATE_notify_node",
    ));
    const COUNT_CONFLICTS: &str = "
        SELECT 'insert_notify_msg', CAST(next_not_cached_value - 1 AS char) FROM fault_INSERT_notify_msg UNION ALL
        SELECT 'update_notify_msg', CAST(next_not_cached_value - 1 AS char) FROM fault_UPDATE_notify_msg UNION ALL
        SELECT 'delete_notify_msg', CAST(next_not_cached_value - 1 AS char) FROM fault_DELETE_notify_msg UNION ALL
        SELECT 'insert_notify_msg_history', CAST(next_not_cached_value - 1 AS char) FROM fault_INSERT_notify_msg_history UNION ALL
        SELECT 'insert_notify_node', CAST(next_not_cached_value - 1 AS char) FROM fault_INSERT_notify_node UNION ALL
        SELECT 'update_notify_node', CAST(next_not_cached_value - 1 AS char) FROM fault_UPDATE_notify_node";

    async fn start(_directory: &Path) -> Self {
        let prepare = "CREATE USER node@'127.0.0.1'; GRANT ALL ON notify.* TO node@'127.0.0.1'";
        Self(Far::start(mariadb::start, prepare).await)
    }

    fn url(&self) -> String {
        self.0.url.clone()
    }

    fn node_url(&self) -> String {
        self.0.through_the_proxy().replace("root@", "node@")
    }

    fn far(&self) -> Option<&Far> {
        Some(&self.0)
    }

    async fn end_sessions(&self) -> usize {
        let sql = "SELECT count(*) FROM information_schema.processlist WHERE user = 'node'; KILL CONNECTION USER node";
        // No answer: the server is just being restarted.
        self.0.server(|server| server.query(sql)).await.map_or(0, |ended| ended.parse().unwrap())
    }

    speak!();
}

/// MySQL has no sequences: the numbers of a table count what is rolled back, too.
macro_rules! mysql_conflict {
    ($operation:literal, $table:literal) => {
        concat!(
            "CREATE TABLE IF NOT EXISTS fault_",
            $operation,
            "_",
            $table,
            " (id bigint AUTO_INCREMENT PRIMARY KEY);
             CREATE TRIGGER fault_",
            $operation,
            "_",
            $table,
            " BEFORE ",
            $operation,
            " ON ",
            $table,
            " FOR EACH ROW
             IF rand() < IF('",
            $table,
            "' = 'notify_node', 0.5, 0.02) THEN
                 INSERT INTO fault_",
            $operation,
            "_",
            $table,
            " VALUES ();
                 IF rand() < 0.5 THEN
                     SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'on purpose';
                 ELSE
                     SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'on purpose';
                 END IF;
             END IF;"
        )
    };
}

pub struct MySql(Far);

impl Bench for MySql {
    type Db = sqlx::MySql;
    const NAME: &str = "MySQL";
    const FAULTS: &[Fault] = Fault::OF_SERVERS;
    const CONFLICTS: Option<(&str, &str)> = Some((
        concat!(
            mysql_conflict!("insert", "notify_msg"),
            mysql_conflict!("update", "notify_msg"),
            mysql_conflict!("delete", "notify_msg"),
            mysql_conflict!("insert", "notify_msg_history"),
            mysql_conflict!("insert", "notify_node"),
            mysql_conflict!("update", "notify_node"),
        ),
        "DROP TRIGGER IF EXISTS fault_insert_notify_msg; DROP TRIGGER IF EXISTS fault_update_notify_msg;
         DROP TRIGGER IF EXISTS fault_delete_notify_msg; DROP TRIGGER IF EXISTS fault_insert_notify_msg_history;
         DROP TRIGGER IF EXISTS fault_insert_notify_node; DROP TRIGGER IF EXISTS fault_update_notify_node",
    ));
    const COUNT_CONFLICTS: &str = "
        SELECT substring_index(name, '/fault_', -1), CAST(greatest(autoinc, 1) - 1 AS char)
        FROM information_schema.innodb_tablestats WHERE name LIKE concat(database(), '/fault%')";

    async fn start(_directory: &Path) -> Self {
        Self(Far::start(mysql::start, test_support::prepare_mysql!("node")).await)
    }

    fn url(&self) -> String {
        self.0.url.clone()
    }

    fn node_url(&self) -> String {
        self.0.through_the_proxy().replace("root@", "node@")
    }

    fn far(&self) -> Option<&Far> {
        Some(&self.0)
    }

    async fn end_sessions(&self) -> usize {
        // No answer: the server is just being restarted.
        self.0
            .server(|server| server.query("CALL end_sessions('node')"))
            .await
            .map_or(0, |ended| ended.parse().unwrap())
    }

    speak!();
}
