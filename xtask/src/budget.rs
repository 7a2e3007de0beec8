//! The budget table of CONTRIBUTING.md: the seconds that each step of CI may take on two quiet cores.
//!
//! A test compares the recorded run of docs/runs.toml with it, so no test depends on how busy a machine is; CI prints what exceeded.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use test_servers::run::workspace_root;

/// The file with the table.
const FILE: &str = "CONTRIBUTING.md";
/// The first cell of the table.
const HEAD: &str = "| step of CI |";

/// What a step may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    seconds: u64,
    /// False for a step that a run skips where nothing that it checks has changed: its seconds are in parentheses.
    always: bool,
}

/// Returns the budget of each step.
///
/// # Errors
/// Fails where the table is missing or a row has no number.
pub(crate) fn read() -> Result<BTreeMap<String, Budget>> {
    let text = fs::read_to_string(workspace_root().join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
    parse(&text)
}

fn parse(text: &str) -> Result<BTreeMap<String, Budget>> {
    let rows = text.lines().skip_while(|line| !line.starts_with(HEAD)).skip(2).take_while(|line| line.starts_with('|'));
    let mut budgets = BTreeMap::new();
    for row in rows {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let (name, seconds) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        let only_changed = seconds.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        let parsed = only_changed.unwrap_or(seconds).parse();
        let parsed =
            parsed.with_context(|| format!("the budget of {name:?} in {FILE} is not a number: {seconds:?}"))?;
        let budget = Budget { seconds: parsed, always: only_changed.is_none() };
        budgets.insert(name.to_owned(), budget);
    }
    ensure!(!budgets.is_empty(), "{FILE} has no table that begins with {HEAD:?}");
    Ok(budgets)
}

/// Returns a line for each step that took longer than its budget, or has none.
pub(crate) fn exceeded(budgets: &BTreeMap<String, Budget>, steps: &BTreeMap<String, u64>) -> Vec<String> {
    let judge = |(name, took): (&String, &u64)| match budgets.get(name) {
        Some(Budget { seconds, .. }) if took <= seconds => None,
        Some(Budget { seconds, .. }) => Some(format!("{name} took {took} s, its budget is {seconds} s")),
        None => Some(format!("{name} took {took} s and has no budget in {FILE}")),
    };
    steps.iter().filter_map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs;

    /// The goal for all steps of CI together: 12 minutes, and 16 with the suites that are named beside the table.
    const ALL: u64 = 12 * 60;

    #[test]
    fn budgets_of_all_steps_are_within_the_goal() -> Result<()> {
        let sum: u64 = read()?.values().filter(|budget| budget.always).map(|budget| budget.seconds).sum();
        assert!(sum <= ALL, "the budgets of all steps are {sum} s, the goal is {ALL} s");
        Ok(())
    }

    #[test]
    fn recorded_run_of_ci_is_within_the_budgets() -> Result<()> {
        let (budgets, runs) = (read()?, runs::read()?);
        if let Some(run) = runs.ci {
            let exceeded = exceeded(&budgets, &run.steps);
            assert!(exceeded.is_empty(), "in the run of {}: {}", run.date, exceeded.join("; "));
        }
        Ok(())
    }

    #[test]
    fn step_over_its_budget_or_without_one_is_named() -> Result<()> {
        let budgets = parse("text\n| step of CI | s | |\n|---|---|---|\n| a | 5 | x |\n| b c | (60) | |\n\n| d | 1 |")?;
        let budget = |seconds, always| Budget { seconds, always };
        assert_eq!(budgets, BTreeMap::from([("a".to_owned(), budget(5, true)), ("b c".to_owned(), budget(60, false))]));
        let steps = [("a", 6), ("b c", 60), ("e", 1)].map(|(name, seconds)| (name.to_owned(), seconds));
        assert_eq!(
            exceeded(&budgets, &BTreeMap::from(steps)),
            ["a took 6 s, its budget is 5 s", "e took 1 s and has no budget in CONTRIBUTING.md"]
        );
        assert!(parse("| step of CI | s |\n|---|---|\n| a | many |").is_err());
        assert!(parse("no table").is_err());
        Ok(())
    }
}
