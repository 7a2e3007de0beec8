//! The suites of a whole test run: the test programs of each, and when CI may leave one to the night.
//!
//! How long each may take stands in CONTRIBUTING.md (`budget.rs`).

use test_servers::selection::Database;

/// Some test programs that run one after the other, and share a budget. Another suite runs beside them.
#[derive(Debug)]
pub(crate) struct Suite {
    /// The name in summaries, in the budget table and in docs/runs.toml.
    pub(crate) name: &'static str,
    /// The arguments of `cargo test` that select its programs.
    pub(crate) programs: &'static [&'static str],
    /// Stores of which CI runs it on one; the last digit of the commit's hash chooses it. All other runs have all stores.
    take_turns: &'static [Database],
    /// No other step runs beside it, because it compares rates.
    pub(crate) alone: bool,
    /// The only files whose change can change its result, where these are not the product's.
    pub(crate) depends_on: Option<&'static [&'static str]>,
}

/// The files of the tools. The product uses none of them.
const TOOLS: &[&str] = &["bench", "xtask", "tests/servers", "Cargo.lock"];

/// Conformance proves the semantics of each store in every run; the sweeper meets a store only through its traits.
const OF_SENDING: &[Database] = &[Database::Mysql, Database::Redis, Database::RedisCluster];

/// They have one dialect. What differs between them under locks and sessions is in the suite `stores`, which has both.
const OF_PROCESSES: &[Database] = &[Database::Mariadb, Database::Mysql];

/// All suites, in the order in which they begin: two run at a time, so the longest are first.
pub(crate) const SUITES: [Suite; 15] = [
    suite("stores", &["--test", "stores"]),
    Suite { take_turns: OF_SENDING, ..suite("sending", &["--test", "sending"]) },
    Suite { take_turns: OF_PROCESSES, ..suite("processes", &["--test", "processes"]) },
    Suite { alone: true, ..suite("neighbours", &["--test", "neighbours"]) },
    suite("conformance", &["--test", "conformance"]),
    suite("schedules", &["--test", "schedules"]),
    Suite {
        depends_on: Some(TOOLS),
        ..suite("tools", &["--test", "private_servers", "--test", "smoke", "--test", "counts"])
    },
    suite(
        "program",
        &["--test", "program", "--test", "sessions", "--test", "demo", "--test", "serve", "--test", "terminal"],
    ),
    suite("channels", &["--test", "channels"]),
    suite("sweeping", &["--test", "sweeping", "--test", "alone"]),
    suite("redis", &["--test", "redis"]),
    suite("units", &["--lib", "--bins"]),
    suite("rules", &["--test", "rules"]),
    suite("receivers", &["--test", "receivers"]),
    suite("doc tests", &["--doc"]),
];

const fn suite(name: &'static str, programs: &'static [&'static str]) -> Suite {
    Suite { name, programs, take_turns: &[], alone: false, depends_on: None }
}

/// Returns the turn of the commit with this hash: its last digit. `None`: there is no commit.
pub(crate) fn turn_of(commit: &str) -> Option<usize> {
    let digit = commit.chars().next_back()?.to_digit(16)?;
    usize::try_from(digit).ok()
}

impl Suite {
    /// Returns whether CI runs it on some stores only.
    pub(crate) fn has_turns(&self) -> bool {
        !self.take_turns.is_empty()
    }

    /// Returns the stores that CI leaves out of this suite in a turn. Without a commit it leaves none out.
    pub(crate) fn left_out_of(&self, turn: Option<usize>) -> Vec<Database> {
        let chosen = turn.and_then(|turn| turn.checked_rem(self.take_turns.len()));
        let Some(chosen) = chosen else { return Vec::new() };
        let others = self.take_turns.iter().enumerate().filter(|(n, _)| *n != chosen);
        others.map(|(_, database)| *database).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use anyhow::{Context, Result, ensure};
    use test_servers::run::cargo;

    use super::*;

    #[test]
    fn every_test_program_is_in_one_suite() -> Result<()> {
        let selected =
            |name: &str| SUITES.iter().flat_map(|suite| suite.programs).filter(|word| **word == name).count();
        let names = test_programs(&mut cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"]))?;
        ensure!(names.len() > 10, "only {names:?}");
        for name in names {
            assert_eq!(selected(&name), 1, "the test program {name} must be in one suite of xtask/src/suites.rs");
        }
        Ok(())
    }

    /// Reads the names of the integration tests without a parser of JSON: a target is `{"kind":["test"],…,"name":"x"`.
    fn test_programs(metadata: &mut Command) -> Result<Vec<String>> {
        let printed = String::from_utf8(metadata.output()?.stdout)?;
        let targets = printed.split(r#"{"kind":["test"]"#).skip(1);
        targets
            .map(|rest| Some(rest.split_once(r#""name":""#)?.1.split_once('"')?.0.to_owned()))
            .map(|name| name.context("a target without a name"))
            .collect()
    }

    #[test]
    fn stores_take_turns_in_suites_that_repeat_what_conformance_proves() -> Result<()> {
        let of = |name| SUITES.iter().find(|suite| suite.name == name).context("no such suite");
        let (sending, processes) = (of("sending")?, of("processes")?);
        let left_out = |commit| sending.left_out_of(turn_of(commit));
        assert_eq!(left_out("d7d99e0"), [Database::Redis, Database::RedisCluster]);
        assert_eq!(left_out("d7d99e1"), [Database::Mysql, Database::RedisCluster]);
        assert_eq!(left_out("d7d99ef"), [Database::Redis, Database::RedisCluster]);
        assert_eq!(left_out(""), []);
        assert_eq!(processes.left_out_of(turn_of("d7d99e0")), [Database::Mysql]);
        assert_eq!(processes.left_out_of(turn_of("d7d99e1")), [Database::Mariadb]);
        assert_eq!(of("conformance")?.left_out_of(Some(0)), []);
        Ok(())
    }
}
