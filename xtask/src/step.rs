//! A step of CI: its name, its result, its time. All steps run even when one has failed.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;
use test_servers::run::{CommandResult, interrupted, run};

use crate::runs::PASSED;

/// How a step ended.
pub(crate) enum StepResult {
    Passed,
    Failed(String),
    /// The step could not be done, or nothing that it checks has changed. The summary says so, and the run does not fail.
    Skipped(String),
}

impl From<CommandResult> for StepResult {
    fn from(outcome: CommandResult) -> Self {
        match outcome {
            CommandResult::Exited(status) if status.success() => Self::Passed,
            CommandResult::Exited(status) => Self::Failed(status.to_string()),
            CommandResult::Interrupted => Self::Failed("interrupted".to_owned()),
            CommandResult::TimedOut => Self::Failed("took too long".to_owned()),
        }
    }
}

/// Runs a command as a step.
pub(crate) fn command(command: &mut Command) -> Result<StepResult> {
    Ok(run(command, None)?.into())
}

/// The steps of a run so far.
#[derive(Default)]
pub(crate) struct Steps {
    /// Of those that passed.
    seconds: Vec<(String, f64)>,
    failures: Vec<String>,
    lines: Vec<String>,
}

impl Steps {
    /// Runs a step, prints its result, and returns whether it did not fail. After an interruption it runs none.
    pub(crate) fn step(&mut self, name: &str, perform: impl FnOnce() -> Result<StepResult>) -> bool {
        if interrupted() {
            return false;
        }
        println!("\n==> {name}");
        let begin = Instant::now();
        // An error that prevents a step is a failure of this step, and the other steps still run.
        let result = perform().unwrap_or_else(|error| StepResult::Failed(format!("{error:#}")));
        let took = begin.elapsed().as_secs_f64();
        let words = match &result {
            StepResult::Passed => "passed".to_owned(),
            StepResult::Skipped(reason) => format!("not done: {reason}"),
            StepResult::Failed(reason) => format!("FAILED: {reason}"),
        };
        println!("{words} ({took:.1} s)");
        self.lines.push(format!("{name:<14} {took:>7.1} s  {words}"));
        match result {
            StepResult::Passed => self.seconds.push((name.to_owned(), took)),
            StepResult::Skipped(_) => {}
            StepResult::Failed(reason) => {
                self.failures.push(format!("{name}: {reason}"));
                return false;
            }
        }
        true
    }

    /// Prints a line for each step, and their sum.
    pub(crate) fn print_summary(&self) {
        let sum: f64 = self.seconds.iter().map(|(_, seconds)| seconds).sum();
        println!("\n==> summary\n{}\n{:<14} {sum:>7.1} s", self.lines.join("\n"), "all");
    }

    /// The seconds of each step that passed.
    pub(crate) fn whole_seconds(&self) -> BTreeMap<String, u64> {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let whole = |seconds: f64| seconds.round() as u64;
        self.seconds.iter().map(|(name, seconds)| (name.clone(), whole(*seconds))).collect()
    }

    /// `passed`, or the failures.
    pub(crate) fn result(&self) -> String {
        if self.failures.is_empty() { PASSED.to_owned() } else { format!("failed: {}", self.failures.join("; ")) }
    }

    /// The exit code of the run.
    pub(crate) fn code(&self) -> u8 {
        match interrupted() {
            true => CommandResult::Interrupted.code(),
            false => u8::from(!self.failures.is_empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn failed_step_fails_the_run_and_the_others_still_count() {
        let mut steps = Steps::default();
        assert!(steps.step("first", || Ok(StepResult::Passed)));
        assert_eq!((steps.result().as_str(), steps.code()), (PASSED, 0));
        assert!(!steps.step("second", || Err(anyhow!("no server"))));
        assert!(!steps.step("third", || command(Command::new("sh").args(["-c", "exit 3"]))));
        assert!(steps.step("fourth", || Ok(StepResult::Skipped("nothing has changed".to_owned()))));
        assert_eq!(steps.result(), "failed: second: no server; third: exit status: 3");
        assert_eq!(steps.code(), 1);
        assert_eq!(steps.whole_seconds().into_keys().collect::<Vec<_>>(), ["first"]);
    }
}
