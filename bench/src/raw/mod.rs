//! The raw side: the least SQL that enqueues, leases and finishes, as a good engineer would write it by hand for one
//! database and one kind of message.
//!
//! It has no definitions, no retries, no fence, no time-outs and no handling of lost connections. Both sides do the work
//! that every transactional outbox needs. Each database's statements are in a file of its own; the loops are here.

mod mysql;
mod postgres;
mod sqlite;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use futures_util::future::BoxFuture;
use solid_notify::sql::Dialect;
use sqlx::{Connection, Database, Pool};

use crate::databases::{Arena, Product, Table};
use crate::notice::{Parameter, handle};

/// How to connect to a database.
pub type Options<DB> = <<DB as Database>::Connection as Connection>::Options;

/// The SQL and the figures that the bench needs for a database.
pub trait Measured: Dialect {
    /// The product.
    const PRODUCT: Product;
    /// The tables `business`, `raw_msg` and `raw_history`.
    const TABLES: &'static str;
    /// SQL that gives the raw side tables like ours instead: the same columns, checks and indexes.
    const LIKE_OURS: Option<&'static str>;
    /// The setting with which a session does not wait for the disk, if there is one.
    const UNFORCED: Option<&'static str> = None;
    /// SQL that empties all tables of both sides, and brings the server into the same state before each repetition.
    const RESET: &'static [&'static str];
    /// SQL after a fill, so that the planner has its statistics and the server has written it.
    const AFTER_FILL: &'static [&'static str];
    /// How many loops drain side by side: one or two, whichever measured faster.
    const DRAINING: usize;

    /// Connect options, the same for both sides; without a name: to make and drop databases.
    fn options(url: &str, name: Option<&str>) -> sqlx::Result<Options<Self>>;
    /// SQL that makes a database of this name, where it must be made.
    fn create(name: &str) -> Option<String>;
    /// SQL that drops the database.
    fn drop(name: &str) -> Option<String>;
    /// Queues `count` notices that have become due one millisecond after the other.
    fn fill(table: Table, def_id: i64, count: usize) -> String;

    /// The server's version and what decides how durable it is.
    fn settings(conn: &mut Self::Connection) -> BoxFuture<'_, sqlx::Result<Vec<(String, String)>>>;
    /// Runs SQL without parameters, perhaps several statements.
    fn plain(conn: &mut Self::Connection, sql: String) -> BoxFuture<'_, sqlx::Result<()>>;
    /// Reads one number.
    fn number<'c>(conn: &'c mut Self::Connection, sql: &'static str) -> BoxFuture<'c, sqlx::Result<i64>>;

    /// The business statement, the same on both sides.
    fn business(conn: &mut Self::Connection, amount: i64) -> BoxFuture<'_, sqlx::Result<()>>;
    /// A bare insert into `raw_msg`.
    fn enqueue<'c>(conn: &'c mut Self::Connection, parameter: &'c str) -> BoxFuture<'c, sqlx::Result<()>>;
    /// Leases what is due.
    fn lease(conn: &mut Self::Connection, what: Lease) -> BoxFuture<'_, sqlx::Result<Vec<Leased>>>;
    /// Deletes what was sent, and keeps it in `raw_history` if wanted.
    fn finish<'c>(conn: &'c mut Self::Connection, ids: &'c [i64], keep: bool) -> BoxFuture<'c, sqlx::Result<()>>;
    /// Prepares a connection that leases.
    fn run_first_statement(conn: &mut Self::Connection) -> BoxFuture<'_, sqlx::Result<()>> {
        let _ = conn;
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The one kind of message that the raw side knows.
pub const DEF_ID: i64 = 1;
/// As many as our side takes at once.
const BATCH: usize = 500;
/// How long to wait after a short batch. With a shorter wait the worker takes the producers' time for small batches.
const LINGER: Duration = Duration::from_millis(10);

/// The messages to lease.
#[derive(Debug, Clone, Copy)]
pub enum Lease {
    /// So many due messages, the longest due first.
    Due(usize),
    /// Just this one.
    Id(i64),
}

/// A leased message: its id, and its parameter as JSON.
pub type Leased = (i64, String);

/// One transaction: a business statement and a message.
///
/// # Errors
/// Errors of the database.
pub async fn enqueue<DB: Measured>(pool: &Pool<DB>, order: i64) -> Result<()> {
    let mut tx = pool.begin().await?;
    DB::business(&mut tx, order).await?;
    add::<DB>(&mut tx, order).await?;
    tx.commit().await?;
    Ok(())
}

