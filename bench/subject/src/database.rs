//! The SQL databases: connections, the business table, and the statements that bring a database into the same state each time.

use std::str::FromStr;

use anyhow::Result;
use futures_util::future::BoxFuture;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::pool::PoolOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{Connection, Database, MySql, Pool, Postgres, Sqlite};

use crate::library::{AnyOutbox, Dialect, NewNotice, Outbox, add_notice, add_notices, define};
use crate::parameter::Parameter;
use crate::store::{DEFINITION, Store, definition};

type Options<DB> = <<DB as Database>::Connection as Connection>::Options;

/// The SQL that the subject needs beside the library's own.
pub trait Product: Dialect {
    /// The business table.
    const BUSINESS: &'static str;
    /// Statements that delete all rows.
    const EMPTY: &'static [&'static str];
    /// Statements after a fill.
    const SETTLE_DOWN: &'static [&'static str];

    /// Returns how to connect. Where work is counted, SQLite writes no checkpoint by itself: the log then has every page that was written.
    fn options(url: &str, counts: bool) -> sqlx::Result<Options<Self>>;
    /// Runs a statement without parameters.
    fn plain<'c>(conn: &'c mut Self::Connection, sql: &'static str) -> BoxFuture<'c, sqlx::Result<()>>;
    /// Inserts a business row.
    fn business(conn: &mut Self::Connection, amount: i64) -> BoxFuture<'_, sqlx::Result<()>>;
}

/// An outbox on a SQL database, with the application's pool.
pub struct Relational<DB: Product> {
    pool: Pool<DB>,
    outbox: Outbox<DB>,
}

impl<DB: Product> Clone for Relational<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), outbox: self.outbox.clone() }
    }
}

impl<DB: Product> Relational<DB> {
    /// Opens the application's connections.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn connect(url: &str, connections: u32) -> Result<Self> {
        let options = PoolOptions::<DB>::new().max_connections(connections).min_connections(connections);
        let pool = options.test_before_acquire(false).connect_with(DB::options(url, connections == 1)?).await?;
        Ok(Self { outbox: Outbox::new(pool.clone()), pool })
    }

    async fn each(&self, statements: &[&'static str]) -> Result<()> {
        let mut conn = self.pool.acquire().await?;
        for statement in statements {
            DB::plain(&mut conn, statement).await?;
        }
        Ok(())
    }
}

impl<DB: Product> Store for Relational<DB> {
    fn outbox(&self) -> &AnyOutbox {
        &self.outbox
    }

    async fn prepare(&self) -> Result<()> {
        self.outbox.migrate().await?;
        define(&self.outbox, definition()).await?;
        self.each(&[DB::BUSINESS]).await
    }

    async fn empty(&self) -> Result<()> {
        self.each(DB::EMPTY).await
    }

    async fn add_many(&self, notices: Vec<NewNotice>) -> Result<()> {
        let mut tx = self.outbox.begin().await?;
        add_notices(&mut tx, notices).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn settle_down(&self) -> Result<()> {
        self.each(DB::SETTLE_DOWN).await
    }

    async fn enqueue(&self, order: i64) -> Result<i64> {
        let mut tx = self.outbox.begin().await?;
        DB::business(&mut tx, order).await?;
        let id = add_notice(&mut tx, DEFINITION, Parameter::new(order)).await?.id();
        tx.commit().await?;
        Ok(id)
    }
}

/// The calls that sqlx's bounds cannot express for all drivers.
macro_rules! driver {
    ($db:ty, $business:expr) => {
        fn plain<'c>(
            conn: &'c mut <$db as Database>::Connection,
            sql: &'static str,
        ) -> BoxFuture<'c, sqlx::Result<()>> {
            Box::pin(async move {
                sqlx::raw_sql(sql).execute(conn).await?;
                Ok(())
            })
        }

        fn business(conn: &mut <$db as Database>::Connection, amount: i64) -> BoxFuture<'_, sqlx::Result<()>> {
            Box::pin(async move {
                sqlx::query($business).bind(amount).bind("a booking of the bench").execute(conn).await?;
                Ok(())
            })
        }
    };
}

impl Product for Postgres {
    const BUSINESS: &'static str = "CREATE TABLE IF NOT EXISTS business (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount bigint NOT NULL, note text)";
    const EMPTY: &'static [&'static str] = &["TRUNCATE business, notify_msg, notify_msg_history RESTART IDENTITY"];
    const SETTLE_DOWN: &'static [&'static str] =
        &["VACUUM ANALYZE business, notify_msg, notify_msg_history", "CHECKPOINT"];

    driver!(Postgres, "INSERT INTO business (amount, note) VALUES ($1, $2)");

    fn options(url: &str, _counts: bool) -> sqlx::Result<PgConnectOptions> {
        PgConnectOptions::from_str(url)
    }
}

impl Product for MySql {
    const BUSINESS: &'static str =
        "CREATE TABLE IF NOT EXISTS business (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, amount bigint NOT NULL, note text)
         ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4";
    const EMPTY: &'static [&'static str] = &["TRUNCATE business", "TRUNCATE notify_msg", "TRUNCATE notify_msg_history"];
    const SETTLE_DOWN: &'static [&'static str] = &["ANALYZE TABLE business, notify_msg, notify_msg_history"];

    driver!(MySql, "INSERT INTO business (amount, note) VALUES (?, ?)");

    fn options(url: &str, _counts: bool) -> sqlx::Result<MySqlConnectOptions> {
        MySqlConnectOptions::from_str(url)
    }
}

impl Product for Sqlite {
    const BUSINESS: &'static str =
        "CREATE TABLE IF NOT EXISTS business (id integer PRIMARY KEY, amount integer NOT NULL, note text)";
    // The numbers of notices begin at 1 again.
    const EMPTY: &'static [&'static str] = &[
        "DELETE FROM business",
        "DELETE FROM notify_msg",
        "DELETE FROM notify_msg_history",
        "UPDATE sqlite_sequence SET seq = 0 WHERE name IN ('notify_msg', 'notify_msg_history')",
        "VACUUM",
    ];
    const SETTLE_DOWN: &'static [&'static str] = &["ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"];

    driver!(Sqlite, "INSERT INTO business (amount, note) VALUES ($1, $2)");

    fn options(url: &str, counts: bool) -> sqlx::Result<SqliteConnectOptions> {
        // `synchronous` stays at SQLite's default, FULL.
        let options = SqliteConnectOptions::new().filename(url).create_if_missing(true);
        let options = options.journal_mode(SqliteJournalMode::Wal).busy_timeout(std::time::Duration::from_secs(30));
        Ok(if counts { options.pragma("wal_autocheckpoint", "0") } else { options })
    }
}
