//! The list of mutants, `tests/mutants.toml`: each mutant deletes a guard, a check in the product that keeps a promise.
//!
//! `cargo xtask mutants` makes the mutants one by one and runs their tests. The tests of this file check that the list
//! still fits the code.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The list, from the root of the workspace.
pub(crate) const LIST: &str = "tests/mutants.toml";
/// The table with the tests that find each mutant, from the root of the workspace.
pub(crate) const TABLE: &str = "target/mutants.md";
/// Which mutants the seeded schedules find, from the root of the workspace.
pub(crate) const SCHEDULES_TABLE: &str = "target/mutants-schedules.md";

/// The deliberate deletion of a guard: of a check in the product that keeps a promise.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutant {
    /// What the deleted guard does: a sentence, unique.
    pub(crate) name: String,
    /// The guarantee of the README that the guard keeps, `G1` to `G8`, or `–` for none of them.
    pub(crate) promise: String,
    /// The arguments of `cargo test` that select the tests that must find the mutant.
    pub(crate) tests: String,
    /// The changes that delete the guard.
    pub(crate) change: Vec<Change>,
    /// Why one mutant deletes several checks: each check alone still keeps the promise.
    pub(crate) because: Option<String>,
    /// Each filter of `tests` must find the mutant: the guard stands at several places, and each filter is for one of them.
    #[serde(default)]
    pub(crate) each: bool,
}

/// A change of a file's text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    /// The file, from the root of the workspace.
    pub(crate) file: String,
    /// The text to look for: the anchor.
    pub(crate) find: String,
    /// The text that replaces the anchor.
    pub(crate) replace: String,
    /// How often the anchor occurs in the file.
    #[serde(default = "once")]
    pub(crate) occurs: usize,
    /// The number of the occurrence to replace, from 1. `None` replaces all of them.
    pub(crate) nth: Option<usize>,
}

fn once() -> usize {
    1
}

/// Returns the mutants of the workspace at `root`.
///
/// # Errors
/// Fails when the list cannot be read, has a name twice or a mutant without a change.
pub(crate) fn read(root: &Path) -> Result<Vec<Mutant>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct List {
        mutant: Vec<Mutant>,
    }
    let text = std::fs::read_to_string(root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    let list: List = toml::from_str(&text).with_context(|| format!("cannot parse {LIST}"))?;
    let mut names = HashSet::new();
    for mutant in &list.mutant {
        if !names.insert(&mutant.name) {
            bail!("{LIST} has the mutant {:?} twice", mutant.name);
        }
        if mutant.change.is_empty() {
            bail!("the mutant {:?} of {LIST} has no change", mutant.name);
        }
    }
    Ok(list.mutant)
}

/// Returns the rows of a table: the name of each mutant, and the row itself.
#[must_use]
pub(crate) fn rows(table: &str) -> Vec<(String, String)> {
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    let named = |row: &str| Some((row.split('|').nth(1)?.trim().to_owned(), row.to_owned()));
    rows.filter_map(named).collect()
}

impl Mutant {
    /// Returns the arguments of `cargo test` that select what to build, and the filters of the tests to run.
    pub(crate) fn selection(&self) -> (Vec<&str>, Vec<&str>) {
        let (build, filters) = self.tests.split_once(" -- ").unwrap_or((&self.tests, ""));
        (build.split_whitespace().collect(), filters.split_whitespace().collect())
    }

    /// Returns the files that it changes.
    pub(crate) fn files(&self) -> Vec<&str> {
        let mut files: Vec<&str> = self.change.iter().map(|change| change.file.as_str()).collect();
        files.dedup();
        files
    }

    /// Returns the changed files of the workspace at `root`, with their texts without the guard.
    ///
    /// # Errors
    /// Fails when an anchor does not occur as often as the list says.
    pub(crate) fn taken_away(&self, root: &Path) -> Result<Vec<(&str, String)>> {
        let mut files: Vec<(&str, String)> = Vec::new();
        for change in &self.change {
            let known = files.iter_mut().find(|(file, _)| *file == change.file);
            match known {
                Some((_, text)) => *text = change.apply(text)?,
                None => {
                    let path = root.join(&change.file);
                    let text =
                        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", change.file))?;
                    files.push((&change.file, change.apply(&text)?));
                }
            }
        }
        Ok(files)
    }
}

impl Change {
    fn apply(&self, text: &str) -> Result<String> {
        let found = text.matches(&self.find).count();
        if found != self.occurs {
            bail!("{} must have the anchor {} times and has it {found} times: {}", self.file, self.occurs, self.find);
        }
        let Some(nth) = self.nth else { return Ok(text.replace(&self.find, &self.replace)) };
        let at = nth.checked_sub(1).and_then(|before| text.match_indices(&self.find).nth(before));
        let (at, found) = at.with_context(|| format!("{} has no occurrence {nth} of: {}", self.file, self.find))?;
        Ok([&text[..at], &self.replace, &text[at + found.len()..]].concat())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::*;

    fn root() -> PathBuf {
        test_servers::run::workspace_root()
    }

    #[test]
    fn every_mutant_of_the_list_applies_to_its_files() -> Result<()> {
        for mutant in read(&root())? {
            mutant.taken_away(&root()).with_context(|| format!("the mutant {:?} cannot be made", mutant.name))?;
        }
        Ok(())
    }

    #[test]
    fn every_guarantee_has_a_mutant() -> Result<()> {
        let readme = std::fs::read_to_string(root().join("README.md"))?;
        let row = |line: &str| line.strip_prefix("| G").and_then(|rest| Some(format!("G{}", rest.split_once(' ')?.0)));
        let promised: BTreeSet<String> = readme.lines().filter_map(row).collect();
        let guarded: BTreeSet<String> =
            read(&root())?.into_iter().map(|mutant| mutant.promise).filter(|of| of != "–").collect();
        assert_eq!(guarded, promised);
        Ok(())
    }

    fn change(occurs: usize, nth: Option<usize>) -> Change {
        let [file, find, replace] = ["f", "if a", "if b"].map(str::to_owned);
        Change { file, find, replace, occurs, nth }
    }

    #[test]
    fn an_anchor_must_occur_as_often_as_the_list_says() -> Result<()> {
        assert_eq!(change(1, None).apply("x if a y")?, "x if b y");
        assert_eq!(change(2, None).apply("if a if a")?, "if b if b");
        assert_eq!(change(2, Some(2)).apply("if a if a")?, "if a if b");
        for (text, change) in [("x", change(1, None)), ("if a if a", change(1, None)), ("if a", change(1, Some(2)))] {
            assert!(change.apply(text).is_err(), "{text}");
        }
        Ok(())
    }
}
