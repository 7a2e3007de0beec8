//! The workspace's own tasks: `cargo xtask test`, `cargo xtask servers`, `cargo xtask ci`, `cargo xtask
//! guards`.
//!
//! This file reads the command line and hands over; each task has its own file.

mod ci;
mod copy;
mod hunt;
mod install;
mod mutate;
mod provide;
mod reach;
mod run;
mod selection;
mod serve;
mod table;
mod test;
mod verdict;

use std::process::ExitCode;

use anyhow::{Result, bail};

use selection::Selection;

const USAGE: &str = "\
Usage:
  cargo xtask test [--only DATABASES] [-- ARGUMENTS OF CARGO TEST]
      Tests the workspace with a server for every database, then runs the example.
  cargo xtask servers [--only DATABASES]
      Starts the same servers, prints their URLs and waits for Ctrl-C.
  cargo xtask ci [--nightly]
      Everything that CI checks: format, lints, documentation, dependencies, tests. With --nightly
      also what takes long: the guards, and faults for NOTIFY_SOAK (30m unless set).
  cargo xtask guards [--only PART,...] [--schedules] [--write]
      Takes each guard of tests/guards.toml away, one at a time, and looks which test turns red.
      PART is of a guard's name or file. With --write the table tests/GUARDS.md is brought up to date.
      With --schedules it is the seeded schedules that are to find it, and the table is
      tests/schedules/GUARDS.md; without --only those are taken away that schedules go through.

DATABASES is a list such as `sqlite,postgres`, out of sqlite, postgres, mariadb, mysql, mail, redis and
redis_cluster.
Without it all are tested, mysql only when MYSQL_URL is set. A server comes from POSTGRES_URL,
MARIADB_URL, MYSQL_URL, SMTP_URL, REDIS_URL or REDIS_CLUSTER_URL when set; otherwise a private one is started from installed programs,
which are installed when that is possible, or from Docker. The client programs (psql, mariadb or
mysql, sqlite3), which tests run, are installed in the same way.
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
    let mysql_url_is_set = std::env::var_os("MYSQL_URL").is_some();
    match task {
        Task::Test { only, arguments } => test::test(&Selection::new(only.as_deref(), mysql_url_is_set)?, &arguments),
        Task::Servers { only } => serve::serve(&Selection::new(only.as_deref(), mysql_url_is_set)?),
        Task::Ci { nightly } => ci::ci(&Selection::new(None, mysql_url_is_set)?, nightly),
        Task::Guards { only, schedules: true, write } => {
            hunt::guards(&Selection::new(Some("sqlite"), mysql_url_is_set)?, only.as_deref(), write)?;
            Ok(ExitCode::SUCCESS)
        }
        Task::Guards { only, schedules: false, write } => {
            let holes = mutate::guards(&Selection::new(None, mysql_url_is_set)?, only.as_deref(), write)?;
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
    Guards { only: Option<String>, schedules: bool, write: bool },
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
            "--nightly" | "--schedules" | "--write" => flags.push(argument),
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
        ("guards", flags) if rest.is_empty() && !flags.contains(&"--nightly") => {
            let has = |flag| flags.contains(&flag);
            Ok(Task::Guards { only, schedules: has("--schedules"), write: has("--write") })
        }
        ("help" | "--help" | "-h", _) => Ok(Task::Help),
        ("", _) => bail!("which task?\n\n{USAGE}"),
        ("test" | "servers" | "ci" | "guards", _) => bail!("`{name}` does not take these arguments\n\n{USAGE}"),
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
        let task = parsed("test --only sqlite,postgres -- --test lease -- --nocapture")?;
        let arguments = ["--test", "lease", "--", "--nocapture"].map(str::to_owned).to_vec();
        assert_eq!(task, Task::Test { only: Some("sqlite,postgres".to_owned()), arguments });
        assert_eq!(parsed("servers --only=mariadb")?, Task::Servers { only: Some("mariadb".to_owned()) });
        Ok(())
    }

    #[test]
    fn each_task_has_its_own_flags() -> Result<()> {
        assert_eq!(parsed("ci")?, Task::Ci { nightly: false });
        assert_eq!(parsed("ci --nightly")?, Task::Ci { nightly: true });
        assert_eq!(
            parsed("guards --write --only=lease")?,
            Task::Guards { only: Some("lease".to_owned()), schedules: false, write: true }
        );
        assert_eq!(parsed("guards --schedules")?, Task::Guards { only: None, schedules: true, write: false });
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
            "guards --nightly",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
