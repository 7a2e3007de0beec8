//! `cargo xtask test`: the workspace's tests and its examples, with a server for every chosen database and broker, and for mail.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use test_servers::provide::{Provided, provide};
use test_servers::run::{CommandResult, cargo, run, target_dir, workspace_root};
use test_servers::selection::{Database, Selection};

use crate::output::Output;
use crate::selected::{check, with_deselected_skipped};
use crate::step::{Beside, StepResult, Steps};
use crate::suites::{SUITES, Suite};

/// Runs the tests: with arguments those that they select, by one command of cargo; without arguments all suites, then the examples. The
/// servers stop when this returns or fails.
pub(crate) fn test(selection: &Selection, arguments: &[String]) -> Result<ExitCode> {
    let (built, prepared) = Prepared::of_arguments(selection, Lints::Allow, arguments)?;
    let Some(prepared) = prepared else { return Ok(ExitCode::from(built.code())) };
    if !arguments.is_empty() {
        check(selection, all_packages("test"), &with_deselected_skipped(selection, arguments))?;
        return Ok(ExitCode::from(prepared.run_selected(arguments, None, &Output::Terminal)?.code()));
    }
    let mut steps = Steps::begin();
    if !steps.step("build", || Ok(prepared.build_examples()?.into())) {
        steps.print_summary();
        return Ok(ExitCode::from(steps.code()));
    }
    let mut beside: Vec<Beside> = vec![("examples", Box::new(|output| prepared.run_examples(output)))];
    for suite in &SUITES {
        beside.push((suite.name, Box::new(|output| prepared.run(suite, None, output))));
    }
    steps.beside(beside);
    steps.print_summary();
    Ok(ExitCode::from(steps.code()))
}

/// Whether a lint stops the build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lints {
    /// The compiler is rustc, whose warnings stop nothing.
    Allow,
    /// The compiler is clippy's, and each warning is an error. So one compilation serves lints and tests.
    Deny,
}

/// The servers of a run, and the test programs, built.
pub(crate) struct Prepared<'a> {
    selection: &'a Selection,
    provided: Provided,
    lints: Lints,
}

impl<'a> Prepared<'a> {
    /// Provides the servers and builds all test programs. There is no `Prepared` where the build fails.
    pub(crate) fn new(selection: &'a Selection, lints: Lints) -> Result<(CommandResult, Option<Self>)> {
        Self::of_arguments(selection, lints, &[])
    }

    fn of_arguments(
        selection: &'a Selection,
        lints: Lints,
        arguments: &[String],
    ) -> Result<(CommandResult, Option<Self>)> {
        let mut build = all_packages("test");
        build.arg("--no-run").args(arguments.iter().take_while(|argument| *argument != "--"));
        lints.apply(&mut build)?;
        let (provided, built) = provide_while(selection, || run(&mut build, None))?;
        Ok((built, built.succeeded().then_some(Self { selection, provided, lints })))
    }

    /// Builds the examples with all features, as the tests have them: one more set of features would cost another build of the
    /// dependencies. Each night they run by the newcomer's command.
    pub(crate) fn build_examples(&self) -> Result<CommandResult> {
        let mut build =
            cargo(&["build", "--quiet", "--profile", "test", "--workspace", "--examples", "--all-features"]);
        self.lints.apply(&mut build)?;
        run(&mut build, None)
    }

    /// Runs the examples that were built.
    pub(crate) fn run_examples(&self, output: &Output) -> Result<StepResult> {
        let programs = target_dir().join("debug/examples");
        // Most of them wait for moments of real time.
        run_examples(self.selection, &self.provided, tests_at_once(), output, |name| {
            let mut example = Command::new(programs.join(name));
            example.current_dir(workspace_root());
            example
        })
    }

    /// Runs the programs of a suite, in CI with the turn of its commit.
    pub(crate) fn run(&self, suite: &Suite, turn: Option<usize>, output: &Output) -> Result<StepResult> {
        let mut arguments: Vec<String> = suite.programs.iter().map(|&word| word.to_owned()).collect();
        arguments.push("--".to_owned());
        for database in suite.left_out_of(turn) {
            output.line(&format!("{database} is not in the turn of this commit"))?;
            arguments.extend(["--skip".to_owned(), format!("{database}::")]);
        }
        Ok(self.run_selected(&arguments, turn, output)?.into())
    }

    /// Runs `cargo test` with these arguments. One run reports all failures.
    fn run_selected(&self, arguments: &[String], turn: Option<usize>, output: &Output) -> Result<CommandResult> {
        let mut tests = self.command("test")?;
        tests.arg("--no-fail-fast").args(with_deselected_skipped(self.selection, arguments));
        if std::env::var_os(THREADS).is_none() {
            tests.env(THREADS, tests_at_once().to_string());
        }
        if let Some(turn) = turn {
            tests.env(TURN, turn.to_string());
        }
        output.run(&mut tests, None)
    }

    fn command(&self, name: &str) -> Result<Command> {
        let mut command = all_packages(name);
        self.lints.apply(&mut command)?;
        self.provided.describe_to(&mut command);
        Ok(command)
    }
}

