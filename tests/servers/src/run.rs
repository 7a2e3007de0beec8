//! Runs other programs so that a Ctrl-C ends them, and this process stays alive to stop the servers.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandResult {
    /// It ended by itself, with this status.
    Exited(ExitStatus),
    /// A signal asked *this* process to end, so the program was ended.
    Interrupted,
    /// The time was up, so the program was ended.
    TimedOut,
}

impl CommandResult {
    /// Whether the program ended by itself and reported success.
    pub fn succeeded(self) -> bool {
        matches!(self, Self::Exited(status) if status.success())
    }

    /// Returns the exit code that reports this outcome.
    pub fn code(self) -> u8 {
        match self {
            Self::Exited(status) => status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
            // What shells report for a program that SIGINT has ended.
            Self::Interrupted => 130,
            Self::TimedOut => 1,
        }
    }
}

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on, Ctrl-C and `kill` no longer end this process, but are noted for [`run`] and
/// [`interrupted`].
pub fn mind_interrupts() -> Result<()> {
    let flag = INTERRUPTED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag)).context("cannot listen for signals")?;
    }
    Ok(())
}

/// True after a signal asked this process to end.
pub fn interrupted() -> bool {
    INTERRUPTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Runs a program to its end, without input. Ends it and its children when a signal asks this process to end or the time
/// is up.
pub fn run(command: &mut Command, limit: Option<Duration>) -> Result<CommandResult> {
    if interrupted() {
        return Ok(CommandResult::Interrupted);
    }
    // A process group of its own, so that the children end, too: cargo, the tests that it runs, and the programs of
    // those tests.
    let mut child = command
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a program")? {
            // A program that our Ctrl-C ended has not failed by itself.
            return Ok(if interrupted() && !status.success() {
                CommandResult::Interrupted
            } else {
                CommandResult::Exited(status)
            });
        }
        if interrupted() {
            end(&mut child)?;
            return Ok(CommandResult::Interrupted);
        }
        if limit.is_some_and(|limit| begin.elapsed() > limit) {
            end(&mut child)?;
            return Ok(CommandResult::TimedOut);
        }
        sleep(Duration::from_millis(20));
    }
}

/// Ends a program's whole group: politely, after ten seconds by force.
fn end(child: &mut Child) -> Result<()> {
    let group = Pid::from_child(child);
    // An error means that the group has ended by itself.
    let _ = kill_process_group(group, Signal::INT);
    let begin = Instant::now();
    while child.try_wait().context("cannot wait for a program")?.is_none() {
        if begin.elapsed() > Duration::from_secs(10) {
            let _ = kill_process_group(group, Signal::KILL);
            child.wait().context("cannot wait for a program")?;
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A cargo command in the workspace's root.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(workspace_root());
    // Cargo has described this package to us. Build scripts that watch these variables would run
    // again for nothing.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Returns the root of the workspace, the folder of its lock file. It is the workspace of the running program's package, also where that is a copy.
pub fn workspace_root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let package = PathBuf::from(package);
    package.ancestors().find(|folder| folder.join("Cargo.lock").exists()).unwrap_or(&package).to_owned()
}

/// Returns the folder into which cargo builds.
pub fn target_dir() -> PathBuf {
    workspace_root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_that_of_the_program() -> Result<()> {
        let outcome = run(Command::new("sh").args(["-c", "exit 7"]), None)?;
        assert_eq!((outcome.succeeded(), outcome.code()), (false, 7));
        assert!(run(&mut Command::new("true"), None)?.succeeded());
        Ok(())
    }

    #[test]
    fn a_program_and_its_children_end_when_the_time_is_up() -> Result<()> {
        let seconds = format!("86400.{}", std::process::id());
        let script = format!("sleep {seconds}; true");
        let outcome = run(Command::new("sh").args(["-c", &script]), Some(Duration::from_millis(100)))?;
        assert_eq!(outcome, CommandResult::TimedOut);
        let begin = Instant::now();
        while sleeps_for(&seconds) {
            assert!(begin.elapsed() < Duration::from_secs(60), "the child of the program still runs");
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Whether a `sleep` for this time runs, where there is a `/proc`.
    fn sleeps_for(seconds: &str) -> bool {
        let line = format!("sleep\0{seconds}\0");
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        processes
            .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
            .any(|found| found == line.as_bytes())
    }
}
