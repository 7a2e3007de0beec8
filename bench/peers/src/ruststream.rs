//! ruststream-sqlx 0.7 on PostgreSQL, MySQL, MariaDB and SQLite: its inbox, a queue in a table that the caller's transaction writes.
//!
//! `guide`: as in its guide Production: a row lock, 8 workers, a pool of 9 connections for them, at most 5 attempts, then dead; the default poll. SQLite has no row
//! locks: there the lease form, as in its example `sqlx_databases_sqlite`. `batch`: a handler of slices, as in its example `sqlx_subscriptions_batches`, 50 at a time.
//! `notify`: PostgreSQL only, a trigger announces each insert, as in its example `sqlx_wake_notify`, with a poll each minute. Its column `processed_at` keeps what was sent.
//! The index of the guide ends with the group and the id; here it leaves out what was sent, because claims would read over it.

use std::time::Duration;

use anyhow::Result;
use chrono::{DateTime, Utc};
use ruststream_sqlx::prelude::*;
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{MySqlPool, PgPool, SqlitePool};

use crate::connect::{Product, sqlx09 as connect};
use crate::handler::{Parameter, handle};
use crate::workload::{Counts, Peer};

const GROUP: &str = "bench";
/// The workers of the guide, and the connections of their pool.
const WORKERS: std::num::NonZeroUsize = nonzero!(8);
const POOL: u32 = 9;
const BATCH: std::num::NonZeroUsize = nonzero!(50);
/// The default.
const POLL: Duration = Duration::from_secs(1);
const CHUNK: i64 = 1000;

const POSTGRES: &str = "CREATE TABLE messages (
        id BIGSERIAL PRIMARY KEY, name TEXT NOT NULL, attempt SMALLINT NOT NULL DEFAULT 1, processed_at TIMESTAMPTZ, payload BYTEA NOT NULL);
    CREATE INDEX messages_claim ON messages (name, id) WHERE processed_at IS NULL";
const ANNOUNCE: &str = "CREATE FUNCTION announce() RETURNS trigger AS $$
    BEGIN
        PERFORM pg_notify(TG_TABLE_NAME, NEW.name);
        RETURN NULL;
    END;
    $$ LANGUAGE plpgsql;
    CREATE TRIGGER announced AFTER INSERT ON messages FOR EACH ROW EXECUTE FUNCTION announce()";
const MYSQL: &str = "CREATE TABLE messages (
        id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(64) NOT NULL, attempt SMALLINT NOT NULL DEFAULT 1, processed_at DATETIME(6), payload BLOB NOT NULL,
        INDEX claim_order (name, processed_at, id))";
const SQLITE: &str = "CREATE TABLE messages (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, attempt INTEGER NOT NULL DEFAULT 1, locked_until TEXT, processed_at TEXT, payload BLOB NOT NULL);
    CREATE INDEX messages_claim ON messages (name, id) WHERE processed_at IS NULL";

/// What differs from the guide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// Nothing.
    Guide,
    /// The handler takes slices.
    Batch,
    /// A trigger wakes the workers.
    Notify,
}

/// A row that is claimed by its lock.
#[derive(Inbox, sqlx::FromRow)]
#[inbox(table = "messages")]
struct Locked {
    #[field(id, generated)]
    id: i64,
    #[field(group)]
    name: String,
    #[field(attempt, generated)]
    attempt: i16,
    #[field(processed_at)]
    processed_at: Option<DateTime<Utc>>,
    #[field(payload)]
    payload: Vec<u8>,
}

/// A row that is claimed by a lease.
#[derive(Inbox, sqlx::FromRow)]
#[inbox(table = "messages")]
struct Leased {
    #[field(id, generated)]
    id: i64,
    #[field(group)]
    name: String,
    #[field(attempt, generated)]
    attempt: i16,
    #[field(locked_until)]
    locked_until: Option<DateTime<Utc>>,
    #[field(processed_at)]
    processed_at: Option<DateTime<Utc>>,
    #[field(payload)]
    payload: Vec<u8>,
}

impl Locked {
    fn new(order: i64) -> Result<Self> {
        let payload = serde_json::to_vec(&Parameter::new(order))?;
        Ok(Self { id: 0, name: GROUP.to_owned(), attempt: 1, processed_at: None, payload })
    }
}

impl Leased {
    fn new(order: i64) -> Result<Self> {
        let payload = serde_json::to_vec(&Parameter::new(order))?;
        Ok(Self { id: 0, name: GROUP.to_owned(), attempt: 1, locked_until: None, processed_at: None, payload })
    }
}

#[subscriber(InboxQueue::<Locked>::new("bench"))]
async fn send_locked(parameter: &Parameter) -> HandlerOutcome {
    handle(parameter);
    HandlerOutcome::ack()
}

#[subscriber(InboxQueue::<Locked>::new("bench"))]
async fn send_locked_batch(parameters: &[Parameter]) -> Vec<HandlerOutcome> {
    parameters.iter().for_each(handle);
    parameters.iter().map(|_| HandlerOutcome::ack()).collect()
}

#[subscriber(InboxQueue::<Leased>::new("bench"))]
async fn send_leased(parameter: &Parameter) -> HandlerOutcome {
    handle(parameter);
    HandlerOutcome::ack()
}

