//! A database of its own for each test, made at its start and dropped at its end.

use std::str::FromStr;
use std::time::Instant;

use async_trait::async_trait;
use chrono::Utc;
use solid_notify_conformance::Backend;
use solid_notify_core::ack::Reply;
use solid_notify_core::error::FaultKind;
use solid_notify_core::{AckResult, AnyOutbox, Error, HandClock, Inbox, NewNotice, Receipt, add_notices};
use solid_notify_sql::Outbox;
use solid_notify_sql::{Dialect, OutboxBuilder};
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Connection, Executor, Pool, Row};
use test_servers::clients::{self, Client};

use crate::hand_clock;
use crate::sending::PATIENCE;
use crate::shell::Shell;

/// The connections of the pool of most tests.
const CONNECTIONS: u32 = 8;

/// A database server that tests run on.
#[allow(async_fn_in_trait)]
pub trait Database: Send + Sync + 'static {
    /// Its dialect.
    type Db: Dialect;

    /// A fresh, empty database with a pool of `connections`.
    async fn create(connections: u32) -> (Pool<Self::Db>, Cleanup) {
        let created = Self::create_empty().await;
        (Self::connect(&created, connections).await, created)
    }

    /// A fresh, empty database.
    async fn create_empty() -> Cleanup;

    /// A pool of `connections` to it.
    async fn connect(created: &Cleanup, connections: u32) -> Pool<Self::Db>;

    /// The client program for SQL.
    const CLIENT: &'static Client;

    /// Runs plain SQL, as an operator would.
    fn sql(pool: &Pool<Self::Db>, sql: &str) -> impl Future<Output = ()> + Send;

    /// The whole number (a bigint) that a query returns.
    fn number(pool: &Pool<Self::Db>, sql: &'static str) -> impl Future<Output = i64> + Send;
}

/// SQLite, in a file.
pub struct Sqlite;
/// The server at `POSTGRES_URL`.
pub struct Postgres;
/// The server at `MARIADB_URL`.
pub struct MariaDb;
/// The server at `MYSQL_URL`.
pub struct MySql;

/// How to drop a test's database.
pub enum Cleanup {
    /// A file in this directory.
    Directory(tempfile::TempDir),
    /// A schema of this Postgres server.
    Schema(PgConnectOptions, String),
    /// A database of this MySQL or MariaDB server.
    Database(MySqlConnectOptions, String),
}

impl Cleanup {
    /// Drops it.
    pub async fn run(self) {
        match self {
            Self::Directory(directory) => drop(directory),
            Self::Schema(options, name) => {
                let mut conn = sqlx::PgConnection::connect_with(&options).await.unwrap();
                conn.execute(sqlx::AssertSqlSafe(format!("DROP SCHEMA {name} CASCADE"))).await.unwrap();
            }
            Self::Database(options, name) => {
                let mut conn = sqlx::MySqlConnection::connect_with(&options).await.unwrap();
                conn.execute(sqlx::AssertSqlSafe(format!("DROP DATABASE {name}"))).await.unwrap();
            }
        }
    }
}

/// The address of a server.
///
/// # Panics
/// Panics when the variable is not set.
pub fn server_url(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: set it to the URL of a running server, or run `cargo xtask test`, which provides servers")
    })
}

/// A name that no other test has.
pub fn fresh_name() -> String {
    format!("notify_{:016x}", fastrand::u64(..))
}

impl Database for Postgres {
    type Db = sqlx::Postgres;
    const CLIENT: &'static Client = &clients::PSQL;

    async fn create_empty() -> Cleanup {
        let options = PgConnectOptions::from_str(&server_url("POSTGRES_URL")).unwrap();
        let name = fresh_name();
        let mut conn = sqlx::PgConnection::connect_with(&options).await.expect("POSTGRES_URL must be reachable");
        conn.execute(sqlx::AssertSqlSafe(format!("CREATE SCHEMA {name}"))).await.unwrap();
        Cleanup::Schema(options, name)
    }

    async fn connect(created: &Cleanup, connections: u32) -> Pool<Self::Db> {
        let Cleanup::Schema(options, name) = created else { panic!("not a schema") };
        let own = options.clone().options([("search_path", name.as_str())]);
        PgPoolOptions::new().max_connections(connections).connect_with(own).await.unwrap()
    }

    async fn sql(pool: &Pool<Self::Db>, sql: &str) {
        pool.execute(sqlx::AssertSqlSafe(sql.to_owned())).await.unwrap();
    }

