//! PostgreSQL: `pg_stat_statements`, `pg_stat_database`, and the index entries in the log by `pg_walinspect`.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use test_servers::servers::{Ending, Server, postgres};

use super::{CountedServer, Counters};

/// The subject's account. The bench reads by another one, so that its own statements do not count.
const ACCOUNT: &str = "subject";

/// Background work that is off, and the extension that must be loaded at the start. Full pages are left out of the log already.
const SETTINGS: &[&str] = &[
    "shared_preload_libraries = 'pg_stat_statements'",
    "autovacuum = off",
    "checkpoint_timeout = '1d'",
    "bgwriter_lru_maxpages = 0",
    // The log is read after the work; a checkpoint removes it otherwise.
    "wal_keep_size = '1GB'",
];

/// Plain reads apart: how often a sweeper looks for notices depends on the clock.
const STATEMENTS: &str =
    "SELECT coalesce(sum(calls) FILTER (WHERE NOT plain), 0), coalesce(sum(rows) FILTER (WHERE NOT plain), 0),
         coalesce(sum(calls) FILTER (WHERE plain), 0), coalesce(sum(shared_blks_hit + shared_blks_read) FILTER (WHERE NOT plain), 0),
         coalesce(sum(wal_records), 0), coalesce(sum(wal_bytes), 0)
     FROM (SELECT s.*, query ~ '^\\s*SELECT' AND query !~ 'FOR (NO KEY )?(UPDATE|SHARE)' AS plain
         FROM pg_stat_statements s WHERE userid = 'subject'::regrole) s";

/// Rows of the tables of notices that the executor read. A session reports them at its end.
const ROWS: &str = "SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)
     FROM pg_stat_user_tables WHERE relname IN ('business', 'notify_msg', 'notify_msg_history')";

const SESSIONS: &str = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'subject'";
const POSITION: &str = "SELECT pg_current_wal_flush_lsn()";

/// Records of the log by what they do: rows of tables, and entries of indexes. A split of a page also inserts an entry.
const RECORDS: &str =
    "coalesce(sum(count) FILTER (WHERE name ~ '^Heap2?/(INSERT|UPDATE|HOT_UPDATE|DELETE|MULTI_INSERT)'), 0),
         coalesce(sum(count) FILTER (WHERE name ~ '^Btree/(INSERT_LEAF|INSERT_POST|SPLIT_L|SPLIT_R)$'), 0)";

/// A private server.
pub struct Postgres {
    server: Server,
    /// The position of the log up to which it is counted, once the subject is connected.
    counted_to: Option<String>,
    /// Rows of tables and entries of indexes that were written.
    written: [f64; 2],
    has_walinspect: bool,
}

/// Starts it.
///
/// # Errors
/// Fails where PostgreSQL or its extension `pg_stat_statements` is not installed.
pub fn start() -> Result<Postgres> {
    let mut server = postgres::start()?;
    for setting in SETTINGS {
        server.query(&format!("ALTER SYSTEM SET {setting}"))?;
    }
    server.restart(Ending::Graceful).context("the extension pg_stat_statements of PostgreSQL's contrib is needed")?;
    server.query(&format!("CREATE ROLE {ACCOUNT} SUPERUSER LOGIN"))?;
    server.query("CREATE EXTENSION pg_stat_statements")?;
    let has_walinspect = server.query("CREATE EXTENSION pg_walinspect").is_ok();
    if !has_walinspect {
        eprintln!(
            "rows and index entries written are not counted: the extension pg_walinspect (PostgreSQL 15 or newer) is not installed"
        );
    }
    Ok(Postgres { server, counted_to: None, written: [0.0; 2], has_walinspect })
}

impl Postgres {
    fn row(&self, sql: &str) -> Result<Vec<f64>> {
        let text = self.server.query(sql)?;
        let numbers = text.split('|').map(str::parse::<f64>);
        numbers.collect::<Result<_, _>>().with_context(|| format!("no row of numbers: {text:?}"))
    }

    fn wait_until_sessions_ended(&self) -> Result<()> {
        let began = Instant::now();
        while self.server.query(SESSIONS)? != "0" {
            if began.elapsed() > Duration::from_secs(20) {
                bail!("sessions of the subject are open 20 s after its end");
            }
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Counts what the log has since the last reading.
    fn count_log(&mut self) -> Result<[f64; 2]> {
        let now = self.server.query(POSITION)?;
        if let Some(began) = self.counted_to.replace(now.clone()).filter(|began| *began != now) {
            let row = self.row(&format!(
                "SELECT {RECORDS} FROM (SELECT \"resource_manager/record_type\" AS name, count
                     FROM pg_get_wal_stats('{began}', '{now}', true)) records"
            ))?;
            let [rows, entries] = row[..] else { bail!("pg_walinspect has other columns") };
            self.written = [self.written[0] + rows, self.written[1] + entries];
        }
        Ok(self.written)
    }
}

impl CountedServer for Postgres {
    fn version(&self) -> Result<String> {
        let version = self.server.query("SHOW server_version")?;
        Ok(version.split(' ').next().unwrap_or_default().to_owned())
    }

    fn url(&self) -> String {
        format!("postgres://{ACCOUNT}@127.0.0.1:{}/notify", self.server.port())
    }

    fn port(&self) -> Option<u16> {
        Some(self.server.port())
    }

    fn read(&mut self) -> Result<Counters> {
        let row = self.row(STATEMENTS)?;
        let names = ["statements", "rows", "reads", "buffer_hits", "wal_records", "wal_bytes"];
        ensure!(row.len() == names.len(), "pg_stat_statements has other columns");
        let mut counters: Counters = names.into_iter().zip(row).collect();
        if self.has_walinspect {
            let [rows, entries] = self.count_log()?;
            counters.extend([("rows_written", rows), ("index_entries", entries)]);
        }
        Ok(counters)
    }

    fn read_ended(&mut self) -> Result<Counters> {
        self.wait_until_sessions_ended()?;
        let row = self.row(ROWS)?;
        let [read] = row[..] else { bail!("pg_stat_user_tables has other columns") };
        Ok(Counters::from([("rows_read", read)]))
    }
}