impl Lints {
    /// Sets the compiler of the workspace's packages. Every command of a run needs the same, or cargo would compile again.
    pub(crate) fn apply(self, command: &mut Command) -> Result<()> {
        if self == Self::Deny {
            let driver = clippy_driver().context("clippy is missing; `rustup component add clippy` installs it")?;
            // As cargo-clippy separates the arguments of its driver.
            command.env("RUSTC_WORKSPACE_WRAPPER", driver).env("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__");
        }
        Ok(())
    }
}

/// Returns clippy's compiler: beside cargo, as cargo-clippy looks for it, else on the search path.
fn clippy_driver() -> Option<PathBuf> {
    let beside = std::env::var_os("CARGO").map(|cargo| Path::new(&cargo).with_file_name("clippy-driver"));
    let on_path =
        std::env::var_os("PATH").into_iter().flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    beside.into_iter().chain(on_path.map(|folder| folder.join("clippy-driver"))).find(|driver| driver.exists())
}

/// A command for all packages but the examples. Every command has the same packages and features, so that one build serves all.
pub(crate) fn all_packages(name: &str) -> Command {
    cargo(&[name, "--workspace", "--exclude", EXAMPLES_PACKAGE, "--all-features"])
}

/// How many tests of a suite, or examples, run at the same time.
fn tests_at_once() -> usize {
    (TESTS_PER_CORE * thread::available_parallelism().map_or(1, usize::from)).min(MOST_TESTS)
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

/// Runs the demo and the examples by exactly the commands that a newcomer types, one after the other, because cargo builds one at a time.
pub(crate) fn examples_of_newcomers(selection: &Selection) -> Result<StepResult> {
    let demo = run(&mut cargo(&["demo"]), Some(EXAMPLE_LIMIT))?;
    if !demo.succeeded() {
        return Ok(demo.into());
    }
    let provided = provide(selection)?;
    run_examples(selection, &provided, 1, &Output::Terminal, |name| {
        let mut command = cargo(&["run", "--quiet", "--example", name]);
        if WITH_FEATURES.contains(&name) {
            command.args(["--package", EXAMPLES_PACKAGE, "--features", name]);
        }
        command
    })
}

/// Runs the examples, some at the same time, and names those that failed. Prints the output of each when it ends.
fn run_examples(
    selection: &Selection,
    provided: &Provided,
    at_once: usize,
    output: &Output,
    command: impl Fn(&str) -> Command + Sync,
) -> Result<StepResult> {
    let is_chosen = |database| selection.chosen.contains(&database);
    let mut examples = EXAMPLES.to_vec();
    examples.extend(REDIS_EXAMPLES.into_iter().filter(|_| is_chosen(Database::Redis)));
    examples.extend(WITH_FEATURES.into_iter().filter(|name| match *name {
        "rabbitmq" => is_chosen(Database::Rabbitmq),
        "payslip" | "approval" => is_chosen(Database::Mail),
        _ => true,
    }));
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = || -> Result<()> {
        while let Some(name) = examples.get(next.fetch_add(1, Ordering::Relaxed)) {
            let printed = Output::file()?;
            let mut example = command(name);
            provided.describe_to(&mut example);
            let outcome = printed.run(&mut example, Some(EXAMPLE_LIMIT))?;
            let mut text = format!("the example `{name}`:\n{}", printed.read()?);
            if !outcome.succeeded() {
                text.push_str(&format!("the example `{name}` failed: {outcome:?}"));
                failed.lock().unwrap_or_else(PoisonError::into_inner).push(format!("the example `{name}`"));
            }
            output.line(&text)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| Err(anyhow!("an example panicked"))))
    })?;
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(if failed.is_empty() { StepResult::Passed } else { StepResult::Failed(failed.join(", ")) })
}

/// Checks that the demo and the examples compile with the features that a newcomer's `cargo demo` and `cargo run --example` have.
pub(crate) fn check_examples_of_newcomers() -> Result<CommandResult> {
    run(&mut cargo(&["check", "--quiet", "--bins", "--examples"]), None)
}

/// The package of the examples. It has no tests.
const EXAMPLES_PACKAGE: &str = "solid-notify-examples";
/// The variable of the test programs for how many tests run at the same time.
const THREADS: &str = "RUST_TEST_THREADS";
/// The variable of the suite `neighbours` for the turn of its stores.
const TURN: &str = "NOTIFY_TURN";
/// Most tests wait for servers or for a moment of real time. On two cores, with two tests on each core, the tests of the stores took 217 s
/// and those of the sweeper 224 s; with four they took 151 s and 144 s.
const TESTS_PER_CORE: usize = 4;
/// Two suites run at a time, a test may have 14 connections to a server, and a server accepts 300.
const MOST_TESTS: usize = 8;
/// A limit only ends an example that hangs.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(15 * 60);

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

/// Examples that need the feature of their name. `rabbitmq` needs a RabbitMQ at `AMQP_URL`, `payslip` and `approval` a mail server at `SMTP_URL`.
const WITH_FEATURES: [&str; 4] = ["rabbitmq", "webhook", "payslip", "approval"];
