//! Raw SQL on SQLite.

use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{Connection, Sqlite, SqliteConnection};

use super::{DEF_ID, Lease, Leased, Measured, Options, driver, joined};
use crate::databases::{NORMAL, Product, Table};

// Times are milliseconds since 1970, the cheapest form.
const LEASE: &str = "UPDATE raw_msg SET status = 5, fence = fence + 1, worker = 'raw',
         next_call_time = CAST(unixepoch('subsec') * 1000 AS integer) + 60000
     WHERE id IN (SELECT id FROM raw_msg WHERE def_id = $1 AND status = 0
         AND next_call_time <= CAST(unixepoch('subsec') * 1000 AS integer) ORDER BY next_call_time LIMIT $2)
     RETURNING id, param";

const LEASE_ONE: &str = "UPDATE raw_msg SET status = 5, fence = fence + 1, worker = 'raw',
         next_call_time = CAST(unixepoch('subsec') * 1000 AS integer) + 60000
     WHERE def_id = $1 AND id = $2 AND status = 0 RETURNING id, param";

const ARCHIVE: &str = "INSERT INTO raw_history
         (id, def_id, param, status, fence, next_call_time, create_time, worker, finish_time)
     SELECT id, def_id, param, 1, fence, next_call_time, create_time, worker,
         CAST(unixepoch('subsec') * 1000 AS integer)
     FROM raw_msg WHERE id IN (SELECT value FROM json_each($1))";

const DELETE: &str = "DELETE FROM raw_msg WHERE id IN (SELECT value FROM json_each($1))";

impl Measured for Sqlite {
    const PRODUCT: Product = Product::Sqlite;
    const TABLES: &'static str = "
        CREATE TABLE business (id integer PRIMARY KEY, amount integer NOT NULL, note text);
        CREATE TABLE raw_msg (
            id integer PRIMARY KEY AUTOINCREMENT, def_id integer NOT NULL, param text NOT NULL,
            status integer NOT NULL DEFAULT 0, fence integer NOT NULL DEFAULT 0,
            next_call_time integer NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS integer)),
            create_time integer NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS integer)), worker text);
        CREATE INDEX raw_msg_due ON raw_msg (def_id, status, next_call_time);
        CREATE TABLE raw_history (
            id integer PRIMARY KEY, def_id integer NOT NULL, param text NOT NULL, status integer NOT NULL,
            fence integer NOT NULL, next_call_time integer NOT NULL, create_time integer NOT NULL,
            worker text, finish_time integer NOT NULL);
        CREATE INDEX raw_history_finished ON raw_history (def_id, status, finish_time)";
    // SQLite has no CREATE TABLE LIKE, and it reaches the targets without a measurement on tables like ours.
    const LIKE_OURS: Option<&'static str> = None;
    const RESET: &'static [&'static str] = &[
        "DELETE FROM business",
        "DELETE FROM notify_msg",
        "DELETE FROM notify_msg_history",
        "DELETE FROM raw_msg",
        "DELETE FROM raw_history",
        "PRAGMA wal_checkpoint(TRUNCATE)",
    ];
    const AFTER_FILL: &'static [&'static str] = &["ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"];
    // There is one writer.
    const DRAINING: usize = 1;

    driver!(
        Sqlite,
        "SELECT 'server_version', sqlite_version()
         UNION ALL SELECT 'synchronous', CAST(synchronous AS text) FROM pragma_synchronous
         UNION ALL SELECT 'journal_mode', journal_mode FROM pragma_journal_mode",
        "INSERT INTO business (amount, note) VALUES ($1, $2)",
        "INSERT INTO raw_msg (def_id, param) VALUES ($1, $2)"
    );

    fn options(url: &str, _name: Option<&str>) -> sqlx::Result<Options<Self>> {
        let (file, synchronous) = match url.strip_suffix(NORMAL) {
            Some(file) => (file, SqliteSynchronous::Normal),
            None => (url, SqliteSynchronous::Full),
        };
        let options = SqliteConnectOptions::new().filename(file).create_if_missing(true).synchronous(synchronous);
        // Eight producers without a pause wait for one lock, and SQLite has no queue for it. On a busy machine one producer
        // may wait for longer than the 5 s of sqlx's default.
        Ok(options.journal_mode(SqliteJournalMode::Wal).busy_timeout(Duration::from_secs(60)))
    }

    fn create(_name: &str) -> Option<String> {
        None
    }

    fn drop(_name: &str) -> Option<String> {
        None
    }

    fn fill(table: Table, def_id: i64, count: usize) -> String {
        let (table, time) = match table {
            Table::Ours => (
                "notify_msg",
                format!("strftime('%Y-%m-%d %H:%M:%f', 'now', printf('-%.3f seconds', ({count} - n) / 1000.0))"),
            ),
            Table::Raw => ("raw_msg", format!("CAST(unixepoch('subsec') * 1000 AS integer) - ({count} - n)")),
        };
        format!(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count})
             INSERT INTO {table} (def_id, param, create_time, next_call_time)
             SELECT {def_id}, '{{\"order\":' || n || ',\"state\":\"booked\",\"customer\":4711,\"sum\":\"129.90\"}}', {time}, {time}
             FROM numbers"
        )
    }

    fn lease(conn: &mut SqliteConnection, what: Lease) -> BoxFuture<'_, sqlx::Result<Vec<Leased>>> {
        let (sql, second) = match what {
            Lease::Due(limit) => (LEASE, i64::try_from(limit).unwrap_or(i64::MAX)),
            Lease::Id(id) => (LEASE_ONE, id),
        };
        Box::pin(sqlx::query_as(sql).bind(DEF_ID).bind(second).fetch_all(conn))
    }

    fn finish<'c>(conn: &'c mut SqliteConnection, ids: &'c [i64], keep: bool) -> BoxFuture<'c, sqlx::Result<()>> {
        let ids = format!("[{}]", joined(ids));
        Box::pin(async move {
            if !keep {
                sqlx::query(DELETE).bind(ids).execute(conn).await?;
                return Ok(());
            }
            let mut tx = conn.begin_with("BEGIN IMMEDIATE").await?;
            sqlx::query(ARCHIVE).bind(&ids).execute(&mut *tx).await?;
            sqlx::query(DELETE).bind(&ids).execute(&mut *tx).await?;
            tx.commit().await
        })
    }
}
