//! `cargo xtask ci`: everything that CI checks in each run. It times each step and runs all steps even when one has failed.
//!
//! What only repeats, or checks what did not change, is left to the night (`nightly.rs`).

use std::process::{Command, ExitCode};

use anyhow::Result;
use test_servers::run::{cargo, target_dir, workspace_root};
use test_servers::selection::Selection;

use crate::api::{Comparison, api};
use crate::nightly::CHECKS;
use crate::output::Output;
use crate::step::{self, Beside, StepResult, Steps};
use crate::suites::{SUITES, turn_of};
use crate::test::{Lints, Prepared, check_examples_of_newcomers};
use crate::tool::CARGO_DENY;
use crate::{budget, revision, runs};

/// Runs all steps and prints a summary, and with `record` writes it to docs/runs.toml. The exit code is 1 when a step has failed.
pub(crate) fn ci(selection: &Selection, record: bool) -> Result<ExitCode> {
    let mut steps = Steps::begin();
    // What the night has checked, and has not changed since, is not checked again.
    let checked = runs::passed_at(CHECKS).unwrap_or_default();
    steps.step("format", || step::command(&mut cargo(&["fmt", "--all", "--check"])));
    steps.step("dependencies", || {
        let unchanged = revision::is_unchanged(&checked, &["Cargo.lock", "deny.toml"]);
        if unchanged { Ok(since("no dependency", &checked)) } else { dependencies() }
    });
    let mut prepared = None;
    let built = steps.step("build", || {
        let (result, built) = Prepared::new(selection, Lints::Deny)?;
        prepared = built;
        let Some(prepared) = &prepared else { return Ok(result.into()) };
        Ok(prepared.build_examples()?.into())
    });
    if let Some(prepared) = prepared.as_ref().filter(|_| built) {
        let turn = turn_of(&revision::head());
        let (mut beside, mut alone): (Vec<Beside>, Vec<Beside>) = (Vec::new(), Vec::new());
        for suite in &SUITES {
            let is_spared = suite.depends_on.is_some_and(|files| revision::is_unchanged(&checked, files));
            let since = is_spared.then(|| since("no tool", &checked));
            if suite.alone { &mut alone } else { &mut beside }.push((
                suite.name,
                Box::new(move |output| match since {
                    Some(since) => Ok(since),
                    None => prepared.run(suite, turn, output),
                }),
            ));
        }
        beside.push(("examples", Box::new(|output| prepared.run_examples(output))));
        beside.push(("documentation", Box::new(documentation)));
        // The build of the tests has made the program.
        beside.push((
            "counts",
            Box::new(|output| {
                let mut count = Command::new(target_dir().join("debug/bench"));
                Ok(output.run(count.args(["count", "--check"]).current_dir(workspace_root()), None)?.into())
            }),
        ));
        steps.beside(beside);
        alone.into_iter().for_each(|step| steps.beside(vec![step]));
    }
    steps.step("newcomers", || {
        let unchanged = revision::is_unchanged(&checked, &["examples", "Cargo.lock", ":(glob)**/Cargo.toml"]);
        if unchanged { Ok(since("no manifest", &checked)) } else { Ok(check_examples_of_newcomers()?.into()) }
    });
    steps.print_summary();
    for line in budget::exceeded(&budget::read()?, steps.all_seconds(), &steps.whole_seconds()) {
        println!("over budget: {line}");
    }
    if record {
        let run = runs::Run::now(&steps)?;
        runs::change(|runs| runs.ci = Some(run))?;
    }
    Ok(ExitCode::from(steps.code()))
}

fn since(what: &str, revision: &str) -> StepResult {
    StepResult::Skipped(format!(
        "{what} has changed since {}, which passed it at night",
        revision.get(..7).unwrap_or_default()
    ))
}

/// Documents the libraries, and compares the public API with its snapshots. What rustdoc writes depends on the toolchain, so this is
/// not a test.
fn documentation(output: &Output) -> Result<StepResult> {
    Ok(match api(false, Lints::Deny, output)? {
        Comparison::Same => StepResult::Passed,
        Comparison::Differs => StepResult::Failed(
            "the public API differs from docs/api; `cargo xtask api --write` updates the snapshots".to_owned(),
        ),
        Comparison::UnknownFormat => StepResult::Skipped(
            "rustdoc of this toolchain writes JSON in another format than `public-api` reads".to_owned(),
        ),
    })
}

/// Checks licences, banned crates and sources, which needs no network.
pub(crate) fn dependencies() -> Result<StepResult> {
    step::command(CARGO_DENY.command()?.args(["check", "bans", "licenses", "sources"]))
}
