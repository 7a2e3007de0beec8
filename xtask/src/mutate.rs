//! `cargo xtask guards`: takes each guard of the product away, one at a time, and looks which test turns red. A guard that
//! no test misses is a hole in the tests.
//!
//! The guards are listed in `tests/guards.toml`; what came of a run stands in `tests/GUARDS.md`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use xtask::guards::{Guard, read};

use crate::copy::Copy;
use crate::provide::{Provided, provide};
use crate::run::{Outcome, interrupted, run, workspace_root};
use crate::selection::Selection;
use crate::table;
use crate::verdict::{Results, Verdict};

/// How long the tests of one guard may take. Those that go on for longer miss it, too.
pub(crate) const TIME_TO_TEST: Duration = Duration::from_secs(120);
/// How long a build may take: the first one builds everything.
pub(crate) const TIME_TO_BUILD: Duration = Duration::from_secs(20 * 60);

/// Takes away the guards whose name or file contains one of the parts in `only`, separated by commas; returns how many of them are not missed.
pub(crate) fn guards(selection: &Selection, only: Option<&str>, write: bool) -> Result<usize> {
    let all = read(&workspace_root())?;
    let chosen = chosen(&all, only)?;
    let bench = Bench::set_up(selection, &chosen)?;
    bench.is_green_with_all(&chosen)?;

    let (mut found, mut holes) = (Vec::new(), 0);
    for (n, guard) in (1..).zip(&chosen) {
        let began = Instant::now();
        let verdict = bench.without(guard)?;
        let (word, details) = match &verdict {
            Verdict::Red(failed) => ("red", failed.join(", ")),
            Verdict::Green => ("GREEN", format!("no test misses it: {}", guard.tests)),
            Verdict::DoesNotCompile(error) => ("DOES NOT COMPILE", error.clone()),
        };
        holes += usize::from(!matches!(verdict, Verdict::Red(_)));
        let (count, took) = (chosen.len(), began.elapsed().as_secs_f64());
        println!("{n:>3}/{count} {took:>5.1} s  {word}: {}\n                 {details}", guard.name);
        found.push((*guard, verdict));
        if write {
            table::write(&workspace_root(), &all, &found)?;
        }
    }
    // What turned red was the absence of the guards, and not a server that had gone.
    bench.is_green_with_all(&chosen)?;
    println!("{} guards, {holes} of them not missed", found.len());
    Ok(holes)
}

/// The guards whose name or file contains one of the parts, separated by commas.
pub(crate) fn chosen<'a>(all: &'a [Guard], only: Option<&str>) -> Result<Vec<&'a Guard>> {
    let has = |guard: &Guard, part| guard.name.contains(part) || guard.files().iter().any(|file| file.contains(part));
    let is_meant = |guard: &&Guard| only.is_none_or(|parts| parts.split(',').any(|part| has(guard, part)));
    let chosen: Vec<&Guard> = all.iter().filter(is_meant).collect();
    ensure!(!chosen.is_empty(), "no guard is called like that");
    Ok(chosen)
}

/// Where guards are taken away.
pub(crate) struct Bench<'a> {
    copy: Copy,
    provided: Provided,
    selection: &'a Selection,
}

impl<'a> Bench<'a> {
    /// A copy of the workspace that has all of these guards.
    pub(crate) fn set_up(selection: &'a Selection, chosen: &[&Guard]) -> Result<Self> {
        let bench = Self { copy: Copy::of_the_workspace()?, provided: provide(selection)?, selection };
        for guard in chosen {
            guard.taken_away(bench.copy.root()).with_context(|| format!("the guard {:?} is not there", guard.name))?;
        }
        Ok(bench)
    }

    /// Runs the tests of all guards on the copy as it is, those of a test program together.
    fn is_green_with_all(&self, guards: &[&Guard]) -> Result<()> {
        let mut programs: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
        for guard in guards {
            let (build, filters) = guard.selection();
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
            for guard in guards {
                let (of, filters) = guard.selection();
                ensure!(of != build || results.has(&filters), "{:?} selects no test: {}", guard.name, guard.tests);
            }
            println!("{} tests are green: {}", results.passed.len(), build.join(" "));
        }
        Ok(())
    }

    /// What the tests of a guard say where it is not there.
    fn without(&self, guard: &Guard) -> Result<Verdict> {
        self.while_away(guard, || self.judge(guard))
    }

    /// Takes a guard away for as long as `look` looks. Afterwards it is there again.
    pub(crate) fn while_away<T>(&self, guard: &Guard, look: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut original = Vec::new();
        for (file, text) in guard.taken_away(self.copy.root())? {
            original.push((file, fs::read_to_string(self.copy.root().join(file))?));
            self.copy.write(file, &text)?;
        }
        let seen = look();
        for (file, text) in original {
            self.copy.write(file, &text)?;
        }
        seen
    }

    fn judge(&self, guard: &Guard) -> Result<Verdict> {
        let (build, filters) = guard.selection();
        let (outcome, printed) = self.test(&build, &[], TIME_TO_BUILD)?;
        if !outcome.succeeded() {
            return Ok(Verdict::of_a_build(&printed));
        }
        let (outcome, printed) = self.test(&build, &filters, TIME_TO_TEST)?;
        Ok(Verdict::of(outcome, &printed))
    }

    /// Builds tests, or runs those that match the filters; returns what was printed, too.
    pub(crate) fn test(&self, build: &[&str], filters: &[&str], limit: Duration) -> Result<(Outcome, String)> {
        let mut command = self.copy.cargo(&["test"]);
        command.args(build);
        if filters.is_empty() {
            command.arg("--no-run");
        } else {
            command.arg("--").args(filters);
        }
        command.env("NOTIFY_TEST_DATABASES", self.selection.names());
        self.provided.describe_to(&mut command);
        let (outcome, printed) = printed_by(&mut command, limit)?;
        if interrupted() {
            bail!("interrupted");
        }
        Ok((outcome, printed))
    }
}

/// Runs a program whose printout is not shown.
fn printed_by(command: &mut Command, limit: Duration) -> Result<(Outcome, String)> {
    let folder = tempfile::tempdir().context("there is no room for a printout")?;
    let path = folder.path().join("printed");
    let file = File::create(&path)?;
    command.stdout(file.try_clone()?).stderr(file);
    let outcome = run(command, Some(limit))?;
    Ok((outcome, String::from_utf8_lossy(&fs::read(&path)?).into_owned()))
}
