//! The checks of MySQL and MariaDB. `SHOW` knows the names of both, and has no row for a variable that a server lacks.

use solid_notify_core::finding::Finding;

use crate::examine::check::{Check, open_for};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "version",
        sql: "SELECT version()",
        // Older ones are refused by every connection.
        judge: |version| Finding::fine("version", version),
    },
    Check {
        name: "tls",
        sql: "SHOW SESSION STATUS LIKE 'Ssl_version'",
        judge: |version| match version {
            "" => Finding::warning(
                "tls",
                "the connection is not encrypted",
                "parameters can be read on the network, unless the server is on this machine",
                "add ssl-mode=VERIFY_IDENTITY to the URL",
            ),
            version => Finding::fine("tls", version),
        },
    },
    Check {
        name: "innodb_flush_log_at_trx_commit",
        sql: "SHOW GLOBAL VARIABLES LIKE 'innodb_flush_log_at_trx_commit'",
        judge: |value| match value {
            "1" => Finding::fine("innodb_flush_log_at_trx_commit", value),
            value => Finding::problem(
                "innodb_flush_log_at_trx_commit",
                value,
                "a crash of the server loses commits that it has confirmed: orders with their notices, and claims, which are then given twice",
                "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the file of the server",
            ),
        },
    },
    Check {
        name: "sync_binlog",
        sql: "SELECT concat(@@global.log_bin, ' ', @@global.sync_binlog)",
        judge: |value| match value {
            "1 0" => Finding::warning(
                "sync_binlog",
                "0",
                "a crash of the machine loses the end of the binary log, and replicas then lack committed notices",
                "SET GLOBAL sync_binlog = 1, and in the file of the server",
            ),
            _ => Finding::fine("sync_binlog", value),
        },
    },
    Check {
        name: "binlog_format",
        sql: "SELECT concat(@@global.log_bin, ' ', @@global.binlog_format)",
        judge: |value| match value {
            "1 ROW" => Finding::fine("binlog_format", "ROW"),
            value if value.starts_with("1 ") => Finding::warning(
                "binlog_format",
                &value[2..],
                "triggers that add notices lock the definition until their transaction ends, so an edit of it waits",
                "SET GLOBAL binlog_format = 'ROW', and in the file of the server",
            ),
            _ => Finding::fine("binlog_format", "there is no binary log"),
        },
    },
    Check {
        name: "sql_mode",
        sql: "SELECT @@sql_mode",
        judge: |modes| match modes.split(',').any(|mode| mode.starts_with("STRICT_")) {
            true => Finding::fine("sql_mode", "strict"),
            false => Finding::problem(
                "sql_mode",
                modes,
                "without a strict mode the server cuts values that are too long, and stores what was not meant, without an error",
                "SET GLOBAL sql_mode = concat(@@global.sql_mode, ',STRICT_TRANS_TABLES'), and in the file of the server",
            ),
        },
    },
    Check {
        name: "isolation",
        sql: "SHOW GLOBAL VARIABLES WHERE variable_name IN ('tx_isolation', 'transaction_isolation')",
        judge: |value| match value {
            "SERIALIZABLE" => Finding::warning(
                "isolation",
                value,
                "reads of the application lock rows of notices, so claims wait; the store sets its own level",
                "SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED, unless the application needs it",
            ),
            value => Finding::fine("isolation", value),
        },
    },
    Check {
        name: "oldest_transaction",
        sql: "SELECT cast(coalesce(max(timestampdiff(SECOND, trx_started, now())), 0) AS char) FROM information_schema.innodb_trx",
        judge: |seconds| {
            open_for(
                seconds,
                "old versions of rows cannot be removed, so looking for due notices gets slower, and its locks are kept",
                "SELECT trx_mysql_thread_id, trx_started FROM information_schema.innodb_trx; then KILL",
            )
        },
    },
    Check {
        name: "bloat",
        // Without a file for each table, `data_free` of each table is that of the whole server, and OPTIMIZE TABLE returns none of it.
        sql: "SELECT cast(coalesce(sum(data_free) DIV 1048576, 0) AS char) FROM information_schema.tables
              WHERE table_schema = database() AND table_name IN ('notify_msg', 'notify_msg_history') AND data_free > data_length
                  AND @@innodb_file_per_table",
        judge: |free| match free.parse::<u64>().unwrap_or(0) {
            free if free > 1024 => Finding::warning(
                "bloat",
                format!("{free} MiB of the tables of notices are free"),
                "the file does not shrink by itself",
                "OPTIMIZE TABLE notify_msg, notify_msg_history, at a quiet time",
            ),
            free => Finding::fine("bloat", format!("{free} MiB are free")),
        },
    },
];
