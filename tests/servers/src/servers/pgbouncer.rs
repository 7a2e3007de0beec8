//! A private PgBouncer in transaction mode, in front of a PostgreSQL server: all clients share its few sessions.
//!
//! Only the special parts of PgBouncer are here; [`Server`] starts it, waits and stops it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::engine::Engine;
use super::place::Place;
use super::programs::{find, usual_folders, version_in};
use super::{Server, unstable};

/// The programs to install so that [`start`] works.
pub const HOW_TO_INSTALL: &str = "PgBouncer 1.21 or later, `pgbouncer` (Debian: run `cargo xtask test` as root, which unpacks it into a \
    folder of its own; Fedora: `dnf install pgbouncer`; Homebrew: `brew install pgbouncer`)";

/// The sessions that all clients of a database share.
pub const SESSIONS: u16 = 2;

/// The first version that keeps prepared statements apart where sessions are shared.
const LEAST: [u64; 2] = [1, 21];

/// Starts one in front of the PostgreSQL at this port of 127.0.0.1, whose superuser `postgres` needs no password.
///
/// # Errors
/// Fails when there is no program, naming what to install, and when it does not answer in time, with the end of its log.
pub fn start(postgres: u16) -> Result<Server> {
    let (root, program) = program().with_context(|| format!("PgBouncer is missing: install {HOW_TO_INSTALL}"))?;
    let accounts = if root.is_some() { unstable::ACCOUNTS } else { &["postgres", "nobody"] };
    Server::start(Box::new(PgBouncer { root, program, postgres }), accounts)
}

/// True if [`start`] would find the program.
#[must_use]
pub fn is_installed() -> bool {
    program().is_some()
}

/// Returns the program, and the folder that it sees as `/` if it is another one.
fn program() -> Option<(Option<PathBuf>, PathBuf)> {
    let own = find(&usual_folders(), &["pgbouncer"]).filter(|program| is_new_enough(program));
    if let Some(own) = own {
        return Some((None, own));
    }
    let root = unstable::folder()?;
    let program = unstable::program(&root, "/usr/sbin/pgbouncer")?;
    Some((Some(root), program))
}

fn is_new_enough(program: &Path) -> bool {
    let told = Command::new(program).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let first = String::from_utf8_lossy(&told).lines().next().map(version_in).unwrap_or_default();
    first >= LEAST.to_vec()
}

struct PgBouncer {
    root: Option<PathBuf>,
    program: PathBuf,
    postgres: u16,
}

impl Engine for PgBouncer {
    fn name(&self) -> &'static str {
        "PgBouncer"
    }

    fn programs(&self) -> &Path {
        self.root().or_else(|| self.program.parent()).unwrap_or(&self.program)
    }

    fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    fn url(&self, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/notify")
    }

    fn initialise(&self, place: &Place) -> Result<Command> {
        // There is no data to make.
        let mut command = place.command(&self.program);
        command.arg("--version");
        Ok(command)
    }

    fn serve(&self, place: &Place, port: u16) -> Command {
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             auth_type = any\npool_mode = transaction\ndefault_pool_size = {SESSIONS}\nmax_client_conn = 200\n\
             max_prepared_statements = 200\nignore_startup_parameters = extra_float_digits\nunix_socket_dir = {}\n",
            self.postgres,
            place.home().display()
        );
        // Without the file it ends at once and says so.
        let _ = fs::write(place.directory().join("settings"), settings);
        let mut command = place.command(&self.program);
        command.arg(place.home().join("settings"));
        command
    }

    fn check_session(&self, place: &Place, port: u16) -> Result<()> {
        // It makes the socket only after it has bound the port.
        ensure!(place.directory().join(format!(".s.PGSQL.{port}")).exists(), "it does not listen yet");
        TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Duration::from_secs(5))?;
        Ok(())
    }

    fn graceful(&self) -> Signal {
        // An orderly end that does not wait for the clients.
        Signal::TERM
    }

    fn discard(&self) -> (Signal, &'static str) {
        (Signal::KILL, "KILL")
    }
}
