//! The list of guards, `tests/guards.toml`: what the product must not lose, how to take it away, and which tests turn red
//! without it.
//!
//! Taking them away one by one is done by `cargo xtask guards`; that the list still fits the code is checked by every test
//! run (`tests/tidy.rs`).

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The list, from the root of the workspace.
pub const LIST: &str = "tests/guards.toml";
/// What came of the last nightly run, from the root of the workspace.
pub const TABLE: &str = "tests/GUARDS.md";
/// Which guards the seeded schedules find, from the root of the workspace.
pub const SCHEDULES_TABLE: &str = "tests/schedules/GUARDS.md";

/// Something in the code that keeps a promise.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guard {
    /// What it guards: a sentence, unique.
    pub name: String,
    /// The guarantee of the README behind it, `G1` to `G8`, or `–` where it is none of them.
    pub promise: String,
    /// The arguments of `cargo test` that select the tests which are to turn red.
    pub tests: String,
    /// How to take it away.
    pub change: Vec<Change>,
    /// Why several have to go at once: each hides the absence of the others.
    pub because: Option<String>,
}

/// A change of a file's text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The file, from the root of the workspace.
    pub file: String,
    /// The text to look for: the anchor.
    pub find: String,
    /// What stands there instead.
    pub replace: String,
    /// How often the anchor occurs in the file.
    #[serde(default = "once")]
    pub occurs: usize,
    /// Which occurrence is replaced, from 1; all of them where it is not said.
    pub nth: Option<usize>,
}

fn once() -> usize {
    1
}

/// The guards of the workspace at `root`.
///
/// # Errors
/// What is wrong with the list itself.
pub fn read(root: &Path) -> Result<Vec<Guard>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct List {
        guard: Vec<Guard>,
    }
    let text = std::fs::read_to_string(root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    let list: List = toml::from_str(&text).with_context(|| format!("{LIST} is wrong"))?;
    let mut names = HashSet::new();
    for guard in &list.guard {
        if !names.insert(&guard.name) {
            bail!("{LIST} has {:?} twice", guard.name);
        }
        if guard.change.is_empty() {
            bail!("{LIST} has no change for {:?}", guard.name);
        }
    }
    Ok(list.guard)
}

/// The rows of the table: what each guards, and the row itself.
#[must_use]
pub fn rows(table: &str) -> Vec<(String, String)> {
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    let named = |row: &str| Some((row.split('|').nth(1)?.trim().to_owned(), row.to_owned()));
    rows.filter_map(named).collect()
}

impl Guard {
    /// What `cargo test` is told to build, and which of the tests in it to run.
    pub fn selection(&self) -> (Vec<&str>, Vec<&str>) {
        let (build, filters) = self.tests.split_once(" -- ").unwrap_or((&self.tests, ""));
        (build.split_whitespace().collect(), filters.split_whitespace().collect())
    }

    /// The files that it stands in.
    pub fn files(&self) -> Vec<&str> {
        let mut files: Vec<&str> = self.change.iter().map(|change| change.file.as_str()).collect();
        files.dedup();
        files
    }

    /// The changed files of the workspace at `root`, without the guard.
    ///
    /// # Errors
    /// An anchor that is not there, or not as often as the list says.
    pub fn taken_away(&self, root: &Path) -> Result<Vec<(&str, String)>> {
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
            bail!("{} has {found} and not {} of: {}", self.file, self.occurs, self.find);
        }
        let Some(nth) = self.nth else { return Ok(text.replace(&self.find, &self.replace)) };
        let at = nth.checked_sub(1).and_then(|before| text.match_indices(&self.find).nth(before));
        let (at, found) = at.with_context(|| format!("{} has no number {nth} of: {}", self.file, self.find))?;
        Ok([&text[..at], &self.replace, &text[at + found.len()..]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
