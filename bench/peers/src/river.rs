//! River for Rust (riverqueue 0.5) on PostgreSQL and SQLite, the databases that it has.
//!
//! `readme`: as in its README: one pool, a queue with 10 workers, and its defaults (a fetch at most each 100 ms, a poll each second, LISTEN and NOTIFY).
//! `bench`: as `riverqueue bench` of riverqueue-cli 0.5 measures it: 2,000 workers, a fetch at most each 2 ms, a poll each 20 ms. Completed jobs stay for a day, its default.

use std::time::Duration;

use anyhow::{Context, Result};
use riverqueue::migrate::{PostgresMigrator, SqliteMigrator};
use riverqueue::{BoxError, Client, Job, QueueConfig, RunHandle, WorkContext, WorkOutcome, Workers};
use sqlx::{PgPool, SqlitePool};

use crate::connect::{Product, sqlx09 as connect};
use crate::handler::{Parameter, handle};
use crate::workload::{Counts, Peer};

const CHUNK: i64 = 1000;

async fn work(_context: WorkContext, job: Job<Parameter>) -> Result<WorkOutcome, BoxError> {
    handle(&job.args);
    Ok(WorkOutcome::Complete)
}

fn queue(as_in_bench: bool) -> QueueConfig {
    if as_in_bench {
        let queue = QueueConfig::new(2000).with_fetch_cooldown(Duration::from_millis(2));
        queue.with_fetch_poll_interval(Duration::from_millis(20))
    } else {
        QueueConfig::new(10)
    }
}

/// Writes the peer for one database.
macro_rules! backend {
    ($name:ident, $pool:ty, $book:ident, $begin:ident, $after_fill:expr) => {
        /// The peer on this database.
        #[derive(Clone)]
        pub struct $name {
            pool: $pool,
            client: Client,
        }

        impl $name {
            fn new(pool: $pool, as_in_bench: bool) -> Result<Self> {
                let mut workers = Workers::new();
                workers.add_fn(work)?;
                let client = Client::builder(pool.clone()).workers(workers).queue("default", queue(as_in_bench)).build()?;
                Ok(Self { pool, client })
            }
        }

        impl Peer for $name {
            async fn enqueue(&self, order: i64) -> Result<()> {
                let mut tx = riverqueue::database::$begin(&self.pool).await?;
                connect::$book(&mut tx, order).await?;
                self.client.insert(Parameter::new(order)).tx(&mut tx).await?;
                tx.commit().await?;
                Ok(())
            }

            async fn fill(&self, count: usize) -> Result<()> {
                let count = i64::try_from(count)?;
                for first in (0..count).step_by(usize::try_from(CHUNK)?) {
                    let orders = first..count.min(first + CHUNK);
                    self.client.insert_many(orders.map(Parameter::new).collect::<Vec<_>>()).await?;
                }
                sqlx::query($after_fill).execute(&self.pool).await?;
                Ok(())
            }

            async fn start(&self) -> Result<()> {
                let running: RunHandle = self.client.start().context("cannot start the client")?;
                running.detach();
                Ok(())
            }

            async fn counts(&self) -> Result<Counts> {
                let sql = "SELECT count(CASE WHEN state <> 'completed' THEN 1 END), count(CASE WHEN state = 'completed' THEN 1 END) FROM river_job";
                let (queued, kept) = sqlx::query_as(sql).fetch_one(&self.pool).await?;
                Ok(Counts { queued, kept })
            }

            fn poll(&self) -> Duration {
                // A notification wakes it; a fetch waits for the cooldown.
                Duration::from_millis(100)
            }
        }
    };
}

backend!(OnPostgres, PgPool, book_postgres, begin_postgres, "VACUUM ANALYZE river_job");
backend!(OnSqlite, SqlitePool, book_sqlite, begin_sqlite_write, "ANALYZE");

/// Opens the peer on PostgreSQL, and creates its tables.
///
/// # Errors
/// Errors of the database.
pub async fn postgres(url: &str, as_in_bench: bool) -> Result<OnPostgres> {
    let pool = connect::postgres(url).await?;
    PostgresMigrator::new(pool.clone()).migrate_up().await?;
    OnPostgres::new(pool, as_in_bench)
}

/// Opens the peer on SQLite, and creates its tables.
///
/// # Errors
/// Errors of the database.
pub async fn sqlite(path: &str, product: Product, as_in_bench: bool) -> Result<OnSqlite> {
    let pool = connect::sqlite(path, product).await?;
    SqliteMigrator::new(pool.clone()).migrate_up().await?;
    OnSqlite::new(pool, as_in_bench)
}
