//! The lines between the subject and the bench.

use std::io::{BufRead, Write};

use anyhow::{Context, Result, ensure};

/// Prints a line for the bench.
///
/// # Errors
/// Fails where the bench is gone.
pub fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("cannot write to the bench")
}

/// Blocks until the bench prints a line. No task runs meanwhile in a runtime of one thread: the library does nothing while the bench reads
/// the counters.
///
/// # Errors
/// Fails where the bench is gone.
pub fn wait_for_line() -> Result<()> {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line).context("cannot read from the bench")?;
    ensure!(read > 0, "the bench is gone: standard input ended before a line came");
    Ok(())
}
