//! `cargo xtask quick`: an answer within five minutes of a change: format, lints, unit tests, conformance and sending in memory and on
//! SQLite, and the rules. It needs no server.
//!
//! cargo itself finds the packages that a change concerns: the others are not compiled again. All commands select the whole
//! workspace with all features, because another selection would compile the dependencies with other features once more.

use std::process::ExitCode;

use anyhow::Result;
use test_servers::run::cargo;

use crate::step::{self, Steps};
use crate::test::all_packages;

/// Runs all steps and prints a summary. The exit code is 1 when a step has failed.
pub(crate) fn quick() -> Result<ExitCode> {
    let mut steps = Steps::begin();
    steps.step("format", || step::command(&mut cargo(&["fmt", "--all", "--check"])));
    steps.step("lints", || {
        step::command(&mut cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]))
    });
    // One command builds all programs, so that they are compiled side by side.
    let built = steps.step("build", || step::command(tests(&[&UNITS[..], &STORES, &RULES].concat()).arg("--no-run")));
    if built {
        steps.step("units", || step::command(&mut tests(&UNITS)));
        steps.step("stores", || step::command(tests(&STORES).args(["--", "memory::", "sqlite::"])));
        steps.step("rules", || step::command(&mut tests(&RULES)));
    }
    steps.print_summary();
    Ok(ExitCode::from(steps.code()))
}

const UNITS: [&str; 2] = ["--lib", "--bins"];
const STORES: [&str; 4] = ["--test", "conformance", "--test", "sending"];
const RULES: [&str; 2] = ["--test", "rules"];

fn tests(programs: &[&str]) -> std::process::Command {
    let mut tests = all_packages("test");
    tests.arg("--no-fail-fast").args(programs);
    tests
}
