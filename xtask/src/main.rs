//! The workspace's own tasks: `cargo xtask test`, `cargo xtask servers`, `cargo xtask ci`.
//!
//! This file reads the command line and hands over; each task has its own file.

mod ci;
mod install;
mod provide;
mod reach;
mod run;
mod selection;
mod serve;
mod test;

use std::process::ExitCode;

use anyhow::{Result, bail};

use selection::Selection;

const USAGE: &str = "\
Usage:
  cargo xtask test [--only DATABASES] [-- ARGUMENTS OF CARGO TEST]
      Tests the workspace with a server for every database, then runs the example.
  cargo xtask servers [--only DATABASES]
      Starts the same servers, prints their URLs and waits for Ctrl-C.
  cargo xtask ci
      Everything that CI checks: format, lints, documentation, dependencies, tests.

DATABASES is a list such as `sqlite,postgres`, out of sqlite, postgres, mariadb and mysql.
Without it all are tested, mysql only when MYSQL_URL is set. A server comes from POSTGRES_URL,
MARIADB_URL or MYSQL_URL when set; otherwise a private one is started from installed programs,
which are installed when that is possible, or from Docker.
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
        Task::Ci => ci::ci(&Selection::new(None, mysql_url_is_set)?),
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
    Ci,
    Help,
}

fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Task> {
    let mut arguments = arguments.into_iter();
    let name = arguments.next().unwrap_or_default();
    let (mut only, mut rest) = (None, Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--" => rest.extend(arguments.by_ref()),
            "--help" | "-h" => return Ok(Task::Help),
            "--only" => match arguments.next() {
                Some(list) => only = Some(list),
                None => bail!("--only needs a list of databases\n\n{USAGE}"),
            },
            other => match other.strip_prefix("--only=") {
                Some(list) => only = Some(list.to_owned()),
                None => bail!("unknown argument `{other}`\n\n{USAGE}"),
            },
        }
    }
    match name.as_str() {
        "test" => Ok(Task::Test { only, arguments: rest }),
        "servers" if rest.is_empty() => Ok(Task::Servers { only }),
        "ci" if rest.is_empty() && only.is_none() => Ok(Task::Ci),
        "help" | "--help" | "-h" => Ok(Task::Help),
        "" => bail!("which task?\n\n{USAGE}"),
        "servers" | "ci" => bail!("`{name}` does not take these arguments\n\n{USAGE}"),
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
    fn an_argument_that_is_not_understood_is_refused() {
        for line in ["", "tset", "test --onyl sqlite", "test --only", "ci --only sqlite", "servers -- --nocapture"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
