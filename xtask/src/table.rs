//! `tests/GUARDS.md`: which test turns red without which guard, for people.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use xtask::guards::{Guard, LIST, TABLE, rows};

use crate::verdict::Verdict;

/// How many of the tests that turn red are named.
const NAMED: usize = 3;

/// Writes the table of all guards. What this run did not look at keeps its row.
pub(crate) fn write(root: &Path, all: &[Guard], found: &[(&Guard, Verdict)]) -> Result<()> {
    let path = root.join(TABLE);
    let before = fs::read_to_string(&path).unwrap_or_default();
    let mut known: BTreeMap<String, String> = rows(&before).into_iter().collect();
    known.extend(found.iter().map(|(guard, verdict)| (guard.name.clone(), row(guard, verdict))));
    let rows: Vec<&str> = all.iter().filter_map(|guard| known.get(&guard.name)).map(String::as_str).collect();
    let head = format!(
        "# What guards what\n\n\
         Each guard of the product, and the tests that turn red when it is taken away. The guards are listed in `{LIST}`; this\n\
         table is written by `cargo xtask guards --write`, and `cargo xtask ci --nightly` looks again. The promises are those\n\
         of the README.\n\n\
         | guard | promise | where | red without it |\n|---|---|---|---|\n"
    );
    fs::write(&path, format!("{head}{}\n", rows.join("\n"))).with_context(|| format!("cannot write {TABLE}"))
}

fn row(guard: &Guard, verdict: &Verdict) -> String {
    let tests = match verdict {
        Verdict::Red(failed) => {
            let named: Vec<String> = failed.iter().take(NAMED).map(|name| code(name)).collect();
            let more = if failed.len() > NAMED { " …" } else { "" };
            format!("{}{more}", named.join("<br>"))
        }
        Verdict::Green => "**none**".to_owned(),
        Verdict::DoesNotCompile(_) => "**does not compile**".to_owned(),
    };
    let files: Vec<String> = guard.files().into_iter().map(|file| code(file.trim_start_matches("crates/"))).collect();
    let because = guard.because.as_ref().map(|why| format!("<br>{} at once: {why}", guard.change.len()));
    let place = files.join("<br>") + &because.unwrap_or_default();
    format!("| {} | {} | {place} | {tests} |", guard.name, guard.promise)
}

fn code(text: &str) -> String {
    if text.starts_with('(') { text.to_owned() } else { format!("`{text}`") }
}
