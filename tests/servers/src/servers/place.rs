//! Where a server lives: its directory, the account that it runs as, and a free port.

use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};
use tempfile::TempDir;

/// A temporary directory that belongs to the account which the server runs as.
pub(super) struct Place {
    directory: TempDir,
    /// The folder that the programs see as `/`, if it is not the machine's own. The directory is in it.
    root: Option<PathBuf>,
    account: Option<Account>,
}

/// The numbers of an account other than our own.
#[derive(Clone, Copy)]
struct Account {
    user: u32,
    group: u32,
}

impl Place {
    /// Makes the directory. When we are root, it belongs to the first of `accounts` that exists,
    /// because servers refuse to run as root; otherwise it is our own. With a `root` for the programs it is in the `tmp` of that.
    pub(super) fn new(accounts: &[&str], root: Option<&Path>) -> Result<Self> {
        let account = if rustix::process::geteuid().is_root() {
            let found = accounts.iter().find_map(|name| Account::named(name));
            ensure!(found.is_some(), "a server refuses to run as root, and none of {accounts:?} exists");
            found
        } else {
            None
        };
        // A socket's path may have about 100 characters, so the name stays short.
        let directory = tempfile::Builder::new()
            .prefix("notify-")
            .tempdir_in(root.map_or_else(std::env::temp_dir, |root| root.join("tmp")))
            .context("cannot make a temporary directory for a server")?;
        if let Some(account) = account {
            chown(directory.path(), Some(account.user), Some(account.group))
                .with_context(|| format!("cannot give {} to the server's account", directory.path().display()))?;
        }
        Ok(Self { directory, root: root.map(Path::to_owned), account })
    }

    /// The numbers of the account that the server runs as, and of its group.
    pub(super) fn owner(&self) -> (u32, u32) {
        let own = || (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        self.account.map_or_else(own, |account| (account.user, account.group))
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The directory as the server's programs see it.
    pub(super) fn home(&self) -> PathBuf {
        let below = self.root.as_ref().and_then(|root| self.directory().strip_prefix(root).ok());
        below.map_or_else(|| self.directory().to_owned(), |below| Path::new("/").join(below))
    }

    /// The data directory as the server's programs see it. They make it.
    pub(super) fn data(&self) -> PathBuf {
        self.home().join("data")
    }

    /// The file that takes everything the server's programs print.
    pub(super) fn log(&self) -> PathBuf {
        self.directory().join("log")
    }

    /// The end of the log, for error messages.
    pub(super) fn log_tail(&self) -> String {
        let log = self.log_since(0);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }

    /// Returns the length of the log so far: a point for [`Place::log_since`].
    pub(super) fn log_length(&self) -> usize {
        self.read_log().len()
    }

    /// Returns the log after that point.
    pub(super) fn log_since(&self, length: usize) -> String {
        String::from_utf8_lossy(self.read_log().get(length..).unwrap_or_default()).into_owned()
    }

    fn read_log(&self) -> Vec<u8> {
        // Without a log, the message around it still says what failed.
        std::fs::read(self.log()).unwrap_or_default()
    }

    /// A command that runs in the directory, as the server's account; with a root of its own, in that.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = match &self.root {
            // It becomes the program, so that signals reach that.
            Some(root) => {
                let mut command = Command::new("chroot");
                let (user, group) = self.owner();
                command.arg(format!("--userspec={user}:{group}")).arg("--groups=").arg(root).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.current_dir(self.directory()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if steers_a_database_program(&name) {
                command.env_remove(name);
            }
        }
        // The log is searched for English words. The usual place for temporary files may be closed
        // to the server's account, and would keep what a killed server leaves behind.
        command.env("LC_ALL", "C").env("TMPDIR", self.home());
        if let Some(account) = self.account.filter(|_| self.root.is_none()) {
            command.uid(account.user).gid(account.group);
        }
        command
    }

    /// Sends what the command prints to the log, and puts it into its own process group: a Ctrl-C
    /// at the terminal must not reach a server before the tests that use it have ended.
    pub(super) fn in_background(&self, mut command: Command) -> Result<Command> {
        let log = File::options().create(true).append(true).open(self.log()).context("cannot open the server's log")?;
        command.process_group(0).stdout(log.try_clone().context("cannot share the server's log")?).stderr(log);
        Ok(command)
    }

    /// Removes the directory and says so when that fails, which a drop would not.
    pub(super) fn remove(self) -> Result<()> {
        let path = self.directory().to_owned();
        self.directory.close().with_context(|| format!("cannot remove {}", path.display()))
    }
}

/// Whether a variable such as `PGDATA` or `MYSQL_HOST` would lead the programs to another server
/// than ours.
fn steers_a_database_program(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    ["PG", "MYSQL", "MARIADB"].iter().any(|prefix| name.starts_with(prefix))
}

impl Account {
    /// Asks `id`, which knows accounts from anywhere, not only those of `/etc/passwd`.
    fn named(name: &str) -> Option<Self> {
        let number = |option: &str| {
            let output = Command::new("id").args([option, name]).output().ok()?;
            String::from_utf8(output.stdout).ok()?.trim().parse().ok()
        };
        Some(Self { user: number("-u")?, group: number("-g")? })
    }
}

/// A TCP port of 127.0.0.1 that was free a moment ago.
///
/// It lies below the ports that operating systems give to outgoing connections (32768 on Linux,
/// 49152 elsewhere): otherwise a client's connection could take the port while its server is being
/// restarted.
pub(super) fn free_port() -> Result<u16> {
    const FIRST: u16 = 20_000;
    const COUNT: u64 = 12_000;
    // The keys of std's hasher are random, which saves a dependency.
    let start = RandomState::new().build_hasher().finish();
    (0..200)
        .map(|step| FIRST + u16::try_from(start.wrapping_add(step) % COUNT).unwrap_or_default())
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or_else(|| anyhow!("no free TCP port between {FIRST} and {}", u64::from(FIRST) + COUNT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_is_no_port_of_outgoing_connections() -> Result<()> {
        for _ in 0..20 {
            assert!((20_000..32_000).contains(&free_port()?));
        }
        Ok(())
    }

    #[test]
    fn variables_that_name_another_server_are_withheld() {
        assert!(steers_a_database_program(OsStr::new("PGHOST")));
        assert!(steers_a_database_program(OsStr::new("MYSQL_TCP_PORT")));
        assert!(!steers_a_database_program(OsStr::new("PATH")));
    }
}