#[subscriber(InboxQueue::<Leased>::new("bench"))]
async fn send_leased_batch(parameters: &[Parameter]) -> Vec<HandlerOutcome> {
    parameters.iter().for_each(handle);
    parameters.iter().map(|_| HandlerOutcome::ack()).collect()
}

/// Writes the peer for one database.
macro_rules! backend {
    ($name:ident, $pool:ty, $options:ty, $row:ident, $book:ident, $after_fill:expr, $send:ident, $send_batch:ident) => {
        /// The peer on this database.
        #[derive(Clone)]
        pub struct $name {
            pool: $pool,
            options: $options,
            setting: Setting,
        }

        impl Peer for $name {
            async fn enqueue(&self, order: i64) -> Result<()> {
                let mut tx = self.pool.begin().await?;
                connect::$book(&mut tx, order).await?;
                $row::new(order)?.insert(&mut *tx).await?;
                tx.commit().await?;
                Ok(())
            }

            async fn fill(&self, count: usize) -> Result<()> {
                let count = i64::try_from(count)?;
                for first in (0..count).step_by(usize::try_from(CHUNK)?) {
                    let mut tx = self.pool.begin().await?;
                    for order in first..count.min(first + CHUNK) {
                        $row::new(order)?.insert(&mut *tx).await?;
                    }
                    tx.commit().await?;
                }
                sqlx::query($after_fill).execute(&self.pool).await?;
                Ok(())
            }

            async fn start(&self) -> Result<()> {
                let broker = self.broker();
                let app = RustStream::new(AppInfo::new("bench", "0.1.0"));
                let app = match self.setting {
                    Setting::Batch => app.with_broker(broker, |b| {
                        b.include($send_batch.batch(BATCH));
                    }),
                    _ => app.with_broker(broker, |b| {
                        b.include($send.workers(WORKERS));
                    }),
                };
                let running = app.start().await?;
                // Dropping it would stop the workers.
                std::mem::forget(running);
                Ok(())
            }

            async fn counts(&self) -> Result<Counts> {
                let sql = "SELECT count(*) - count(processed_at), count(processed_at) FROM messages";
                let (queued, kept) = sqlx::query_as(sql).fetch_one(&self.pool).await?;
                Ok(Counts { queued, kept })
            }

            fn poll(&self) -> Duration {
                if self.setting == Setting::Notify { Duration::ZERO } else { POLL }
            }
        }
    };
}

backend!(
    OnPostgres,
    PgPool,
    PgConnectOptions,
    Locked,
    book_postgres,
    "VACUUM ANALYZE messages",
    send_locked,
    send_locked_batch
);
backend!(
    OnMySql,
    MySqlPool,
    MySqlConnectOptions,
    Locked,
    book_mysql,
    "ANALYZE TABLE messages",
    send_locked,
    send_locked_batch
);
backend!(OnSqlite, SqlitePool, SqliteConnectOptions, Leased, book_sqlite, "ANALYZE", send_leased, send_leased_batch);

impl OnPostgres {
    fn broker(&self) -> SqlxBroker<sqlx::Postgres> {
        let pool = PgPoolOptions::new().max_connections(POOL);
        let broker = SqlxBroker::from_connect_options(self.options.clone(), pool);
        match self.setting {
            Setting::Notify => broker.poll_interval(Duration::from_secs(60)).listen_notify(),
            _ => broker,
        }
    }
}

impl OnMySql {
    fn broker(&self) -> SqlxBroker<sqlx::MySql> {
        SqlxBroker::from_connect_options(self.options.clone(), MySqlPoolOptions::new().max_connections(POOL))
    }
}

impl OnSqlite {
    fn broker(&self) -> SqlxBroker<sqlx::Sqlite> {
        SqlxBroker::from_connect_options(self.options.clone(), SqlitePoolOptions::new().max_connections(POOL))
    }
}

/// Opens the peer on PostgreSQL, and creates its table.
///
/// # Errors
/// Errors of the database.
pub async fn postgres(url: &str, setting: Setting) -> Result<OnPostgres> {
    let pool = connect::postgres(url).await?;
    sqlx::raw_sql(POSTGRES).execute(&pool).await?;
    if setting == Setting::Notify {
        sqlx::raw_sql(ANNOUNCE).execute(&pool).await?;
    }
    Ok(OnPostgres { pool, options: url.parse()?, setting })
}

/// Opens the peer on MySQL or MariaDB, and creates its table.
///
/// # Errors
/// Errors of the database.
pub async fn mysql(url: &str, setting: Setting) -> Result<OnMySql> {
    let pool = connect::mysql(url).await?;
    sqlx::raw_sql(MYSQL).execute(&pool).await?;
    Ok(OnMySql { pool, options: url.parse()?, setting })
}

/// Opens the peer on SQLite, and creates its table.
///
/// # Errors
/// Errors of the database.
pub async fn sqlite(path: &str, product: Product, setting: Setting) -> Result<OnSqlite> {
    let pool = connect::sqlite(path, product).await?;
    sqlx::raw_sql(SQLITE).execute(&pool).await?;
    Ok(OnSqlite { pool, options: connect::file(path, product), setting })
}
