//! `cargo xtask ci`: everything that CI checks, each step timed, all steps even when one has
//! failed; and what is only looked at each night, because it takes long.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::mutate::guards;
use crate::provide::provide;
use crate::run::{Outcome, cargo, interrupted, run};
use crate::selection::Selection;
use crate::test::run_tests;

/// How a step ended.
enum Verdict {
    Passed,
    Failed(String),
    /// It could not be done, which is told but fails nothing.
    Skipped(&'static str),
}

/// A step and its name.
type Step<'a> = (&'static str, &'a dyn Fn() -> Result<Verdict>);

/// Runs all steps, with `nightly` also the long ones, and prints a summary. Fails when one of them has failed.
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
    let long: [Step<'_>; 2] = [("guards", &|| unguarded(selection)), ("faults", &|| soak(selection))];
    let long = if nightly { &long[..] } else { &[] };
    let mut summary = Vec::new();
    let mut code = 0;
    for (name, perform) in steps.iter().chain(long) {
        println!("\n==> {name}");
        let begin = Instant::now();
        // What keeps a step from being done is a failure of this step; the others still tell
        // something.
        let verdict = perform().unwrap_or_else(|error| Verdict::Failed(format!("{error:#}")));
        let words = match &verdict {
            Verdict::Passed => "passed".to_owned(),
            Verdict::Skipped(reason) => format!("not done: {reason}"),
            Verdict::Failed(reason) => format!("FAILED: {reason}"),
        };
        if matches!(verdict, Verdict::Failed(_)) {
            code = 1;
        }
        println!("{words}");
        summary.push(format!("{name:<14} {:>7.1} s  {words}", begin.elapsed().as_secs_f64()));
        if interrupted() {
            code = Outcome::Interrupted.code();
            break;
        }
    }
    println!("\n==> summary\n{}", summary.join("\n"));
    Ok(ExitCode::from(code))
}

impl From<Outcome> for Verdict {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Exited(status) if status.success() => Self::Passed,
            Outcome::Exited(status) => Self::Failed(status.to_string()),
            Outcome::Interrupted => Self::Failed("interrupted".to_owned()),
            Outcome::TimedOut => Self::Failed("took too long".to_owned()),
        }
    }
}

fn step(command: &mut Command) -> Result<Verdict> {
    Ok(run(command, None)?.into())
}

/// Whether a test misses each guard.
fn unguarded(selection: &Selection) -> Result<Verdict> {
    let holes = guards(selection, None, false)?;
    Ok(if holes == 0 { Verdict::Passed } else { Verdict::Failed(format!("{holes} guards are not missed")) })
}

/// Every fault again and again, for as long as NOTIFY_SOAK says.
fn soak(selection: &Selection) -> Result<Verdict> {
    let provided = provide(selection)?;
    let time = std::env::var("NOTIFY_SOAK").unwrap_or_else(|_| "30m".to_owned());
    let mut faults = cargo(&["test", "--package", "solid-notify-tests", "--test", "faults"]);
    faults.env("NOTIFY_TEST_DATABASES", selection.names()).env("NOTIFY_SOAK", time);
    provided.describe_to(&mut faults);
    step(&mut faults)
}

fn documentation() -> Result<Verdict> {
    step(cargo(&["doc", "--workspace", "--all-features", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}

/// What needs no network: licences, banned crates, sources.
fn dependencies() -> Result<Verdict> {
    if !cargo(&["deny", "--version"]).output()?.status.success() {
        println!("installing cargo-deny");
        let outcome = run(&mut cargo(&["install", "cargo-deny", "--locked"]), None)?;
        if !outcome.succeeded() {
            return Ok(Verdict::Failed(format!("cargo-deny cannot be installed ({outcome:?})")));
        }
    }
    step(&mut cargo(&["deny", "check", "bans", "licenses", "sources"]))
}

/// Known vulnerabilities. Fetching them is tried by itself first, so that a missing network is told
/// apart from a finding without looking at messages.
fn advisories() -> Result<Verdict> {
    let fetched = run(&mut cargo(&["deny", "fetch", "db"]), Some(Duration::from_secs(120)))?;
    if !fetched.succeeded() {
        return Ok(Verdict::Skipped("the advisory database cannot be fetched"));
    }
    step(&mut cargo(&["deny", "check", "advisories"]))
}
