//! Raw SQL on PostgreSQL.

use std::str::FromStr;

use futures_util::future::BoxFuture;
use sqlx::postgres::PgConnectOptions;
use sqlx::{PgConnection, Postgres};

use super::{DEF_ID, Lease, Leased, Measured, Options, driver, joined};
use crate::databases::{Product, Table};

/// Locking first and updating by primary key keeps the plan on the index however large the batch is.
const LEASE: &str = "WITH due AS MATERIALIZED (
       SELECT id FROM raw_msg WHERE def_id = $1 AND status = 0 AND next_call_time <= now()
       ORDER BY next_call_time LIMIT $2 FOR UPDATE SKIP LOCKED)
     UPDATE raw_msg m SET status = 5, fence = fence + 1, worker = 'raw', next_call_time = now() + interval '60 s'
     FROM due WHERE m.id = due.id RETURNING m.id, m.param::text AS param";

const LEASE_ONE: &str = "UPDATE raw_msg m SET status = 5, fence = fence + 1, worker = 'raw',
     next_call_time = now() + interval '60 s'
     WHERE def_id = $1 AND id = $2 AND status = 0 RETURNING m.id, m.param::text AS param";

const FINISH: &str = "WITH gone AS (DELETE FROM raw_msg WHERE id = ANY ($1::text::bigint[]) RETURNING *)
     INSERT INTO raw_history (id, def_id, param, status, fence, next_call_time, create_time, worker, finish_time)
     SELECT id, def_id, param, 1, fence, next_call_time, create_time, worker, now() FROM gone";

impl Measured for Postgres {
    const PRODUCT: Product = Product::Postgres;
    const TABLES: &'static str = "
        CREATE TABLE business (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount bigint NOT NULL, note text);
        CREATE TABLE raw_msg (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, def_id bigint NOT NULL, param json NOT NULL,
            status smallint NOT NULL DEFAULT 0, fence integer NOT NULL DEFAULT 0,
            next_call_time timestamptz NOT NULL DEFAULT now(), create_time timestamptz NOT NULL DEFAULT now(),
            worker text);
        CREATE INDEX raw_msg_due ON raw_msg (def_id, status, next_call_time);
        CREATE TABLE raw_history (
            id bigint PRIMARY KEY, def_id bigint NOT NULL, param json NOT NULL, status smallint NOT NULL,
            fence integer NOT NULL, next_call_time timestamptz NOT NULL, create_time timestamptz NOT NULL,
            worker text, finish_time timestamptz NOT NULL);
        CREATE INDEX raw_history_finished ON raw_history (def_id, status, finish_time)";
    const LIKE_OURS: Option<&'static str> = Some(
        "DROP TABLE raw_msg, raw_history;
        CREATE TABLE raw_msg (LIKE notify_msg INCLUDING ALL);
        CREATE TABLE raw_history (LIKE notify_msg_history INCLUDING ALL);
        ALTER TABLE raw_history ALTER failures SET DEFAULT 0, ALTER crashes SET DEFAULT 0",
    );
    const UNFORCED: Option<&'static str> = Some("SET synchronous_commit = off");
    const RESET: &'static [&'static str] = &[
        "TRUNCATE business, notify_msg, notify_msg_history, raw_msg, raw_history",
        "VACUUM ANALYZE business, notify_msg, notify_msg_history, raw_msg, raw_history",
        "CHECKPOINT",
    ];
    const AFTER_FILL: &'static [&'static str] = &["VACUUM ANALYZE notify_msg, raw_msg", "CHECKPOINT"];
    const DRAINING: usize = 2;

    driver!(
        Postgres,
        "SELECT name, setting FROM pg_settings WHERE name IN ('server_version', 'fsync', 'synchronous_commit',
         'full_page_writes', 'wal_sync_method', 'shared_buffers', 'max_connections') ORDER BY name",
        "INSERT INTO business (amount, note) VALUES ($1, $2)",
        "INSERT INTO raw_msg (def_id, param) VALUES ($1, $2::json)"
    );

    fn options(url: &str, name: Option<&str>) -> sqlx::Result<Options<Self>> {
        let options = PgConnectOptions::from_str(url)?;
        Ok(match name {
            Some(name) => options.options([("search_path", name)]),
            None => options,
        })
    }

    fn create(name: &str) -> Option<String> {
        Some(format!("CREATE SCHEMA {name}"))
    }

    fn drop(name: &str) -> Option<String> {
        Some(format!("DROP SCHEMA {name} CASCADE"))
    }

    fn fill(table: Table, def_id: i64, count: usize) -> String {
        let table = match table {
            Table::Ours => "notify_msg",
            Table::Raw => "raw_msg",
        };
        format!(
            "INSERT INTO {table} (def_id, param, create_time, next_call_time)
             SELECT {def_id}, format('{{\"order\":%s,\"state\":\"booked\",\"customer\":4711,\"sum\":\"129.90\"}}', n)::json,
                 now() - ({count} - n) * interval '1 ms', now() - ({count} - n) * interval '1 ms'
             FROM generate_series(1, {count}) n"
        )
    }

    fn lease(conn: &mut PgConnection, what: Lease) -> BoxFuture<'_, sqlx::Result<Vec<Leased>>> {
        let (sql, second) = match what {
            Lease::Due(limit) => (LEASE, i64::try_from(limit).unwrap_or(i64::MAX)),
            Lease::Id(id) => (LEASE_ONE, id),
        };
        Box::pin(sqlx::query_as(sql).bind(DEF_ID).bind(second).fetch_all(conn))
    }

    fn finish<'c>(conn: &'c mut PgConnection, ids: &'c [i64], keep: bool) -> BoxFuture<'c, sqlx::Result<()>> {
        let sql = if keep { FINISH } else { "DELETE FROM raw_msg WHERE id = ANY ($1::text::bigint[])" };
        Box::pin(async move {
            sqlx::query(sql).bind(format!("{{{}}}", joined(ids))).execute(conn).await?;
            Ok(())
        })
    }
}
