//! Each "it cannot" of the chapter on trust is in `tests/trust.md` with tests that exist.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Returns the cells of each row of the tables of a page, without their heads.
fn rows(line: &str) -> Option<Vec<&str>> {
    let cells: Vec<&str> =
        line.strip_prefix("| ")?.trim_end().trim_end_matches('|').split(" | ").map(str::trim).collect();
    (!cells[0].starts_with("it can") && cells[0] != "who").then_some(cells)
}

/// Returns who cannot what, by the chapter.
fn chapter() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("docs/src/trust.md")).unwrap();
    let mut who = String::new();
    let mut all = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            who = title.split_whitespace().nth(1).unwrap().to_owned();
        }
        let cannot = rows(line).and_then(|cells| cells.get(1).map(|cell| (*cell).to_owned()));
        all.extend(cannot.filter(|cell| !cell.is_empty()).map(|cell| (who.clone(), cell)));
    }
    all
}

#[test]
fn each_cannot_of_the_chapter_on_trust_has_a_test() {
    let list = fs::read_to_string(root().join("tests/trust.md")).unwrap();
    let list: Vec<Vec<&str>> = list.lines().filter_map(rows).collect();
    let chapter = chapter();
    assert!(chapter.len() > 15, "{chapter:#?}");
    let is = |row: &[&str], (who, cannot): &(String, String)| row[0] == who && cannot.starts_with(row[1]);
    let without: Vec<_> = chapter.iter().filter(|cannot| !list.iter().any(|row| is(row, cannot))).collect();
    assert!(without.is_empty(), "no test is named for {without:#?}");
    for row in list {
        assert!(chapter.iter().any(|cannot| is(&row, cannot)), "the chapter does not say {row:?}");
        for test in row[2].split(", ") {
            let (file, function) = test.split_once("::").unwrap_or_else(|| panic!("{test}: write file::function"));
            let source = fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(
                source.contains(&format!("fn {function}(")) || source.contains(&format!("fn {function}<")),
                "{test}"
            );
        }
    }
}
