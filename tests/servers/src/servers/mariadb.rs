//! A private MariaDB server from installed programs: `root` without a password over TCP, database
//! `notify`.
//!
//! The character set stays the server's own default (`latin1` before MariaDB 11.6), because the tests must work with it. Only
//! the special parts of MariaDB are here; [`Server`] starts it, waits and stops it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::engine::{Engine, Way};
use super::place::Place;
use super::programs::{find, usual_folders, versioned_folders};
use super::{Durability, Server};

/// The programs to install so that [`start`] works.
pub const HOW_TO_INSTALL: &str = "MariaDB's programs `mariadbd`, `mariadb-install-db` and \
    `mariadb` (Debian and Ubuntu: `apt-get install mariadb-server`; Fedora: `dnf install mariadb-server`; \
    Homebrew: `brew install mariadb`)";

/// The options of [`Durability::Fast`], on MySQL, too. 2, not 0: a commit hands its log to the operating system, so that `kill -9`
/// loses nothing. Tables in one file, and no fsync, make a test's database in two thirds of the time: 24 of them, migrated and
/// dropped, 8 at once, took 6.7 s before and 4.3 s with it on MariaDB, 12.2 s and 8.1 s on MySQL.
pub(super) const FAST: [&str; 3] =
    ["--innodb-flush-log-at-trx-commit=2", "--skip-innodb-file-per-table", "--innodb-flush-method=nosync"];

/// Starts a fast server that loses its data when the machine crashes.
///
/// # Errors
/// Fails when the programs are not installed, naming what to install, and when the server does not
/// answer in time, with the end of its log.
pub fn start() -> Result<Server> {
    start_with(Durability::Fast)
}

/// Starts a server with the wanted durability.
///
/// # Errors
/// See [`start`].
pub fn start_with(durability: Durability) -> Result<Server> {
    let programs =
        Programs::find().with_context(|| format!("no MariaDB server is installed: install {HOW_TO_INSTALL}"))?;
    Server::start(Box::new(MariaDb { programs, durability }), &["mysql", "nobody"])
}

/// True if [`start`] would find the programs.
#[must_use]
pub fn is_installed() -> bool {
    Programs::find().is_some()
}

struct MariaDb {
    programs: Programs,
    durability: Durability,
}

struct Programs {
    server: PathBuf,
    install_db: PathBuf,
    client: PathBuf,
}

impl Programs {
    fn find() -> Option<Self> {
        let mut folders = usual_folders();
        // Homebrew on both kinds of Mac.
        folders.extend(versioned_folders("/opt/homebrew/opt", "mariadb"));
        folders.extend(versioned_folders("/usr/local/opt", "mariadb"));
        let server = find(&folders, &["mariadbd", "mysqld"]).filter(|server| is_mariadb(server))?;
        // The programs that belong to this server come before those of another version.
        if let Some(folder) = server.parent() {
            folders.insert(0, folder.to_owned());
        }
        let install_db = find(&folders, &["mariadb-install-db", "mysql_install_db"])?;
        let client = find(&folders, &["mariadb", "mysql"])?;
        Some(Self { server, install_db, client })
    }
}

/// A `mysqld` may also be MySQL's, whose data directory is made in another way.
pub(super) fn is_mariadb(server: &Path) -> bool {
    let output = Command::new(server).args(["--no-defaults", "--version"]).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("MariaDB"))
}

pub(super) fn socket(place: &Place) -> PathBuf {
    place.home().join("socket")
}

/// The command by which the client `program` of MariaDB or MySQL runs `sql`.
pub(super) fn client(program: &Path, place: &Place, port: u16, way: Way, sql: &str) -> Command {
    let mut command = place.command(program);
    command.args(["--no-defaults", "--user=root", "--connect-timeout=5", "--batch", "--skip-column-names"]);
    match way {
        Way::Socket => command.arg("--protocol=socket").arg(option("socket", &socket(place))),
        Way::Tcp => {
            command.args(["--protocol=tcp", "--host=127.0.0.1", &format!("--port={port}"), "--database=notify"])
        }
    };
    command.args(["-e", sql]);
    command
}

/// `--name=path`, also for a path that is no valid UTF-8.
pub(super) fn option(name: &str, path: &Path) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from(format!("--{name}="));
    option.push(path);
    option
}

impl Engine for MariaDb {
    fn name(&self) -> &'static str {
        "MariaDB"
    }

    fn programs(&self) -> &Path {
        self.programs.server.parent().unwrap_or(&self.programs.server)
    }

    fn url(&self, port: u16) -> String {
        format!("mysql://root@127.0.0.1:{port}/notify")
    }

    fn initialise(&self, place: &Place) -> Result<Command> {
        let mut command = place.command(&self.programs.install_db);
        // `normal` makes root@127.0.0.1 without a password; the default would only let the system's
        // root in.
        command.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        command.arg(option("datadir", &place.data()));
        if self.durability == Durability::Fast {
            command.args(FAST);
        }
        Ok(command)
    }

    fn serve(&self, place: &Place, port: u16) -> Command {
        let mut command = place.command(&self.programs.server);
        command.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve", "--max-connections=300"]);
        command.args(["--innodb-buffer-pool-size=128M", &format!("--port={port}")]);
        command.arg(option("datadir", &place.data())).arg(option("socket", &socket(place)));
        command.arg(option("pid-file", &place.directory().join("pid")));
        if self.durability == Durability::Fast {
            command.args(FAST);
        }
        command
    }

    fn ask(&self, place: &Place, port: u16, way: Way, sql: &str) -> Option<Command> {
        Some(client(&self.programs.client, place, port, way, sql))
    }

    fn graceful(&self) -> Signal {
        Signal::TERM
    }

    fn discard(&self) -> (Signal, &'static str) {
        // An orderly shutdown takes seconds, and the process holds nothing that the operating
        // system does not free.
        (Signal::KILL, "KILL")
    }
}
