//! A step of CI: its name, its result, its time. All steps run even when one has failed.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use test_servers::run::{CommandResult, interrupted, run};

use crate::output::Output;
use crate::runs::PASSED;

/// How many steps run at the same time where [`Steps::beside`] runs them. Most suites wait for a third of their time.
pub(crate) const AT_ONCE: usize = 2;

/// A step that runs beside others: its name, and what it does.
pub(crate) type Beside<'a> = (&'static str, Box<dyn FnOnce(&Output) -> Result<StepResult> + Send + 'a>);

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
pub(crate) struct Steps {
    begin: Instant,
    /// Of those that passed.
    seconds: Vec<(String, f64)>,
    failures: Vec<String>,
    lines: Vec<String>,
}

impl Steps {
    /// Begins a run without steps.
    pub(crate) fn begin() -> Self {
        Self { begin: Instant::now(), seconds: Vec::new(), failures: Vec::new(), lines: Vec::new() }
    }

    /// Runs a step, prints its result, and returns whether it did not fail. After an interruption it runs none.
    pub(crate) fn step(&mut self, name: &str, perform: impl FnOnce() -> Result<StepResult>) -> bool {
        if interrupted() {
            return false;
        }
        println!("\n==> {name}");
        let begin = Instant::now();
        let result = perform();
        self.ended(name, result, begin.elapsed())
    }

    /// Runs steps, some at the same time, and begins them in this order. Prints what each printed when it ends; of those that failed
    /// after all others, because a log is read from its end.
    pub(crate) fn beside(&mut self, steps: Vec<Beside<'_>>) {
        let next = Mutex::new(steps.into_iter());
        let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next().filter(|_| !interrupted());
        thread::scope(|scope| {
            let (sender, ended) = mpsc::channel();
            for sender in vec![sender; AT_ONCE] {
                scope.spawn(move || {
                    while let Some((name, perform)) = take() {
                        println!("==> {name} begins");
                        let begin = Instant::now();
                        let (result, printed) = captured(perform);
                        // The receiver takes until all senders are gone.
                        let _ = sender.send((name, result, printed, begin.elapsed()));
                    }
                });
            }
            let mut failed = Vec::new();
            for (name, result, printed, took) in ended {
                match result {
                    Ok(StepResult::Passed | StepResult::Skipped(_)) => {
                        println!("\n==> {name}\n{printed}");
                        self.ended(name, result, took);
                    }
                    _ => failed.push((name, result, printed, took)),
                }
            }
            for (name, result, printed, took) in failed {
                println!("\n==> {name}\n{printed}");
                self.ended(name, result, took);
            }
        });
    }

    /// Notes and prints the result of a step. Returns whether it did not fail.
    fn ended(&mut self, name: &str, result: Result<StepResult>, took: Duration) -> bool {
        // An error that prevents a step is a failure of this step, and the other steps still run.
        let result = result.unwrap_or_else(|error| StepResult::Failed(format!("{error:#}")));
        let took = took.as_secs_f64();
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

    /// Prints a line for each step, and the time since the beginning.
    pub(crate) fn print_summary(&self) {
        let all = self.begin.elapsed().as_secs_f64();
        println!("\n==> summary\n{}\n{:<14} {all:>7.1} s", self.lines.join("\n"), "all");
    }

    /// The seconds since the beginning.
    pub(crate) fn all_seconds(&self) -> u64 {
        whole(self.begin.elapsed().as_secs_f64())
    }

    /// The seconds of each step that passed.
    pub(crate) fn whole_seconds(&self) -> BTreeMap<String, u64> {
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

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(seconds: f64) -> u64 {
    seconds.round() as u64
}

/// Runs a step, and returns what it printed. A failure names the tests that failed.
fn captured(perform: impl FnOnce(&Output) -> Result<StepResult>) -> (Result<StepResult>, String) {
    let output = match Output::file() {
        Ok(output) => output,
        Err(error) => return (Err(error), String::new()),
    };
    let result = perform(&output);
    let printed = output.read().unwrap_or_else(|error| format!("{error:#}"));
    let result = result.map(|result| match result {
        StepResult::Failed(reason) => {
            let failed = printed.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
            StepResult::Failed([reason.as_str()].into_iter().chain(failed).collect::<Vec<_>>().join(", "))
        }
        other => other,
    });
    (result, printed)
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn failed_step_fails_the_run_and_the_others_still_count() {
        let mut steps = Steps::begin();
        assert!(steps.step("first", || Ok(StepResult::Passed)));
        assert_eq!((steps.result().as_str(), steps.code()), (PASSED, 0));
        assert!(!steps.step("second", || Err(anyhow!("no server"))));
        assert!(!steps.step("third", || command(Command::new("sh").args(["-c", "exit 3"]))));
        assert!(steps.step("fourth", || Ok(StepResult::Skipped("nothing has changed".to_owned()))));
        assert_eq!(steps.result(), "failed: second: no server; third: exit status: 3");
        assert_eq!(steps.code(), 1);
        assert_eq!(steps.whole_seconds().into_keys().collect::<Vec<_>>(), ["first"]);
    }
    #[test]
    fn steps_run_beside_each_other_and_failures_name_their_tests() {
        let (one, other) = (mpsc::channel(), mpsc::channel());
        // Each of two steps waits for the other one.
        let meet = |here: mpsc::Sender<()>, there: mpsc::Receiver<()>| {
            move |output: &Output| {
                here.send(())?;
                there.recv_timeout(Duration::from_secs(60))?;
                Ok(output.run(&mut Command::new("true"), None)?.into())
            }
        };
        let say = "echo test a::b ... FAILED; echo test a::c ... ok; exit 101";
        let mut steps = Steps::begin();
        steps.beside(vec![
            ("failing", Box::new(|output| Ok(output.run(Command::new("sh").args(["-c", say]), None)?.into()))),
            ("prevented", Box::new(|_| Err(anyhow!("no server")))),
            ("one", Box::new(meet(one.0, other.1))),
            ("other", Box::new(meet(other.0, one.1))),
        ]);
        assert_eq!(steps.whole_seconds().into_keys().collect::<Vec<_>>(), ["one", "other"]);
        let mut failures = steps.failures;
        failures.sort_unstable();
        assert_eq!(failures, ["failing: exit status: 101, a::b", "prevented: no server"]);
    }
}
