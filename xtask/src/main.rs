//! The workspace's own tasks: `cargo xtask test`, `cargo xtask servers`, `cargo xtask ci`, `cargo xtask api`,
//! `cargo xtask book`, `cargo xtask mutants`.
//!
//! This file parses the command line; each task has its own file.

mod api;
mod book;
mod ci;
mod copy;
mod hunt;
mod install;
mod list;
mod mutate;
mod provide;
mod reach;
mod run;
mod selection;
mod serve;
mod table;
mod test;
mod tool;
mod unpack;
mod verdict;

use std::process::ExitCode;

use anyhow::{Result, bail};

use api::Comparison;
use selection::Selection;

const USAGE: &str = "\
Usage:
  cargo xtask test [--only DATABASES] [-- ARGUMENTS OF CARGO TEST]
      Tests the workspace with a server for every database, then runs the example.
  cargo xtask servers [--only DATABASES]
      Starts the same servers, prints their URLs and waits for Ctrl-C.
  cargo xtask ci [--nightly]
      Checks everything that CI checks: format, lints, documentation, public API, dependencies, tests. With --nightly
      also the long steps: the book, the tests on the newest servers, the mutants, and faults for NOTIFY_SOAK
      (30m unless set).
  cargo xtask api [--write]
      Compares the public API of each crate with its snapshot in docs/api and prints the lines that differ.
      --write updates the snapshots.
  cargo xtask book
      Renders the book in docs to target/book with mdbook, which is installed into target/tools when it is missing.
  cargo xtask mutants [--only PART,...] [--list | --schedules] [--write]
      Makes each mutant of tests/mutants.toml, one at a time, and prints which tests find it (turn red).
      PART is part of a mutant's name or file. --write updates the table target/mutants.md.
      --list runs nothing; it prints how many tests each mutant selects, and fails where a filter selects none.
      --schedules runs the seeded schedules instead, and the table is target/mutants-schedules.md;
      without --only it makes the mutants whose guards the schedules reach.