/// Inserts a message.
///
/// # Errors
/// Errors of the database.
pub async fn add<DB: Measured>(conn: &mut DB::Connection, order: i64) -> Result<()> {
    let parameter = serde_json::to_string(&Parameter::new(order))?;
    Ok(DB::enqueue(conn, &parameter).await?)
}

/// So many connections for [`work`].
///
/// # Errors
/// Errors of the database.
pub async fn workers<DB: Measured>(arena: &Arena<DB>, count: usize) -> Result<Vec<DB::Connection>> {
    let mut workers = Vec::new();
    for _ in 0..count {
        let mut worker = arena.connect().await?;
        DB::run_first_statement(&mut worker).await?;
        workers.push(worker);
    }
    Ok(workers)
}

/// After a repetition: nothing is queued, and all of it is in history.
///
/// # Errors
/// Fails when rows are left or missing, with their numbers.
pub async fn check<DB: Measured>(arena: &Arena<DB>, count: usize, keep: bool) -> Result<()> {
    let queued = arena.number("SELECT count(*) FROM raw_msg").await?;
    let ended = arena.number("SELECT count(*) FROM raw_history WHERE status = 1").await?;
    let kept = if keep { i64::try_from(count)? } else { 0 };
    ensure!((queued, ended) == (0, kept), "{queued} are left, {ended} of {kept} are in history");
    Ok(())
}

/// Leases, calls the no-op and finishes, until `total` are done, side by side on the given connections.
///
/// # Errors
/// Errors of the database.
pub async fn work<DB: Measured>(connections: Vec<DB::Connection>, total: usize, keep: bool) -> Result<()> {
    let done = Arc::new(AtomicUsize::new(0));
    let workers = connections.into_iter().map(|connection| {
        let done = Arc::clone(&done);
        tokio::spawn(work_alone::<DB>(connection, done, total, keep))
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await??;
    }
    Ok(())
}

async fn work_alone<DB: Measured>(
    mut conn: DB::Connection,
    done: Arc<AtomicUsize>,
    total: usize,
    keep: bool,
) -> Result<()> {
    while done.load(Ordering::Relaxed) < total {
        let leased = DB::lease(&mut conn, Lease::Due(BATCH)).await?;
        for (_, parameter) in &leased {
            handle(parameter)?;
        }
        if !leased.is_empty() {
            let ids: Vec<i64> = leased.iter().map(|(id, _)| *id).collect();
            DB::finish(&mut conn, &ids, keep).await?;
        }
        let all = done.fetch_add(leased.len(), Ordering::Relaxed) + leased.len();
        if leased.len() < BATCH && all < total {
            tokio::time::sleep(LINGER).await;
        }
    }
    conn.close().await?;
    Ok(())
}

/// `1,2,3`
fn joined(ids: &[i64]) -> String {
    let mut text = String::with_capacity(ids.len() * 8);
    for id in ids {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&id.to_string());
    }
    text
}

/// The operations that every driver has, and that sqlx's bounds cannot express for all of them.
macro_rules! driver {
    ($db:ty, $settings:expr, $business:expr, $enqueue:expr) => {
        fn settings(
            conn: &mut <$db as sqlx::Database>::Connection,
        ) -> BoxFuture<'_, sqlx::Result<Vec<(String, String)>>> {
            Box::pin(sqlx::query_as($settings).fetch_all(conn))
        }

        fn plain(conn: &mut <$db as sqlx::Database>::Connection, sql: String) -> BoxFuture<'_, sqlx::Result<()>> {
            Box::pin(async move {
                sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(conn).await?;
                Ok(())
            })
        }

        fn number<'c>(
            conn: &'c mut <$db as sqlx::Database>::Connection,
            sql: &'static str,
        ) -> BoxFuture<'c, sqlx::Result<i64>> {
            Box::pin(sqlx::query_scalar(sql).fetch_one(conn))
        }

        fn business(conn: &mut <$db as sqlx::Database>::Connection, amount: i64) -> BoxFuture<'_, sqlx::Result<()>> {
            Box::pin(async move {
                sqlx::query($business).bind(amount).bind("a booking of the bench").execute(conn).await?;
                Ok(())
            })
        }

        fn enqueue<'c>(
            conn: &'c mut <$db as sqlx::Database>::Connection,
            parameter: &'c str,
        ) -> BoxFuture<'c, sqlx::Result<()>> {
            Box::pin(async move {
                sqlx::query($enqueue).bind(DEF_ID).bind(parameter).execute(conn).await?;
                Ok(())
            })
        }
    };
}
use driver;
