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
/// The row of the whole run. It is shorter than its steps together, because some run at the same time.
const ALL: &str = "all";

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

/// Returns a line for each step, and for the whole run, that took longer than its budget, or has none.
pub(crate) fn exceeded(budgets: &BTreeMap<String, Budget>, all: u64, steps: &BTreeMap<String, u64>) -> Vec<String> {
    let judge = |(name, took): (&str, u64)| match budgets.get(name) {
        Some(Budget { seconds, .. }) if took <= *seconds => None,
        Some(Budget { seconds, .. }) => Some(format!("{name} took {took} s, its budget is {seconds} s")),
        None => Some(format!("{name} took {took} s and has no budget in {FILE}")),
    };
    let steps = steps.iter().map(|(name, took)| (name.as_str(), *took));
    steps.chain([(ALL, all)]).filter_map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{runs, step};

    /// The steps beside which no other runs.
    const ALONE: [&str; 5] = ["format", "dependencies", "build", "neighbours", "newcomers"];

    /// The goal for the whole run: 12 minutes, and 90 s for the neighbours, beside which nothing runs. It is 16 minutes with the suites that are
    /// named beside the table.
    const GOAL: u64 = 12 * 60 + 90;

    #[test]
    fn budgets_are_within_the_goal() -> Result<()> {
        let mut budgets = read()?;
        let all = budgets.remove(ALL).context("the table has no row of the whole run")?.seconds;
        assert!(all <= GOAL, "the whole run may take {all} s, the goal is {GOAL} s");
        let sum = |budgets: BTreeMap<String, Budget>| -> u64 {
            budgets.into_values().filter(|budget| budget.always).map(|budget| budget.seconds).sum()
        };
        let (alone, beside) = budgets.into_iter().partition(|(name, _)| ALONE.contains(&name.as_str()));
        let needed = sum(alone) + sum(beside) / u64::try_from(step::AT_ONCE)?;
        assert!(needed <= all, "the steps may take {needed} s together, and the whole run {all} s");
        Ok(())
    }

    #[test]
    fn recorded_run_of_ci_is_within_the_budgets() -> Result<()> {
        let (budgets, runs) = (read()?, runs::read()?);
        if let Some(run) = runs.ci {
            let exceeded = exceeded(&budgets, run.seconds, &run.steps);
            assert!(exceeded.is_empty(), "in the run of {}: {}", run.date, exceeded.join("; "));
        }
        Ok(())
    }

    #[test]
    fn step_over_its_budget_or_without_one_is_named() -> Result<()> {
        let budgets = parse(
            "text\n| step of CI | s | |\n|---|---|---|\n| a | 5 | x |\n| b c | (60) | |\n| all | 66 | |\n\n| d | 1 |",
        )?;
        let budget = |seconds, always| Budget { seconds, always };
        let rows = [("a", budget(5, true)), ("b c", budget(60, false)), ("all", budget(66, true))];
        assert_eq!(budgets, BTreeMap::from(rows.map(|(name, budget)| (name.to_owned(), budget))));
        let steps = [("a", 6), ("b c", 60), ("e", 1)].map(|(name, seconds)| (name.to_owned(), seconds));
        assert_eq!(
            exceeded(&budgets, 67, &BTreeMap::from(steps)),
            [
                "a took 6 s, its budget is 5 s",
                "e took 1 s and has no budget in CONTRIBUTING.md",
                "all took 67 s, its budget is 66 s"
            ]
        );
        assert!(parse("| step of CI | s |\n|---|---|\n| a | many |").is_err());
        assert!(parse("no table").is_err());
        Ok(())
    }
}
