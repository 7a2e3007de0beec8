//! `cargo xtask test`: the workspace's tests and its example, with a server for every chosen
//! database, and for mail.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use crate::provide::provide;
use crate::run::{CommandResult, cargo, run};
use crate::selection::{Database, Selection};

/// Runs the tests. The servers stop when this returns or fails.
pub(crate) fn test(selection: &Selection, arguments: &[String]) -> Result<ExitCode> {
    run_tests(selection, arguments).map(|outcome| ExitCode::from(outcome.code()))
}

/// As [`test`], for a caller that goes on afterwards.
pub(crate) fn run_tests(selection: &Selection, arguments: &[String]) -> Result<CommandResult> {
    let provided = provide(selection)?;

    // One run reports all failures.
    let mut tests = cargo(&["test", "--workspace", "--all-features", "--no-fail-fast"]);
    tests.args(with_deselected_filtered(selection, arguments)).env("NOTIFY_TEST_DATABASES", selection.names());
    provided.describe_to(&mut tests);
    if std::env::var_os(THREADS).is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        tests.env(THREADS, (TESTS_PER_CORE * cores).to_string());
    }
    let outcome = run(&mut tests, None)?;
    if !outcome.succeeded() {
        return Ok(outcome);
    }

    // Exactly the commands that a newcomer types, so that they are known to work with the default
    // features.
    let mut outcome = outcome;
    let on_redis = REDIS_EXAMPLES.into_iter().filter(|_| selection.chosen.contains(&Database::Redis));
    let on_rabbitmq = RABBITMQ_EXAMPLES.into_iter().filter(|_| selection.chosen.contains(&Database::Rabbitmq));
    for name in EXAMPLES.into_iter().chain(on_redis).chain(on_rabbitmq) {
        eprintln!("the example `{name}`:");
        let mut example = cargo(&["run", "--quiet", "--example", name]);
        if OWN_FEATURE.contains(&name) {
            example.args(["--features", name]);
        }
        provided.describe_to(&mut example);
        outcome = run(&mut example, Some(Duration::from_secs(15 * 60)))?;
        if !outcome.succeeded() {
            eprintln!("the example `{name}` failed: {outcome:?}");
            break;
        }
    }
    Ok(outcome)
}

/// The variable of the test programs for how many tests run at the same time.
const THREADS: &str = "RUST_TEST_THREADS";
/// Most tests wait for servers. With one test on each of two cores the stores' tests took 189 s and used 69 s of processor time; with
/// three on each they took 92 s.
const TESTS_PER_CORE: usize = 2;

/// The examples that need no server. Each checks its own outcome, but `quick_start`, which the README shows whole.
const EXAMPLES: [&str; 15] = [
    "quick_start",
    "orders",
    "ack",
    "inbox",
    "retries",
    "alerts",
    "webhook",
    "timetable",
    "simulate",
    "observe",
    "guide_tutorial",
    "guide_web",
    "guide_adding",
    "guide_definitions",
    "guide_testing",
];

/// Examples that need a Redis at `REDIS_URL`.
const REDIS_EXAMPLES: [&str; 3] = ["timed_once", "timed_runner", "repush"];

/// Examples that need a RabbitMQ at `AMQP_URL`.
const RABBITMQ_EXAMPLES: [&str; 1] = ["rabbitmq"];

/// Examples that need the feature of their name.
const OWN_FEATURE: [&str; 2] = ["rabbitmq", "webhook"];

/// Filters out the tests that start a private server of a database that is not selected, whose
/// programs may be missing. The test program counts them as filtered, not as passed.
fn with_deselected_filtered(selection: &Selection, arguments: &[String]) -> Vec<String> {
    let mut arguments = arguments.to_vec();
    let deselected = |database| !selection.chosen.contains(&database);
    for database in Database::ALL.into_iter().filter(|database| *database != Database::Sqlite && deselected(*database))
    {
        if !arguments.iter().any(|argument| argument == "--") {
            arguments.push("--".to_owned());
        }
        arguments.extend(["--skip".to_owned(), format!("private_{database}")]);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(left_out: &[Database], arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let chosen: Vec<_> = Database::ALL.into_iter().filter(|database| !left_out.contains(database)).collect();
        with_deselected_filtered(&Selection::new(&chosen), &arguments).join(" ")
    }

    #[test]
    fn a_deselected_database_starts_no_private_server_in_a_test() {
        assert_eq!(filtered(&[Database::Sqlite], &["--test", "stores"]), "--test stores");
        assert_eq!(filtered(&[Database::Mariadb], &["--test", "stores"]), "--test stores -- --skip private_mariadb");
        assert_eq!(
            filtered(&[Database::Postgres, Database::RedisCluster], &["--", "--nocapture"]),
            "-- --nocapture --skip private_postgres --skip private_redis_cluster"
        );
    }
}
