//! The workspace's own tasks: `cargo xtask test`, `cargo xtask servers`, `cargo xtask ci`, `cargo xtask api`,
//! `cargo xtask book`, `cargo xtask mutants`.
//!
//! This file parses the command line; each task has its own file.

mod api;
mod book;
mod budget;
mod ci;
mod copy;
mod hunt;
mod list;
mod mutant_result;
mod mutants;
mod mutate;
mod nightly;
mod output;
mod quick;
mod revision;
mod runs;
mod selected;
mod serve;
mod step;
mod suites;
mod table;
mod test;
mod tool;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use api::Comparison;
use output::Output;
use test::Lints;
use test_servers::run;
use test_servers::selection::{Database, Selection};

/// The workspace's own tasks.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct CommandLine {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, PartialEq, Eq, Subcommand)]
enum Task {
    /// Tests the workspace with a server for every database, then runs the examples.
    #[command(after_help = SERVERS)]
    Test {
        #[command(flatten)]
        databases: Databases,
        /// Arguments of `cargo test`.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Starts the same servers, prints their URLs and waits for Ctrl-C.
    #[command(after_help = SERVERS)]
    Servers {
        #[command(flatten)]
        databases: Databases,
    },
    /// Checks everything that CI checks: format, lints, documentation and public API, dependencies, tests.
    Ci {
        /// Run what CI leaves to the night instead: the tests on the newest servers, the mutants, faults for NOTIFY_SOAK (30m unless
        /// set) and others, in parts of less than 90 minutes each.
        #[arg(long)]
        nightly: bool,
        /// Only these parts of the night.
        #[arg(long, value_name = "PART,...", value_delimiter = ',', requires = "nightly")]
        only: Vec<String>,
        /// Write the result to docs/runs.toml. Everything must be committed.
        #[arg(long)]
        record: bool,
    },
    /// Checks within minutes, without servers: format, lints, unit tests, conformance and sending in memory and on SQLite, rules.
    Quick,
    /// Compares the public API of each crate with its snapshot in docs/api and prints the lines that differ.
    Api {
        /// Update the snapshots.
        #[arg(long)]
        write: bool,
    },
    /// Renders the book in docs to target/book with mdbook, which is installed into target/tools when it is missing.
    Book,
    /// Makes each mutant of tests/mutants.toml, one at a time, and prints which tests find it (turn red).
    Mutants {
        /// Only mutants whose name or file contains one of these parts.
        #[arg(long, value_name = "PART,...")]
        only: Option<String>,
        /// Run nothing: print how many tests each mutant selects, and fail where a filter selects none.
        #[arg(long, conflicts_with_all = ["schedules", "write"])]
        list: bool,
        /// Run the seeded schedules instead. The table is target/mutants-schedules.md. Without --only it makes the
        /// mutants whose guards the schedules reach.
        #[arg(long)]
        schedules: bool,
        /// Update the table target/mutants.md.
        #[arg(long)]
        write: bool,
    },
}

#[derive(Args, Debug, PartialEq, Eq)]
struct Databases {
    /// Only these databases. Without it, all.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Database>,
}

const SERVERS: &str = "\
A server comes from POSTGRES_URL, MARIADB_URL, MYSQL_URL, SMTP_URL, REDIS_URL or REDIS_CLUSTER_URL when set; otherwise a
private one is started from installed programs, which are installed when that is possible (MySQL's are unpacked into a
folder of the user's cache), or from Docker. The client programs (psql, mariadb or mysql, sqlite3), which tests run, are
installed in the same way. With NOTIFY_TEST_SERVERS=newest, PostgreSQL and Redis (Valkey) servers come from that folder,
too, in the newest versions of Debian.";

fn main() -> ExitCode {
    match perform(CommandLine::parse().task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(task: Task) -> Result<ExitCode> {
    run::mind_interrupts()?;
    match task {
        Task::Test { databases, arguments } => test::test(&Selection::new(&databases.only), &arguments),
        Task::Servers { databases } => serve::serve(&Selection::new(&databases.only)),
        Task::Ci { nightly: true, only, record } => nightly::nightly(&Selection::new(&[]), &only, record),
        Task::Ci { record, .. } => ci::ci(&Selection::new(&[]), record),
        Task::Quick => quick::quick(),
        Task::Api { write } => {
            let comparison = api::api(write, Lints::Allow, &Output::Terminal)?;
            Ok(if comparison == Comparison::Same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Task::Book => Ok(ExitCode::from(book::book()?.code())),
        Task::Mutants { only, list: true, .. } => {
            list::mutants(only.as_deref())?;
            Ok(ExitCode::SUCCESS)
        }
        Task::Mutants { only, schedules: true, write, .. } => {
            hunt::mutants(&Selection::new(&[Database::Sqlite]), only.as_deref(), write)?;
            Ok(ExitCode::SUCCESS)
        }
        Task::Mutants { only, write, .. } => {
            let holes = mutate::mutants(&Selection::new(&[]), only.as_deref(), None, write)?;
            Ok(if holes == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, clap::Error> {
        CommandLine::try_parse_from(["xtask"].into_iter().chain(line.split_whitespace())).map(|line| line.task)
    }

    #[test]
    fn arguments_after_two_hyphens_are_those_of_cargo_test() -> Result<(), clap::Error> {
        let task = parsed("test --only sqlite,redis_cluster -- --test stores -- --nocapture")?;
        let databases = Databases { only: vec![Database::Sqlite, Database::RedisCluster] };
        let arguments = ["--test", "stores", "--", "--nocapture"].map(str::to_owned).to_vec();
        assert_eq!(task, Task::Test { databases, arguments });
        Ok(())
    }

    #[test]
    fn an_argument_that_is_not_understood_is_refused() {
        for line in [
            "",
            "tset",
            "test --onyl sqlite",
            "test --only",
            "test --only ,",
            "test --only postgresql",
            "test --only sqlite,oracle",
            "servers -- --nocapture",
            "mutants --list --write",
            "ci --only mutants-1",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
