//! A private PostgreSQL server from installed programs: superuser `postgres` without a password,
//! database `notify`.
//!
//! Only the special parts of PostgreSQL are here; [`Server`] starts it, waits and stops it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::engine::{Engine, Way};
use super::place::Place;
use super::programs::{find, usual_folders, versioned_folders};
use super::{Durability, Server, unstable};

/// The programs to install so that [`start`] works.
pub const HOW_TO_INSTALL: &str = "PostgreSQL's server programs `initdb`, `postgres` and `psql` \
    (Debian and Ubuntu: `apt-get install postgresql`; Fedora: `dnf install postgresql-server`; \
    Homebrew: `brew install postgresql@17`)";

/// Starts a fast server that loses its data when the machine crashes.
///
/// # Errors
/// Fails when the programs are not installed, naming what to install, and when the server does not
/// answer in time, with the end of its log.
pub fn start() -> Result<Server> {
    start_with(Durability::Fast)
}

/// Starts a server with the wanted durability. Errors as in [`start`].
///
/// # Errors
/// See [`start`].
pub fn start_with(durability: Durability) -> Result<Server> {
    let programs =
        Programs::find().with_context(|| format!("no PostgreSQL server is installed: install {HOW_TO_INSTALL}"))?;
    let accounts = if programs.root.is_some() { unstable::ACCOUNTS } else { &["postgres", "nobody"] };
    Server::start(Box::new(Postgres { programs, durability }), accounts)
}

/// True if [`start`] would find the programs.
#[must_use]
pub fn is_installed() -> bool {
    Programs::find().is_some()
}

struct Postgres {
    programs: Programs,
    durability: Durability,
}

struct Programs {
    /// The folder that they see as `/`, if it is another one.
    root: Option<PathBuf>,
    /// The folder with `initdb` and `postgres`.
    folder: PathBuf,
    /// The client may be installed elsewhere.
    psql: PathBuf,
}

impl Programs {
    fn find() -> Option<Self> {
        if unstable::is_wanted() {
            return Self::within(unstable::folder()?);
        }
        let mut folders = usual_folders();
        // Debian, the makers' packages for Fedora and its relatives, Homebrew on both kinds of Mac.
        folders.extend(versioned_folders("/usr/lib/postgresql", ""));
        folders.extend(versioned_folders("/usr", "pgsql-"));
        folders.extend(versioned_folders("/opt/homebrew/opt", "postgresql"));
        folders.extend(versioned_folders("/usr/local/opt", "postgresql"));
        let folder =
            folders.iter().find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())?.clone();
        folders.insert(0, folder.clone());
        let psql = find(&folders, &["psql"])?;
        Some(Self { root: None, folder, psql })
    }

    fn within(root: PathBuf) -> Option<Self> {
        let folders = versioned_folders(root.join("usr/lib/postgresql").to_str()?, "");
        let folder = Path::new("/").join(folders.first()?.strip_prefix(&root).ok()?);
        let psql = folder.join("psql");
        Some(Self { root: Some(root), folder, psql })
    }
}

impl Engine for Postgres {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn programs(&self) -> &Path {
        self.root().unwrap_or(&self.programs.folder)
    }

    fn root(&self) -> Option<&Path> {
        self.programs.root.as_deref()
    }

    fn url(&self, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/notify")
    }

    fn initialise(&self, place: &Place) -> Result<Command> {
        let mut command = place.command(&self.programs.folder.join("initdb"));
        command.arg("-D").arg(place.data());
        command.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions"]);
        if self.durability == Durability::Fast {
            command.arg("--no-sync");
        }
        Ok(command)
    }

    fn serve(&self, place: &Place, port: u16) -> Command {
        let mut command = place.command(&self.programs.folder.join("postgres"));
        command.arg("-D").arg(place.data()).arg("-k").arg(place.home()).arg("-p").arg(port.to_string());
        let mut settings = vec!["listen_addresses=127.0.0.1", "max_connections=300", "max_prepared_transactions=10"];
        if self.durability == Durability::Fast {
            // `synchronous_commit` stays on: a commit still writes its log before it returns, so
            // that `kill -9` loses nothing.
            settings.extend(["fsync=off", "full_page_writes=off"]);
        }
        for setting in settings {
            command.args(["-c", setting]);
        }
        command
    }

    fn ask(&self, place: &Place, port: u16, way: Way, sql: &str) -> Option<Command> {
        let mut command = place.command(&self.programs.psql);
        command.env("PGCONNECT_TIMEOUT", "5");
        match way {
            Way::Socket => command.arg("-h").arg(place.home()).args(["-d", "postgres"]),
            Way::Tcp => command.args(["-h", "127.0.0.1", "-d", "notify"]),
        };
        command.args([
            "-p",
            &port.to_string(),
            "-U",
            "postgres",
            "-w",
            "-X",
            "-A",
            "-t",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-c",
            sql,
        ]);
        Some(command)
    }

    fn graceful(&self) -> Signal {
        // "Fast shutdown": ends the clients' sessions, then writes everything. SIGTERM would wait
        // for the clients.
        Signal::INT
    }

    fn discard(&self) -> (Signal, &'static str) {
        // "Immediate shutdown": writes nothing, but gives the shared memory back, which SIGKILL
        // would not.
        (Signal::QUIT, "QUIT")
    }
}
