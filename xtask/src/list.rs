//! `cargo xtask mutants --list`: the tests that each mutant selects. It builds the tests and runs none, so it needs no server.

use std::collections::BTreeMap;
use std::process::Stdio;

use crate::mutants::{LIST, read};
use anyhow::{Context, Result, ensure};

use crate::mutate::chosen;
use test_servers::run::{cargo, workspace_root};

/// Prints how many tests each mutant selects.
///
/// # Errors
/// Fails when a filter of a mutant selects no test: a renamed or moved test would leave its mutant without one.
pub(crate) fn mutants(only: Option<&str>) -> Result<()> {
    let all = read(&workspace_root())?;
    let mut programs: BTreeMap<Vec<&str>, Vec<String>> = BTreeMap::new();
    let mut empty = Vec::new();
    for mutant in chosen(&all, only)? {
        let (build, filters) = mutant.selection();
        if !programs.contains_key(&build) {
            programs.insert(build.clone(), names(&build)?);
        }
        let names = programs.get(&build).map_or(&[][..], Vec::as_slice);
        let found = |filter: &str| names.iter().filter(|name| name.contains(filter)).count();
        println!("{:>4} tests: {}", names.iter().filter(|name| selects(&filters, name)).count(), mutant.name);
        empty.extend(
            filters.iter().filter(|filter| found(filter) == 0).map(|filter| format!("{filter} ({})", mutant.name)),
        );
    }
    ensure!(empty.is_empty(), "filters of {LIST} that select no test:\n  {}", empty.join("\n  "));
    Ok(())
}

fn selects(filters: &[&str], name: &str) -> bool {
    filters.is_empty() || filters.iter().any(|filter| name.contains(filter))
}

/// Returns the names of all tests of these programs.
fn names(build: &[&str]) -> Result<Vec<String>> {
    let mut command = cargo(&["test", "--quiet"]);
    command.args(build).args(["--", "--list"]);
    let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "the tests do not build: {}", build.join(" "));
    let printed = String::from_utf8_lossy(&output.stdout);
    Ok(printed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}
