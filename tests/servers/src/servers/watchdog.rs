//! A shell that ends our servers when this process is killed before it can do so.
//!
//! It reads a pipe whose other end only this process holds. The operating system closes that end
//! whenever the process ends, in whatever way, and the shell then cleans up. This needs neither
//! unsafe code nor a feature of Linux.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A waiting shell. Dropping it without [`Watchdog::dismiss`] makes it clean up.
pub(super) struct Watchdog {
    shell: Child,
}

/// Reads lines until the pipe closes; the last one says what there is to do. `$1` is the signal
/// that ends the server best, `$2` its directory. The server leads a process group, in which children may
/// have stayed. The directory is removed twice because a program
/// that is still starting may write to it.
const END_SERVER: &str = r#"
last=none
while read -r line; do last=$line; done
test "$last" = done && exit 0
if test "$last" != none; then
    kill -s "$1" "$last"
    tries=0
    while kill -0 "$last" && test "$tries" -lt 100; do sleep 0.1; tries=$((tries + 1)); done
    kill -s KILL "$last"
    kill -s KILL -- "-$last"
fi
rm -rf -- "$2" || { sleep 1; rm -rf -- "$2"; }
"#;

/// The same for a container, which is the only thing it has to know: `$1`.
const END_CONTAINER: &str = r#"
last=none
while read -r line; do last=$line; done
test "$last" = done || docker stop "$1"
"#;

impl Watchdog {
    /// Watches over a directory, and over the server in it once [`Watchdog::watch`] has named one.
    pub(super) fn over_server(signal: &str, directory: &OsStr) -> Result<Self> {
        Self::start(END_SERVER, &[OsStr::new(signal), directory])
    }

    /// Watches over a container.
    pub(super) fn over_container(id: &str) -> Result<Self> {
        Self::start(END_CONTAINER, &[OsStr::new(id)])
    }

    fn start(script: &str, arguments: &[&OsStr]) -> Result<Self> {
        let shell = Command::new("sh")
            .args(["-c", script, "watchdog"])
            .args(arguments)
            .current_dir("/")
            .stdin(Stdio::piped())
            // It outlives us, so it must not hold the pipes of our output, whose reader waits for their end.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A Ctrl-C at the terminal ends this process, not the shell that cleans up.
            .process_group(0)
            .spawn()
            .context("cannot start the shell that watches over a server")?;
        Ok(Self { shell })
    }

    /// Names the server's process.
    pub(super) fn watch(&mut self, process: u32) -> Result<()> {
        self.tell(&process.to_string())
    }

    /// Takes the name back, at once when the process has been reaped: its number may become a
    /// stranger's.
    pub(super) fn unwatch(&mut self) -> Result<()> {
        self.tell("none")
    }

    /// Ends the watchdog after this process has cleaned up.
    pub(super) fn dismiss(&mut self) -> Result<()> {
        self.tell("done")?;
        drop(self.shell.stdin.take());
        self.shell.wait().context("cannot wait for the shell that watches over a server")?;
        Ok(())
    }

    fn tell(&mut self, line: &str) -> Result<()> {
        if let Some(pipe) = &mut self.shell.stdin {
            writeln!(pipe, "{line}").context("the shell that watches over a server has gone")?;
        }
        Ok(())
    }
}
