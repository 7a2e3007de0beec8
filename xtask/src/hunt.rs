//! `cargo xtask guards --schedules`: which guards the seeded schedules miss by themselves, and after how many of them.
//!
//! That a schedule finds none is no hole: every guard has tests of its own, and [`crate::mutate`] looks after those.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use xtask::guards::{LIST, SCHEDULES_TABLE, read, rows};

use crate::mutate::{Bench, TIME_TO_BUILD, TIME_TO_TEST, chosen};
use crate::run::{Outcome, workspace_root};
use crate::selection::Selection;

/// What schedules go through, and is not a matter of texts or of a process's own clock alone.
const REACHED: &str = "core/src/transition.rs,core/src/limit.rs,core/src/confirm.rs,core/src/alert/cooldown.rs,\
core/src/alert/follow_up.rs,core/src/definition/policy.rs,core/src/definition/rules.rs,core/src/definition/schedule.rs,\
sweeper/src/run.rs,sweeper/src/definitions.rs,sweeper/src/sweep,sweeper/src/lease.rs,sweeper/src/health.rs,\
sweeper/src/overdue.rs,sweeper/src/worker.rs,sweeper/src/slots.rs,sweeper/src/settle.rs,sweeper/src/alerts.rs,\
sweeper/src/first_send.rs,sweeper/src/timetable.rs,sweeper/src/limited.rs,testkit/src/memory";
const BUILD: [&str; 4] = ["-p", "solid-notify-tests", "--test", "schedules"];
const TEST: [&str; 1] = ["every_schedule_keeps_the_promises"];

/// Takes the guards away, one at a time, and tells which schedule finds it.
pub(crate) fn guards(selection: &Selection, only: Option<&str>, write: bool) -> Result<()> {
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
    for (n, guard) in (1..).zip(&chosen) {
        let began = Instant::now();
        let found = bench.while_away(guard, || {
            let (outcome, printed) = bench.test(&BUILD, &[], TIME_TO_BUILD)?;
            if !outcome.succeeded() {
                bail!("without {:?} it does not build:\n{printed}", guard.name);
            }
            let (outcome, printed) = bench.test(&BUILD, &TEST, 5 * TIME_TO_TEST)?;
            Ok(found(outcome, &printed))
        })?;
        println!("{n:>3}/{} {:>5.1} s  {found}: {}", chosen.len(), began.elapsed().as_secs_f64(), guard.name);
        known.insert(guard.name.clone(), format!("| {} | {} | {found} |", guard.name, guard.promise));
        if write {
            let rows: Vec<&str> = all.iter().filter_map(|guard| known.get(&guard.name)).map(String::as_str).collect();
            fs::write(&path, format!("{}{}\n", head(), rows.join("\n")))
                .with_context(|| format!("cannot write {SCHEDULES_TABLE}"))?;
        }
    }
    Ok(())
}

fn head() -> String {
    format!(
        "# Which guards the schedules find\n\n\
         Guards of `{LIST}` that schedules go through were taken away, one at a time: the number of the first schedule that\n\
         breaks a promise without it, and what it says. Written by `cargo xtask guards --schedules --write`; `--only` looks at some of\n\
         them again, and `SCHEDULES=300` at so many schedules. What none finds has tests of its own: see `tests/GUARDS.md`.\n\n\
         | guard | promise | found by |\n|---|---|---|\n"
    )
}

/// The first schedule that fails, and what it says.
fn found(outcome: Outcome, printed: &str) -> String {
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
        None if outcome == Outcome::TimedOut => "(they did not end)".to_owned(),
        None => "(the test program died)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    #[test]
    fn the_first_schedule_is_told_whichever_thread_found_it() {
        let printed =
            "x\nschedule 17 (replay it with SCHEDULE=17):\n  G3: two\n  more\nschedule 5 (replay it):\n  G5: a | b\n";
        let ended = |code: i32| Outcome::Exited(ExitStatus::from_raw(code << 8));
        let red = ended(101);
        assert_eq!(found(red, printed), "5: G5: a / b");
        assert_eq!(found(red, ""), "(the test program died)");
        assert_eq!(found(Outcome::TimedOut, ""), "(they did not end)");
        assert!(found(ended(0), printed).starts_with("none"));
    }
}
