//! `cargo xtask mutants`: makes each mutant of the product, one at a time, and runs its tests. A mutant that no test finds
//! survives: it is a hole in the tests.
//!
//! The mutants are listed in `tests/mutants.toml`; `--write` writes the results of a run to `target/mutants.md`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::mutants::{Mutant, read};
use anyhow::{Context, Result, bail, ensure};

use crate::copy::Copy;
use crate::mutant_result::{MutantResult, Results};
use crate::table;
use test_servers::provide::{Provided, provide};
use test_servers::run::{CommandResult, interrupted, run, workspace_root};
use test_servers::selection::Selection;

/// How long the tests of one mutant may take. Tests that take longer have found it, too.
pub(crate) const TIME_TO_TEST: Duration = Duration::from_secs(120);
/// How long a build may take. The first one builds everything.
pub(crate) const TIME_TO_BUILD: Duration = Duration::from_secs(20 * 60);

/// A share of the list: each mutant belongs to one of `of` parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// The number of the part, from 0.
    pub(crate) part: usize,
    pub(crate) of: usize,
}

/// Makes the mutants whose name or file contains one of the parts in `only`, separated by commas, and that belong to the
/// share. Returns how many survive.
pub(crate) fn mutants(selection: &Selection, only: Option<&str>, share: Option<Share>, write: bool) -> Result<usize> {
    let all = read(&workspace_root())?;
    let mut chosen = chosen(&all, only)?;
    if let Some(Share { part, of }) = share {
        // Neighbours in the list change the same files and have the same tests: they stay together, so that less is built.
        let begin = |part: usize| part * chosen.len() / of;
        chosen = chosen[begin(part)..begin(part + 1)].to_vec();
    }
    let bench = Bench::set_up(selection, &chosen)?;
    bench.is_green_with_all(&chosen)?;

    let (mut found, mut holes) = (Vec::new(), 0);
    for (n, mutant) in (1..).zip(&chosen) {
        let began = Instant::now();
        let result = bench.without(mutant)?;
        let (word, details) = match &result {
            MutantResult::Red(failed) => ("red", failed.join(", ")),
            MutantResult::Green => ("GREEN", format!("it survives these tests: {}", mutant.tests)),
            MutantResult::PartlyGreen(filters) => ("PARTLY GREEN", format!("it survives: {}", filters.join(" "))),
            MutantResult::DoesNotCompile(error) => ("DOES NOT COMPILE", error.clone()),
        };
        holes += usize::from(!matches!(result, MutantResult::Red(_)));
        let (count, took) = (chosen.len(), began.elapsed().as_secs_f64());
        println!("{n:>3}/{count} {took:>5.1} s  {word}: {}\n                 {details}", mutant.name);
        found.push((*mutant, result));
        if write {
            table::write(&workspace_root(), &all, &found)?;
        }
    }
    // Without a mutant the tests are still green, so the mutants turned them red, and not a server that had ended.
    bench.is_green_with_all(&chosen)?;
    println!("{} mutants, {holes} of them survived", found.len());
    Ok(holes)
}

/// Returns the mutants whose name or file contains one of the parts, separated by commas.
pub(crate) fn chosen<'a>(all: &'a [Mutant], only: Option<&str>) -> Result<Vec<&'a Mutant>> {
    let has =
        |mutant: &Mutant, part| mutant.name.contains(part) || mutant.files().iter().any(|file| file.contains(part));
    let is_meant = |mutant: &&Mutant| only.is_none_or(|parts| parts.split(',').any(|part| has(mutant, part)));
    let chosen: Vec<&Mutant> = all.iter().filter(is_meant).collect();
    ensure!(!chosen.is_empty(), "no mutant has such a name or file");
    Ok(chosen)
}

/// The copy of the workspace and the servers that mutants are tested with.
pub(crate) struct Bench {
    copy: Copy,
    provided: Provided,
}

