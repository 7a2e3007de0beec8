//! `target/mutants.md`: the tests that find each mutant, for people.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::mutants::{LIST, Mutant, TABLE, rows};
use anyhow::{Context, Result};

use crate::mutant_result::MutantResult;

/// How many of the tests that find a mutant are named.
const NAMED: usize = 3;

/// Writes the table of all mutants. Mutants that this run did not test keep their rows.
pub(crate) fn write(root: &Path, all: &[Mutant], found: &[(&Mutant, MutantResult)]) -> Result<()> {
    let path = root.join(TABLE);
    let before = fs::read_to_string(&path).unwrap_or_default();
    let mut known: BTreeMap<String, String> = rows(&before).into_iter().collect();
    known.extend(found.iter().map(|(mutant, result)| (mutant.name.clone(), row(mutant, result))));
    let rows: Vec<&str> = all.iter().filter_map(|mutant| known.get(&mutant.name)).map(String::as_str).collect();
    let head = format!(
        "# Mutants and the tests that find them\n\n\
         A guard is a check in the code that keeps a promise. A mutant is the deliberate deletion of a guard. This table has each mutant of\n\
         `{LIST}` and the tests that turn red with it. `cargo xtask mutants --write` writes the table, and\n\
         `cargo xtask ci --nightly` checks that no mutant survives. The promises are those of the README.\n\n\
         | mutant (the guard that it deletes) | promise | where | found by |\n|---|---|---|---|\n"
    );
    fs::write(&path, format!("{head}{}\n", rows.join("\n"))).with_context(|| format!("cannot write {TABLE}"))
}

fn row(mutant: &Mutant, result: &MutantResult) -> String {
    let tests = match result {
        MutantResult::Red(failed) => {
            let named: Vec<String> = failed.iter().take(NAMED).map(|name| code(name)).collect();
            let more = if failed.len() > NAMED { " …" } else { "" };
            format!("{}{more}", named.join("<br>"))
        }
        MutantResult::Green => "**none**".to_owned(),
        MutantResult::PartlyGreen(filters) => {
            format!("**not by** {}", filters.iter().map(|one| code(one)).collect::<Vec<_>>().join(", "))
        }
        MutantResult::DoesNotCompile(_) => "**does not compile**".to_owned(),
    };
    let files: Vec<String> = mutant.files().into_iter().map(|file| code(file.trim_start_matches("crates/"))).collect();
    let because = mutant.because.as_ref().map(|why| format!("<br>{} at once: {why}", mutant.change.len()));
    let place = files.join("<br>") + &because.unwrap_or_default();
    format!("| {} | {} | {place} | {tests} |", mutant.name, mutant.promise)
}

fn code(text: &str) -> String {
    if text.starts_with('(') { text.to_owned() } else { format!("`{text}`") }
}
