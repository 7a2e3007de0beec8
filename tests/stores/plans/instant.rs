//! A page of a list reads few rows more than it shows, also where thousands of notices are due at one instant.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use solid_notify::NotifyDef;
use sqlx::{AssertSqlSafe, Row};
use test_support::{Database, TestDb, on_each_database};

use super::{Plans, filled_in, our_connection, statement_texts};

on_each_database!(page_of_notices_due_at_one_instant_reads_few_rows);

const LIMIT: u64 = 8;

async fn page_of_notices_due_at_one_instant_reads_few_rows<D: Database<Db: Counts>>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("remind")).await.unwrap();
    let numbers = "(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
                    UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
    db.sql(&format!(
        "INSERT INTO notify_msg (def_id, param, next_call_time)
         SELECT 1, '1', '2030-01-01 00:00:00.000' FROM {numbers} a, {numbers} b, {numbers} c, {numbers} d,
             (SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5) e"
    ))
    .await;
    db.sql(D::Db::GATHER_STATISTICS).await;
    let instant = "'2030-01-01 00:00:00.000'".to_owned();
    let (first, last) = ("'1970-01-01 00:00:00'".to_owned(), "'9999-12-31 23:59:59'".to_owned());
    let mut conn = our_connection(&db).await;
    for (name, from, until) in [("list_live_newest", &first, &instant), ("list_live_oldest", &instant, &last)] {
        let text = statement_texts::<D::Db>().into_iter().find(|(of, _)| *of == name).unwrap().1;
        let number = |n: u64| n.to_string();
        let arguments = [number(1), number(0), from.clone(), until.clone(), number(25_000), number(LIMIT)];
        let read = D::Db::rows_read(&mut conn, &filled_in(&text, &arguments)).await;
        assert!((LIMIT..=2 * LIMIT).contains(&read), "{name} reads {read}");
    }
    db.close().await;
}

/// Runs a statement, and counts what it reads.
pub(super) trait Counts: Plans {
    /// The entries of indexes and the rows.
    async fn rows_read(conn: &mut Self::Connection, sql: &str) -> u64;

    /// All that it reads, in the finest unit of the server: buffers (PostgreSQL), entries and rows of each kind of access (MySQL), operations
    /// (SQLite).
    async fn read(conn: &mut Self::Connection, sql: &str) -> u64;
}

/// The first column of each row.
macro_rules! texts {
    ($conn:expr, $sql:expr) => {{
        let rows = sqlx::raw_sql(AssertSqlSafe($sql.to_string())).fetch_all(&mut *$conn).await.unwrap();
        let texts = rows.iter().map(|row| row.try_get_unchecked::<Option<String>, _>(0).ok().flatten());
        texts.map(Option::unwrap_or_default).collect::<Vec<_>>()
    }};
}

impl Counts for sqlx::Postgres {
    async fn rows_read(conn: &mut Self::Connection, sql: &str) -> u64 {
        let plan: Value =
            serde_json::from_str(&texts!(conn, format!("EXPLAIN (ANALYZE, FORMAT JSON) {sql}"))[0]).unwrap();
        of_plan(&plan[0]["Plan"])
    }

    async fn read(conn: &mut Self::Connection, sql: &str) -> u64 {
        let plan: Value =
            serde_json::from_str(&texts!(conn, format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}"))[0]).unwrap();
        let buffers = |name: &str| plan[0]["Plan"][name].as_u64().unwrap();
        buffers("Shared Hit Blocks") + buffers("Shared Read Blocks")
    }
}

/// The rows that the scans of a plan have read, those included that a filter left out.
fn of_plan(node: &Value) -> u64 {
    let number = |name: &str| node[name].as_f64().unwrap_or(0.0);
    let read = (number("Actual Rows") + number("Rows Removed by Filter")) * number("Actual Loops");
    let below: u64 = node["Plans"].as_array().into_iter().flatten().map(of_plan).sum();
    below + if node["Index Name"].is_null() { 0 } else { read.ceil() as u64 }
}

impl Counts for sqlx::MySql {
    async fn rows_read(conn: &mut Self::Connection, sql: &str) -> u64 {
        handled(conn, sql, "IN ('Handler_read_next', 'Handler_read_prev', 'Handler_read_key')").await
    }

    async fn read(conn: &mut Self::Connection, sql: &str) -> u64 {
        handled(conn, sql, "LIKE 'Handler_read%'").await
    }
}

/// Sums the counters of the session with these names.
async fn handled(conn: &mut sqlx::MySqlConnection, sql: &str, names: &str) -> u64 {
    // MariaDB and MySQL have the counters in different schemas.
    let is_mariadb = texts!(conn, "SELECT version()")[0].contains("MariaDB");
    let schema = if is_mariadb { "information_schema" } else { "performance_schema" };
    let counters = format!(
        "SELECT CAST(CAST(sum(variable_value) AS signed) AS char) FROM {schema}.session_status
             WHERE variable_name {names}"
    );
    let count = async |conn: &mut sqlx::MySqlConnection| texts!(conn, counters)[0].parse::<u64>().unwrap();
    let begin = count(conn).await;
    let beside = count(conn).await - begin;
    _ = texts!(conn, sql);
    count(conn).await - begin - 2 * beside
}

impl Counts for sqlx::Sqlite {
    /// SQLite counts the operations of its machine. A displayed row takes about a hundred of them, and each row that a search passes over some.
    async fn rows_read(conn: &mut Self::Connection, sql: &str) -> u64 {
        Self::read(conn, sql).await / OPERATIONS
    }

    async fn read(conn: &mut Self::Connection, sql: &str) -> u64 {
        let operations = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&operations);
        conn.lock_handle().await.unwrap().set_progress_handler(1, move || {
            counted.fetch_add(1, Ordering::Relaxed);
            true
        });
        _ = texts!(conn, sql);
        conn.lock_handle().await.unwrap().remove_progress_handler();
        operations.load(Ordering::Relaxed)
    }
}

const OPERATIONS: u64 = 100;
