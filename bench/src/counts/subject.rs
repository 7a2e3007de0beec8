//! [`Subject`]: the program whose work is counted or timed, as a process that waits for each step.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::Product;

/// A program that takes the arguments of `bench_subject`.
#[derive(Clone)]
pub struct Subject {
    command: Vec<OsString>,
}

impl Subject {
    /// Returns this program's own subject: the library at this revision.
    ///
    /// # Errors
    /// Fails where the system does not say which program this is.
    pub fn own() -> Result<Self> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        Ok(Self { command: vec![program.into(), "subject".into()] })
    }

    /// Returns a subject that was built from another revision.
    pub fn at(program: &Path) -> Self {
        Self { command: vec![program.into()] }
    }

    /// Returns the same subject, started by another program.
    pub fn under(&self, program: &[OsString]) -> Self {
        Self { command: program.iter().chain(&self.command).cloned().collect() }
    }

    /// Runs a step that needs no counting, until its end.
    ///
    /// # Errors
    /// Fails where the step fails.
    pub fn run(&self, product: Product, url: &str, step: &[&str]) -> Result<()> {
        let status = self.command(product, url, step)?.status().context("cannot start the subject")?;
        ensure!(status.success(), "the subject failed at {step:?} on {product} ({status})");
        Ok(())
    }

    /// Starts a work and returns once it is connected.
    ///
    /// # Errors
    /// Fails where it ends instead.
    pub fn start(&self, product: Product, url: &str, step: &[&str]) -> Result<Running> {
        let mut command = self.command(product, url, step)?;
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start the subject")?;
        let input = child.stdin.take().context("the subject has no input")?;
        let output = BufReader::new(child.stdout.take().context("the subject has no output")?);
        let mut work = Running { child, input: Some(input), output };
        let line = work.line()?;
        ensure!(line == "ready", "the subject printed {line:?} instead of \"ready\" at {step:?} on {product}");
        Ok(work)
    }

    fn command(&self, product: Product, url: &str, step: &[&str]) -> Result<Command> {
        let (program, arguments) = self.command.split_first().context("the subject has no program")?;
        let mut command = Command::new(program);
        command.args(arguments).args(["--db", product.name(), "--url", url]).args(step);
        Ok(command)
    }
}

/// A work that waits to begin, or to end. Dropped, its process is killed.
pub struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// Lets it work; returns the seconds that it took, or `None` if it had begun before. It is still connected then.
    ///
    /// # Errors
    /// Fails where it ends without its result.
    pub fn go(&mut self) -> Result<Option<f64>> {
        self.say("go")?;
        let line = self.line()?;
        if line == "early" {
            return Ok(None);
        }
        let Some(seconds) = line.strip_prefix("done ") else {
            bail!("the subject printed {line:?} instead of \"done\" and seconds; its error is above");
        };
        seconds.parse().map(Some).with_context(|| format!("the subject printed {seconds:?} for its seconds"))
    }

    /// Lets it end and waits for that.
    ///
    /// # Errors
    /// Fails where it reports a failure.
    pub fn end(mut self) -> Result<()> {
        self.say("end")?;
        let status = self.child.wait().context("cannot wait for the subject")?;
        ensure!(status.success(), "the subject failed at its end ({status})");
        Ok(())
    }

    fn say(&mut self, word: &str) -> Result<()> {
        let input = self.input.as_mut().context("the subject has no input")?;
        writeln!(input, "{word}").and_then(|()| input.flush()).context("the subject ended before its work")
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).context("cannot read from the subject")?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