    async fn number(pool: &Pool<Self::Db>, sql: &'static str) -> i64 {
        pool.fetch_one(sql).await.unwrap().get(0)
    }
}

macro_rules! mysql_family {
    ($database:ty, $variable:literal, $client:ident) => {
        impl Database for $database {
            type Db = sqlx::MySql;
            const CLIENT: &'static Client = &clients::$client;

            async fn create_empty() -> Cleanup {
                let options = MySqlConnectOptions::from_str(&server_url($variable)).unwrap();
                let name = fresh_name();
                let mut conn = sqlx::MySqlConnection::connect_with(&options).await.expect($variable);
                // Without a character set: the server's default, perhaps latin1, must do.
                conn.execute(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
                Cleanup::Database(options, name)
            }

            async fn connect(created: &Cleanup, connections: u32) -> Pool<Self::Db> {
                let Cleanup::Database(options, name) = created else { panic!("not a database of a server") };
                let own = options.clone().database(name);
                MySqlPoolOptions::new().max_connections(connections).connect_with(own).await.unwrap()
            }

            async fn sql(pool: &Pool<Self::Db>, sql: &str) {
                pool.execute(sqlx::AssertSqlSafe(sql.to_owned())).await.unwrap();
            }

            async fn number(pool: &Pool<Self::Db>, sql: &'static str) -> i64 {
                pool.fetch_one(sql).await.unwrap().get(0)
            }
        }
    };
}
mysql_family!(MariaDb, "MARIADB_URL", MARIADB);
mysql_family!(MySql, "MYSQL_URL", MYSQL);

impl Database for Sqlite {
    type Db = sqlx::Sqlite;
    const CLIENT: &'static Client = &clients::SQLITE3;

    async fn create_empty() -> Cleanup {
        Cleanup::Directory(tempfile::tempdir().unwrap())
    }

    async fn connect(created: &Cleanup, connections: u32) -> Pool<Self::Db> {
        let Cleanup::Directory(directory) = created else { panic!("not a file") };
        let options = SqliteConnectOptions::new().filename(directory.path().join("test.db")).create_if_missing(true);
        // On a busy machine another writer may need long. It is less than the time-out of a call.
        let options = options.busy_timeout(std::time::Duration::from_secs(9));
        SqlitePoolOptions::new().max_connections(connections).connect_with(options).await.unwrap()
    }

    async fn sql(pool: &Pool<Self::Db>, sql: &str) {
        pool.execute(sqlx::AssertSqlSafe(sql.to_owned())).await.unwrap();
    }

    async fn number(pool: &Pool<Self::Db>, sql: &'static str) -> i64 {
        pool.fetch_one(sql).await.unwrap().get(0)
    }
}

/// A test's database, migrated, with an outbox over it.
pub struct TestDb<D: Database> {
    /// The outbox.
    pub outbox: Outbox<D::Db>,
    /// The application's pool.
    pub pool: Pool<D::Db>,
    clock: HandClock,
    /// Which database it is.
    pub cleanup: Cleanup,
}

impl<D: Database> TestDb<D> {
    /// Time is a hand-turned clock, which starts at the present.
    pub async fn with_hand_clock() -> Self {
        Self::build(CONNECTIONS, true, |builder| builder).await
    }

    /// Time is the database's.
    pub async fn with_real_clock() -> Self {
        Self::build(CONNECTIONS, false, |builder| builder).await
    }

    /// A pool of `connections`, a clock turned by hand or not, and other settings.
    pub async fn build(
        connections: u32,
        by_hand: bool,
        settings: impl FnOnce(OutboxBuilder<D::Db>) -> OutboxBuilder<D::Db>,
    ) -> Self {
        let (pool, cleanup) = D::create(connections).await;
        Self::migrated(pool, cleanup, by_hand, settings).await
    }

    /// A database with a hand-turned clock: the one that another test has used and [released](Self::release), without its rows, or
    /// a new one.
    pub async fn reusing(used: Option<Cleanup>) -> Self {
        let (pool, cleanup) = match used {
            Some(used) => {
                let pool = D::connect(&used, CONNECTIONS).await;
                D::sql(&pool, &without_rows(<D::Db as Dialect>::MIGRATIONS)).await;
                (pool, used)
            }
            None => D::create(CONNECTIONS).await,
        };
        Self::migrated(pool, cleanup, true, |builder| builder).await
    }

    async fn migrated(
        pool: Pool<D::Db>,
        cleanup: Cleanup,
        by_hand: bool,
        settings: impl FnOnce(OutboxBuilder<D::Db>) -> OutboxBuilder<D::Db>,
    ) -> Self {
        let clock = if by_hand { hand_clock() } else { HandClock::new(Utc::now()) };
        let builder = Outbox::builder(pool.clone());
        let builder = if by_hand { builder.clock(clock.clone()) } else { builder };
        let outbox = settings(builder).build();
        let began = Instant::now();
        // The migrations of all schemas of a PostgreSQL database wait for each other, and each gives up after a while.
        while let Err(error) = outbox.migrate().await {
            let waited = matches!(&error, Error::Store(error) if error.kind == FaultKind::Conflict);
            assert!(waited && began.elapsed() < PATIENCE, "{error}");
        }
        Self { outbox, pool, clock, cleanup }
    }

    /// Opens an existing database. Time is the database's.
    pub fn over(outbox: Outbox<D::Db>, pool: Pool<D::Db>, cleanup: Cleanup) -> Self {
        Self { outbox, pool, clock: HandClock::new(Utc::now()), cleanup }
    }

    /// The client program, in this database.
    pub fn shell(&self) -> Shell {
        Shell::new::<D>(&self.cleanup)
    }

    /// Runs plain SQL, as an operator would.
    pub async fn sql(&self, sql: &str) {
        D::sql(&self.pool, sql).await;
    }

    /// Drops the database. It stays after a failure, for an inspection.
    pub async fn close(self) {
        self.release().await.run().await;
    }

    /// Ends the connections, and returns the database to the next test.
    pub async fn release(self) -> Cleanup {
        self.pool.close().await;
        self.cleanup
    }
}

#[async_trait]
impl<D: Database> Backend for TestDb<D> {
    fn outbox(&self) -> &AnyOutbox {
        &self.outbox
    }

    fn clock(&self) -> &HandClock {
        &self.clock
    }

    async fn add(&self, notice: NewNotice) -> Result<Receipt, Error> {
        let mut tx = self.outbox.begin().await?;
        let added = notice.add(&mut tx).await?;
        tx.commit().await?;
        Ok(added)
    }

    async fn add_many(&self, notices: Vec<NewNotice>) -> Result<Vec<Receipt>, Error> {
        let mut tx = self.outbox.begin().await?;
        let added = add_notices(&mut tx, notices).await?;
        tx.commit().await?;
        Ok(added)
    }

    async fn apply_ack(&self, answer: &Reply, commit: bool) -> AckResult {
        let mut tx = self.outbox.begin().await.unwrap();
        let answered = answer.apply(&mut tx).await.unwrap();
        match commit {
            true => tx.commit().await.unwrap(),
            false => tx.rollback().await.unwrap(),
        }
        answered
    }

    async fn first_time(&self, inbox: &Inbox, key: &str, commit: bool) -> Result<bool, Error> {
        let mut tx = self.outbox.begin().await?;
        let first = inbox.first_time(&mut tx, key).await?;
        match commit {
            true => tx.commit().await?,
            false => tx.rollback().await?,
        }
        Ok(first)
    }

    async fn edit_by_hand(&self, def_id: i64, column: &str, value: &str) {
        self.sql(&format!("UPDATE notify_def SET {column} = '{value}' WHERE id = {def_id}")).await;
    }

    async fn delete_by_hand(&self, def_id: i64) {
        self.sql(&format!("DELETE FROM notify_def WHERE id = {def_id}")).await;
    }

    async fn add_and_roll_back(&self, notice: NewNotice) -> Result<Receipt, Error> {
        let mut tx = self.outbox.begin().await?;
        let added = notice.add(&mut tx).await?;
        tx.rollback().await?;
        Ok(added)
    }
}

/// The statements after which a migrated database has the rows of an empty one. They come from the migrations.
fn without_rows(migrations: &[(i64, &str, &str)]) -> String {
    let lines = || migrations.iter().flat_map(|(_, _, sql)| sql.lines());
    let created = lines().filter_map(|line| line.strip_prefix("CREATE TABLE "));
    let tables = created.filter_map(|rest| rest.trim_start_matches("IF NOT EXISTS ").split_whitespace().next());
    let deletes: String = tables.map(|table| format!("DELETE FROM {table};\n")).collect();
    let inserts: String = lines().filter(|line| line.starts_with("INSERT ")).map(|line| format!("{line}\n")).collect();
    format!("BEGIN;\n{deletes}{inserts}COMMIT;")
}
