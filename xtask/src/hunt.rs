//! `cargo xtask mutants --schedules`: which mutants the seeded schedules find, and with which schedule first.
//!
//! A mutant that no schedule finds is no hole, because every mutant has tests of its own, which [`crate::mutate`] runs.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use crate::mutants::{LIST, SCHEDULES_TABLE, TABLE, read, rows};
use anyhow::{Context, Result, bail, ensure};

use crate::mutate::{Bench, TIME_TO_BUILD, TIME_TO_TEST, chosen};
use test_servers::run::{CommandResult, workspace_root};
use test_servers::selection::Selection;

/// The files that schedules reach, except those that only make texts or depend on a process's own clock.
const REACHED: &str = "sweeper/src/claiming,sweeper/src/running,sweeper/src/settling,sweeper/src/background/lease.rs,\
sweeper/src/background/health.rs,sweeper/src/definitions";
const BUILD: [&str; 4] = ["-p", "solid-notify-tests-schedules", "--test", "schedules"];
const TEST: [&str; 1] = ["every_schedule_keeps_the_promises"];

/// Makes the mutants, one at a time, and prints which schedule finds each first.
pub(crate) fn mutants(selection: &Selection, only: Option<&str>, write: bool) -> Result<()> {
    let all = read(&workspace_root())?;
    let chosen = chosen(&all, Some(only.unwrap_or(REACHED)))?;
    let bench = Bench::set_up(selection, &chosen)?;
    let (outcome, printed) = bench.test(&BUILD, &[], TIME_TO_BUILD)?;
    ensure!(outcome.succeeded(), "the workspace itself does not build:\n{printed}");
    let (outcome, printed) = bench.test(&BUILD, &TEST, 5 * TIME_TO_TEST)?;
    ensure!(outcome.succeeded(), "schedules fail with all guards in place:\n{printed}");

    let path = workspace_root().join(SCHEDULES_TABLE);
    let mut known: BTreeMap<String, String> =
        rows(&fs::read_to_string(&path).unwrap_or_default()).into_iter().collect();
    for (n, mutant) in (1..).zip(&chosen) {
        let began = Instant::now();
        let found = bench.while_away(mutant, || {
            let (outcome, printed) = bench.test(&BUILD, &[], TIME_TO_BUILD)?;
            if !outcome.succeeded() {
                bail!("the mutant {:?} does not build:\n{printed}", mutant.name);
            }
            let (outcome, printed) = bench.test(&BUILD, &TEST, 5 * TIME_TO_TEST)?;
            Ok(found(outcome, &printed))
        })?;
        println!("{n:>3}/{} {:>5.1} s  {found}: {}", chosen.len(), began.elapsed().as_secs_f64(), mutant.name);
        known.insert(mutant.name.clone(), format!("| {} | {} | {found} |", mutant.name, mutant.promise));
        if write {
            let rows: Vec<&str> = all.iter().filter_map(|mutant| known.get(&mutant.name)).map(String::as_str).collect();
            fs::write(&path, format!("{}{}\n", head(), rows.join("\n")))
                .with_context(|| format!("cannot write {SCHEDULES_TABLE}"))?;
        }
    }
    Ok(())
}

fn head() -> String {
    format!(
        "# Mutants that the schedules find\n\n\
         Each mutant of `{LIST}` whose guard the schedules reach, and the first schedule that breaks a promise with it: its\n\
         number and its message. `cargo xtask mutants --schedules --write` writes the table; with `--only` it runs some of the mutants\n\
         again, and with `SCHEDULES=300` that many schedules. Every mutant also has tests of its own: see `{TABLE}`.\n\n\
         | mutant (the guard that it deletes) | promise | found by |\n|---|---|---|\n"
    )
}

/// Returns the lowest number of a schedule that fails, and its message.
fn found(outcome: CommandResult, printed: &str) -> String {
    if outcome.succeeded() {
        let all = std::env::var("SCHEDULES");
        return all.map_or("none".to_owned(), |count| format!("none of the first {count}"));
    }
    let mut lines = printed.lines();
    let mut first: Option<(u64, &str)> = None;
    while let Some(line) = lines.next() {
        let seed = line.strip_prefix("schedule ").and_then(|rest| rest.split(' ').next()?.parse().ok());
        if let (Some(seed), Some(wrong)) = (seed, lines.clone().next()) {
            first = first.filter(|(known, _)| *known < seed).or(Some((seed, wrong.trim())));
        }
    }
    match first {
        Some((seed, wrong)) => format!("{seed}: {}", wrong.replace('|', "/")),
        None if outcome == CommandResult::TimedOut => "(they did not end)".to_owned(),
        None => "(the test program died)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    #[test]
    fn the_lowest_failing_seed_is_reported() {
        let printed =
            "x\nschedule 17 (replay it with SCHEDULE=17):\n  G3: two\n  more\nschedule 5 (replay it):\n  G5: a | b\n";
        let ended = |code: i32| CommandResult::Exited(ExitStatus::from_raw(code << 8));
        let red = ended(101);
        assert_eq!(found(red, printed), "5: G5: a / b");
        assert_eq!(found(red, ""), "(the test program died)");
        assert_eq!(found(CommandResult::TimedOut, ""), "(they did not end)");
        assert!(found(ended(0), printed).starts_with("none"));
    }
}
