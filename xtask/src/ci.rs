//! `cargo xtask ci`: everything that CI checks. It times each step and runs all steps even when one has failed.
//! The long steps run only at night.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use test_servers::servers::unstable;

use crate::api::{Comparison, api};
use crate::book::book;
use crate::mutate::mutants;
use crate::test::{examples_of_newcomers, run_tests};
use crate::tool::CARGO_DENY;
use test_servers::provide::provide;
use test_servers::run::{CommandResult, cargo, interrupted, run, workspace_root};
use test_servers::selection::Selection;

/// How a step ended.
enum StepResult {
    Passed,
    Failed(String),
    /// The step could not be done. The summary says so, and the run does not fail.
    Skipped(&'static str),
}

/// A step and its name.
type Step<'a> = (&'static str, &'a dyn Fn() -> Result<StepResult>);

/// Runs all steps, with `nightly` also the long ones, and prints a summary. The exit code is 1 when a step has failed.
pub(crate) fn ci(selection: &Selection, nightly: bool) -> Result<ExitCode> {
    let steps: [Step<'_>; 6] = [
        ("format", &|| step(&mut cargo(&["fmt", "--all", "--check"]))),
        ("lints", &|| {
            step(&mut cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]))
        }),
        ("documentation", &documentation),
        ("dependencies", &dependencies),
        ("advisories", &advisories),
        ("tests", &|| Ok(run_tests(selection, &[])?.into())),
    ];
    let long: [Step<'_>; 7] = [
        ("book", &|| Ok(book()?.into())),
        ("features", &each_feature),
        ("examples", &|| Ok(examples_of_newcomers(selection)?.into())),
        ("schedules", &schedules),
        ("newest servers", &newest),
        ("mutants", &|| surviving_mutants(selection)),
        ("faults", &|| soak(selection)),
    ];
    let long = if nightly { &long[..] } else { &[] };
    let mut summary = Vec::new();
    let mut code = 0;
    for (name, perform) in steps.iter().chain(long) {
        println!("\n==> {name}");
        let begin = Instant::now();
        // An error that prevents a step is a failure of this step, and the other steps still run.
        let result = perform().unwrap_or_else(|error| StepResult::Failed(format!("{error:#}")));
        let words = match &result {
            StepResult::Passed => "passed".to_owned(),
            StepResult::Skipped(reason) => format!("not done: {reason}"),
            StepResult::Failed(reason) => format!("FAILED: {reason}"),
        };
        if matches!(result, StepResult::Failed(_)) {
            code = 1;
        }
        println!("{words}");
        summary.push(format!("{name:<14} {:>7.1} s  {words}", begin.elapsed().as_secs_f64()));
        if interrupted() {
            code = CommandResult::Interrupted.code();
            break;
        }
    }
    println!("\n==> summary\n{}", summary.join("\n"));
    Ok(ExitCode::from(code))
}

impl From<CommandResult> for StepResult {
    fn from(outcome: CommandResult) -> Self {
        match outcome {
            CommandResult::Exited(status) if status.success() => Self::Passed,
            CommandResult::Exited(status) => Self::Failed(status.to_string()),
            CommandResult::Interrupted => Self::Failed("interrupted".to_owned()),
            CommandResult::TimedOut => Self::Failed("took too long".to_owned()),
        }
    }
}

fn step(command: &mut Command) -> Result<StepResult> {
    Ok(run(command, None)?.into())
}

/// Compiles `solid-notify` with each feature alone. The tests have all of them.
fn each_feature() -> Result<StepResult> {
    let file = workspace_root().join("crates/solid-notify/Cargo.toml");
    let manifest: toml::Table = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?
        .parse()
        .with_context(|| format!("cannot parse {}", file.display()))?;
    let features = manifest.get("features").and_then(toml::Value::as_table).context("the manifest has no features")?;
    let mut failed = Vec::new();
    for name in features.keys() {
        let command = ["check", "--package", "solid-notify", "--no-default-features", "--features", name];
        if !run(&mut cargo(&command), None)?.succeeded() {
            failed.push(name.as_str());
        }
    }
    Ok(match failed.is_empty() {
        true => StepResult::Passed,
        false => StepResult::Failed(format!("alone these do not compile: {}", failed.join(", "))),
    })
}

/// Runs the tests on the newest servers, in a process of its own, because an environment variable chooses the servers.
fn newest() -> Result<StepResult> {
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    step(
        Command::new(own)
            .args(["test", "--only", "postgres,pgbouncer,redis,redis_cluster"])
            .env(unstable::VARIABLE, "newest"),
    )
}

/// Checks that no mutant survives.
fn surviving_mutants(selection: &Selection) -> Result<StepResult> {
    let holes = mutants(selection, None, false)?;
    Ok(if holes == 0 { StepResult::Passed } else { StepResult::Failed(format!("{holes} mutants survived")) })
}

/// Runs ten times as many schedules as the tests do.
fn schedules() -> Result<StepResult> {
    step(cargo(&["test", "--package", "solid-notify-tests-schedules", "--test", "schedules"]).env("SCHEDULES", "20000"))
}

/// Injects every fault again and again, for the time in NOTIFY_SOAK (default: 30m).
fn soak(selection: &Selection) -> Result<StepResult> {
    let provided = provide(selection)?;
    let time = std::env::var("NOTIFY_SOAK").unwrap_or_else(|_| "30m".to_owned());
    let mut faults =
        cargo(&["test", "--package", "solid-notify-tests-processes", "--test", "processes", "--", "faults::"]);
    faults.env("NOTIFY_SOAK", time);
    provided.describe_to(&mut faults);
    step(&mut faults)
}

/// Documents the workspace, and compares the public API with its snapshots. What rustdoc writes depends on the toolchain, so
/// this is no test.
fn documentation() -> Result<StepResult> {
    Ok(match api(false)? {
        Comparison::Same => StepResult::Passed,
        Comparison::Differs => StepResult::Failed(
            "the public API differs from docs/api; `cargo xtask api --write` updates the snapshots".to_owned(),
        ),
        Comparison::UnknownFormat => {
            StepResult::Skipped("rustdoc of this toolchain writes JSON in another format than `public-api` reads")
        }
    })
}

/// Checks licences, banned crates and sources, which needs no network.
fn dependencies() -> Result<StepResult> {
    step(CARGO_DENY.command()?.args(["check", "bans", "licenses", "sources"]))
}

/// Checks for known vulnerabilities. Fetching the database is a command of its own, so that a missing network differs from
/// a finding without parsing messages.
fn advisories() -> Result<StepResult> {
    let fetched = run(CARGO_DENY.command()?.args(["fetch", "db"]), Some(Duration::from_secs(120)))?;
    if !fetched.succeeded() {
        return Ok(StepResult::Skipped("the advisory database cannot be fetched"));
    }
    step(CARGO_DENY.command()?.args(["check", "advisories"]))
}