impl Bench {
    /// Copies the workspace and checks that each of these mutants can be made there.
    pub(crate) fn set_up(selection: &Selection, chosen: &[&Mutant]) -> Result<Self> {
        let bench = Self { copy: Copy::of_the_workspace()?, provided: provide(selection)? };
        for mutant in chosen {
            mutant
                .taken_away(bench.copy.root())
                .with_context(|| format!("cannot make the mutant {:?}", mutant.name))?;
        }
        Ok(bench)
    }

    /// Runs the tests of all mutants on the copy with all guards, those of one test program together.
    fn is_green_with_all(&self, mutants: &[&Mutant]) -> Result<()> {
        let mut programs: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
        for mutant in mutants {
            let (build, filters) = mutant.selection();
            let known = programs.entry(build).or_default();
            known.extend(filters);
            known.sort_unstable();
            known.dedup();
        }
        for (build, filters) in programs {
            let (outcome, printed) = self.test(&build, &[], TIME_TO_BUILD)?;
            ensure!(outcome.succeeded(), "the workspace itself does not build:\n{printed}");
            let (outcome, printed) = self.test(&build, &filters, 5 * TIME_TO_TEST)?;
            ensure!(outcome.succeeded(), "tests fail with all guards in place:\n{printed}");
            let results = Results::read(&printed);
            for mutant in mutants {
                let (of, filters) = mutant.selection();
                ensure!(
                    of != build || results.has(&filters),
                    "a filter of {:?} selects no test: {}",
                    mutant.name,
                    mutant.tests
                );
            }
            println!("{} tests are green: {}", results.passed.len(), build.join(" "));
        }
        Ok(())
    }

    /// Runs the tests of a mutant with its guard deleted.
    fn without(&self, mutant: &Mutant) -> Result<MutantResult> {
        self.while_away(mutant, || self.judge(mutant))
    }

    /// Deletes the guard while `look` runs, and restores it afterwards.
    pub(crate) fn while_away<T>(&self, mutant: &Mutant, look: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut original = Vec::new();
        for (file, text) in mutant.taken_away(self.copy.root())? {
            original.push((file, fs::read_to_string(self.copy.root().join(file))?));
            self.copy.write(file, &text)?;
        }
        let seen = look();
        for (file, text) in original {
            self.copy.write(file, &text)?;
        }
        seen
    }

    fn judge(&self, mutant: &Mutant) -> Result<MutantResult> {
        let (build, filters) = mutant.selection();
        let (outcome, printed) = self.test(&build, &[], TIME_TO_BUILD)?;
        if !outcome.succeeded() {
            return Ok(MutantResult::of_a_build(&printed));
        }
        let (outcome, printed) = self.test(&build, &filters, TIME_TO_TEST)?;
        let result = MutantResult::of(outcome, &printed);
        Ok(if mutant.each { result.by_each(&filters) } else { result })
    }

    /// Builds the tests, or runs those that match the filters. Returns the printout, too.
    pub(crate) fn test(&self, build: &[&str], filters: &[&str], limit: Duration) -> Result<(CommandResult, String)> {
        let mut command = self.copy.cargo(&["test", "--no-fail-fast", "--profile", "mutants"]);
        command.args(build);
        if filters.is_empty() {
            command.arg("--no-run");
        } else {
            command.arg("--").args(filters);
        }
        self.provided.describe_to(&mut command);
        let (outcome, printed) = printed_by(&mut command, limit)?;
        if interrupted() {
            bail!("interrupted");
        }
        Ok((outcome, printed))
    }
}

/// Runs a program and returns its printout instead of showing it.
fn printed_by(command: &mut Command, limit: Duration) -> Result<(CommandResult, String)> {
    let folder = tempfile::tempdir().context("cannot make a directory for the printout")?;
    let path = folder.path().join("printed");
    let file = File::create(&path)?;
    command.stdout(file.try_clone()?).stderr(file);
    let outcome = run(command, Some(limit))?;
    Ok((outcome, String::from_utf8_lossy(&fs::read(&path)?).into_owned()))
}
