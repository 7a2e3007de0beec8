//! Redis: the calls of `INFO commandstats`, the keys that were found or not, changes, and the bytes of the log of commands.

use anyhow::{Context, Result};
use redis::Connection;
use test_servers::servers::{Server, redis as servers};

use super::{CountedServer, Counters};

/// A private server, whose log has every change.
pub struct Redis {
    server: Server,
    connection: Connection,
}

/// Starts it.
///
/// # Errors
/// Fails where it is not installed.
pub fn start() -> Result<Redis> {
    let server = servers::start()?;
    let mut connection = redis::Client::open(server.url())?.get_connection().context("cannot connect to Redis")?;
    // A rewrite of the log would change its size while its bytes are counted.
    redis::cmd("CONFIG").arg("SET").arg("auto-aof-rewrite-percentage").arg(0).exec(&mut connection)?;
    Ok(Redis { server, connection })
}

impl Redis {
    fn info(&mut self, section: &str) -> Result<String> {
        redis::cmd("INFO").arg(section).query(&mut self.connection).with_context(|| format!("INFO {section}"))
    }
}

/// Returns the calls of commands, inside and outside of scripts, and those of scripts.
fn calls(info: &str) -> (f64, f64) {
    let (mut all, mut scripts) = (0.0, 0.0);
    for line in info.lines() {
        let Some((name, rest)) = line.strip_prefix("cmdstat_").and_then(|line| line.split_once(":calls=")) else {
            continue;
        };
        let calls: f64 = rest.split(',').next().and_then(|calls| calls.parse().ok()).unwrap_or_default();
        match name {
            // The bench's own.
            "info" | "config|set" | "flushall" => continue,
            "eval" | "evalsha" | "fcall" => scripts += calls,
            _ => {}
        }
        all += calls;
    }
    (all, scripts)
}

/// Returns a number of an `INFO`.
fn number(info: &str, name: &str) -> Result<f64> {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = line.with_context(|| format!("Redis reports no `{name}`"))?;
    value.trim().parse().with_context(|| format!("`{name}` of Redis is {value:?}, not a number"))
}

impl CountedServer for Redis {
    fn version(&self) -> Result<String> {
        let mut connection = redis::Client::open(self.server.url())?.get_connection()?;
        let info: String = redis::cmd("INFO").arg("server").query(&mut connection)?;
        let line = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        Ok(line.context("Redis reports no version")?.trim().to_owned())
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.server.port())
    }

    fn port(&self) -> Option<u16> {
        Some(self.server.port())
    }

    fn empty(&mut self) -> Result<()> {
        Ok(redis::cmd("FLUSHALL").exec(&mut self.connection)?)
    }

    fn read(&mut self) -> Result<Counters> {
        let (commands, scripts) = calls(&self.info("commandstats")?);
        let (stats, persistence) = (self.info("stats")?, self.info("persistence")?);
        Ok(Counters::from([
            ("commands", commands),
            ("scripts", scripts),
            ("keys_read", number(&stats, "keyspace_hits")? + number(&stats, "keyspace_misses")?),
            ("changes", number(&persistence, "rdb_changes_since_last_save")?),
            ("aof_bytes", number(&persistence, "aof_current_size")?),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_the_bench_are_left_out_and_scripts_counted_apart() {
        let info = "# Commandstats\r\ncmdstat_info:calls=3,usec=1\r\ncmdstat_evalsha:calls=5,usec=9,usec_per_call=1\r\n\
                    cmdstat_hset:calls=7,usec=2\r\n";
        assert_eq!(calls(info), (12.0, 5.0));
    }

    #[test]
    fn number_of_an_info_is_found_by_its_whole_name() {
        let info = "aof_current_size_old:1\r\naof_current_size:42\r\n";
        assert_eq!(number(info, "aof_current_size").unwrap(), 42.0);
        assert!(number(info, "aof_size").unwrap_err().to_string().contains("`aof_size`"));
    }
}