DATABASES is a list such as `sqlite,postgres`, out of sqlite, postgres, mariadb, mysql, pgbouncer, mail,
redis and redis_cluster.
Without it all are tested. A server comes from POSTGRES_URL, MARIADB_URL, MYSQL_URL, SMTP_URL, REDIS_URL or
REDIS_CLUSTER_URL when set; otherwise a private one is started from installed programs, which are installed
when that is possible (MySQL's are unpacked into a folder of the user's cache), or from Docker. The client
programs (psql, mariadb or mysql, sqlite3), which tests run, are installed in the same way.
With NOTIFY_TEST_SERVERS=newest, PostgreSQL and Redis (Valkey) servers come from that folder, too, in the
newest versions of Debian.
";

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)).and_then(perform) {
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
        Task::Test { only, arguments } => test::test(&Selection::new(only.as_deref())?, &arguments),
        Task::Servers { only } => serve::serve(&Selection::new(only.as_deref())?),
        Task::Ci { nightly } => ci::ci(&Selection::new(None)?, nightly),
        Task::Api { write } => {
            Ok(if api::api(write)? == Comparison::Same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Task::Book => Ok(ExitCode::from(book::book()?.code())),
        Task::ListMutants { only } => {
            list::mutants(only.as_deref())?;
            Ok(ExitCode::SUCCESS)
        }
        Task::Mutants { only, schedules: true, write } => {
            hunt::mutants(&Selection::new(Some("sqlite"))?, only.as_deref(), write)?;
            Ok(ExitCode::SUCCESS)
        }
        Task::Mutants { only, schedules: false, write } => {
            let holes = mutate::mutants(&Selection::new(None)?, only.as_deref(), write)?;
            Ok(if holes == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Task::Help => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Task {
    Test { only: Option<String>, arguments: Vec<String> },
    Servers { only: Option<String> },
    Ci { nightly: bool },
    Api { write: bool },
    Book,
    Mutants { only: Option<String>, schedules: bool, write: bool },
    ListMutants { only: Option<String> },
    Help,
}

fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Task> {
    let mut arguments = arguments.into_iter();
    let name = arguments.next().unwrap_or_default();
    let (mut only, mut rest, mut flags) = (None, Vec::new(), Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--" => rest.extend(arguments.by_ref()),
            "--help" | "-h" => return Ok(Task::Help),
            "--only" => match arguments.next() {
                Some(list) => only = Some(list),
                None => bail!("--only needs a value\n\n{USAGE}"),
            },
            "--list" | "--nightly" | "--schedules" | "--write" => flags.push(argument),
            other => match other.strip_prefix("--only=") {
                Some(list) => only = Some(list.to_owned()),
                None => bail!("unknown argument `{other}`\n\n{USAGE}"),
            },
        }
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    match (name.as_str(), flags.as_slice()) {
        ("test", []) => Ok(Task::Test { only, arguments: rest }),
        ("servers", []) if rest.is_empty() => Ok(Task::Servers { only }),
        ("ci", [] | ["--nightly"]) if rest.is_empty() && only.is_none() => Ok(Task::Ci { nightly: !flags.is_empty() }),
        ("api", [] | ["--write"]) if rest.is_empty() && only.is_none() => Ok(Task::Api { write: !flags.is_empty() }),
        ("book", []) if rest.is_empty() && only.is_none() => Ok(Task::Book),
        ("mutants", ["--list"]) if rest.is_empty() => Ok(Task::ListMutants { only }),
        ("mutants", flags) if rest.is_empty() && flags.iter().all(|flag| ["--schedules", "--write"].contains(flag)) => {
            let has = |flag| flags.contains(&flag);
            Ok(Task::Mutants { only, schedules: has("--schedules"), write: has("--write") })
        }
        ("help" | "--help" | "-h", _) => Ok(Task::Help),
        ("", _) => bail!("which task?\n\n{USAGE}"),
        ("test" | "servers" | "ci" | "api" | "book" | "mutants", _) => {
            bail!("`{name}` does not take these arguments\n\n{USAGE}")
        }
        _ => bail!("unknown task `{name}`\n\n{USAGE}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn arguments_after_two_hyphens_are_those_of_cargo_test() -> Result<()> {
        let task = parsed("test --only sqlite,postgres -- --test stores -- --nocapture")?;
        let arguments = ["--test", "stores", "--", "--nocapture"].map(str::to_owned).to_vec();
        assert_eq!(task, Task::Test { only: Some("sqlite,postgres".to_owned()), arguments });
        assert_eq!(parsed("servers --only=mariadb")?, Task::Servers { only: Some("mariadb".to_owned()) });
        Ok(())
    }

    #[test]
    fn each_task_has_its_own_flags() -> Result<()> {
        assert_eq!(parsed("ci")?, Task::Ci { nightly: false });
        assert_eq!(parsed("ci --nightly")?, Task::Ci { nightly: true });
        assert_eq!(parsed("api")?, Task::Api { write: false });
        assert_eq!(parsed("api --write")?, Task::Api { write: true });
        assert_eq!(parsed("book")?, Task::Book);
        assert_eq!(
            parsed("mutants --write --only=lease")?,
            Task::Mutants { only: Some("lease".to_owned()), schedules: false, write: true }
        );
        assert_eq!(parsed("mutants --list")?, Task::ListMutants { only: None });
        assert_eq!(parsed("mutants --schedules")?, Task::Mutants { only: None, schedules: true, write: false });
        Ok(())
    }

    #[test]
    fn an_argument_that_is_not_understood_is_refused() {
        for line in [
            "",
            "tset",
            "test --onyl sqlite",
            "test --only",
            "test --write",
            "ci --only sqlite",
            "ci --write",
            "ci --schedules",
            "servers -- --nocapture",
            "mutants --nightly",
            "mutants --list --write",
            "api --only sqlite",
            "api --nightly",
            "api -- --write",
            "book --only sqlite",
            "book --nightly",
            "book -- --open",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
