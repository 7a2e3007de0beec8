//! The checks of PostgreSQL. `reset_val` is what a new session of this account gets, whatever the store has set in its own.

use solid_notify_core::finding::Finding;

use crate::examine::check::{Check, open_for};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "version",
        sql: "SELECT current_setting('server_version')",
        // Older ones are refused by every connection.
        judge: |version| Finding::fine("version", format!("PostgreSQL {version}")),
    },
    Check {
        name: "tls",
        sql: "SELECT CASE WHEN ssl THEN version WHEN inet_server_addr() IS NULL OR inet_server_addr() <<= '127.0.0.0/8' \
              OR inet_server_addr() = '::1' THEN 'local' END FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
        judge: |version| match version {
            "" => Finding::warning(
                "tls",
                "the connection is not encrypted",
                "parameters and passwords can be read on the network",
                "add sslmode=verify-full to the URL",
            ),
            version => Finding::fine("tls", version),
        },
    },
    Check {
        name: "synchronous_commit",
        sql: "SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'",
        judge: |value| match value {
            "off" => Finding::problem(
                "synchronous_commit",
                "off",
                "a crash of the server loses commits that it has confirmed: orders with their notices, and claims, which are then given twice",
                "ALTER ROLE … SET synchronous_commit = on, or in postgresql.conf",
            ),
            value => Finding::fine("synchronous_commit", value),
        },
    },
    Check {
        name: "fsync",
        sql: "SELECT current_setting('fsync') || ', full_page_writes ' || current_setting('full_page_writes')",
        judge: |value| match value {
            "on, full_page_writes on" => Finding::fine("fsync", "on"),
            value => Finding::problem(
                "fsync",
                value,
                "a crash of the machine can destroy the database",
                "set fsync = on and full_page_writes = on in postgresql.conf",
            ),
        },
    },
    Check {
        name: "isolation",
        sql: "SELECT reset_val FROM pg_settings WHERE name = 'default_transaction_isolation'",
        judge: |value| match value {
            "read committed" => Finding::fine("isolation", value),
            value => Finding::warning(
                "isolation",
                value,
                "transactions of the application can fail with serialization errors, and must be repeated; the store sets its own level",
                "ALTER ROLE … SET default_transaction_isolation = 'read committed', unless the application needs it",
            ),
        },
    },
    Check {
        name: "oldest_transaction",
        sql: "SELECT coalesce(extract(epoch FROM max(statement_timestamp() - since)), 0)::bigint::text FROM (
                SELECT xact_start AS since FROM pg_stat_activity WHERE (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL) AND pid <> pg_backend_pid()
                UNION ALL SELECT prepared FROM pg_prepared_xacts
              ) AS open",
        judge: |seconds| {
            open_for(
                seconds,
                "VACUUM cannot remove rows of notices that were sent since, so looking for due notices gets slower",
                "SELECT pid, usename, query FROM pg_stat_activity ORDER BY xact_start; then pg_terminate_backend(pid), or ROLLBACK PREPARED",
            )
        },
    },
    Check {
        name: "bloat",
        sql: "SELECT coalesce(max(n_dead_tup) FILTER (WHERE n_dead_tup > 100000 AND n_dead_tup > 2 * n_live_tup), 0)::text
              FROM pg_stat_all_tables WHERE relname IN ('notify_msg', 'notify_msg_history') AND pg_table_is_visible(relid)",
        judge: |dead| match dead {
            "0" => Finding::fine("bloat", "few dead rows"),
            dead => Finding::warning(
                "bloat",
                format!("{dead} dead rows in a table of notices"),
                "looks and claims read past them",
                "VACUUM notify_msg, notify_msg_history; see whether autovacuum is on, and the oldest transaction",
            ),
        },
    },
];
