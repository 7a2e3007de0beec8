//! hexeract 0.6 on PostgreSQL, MySQL, MariaDB and SQLite.
//!
//! `readme`: as in the quick start of its README: the worker shares the application's pool, polls each 50 ms, and has the default batch of 10.
//! `tuned`: batches of 100 and 16 workers (SQLite: one, its own rule), the best of several settings that were tried. Its documentation recommends no
//! setting for throughput. On MariaDB two or more workers did not end: claims lock gaps at REPEATABLE READ and meet the producers' inserts in
//! deadlocks. So `tuned` has one worker on MySQL and MariaDB, too. A delivered row stays in the table, which is the history.

use std::time::Duration;

use anyhow::Result;
use hexeract_core::HandlerContext;
use hexeract_outbox::{Event, Handler, OutboxError, OutboxPublisher};
use hexeract_outbox_sql::{
    MySqlOutboxPublisher, MySqlOutboxWorkerBuilder, PgOutboxPublisher, PgOutboxWorkerBuilder, SqliteOutboxPublisher,
    SqliteOutboxWorkerBuilder,
};
use sqlx08::{MySqlPool, PgPool, SqlitePool};
use tokio_util::sync::CancellationToken;

use crate::connect::{Product, sqlx08 as connect};
use crate::handler::{Parameter, handle};
use crate::workload::{Counts, Peer};

const TABLE: &str = "outbox";
const POLL: Duration = Duration::from_millis(50);
/// Events of a transaction while a backlog is filled in.
const CHUNK: i64 = 1000;

impl Event for Parameter {
    const EVENT_TYPE: &'static str = "bench";
}

struct NoOp;

impl Handler<Parameter> for NoOp {
    type Error = OutboxError;

    async fn handle(&self, event: Parameter, _context: &HandlerContext) -> Result<(), Self::Error> {
        handle(&event);
        Ok(())
    }
}

/// Batch size and workers.
#[derive(Clone, Copy)]
struct Setting {
    batch: usize,
    workers: usize,
}

impl Setting {
    fn new(tuned: bool, workers: usize) -> Self {
        if tuned { Self { batch: 100, workers } } else { Self { batch: 10, workers: 1 } }
    }
}

/// Writes the peer for one database.
macro_rules! backend {
    ($name:ident, $open:ident($($argument:ident: $type:ty),*), $pool:ty, $publisher:ty, $worker:ty, $module:ident, $book:ident, $workers:expr, $after_fill:expr) => {
        /// The peer on this database.
        #[derive(Clone)]
        pub struct $name {
            pool: $pool,
            publisher: $publisher,
            setting: Setting,
        }

        /// Opens the peer, and creates its table.
        ///
        /// # Errors
        /// Errors of the database.
        pub async fn $open(url: &str, $($argument: $type,)* tuned: bool) -> Result<$name> {
            let pool = connect::$open(url $(, $argument)*).await?;
            hexeract_outbox_sql::$module::ensure_schema(&pool, TABLE).await?;
            let publisher = <$publisher>::new(pool.clone(), TABLE)?;
            Ok($name { pool, publisher, setting: Setting::new(tuned, $workers) })
        }

        impl Peer for $name {
            async fn enqueue(&self, order: i64) -> Result<()> {
                let mut tx = self.pool.begin().await?;
                connect::$book(&mut tx, order).await?;
                self.publisher.publish_in_tx(&mut tx, &Parameter::new(order)).await?;
                tx.commit().await?;
                Ok(())
            }

            async fn fill(&self, count: usize) -> Result<()> {
                let count = i64::try_from(count)?;
                for first in (0..count).step_by(usize::try_from(CHUNK)?) {
                    let mut tx = self.pool.begin().await?;
                    for order in first..count.min(first + CHUNK) {
                        self.publisher.publish_in_tx(&mut tx, &Parameter::new(order)).await?;
                    }
                    tx.commit().await?;
                }
                sqlx08::query($after_fill).execute(&self.pool).await?;
                Ok(())
            }

            async fn start(&self) -> Result<()> {
                for _ in 0..self.setting.workers {
                    let worker = <$worker>::new(self.pool.clone())
                        .table_name(TABLE)
                        .register_handler::<Parameter, _>(NoOp)
                        .poll_interval(POLL)
                        .batch_size(self.setting.batch)
                        .build()?;
                    tokio::spawn(worker.run(CancellationToken::new()));
                }
                Ok(())
            }

            async fn counts(&self) -> Result<Counts> {
                let sql = "SELECT count(*) - count(delivered_at), count(delivered_at) FROM outbox";
                let (queued, kept) = sqlx08::query_as(sql).fetch_one(&self.pool).await?;
                Ok(Counts { queued, kept })
            }

            fn poll(&self) -> Duration {
                POLL
            }
        }
    };
}

backend!(
    OnPostgres,
    postgres(),
    PgPool,
    PgOutboxPublisher,
    PgOutboxWorkerBuilder,
    postgres,
    book_postgres,
    16,
    "VACUUM ANALYZE outbox"
);
backend!(
    OnMySql,
    mysql(),
    MySqlPool,
    MySqlOutboxPublisher,
    MySqlOutboxWorkerBuilder,
    mysql,
    book_mysql,
    1,
    "ANALYZE TABLE outbox"
);
backend!(OnSqlite, sqlite(product: Product), SqlitePool, SqliteOutboxPublisher, SqliteOutboxWorkerBuilder, sqlite, book_sqlite, 1, "ANALYZE");
