//! MySQL and MariaDB: the status of the server. The bench's own readings cost the same each time, so a difference of two works omits them.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use test_servers::servers::{Server, mariadb, mysql};

use super::{CountedServer, Counters};

const DATABASE: &str = "subject";

/// The counters, and the variables whose sum each is. Plain reads are apart, because how often a sweeper looks for notices depends on the
/// clock. A claim locks by a SELECT, too.
const COUNTERS: &[(&str, &[&str])] = &[
    (
        "statements",
        &[
            "com_begin",
            "com_commit",
            "com_delete",
            "com_delete_multi",
            "com_insert",
            "com_insert_select",
            "com_replace",
            "com_rollback",
            "com_savepoint",
            "com_set_option",
            "com_update",
            "com_update_multi",
        ],
    ),
    ("selects", &["com_select"]),
    ("prepares", &["com_stmt_prepare"]),
    (
        "rows_read",
        &[
            "handler_read_first",
            "handler_read_key",
            "handler_read_last",
            "handler_read_next",
            "handler_read_prev",
            "handler_read_rnd",
            "handler_read_rnd_next",
        ],
    ),
    ("rows_written", &["handler_write", "handler_update", "handler_delete"]),
    ("page_requests", &["innodb_buffer_pool_read_requests"]),
    // The first is MariaDB's name, the second MySQL's. `Innodb_os_log_written` counts whole blocks, these bytes.
    ("redo_bytes", &["innodb_lsn_current", "innodb_redo_log_current_lsn"]),
];

/// A private server of either product.
pub struct MySql {
    server: Server,
}

/// Starts MariaDB.
///
/// # Errors
/// Fails where it is not installed.
pub fn start_mariadb() -> Result<MySql> {
    prepared(mariadb::start()?)
}

/// Starts MySQL.
///
/// # Errors
/// Fails where it is not installed.
pub fn start_mysql() -> Result<MySql> {
    prepared(mysql::start()?)
}

fn prepared(server: Server) -> Result<MySql> {
    // Statistics are read by the subject's ANALYZE alone.
    server.query("SET GLOBAL innodb_stats_auto_recalc = OFF")?;
    server.query("SET GLOBAL event_scheduler = OFF")?;
    // The list of old versions is shortened with every purge, so that its length says whether one is due.
    server.query("SET GLOBAL innodb_purge_rseg_truncate_frequency = 1")?;
    server.query(&format!("CREATE DATABASE {DATABASE}"))?;
    Ok(MySql { server })
}

impl MySql {
    /// Waits until the purge has done what the works left to it, and the log does not grow. Both read pages and write redo in the background.
    fn wait_until_quiet(&self) -> Result<()> {
        let (began, mut last) = (Instant::now(), None);
        loop {
            // This statement reads no rows, unlike a query of the status.
            let status = self.server.query("SHOW ENGINE INNODB STATUS")?;
            let now = number(&status, "Log sequence number");
            if number(&status, "History list length") == Some(0) && last == now {
                return Ok(());
            }
            if began.elapsed() > Duration::from_secs(20) {
                bail!("InnoDB purges or writes 20 s after the work: log sequence number {now:?}");
            }
            last = now;
            sleep(Duration::from_millis(50));
        }
    }
}

/// Returns a number of `SHOW ENGINE INNODB STATUS`.
fn number(status: &str, name: &str) -> Option<u64> {
    let number = status.split(name).nth(1)?.trim_start();
    number.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// Reads the lines of `SHOW STATUS`.
fn parsed(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    lines.filter_map(|(name, value)| Some((name.to_lowercase(), value.trim().parse().ok()?))).collect()
}

impl CountedServer for MySql {
    fn version(&self) -> Result<String> {
        let version = self.server.query("SELECT version()")?;
        Ok(version.split('-').next().unwrap_or_default().to_owned())
    }

    fn url(&self) -> String {
        // Without TLS, which would cost the client instructions.
        format!("mysql://root@127.0.0.1:{}/{DATABASE}?ssl-mode=disabled", self.server.port())
    }

    fn port(&self) -> Option<u16> {
        Some(self.server.port())
    }

    fn read(&mut self) -> Result<Counters> {
        self.wait_until_quiet()?;
        let names: Vec<String> =
            COUNTERS.iter().flat_map(|(_, names)| *names).map(|name| format!("'{name}'")).collect();
        let status = self
            .server
            .query(&format!("SHOW GLOBAL STATUS WHERE Variable_name IN ({})", names.join(", ")))
            .context("cannot read the status")?;
        let status = parsed(&status);
        let sum = |names: &&[&str]| names.iter().filter_map(|name| status.get(*name)).sum();
        Ok(COUNTERS.iter().map(|(counter, names)| (*counter, sum(names))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_engine_status_are_found() {
        let status =
            r"Purge done for trx's n:o < 71\nHistory list length 12\nLog sequence number          471100\nLast";
        assert_eq!(number(status, "History list length"), Some(12));
        assert_eq!(number(status, "Log sequence number"), Some(471_100));
        assert_eq!(number("", "History list length"), None);
    }

    #[test]
    fn status_lines_are_read_by_their_names() {
        let status = parsed("Handler_write\t12\nInnodb_lsn_current\t4711\nSsl_cipher\t\n");
        assert_eq!(status.get("handler_write"), Some(&12.0));
        assert_eq!(status.len(), 2, "a line without a number is left out: {status:?}");
    }
}
