//! `cargo xtask test`: the workspace's tests and its example, with a server for every chosen
//! database, and for mail.

use std::process::{Command, ExitCode, ExitStatus};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};

use test_servers::provide::{Provided, provide};
use test_servers::run::{CommandResult, cargo, run, target_dir, workspace_root};
use test_servers::selection::{Database, Selection};

/// Runs the tests. The servers stop when this returns or fails.
pub(crate) fn test(selection: &Selection, arguments: &[String]) -> Result<ExitCode> {
    run_tests(selection, arguments).map(|outcome| ExitCode::from(outcome.code()))
}

/// As [`test`], for a caller that goes on afterwards.
pub(crate) fn run_tests(selection: &Selection, arguments: &[String]) -> Result<CommandResult> {
    let arguments = with_deselected_filtered(selection, arguments);
    let (provided, built) = provide_while(selection, || run(&mut build_of(selection, &arguments), None))?;
    if !built.succeeded() {
        return Ok(built);
    }
    // One run reports all failures.
    let mut tests = tests(selection);
    tests.arg("--no-fail-fast").args(arguments);
    provided.describe_to(&mut tests);
    if std::env::var_os(THREADS).is_none() {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        tests.env(THREADS, (TESTS_PER_CORE * cores).min(MOST_TESTS).to_string());
    }
    let outcome = run(&mut tests, None)?;
    if !outcome.succeeded() {
        return Ok(outcome);
    }
    examples(selection, &provided)
}

/// Provides the servers while `build` runs: on a fresh machine their programs are downloaded and installed first.
fn provide_while(
    selection: &Selection,
    build: impl FnOnce() -> Result<CommandResult>,
) -> Result<(Provided, CommandResult)> {
    thread::scope(|scope| {
        // An error is reported at once, because the build may go on for minutes.
        let provided = scope.spawn(|| provide(selection).inspect_err(|error| eprintln!("no test will run: {error:#}")));
        let built = build();
        let provided =
            provided.join().unwrap_or_else(|_| Err(anyhow!("the thread that provides the servers panicked")));
        Ok((provided?, built?))
    })
}

/// A command that tests all packages but the examples.
fn tests(selection: &Selection) -> Command {
    let mut tests = cargo(&["test", "--workspace", "--exclude", EXAMPLES_PACKAGE, "--all-features"]);
    tests.env("NOTIFY_TEST_DATABASES", selection.names());
    tests
}

/// A command that builds the test programs of [`tests`] and runs none of them.
fn build_of(selection: &Selection, arguments: &[String]) -> Command {
    let mut build = tests(selection);
    build.arg("--no-run").args(arguments.iter().take_while(|argument| *argument != "--"));
    build
}

/// Checks that the examples and the demo compile with the features that a newcomer's `cargo run --example` and `cargo demo` have, and runs the examples
/// with all features and the profile of the tests: another set would cost another build of the dependencies. Each night they run by
/// the newcomer's command.
fn examples(selection: &Selection, provided: &Provided) -> Result<CommandResult> {
    let check = run(&mut cargo(&["check", "--quiet", "--bins", "--examples"]), None)?;
    if !check.succeeded() {
        return Ok(check);
    }
    let build = ["build", "--quiet", "--profile", "test", "--workspace", "--examples", "--all-features"];
    let built = run(&mut cargo(&build), None)?;
    if !built.succeeded() {
        return Ok(built);
    }
    let programs = target_dir().join("debug/examples");
    run_examples(selection, provided, |name| {
        let mut example = Command::new(programs.join(name));
        example.current_dir(workspace_root());
        example
    })
}

/// Runs the demo and the examples by exactly the commands that a newcomer types.
pub(crate) fn examples_of_newcomers(selection: &Selection) -> Result<CommandResult> {
    let demo = run(&mut cargo(&["demo"]), Some(Duration::from_secs(15 * 60)))?;
    if !demo.succeeded() {
        return Ok(demo);
    }
    let provided = provide(selection)?;
    run_examples(selection, &provided, |name| {
        let mut command = cargo(&["run", "--quiet", "--example", name]);
        if WITH_FEATURES.contains(&name) {
            command.args(["--package", EXAMPLES_PACKAGE, "--features", name]);
        }
        command
    })
}

/// Runs the examples one after the other, up to the first that fails.
fn run_examples(
    selection: &Selection,
    provided: &Provided,
    command: impl Fn(&str) -> Command,
) -> Result<CommandResult> {
    let is_chosen = |database| selection.chosen.contains(&database);
    let mut examples = EXAMPLES.to_vec();
    examples.extend(REDIS_EXAMPLES.into_iter().filter(|_| is_chosen(Database::Redis)));
    examples.extend(WITH_FEATURES.into_iter().filter(|name| *name != "rabbitmq" || is_chosen(Database::Rabbitmq)));
    let mut outcome = CommandResult::Exited(ExitStatus::default());
    for name in examples {
        eprintln!("the example `{name}`:");
        let mut example = command(name);
        provided.describe_to(&mut example);
        outcome = run(&mut example, Some(Duration::from_secs(15 * 60)))?;
        if !outcome.succeeded() {
            eprintln!("the example `{name}` failed: {outcome:?}");
            break;
        }
    }
    Ok(outcome)
}

/// The package of the examples. It has no tests.
const EXAMPLES_PACKAGE: &str = "solid-notify-examples";
/// The variable of the test programs for how many tests run at the same time.
const THREADS: &str = "RUST_TEST_THREADS";
/// Most tests wait for servers or for a moment of real time. On two cores, with two tests on each core, the tests of the stores took 217 s
/// and those of the sweeper 224 s; with four they took 151 s and 144 s.
const TESTS_PER_CORE: usize = 4;
/// A test may have 14 connections to a server, and a server accepts 300.
const MOST_TESTS: usize = 16;

/// The examples that need no server. Each checks its own outcome, but `quick_start`, which the README shows whole.
const EXAMPLES: [&str; 14] = [
    "quick_start",
    "orders",
    "ack",
    "inbox",
    "retries",
    "alerts",
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

/// Examples that need the feature of their name. `rabbitmq` needs a RabbitMQ at `AMQP_URL`.
const WITH_FEATURES: [&str; 2] = ["rabbitmq", "webhook"];

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
