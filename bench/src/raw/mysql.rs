//! Raw SQL on MariaDB and MySQL.

use std::str::FromStr;

use futures_util::future::BoxFuture;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{AssertSqlSafe, Connection, Executor, MySql, MySqlConnection};

use super::{DEF_ID, Lease, Leased, Measured, Options, driver, joined};
use crate::databases::{Product, Table};

const PICK: &str =
    "SELECT id, param FROM raw_msg WHERE def_id = ? AND status = 0 AND next_call_time <= UTC_TIMESTAMP(6)
     ORDER BY next_call_time LIMIT ? FOR UPDATE SKIP LOCKED";

const PICK_ONE: &str =
    "SELECT id, param FROM raw_msg WHERE def_id = ? AND id = ? AND status = 0 FOR UPDATE SKIP LOCKED";

impl Measured for MySql {
    // Both products are measured alike.
    const PRODUCT: Product = Product::Mariadb;
    const TABLES: &'static str = "
        CREATE TABLE business (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, amount bigint NOT NULL, note text)
            ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
        CREATE TABLE raw_msg (
            id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, def_id bigint NOT NULL, param longtext NOT NULL,
            status smallint NOT NULL DEFAULT 0, fence integer NOT NULL DEFAULT 0,
            next_call_time datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
            create_time datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)), worker varchar(200),
            KEY raw_msg_due (def_id, status, next_call_time)) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
        CREATE TABLE raw_history (
            id bigint NOT NULL PRIMARY KEY, def_id bigint NOT NULL, param longtext NOT NULL, status smallint NOT NULL,
            fence integer NOT NULL, next_call_time datetime(6) NOT NULL, create_time datetime(6) NOT NULL,
            worker varchar(200), finish_time datetime(6) NOT NULL,
            KEY raw_history_finished (def_id, status, finish_time)) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4";
    const LIKE_OURS: Option<&'static str> = Some(
        "DROP TABLE raw_msg, raw_history;
        CREATE TABLE raw_msg LIKE notify_msg;
        CREATE TABLE raw_history LIKE notify_msg_history;
        ALTER TABLE raw_history ALTER failures SET DEFAULT 0, ALTER crashes SET DEFAULT 0",
    );
    const RESET: &'static [&'static str] = &[
        "TRUNCATE business",
        "TRUNCATE notify_msg",
        "TRUNCATE notify_msg_history",
        "TRUNCATE raw_msg",
        "TRUNCATE raw_history",
    ];
    const AFTER_FILL: &'static [&'static str] = &["ANALYZE TABLE notify_msg, raw_msg"];
    const DRAINING: usize = 1;

    driver!(
        MySql,
        "SELECT 'server_version', version()
         UNION ALL SELECT 'innodb_flush_log_at_trx_commit', CAST(@@innodb_flush_log_at_trx_commit AS char)
         UNION ALL SELECT 'log_bin', CAST(@@log_bin AS char)
         UNION ALL SELECT 'innodb_buffer_pool_size', CAST(@@innodb_buffer_pool_size AS char)
         UNION ALL SELECT 'max_connections', CAST(@@max_connections AS char)",
        "INSERT INTO business (amount, note) VALUES (?, ?)",
        "INSERT INTO raw_msg (def_id, param) VALUES (?, ?)"
    );

    fn options(url: &str, name: Option<&str>) -> sqlx::Result<Options<Self>> {
        let options = MySqlConnectOptions::from_str(url)?;
        Ok(match name {
            Some(name) => options.database(name),
            None => options,
        })
    }

    fn create(name: &str) -> Option<String> {
        Some(format!("CREATE DATABASE {name}"))
    }

    fn drop(name: &str) -> Option<String> {
        Some(format!("DROP DATABASE {name}"))
    }

    fn fill(table: Table, def_id: i64, count: usize) -> String {
        let table = match table {
            Table::Ours => "notify_msg",
            Table::Raw => "raw_msg",
        };
        // A recursive query is limited to a thousand rows by default, and only MariaDB has tables of numbers.
        format!(
            "INSERT INTO {table} (def_id, param, create_time, next_call_time)
             SELECT {def_id}, concat('{{\"order\":', seq, ',\"state\":\"booked\",\"customer\":4711,\"sum\":\"129.90\"}}'),
                 UTC_TIMESTAMP(6) - INTERVAL ({count} - seq) * 1000 MICROSECOND,
                 UTC_TIMESTAMP(6) - INTERVAL ({count} - seq) * 1000 MICROSECOND
             FROM JSON_TABLE(concat('[0', repeat(',0', {count} - 1), ']'), '$[*]' COLUMNS (seq FOR ORDINALITY)) AS numbers"
        )
    }

    fn run_first_statement(conn: &mut MySqlConnection) -> BoxFuture<'_, sqlx::Result<()>> {
        Box::pin(async move {
            // REPEATABLE READ, the default, would lock the gaps between due rows.
            conn.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
            Ok(())
        })
    }

    fn lease(conn: &mut MySqlConnection, what: Lease) -> BoxFuture<'_, sqlx::Result<Vec<Leased>>> {
        let (sql, second) = match what {
            Lease::Due(limit) => (PICK, i64::try_from(limit).unwrap_or(i64::MAX)),
            Lease::Id(id) => (PICK_ONE, id),
        };
        Box::pin(async move {
            let mut tx = conn.begin().await?;
            let leased: Vec<Leased> = sqlx::query_as(sql).bind(DEF_ID).bind(second).fetch_all(&mut *tx).await?;
            if !leased.is_empty() {
                let ids: Vec<i64> = leased.iter().map(|(id, _)| *id).collect();
                // The ids stand in the text: quicker than a JSON table, and to prepare a statement per length.
                let take = format!(
                    "UPDATE raw_msg SET status = 5, fence = fence + 1, worker = 'raw',
                     next_call_time = UTC_TIMESTAMP(6) + INTERVAL 60 SECOND WHERE id IN ({})",
                    joined(&ids)
                );
                (&mut *tx).execute(sqlx::raw_sql(AssertSqlSafe(take))).await?;
            }
            tx.commit().await?;
            Ok(leased)
        })
    }

    fn finish<'c>(conn: &'c mut MySqlConnection, ids: &'c [i64], keep: bool) -> BoxFuture<'c, sqlx::Result<()>> {
        let ids = joined(ids);
        let delete = format!("DELETE FROM raw_msg WHERE id IN ({ids})");
        Box::pin(async move {
            if !keep {
                conn.execute(sqlx::raw_sql(AssertSqlSafe(delete))).await?;
                return Ok(());
            }
            let archive = format!(
                "INSERT INTO raw_history
                     (id, def_id, param, status, fence, next_call_time, create_time, worker, finish_time)
                 SELECT id, def_id, param, 1, fence, next_call_time, create_time, worker, UTC_TIMESTAMP(6)
                 FROM raw_msg WHERE id IN ({ids})"
            );
            let mut tx = conn.begin().await?;
            (&mut *tx).execute(sqlx::raw_sql(AssertSqlSafe(archive))).await?;
            (&mut *tx).execute(sqlx::raw_sql(AssertSqlSafe(delete))).await?;
            tx.commit().await
        })
    }
}
