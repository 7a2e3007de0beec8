//! A private MySQL server, from installed programs or from [`unstable`]: `root` without a password over TCP, database `notify`.
//!
//! Only the special parts of MySQL are here; [`Server`] starts it, waits and stops it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::engine::{Engine, Way};
use super::mariadb::{FAST, client, is_mariadb, option, socket};
use super::place::Place;
use super::programs::{find, usual_folders, versioned_folders};
use super::{Durability, Server, unstable};

/// The programs to install so that [`start`] works.
pub const HOW_TO_INSTALL: &str = "MySQL's programs `mysqld` and `mysql`, version 8.0 or later (Debian: run `cargo xtask test` as root, \
    which unpacks them into a folder of its own, since they cannot be installed beside MariaDB's; Ubuntu: `apt-get install mysql-server`; \
    Fedora: `dnf install mysql-server`; Homebrew: `brew install mysql`)";

/// Starts a fast server that loses its data when the machine crashes.
///
/// # Errors
/// Fails when there are no programs, naming what to install, and when the server does not answer in time, with the end of its log.
pub fn start() -> Result<Server> {
    start_with(Durability::Fast)
}

/// Starts a server with the wanted durability.
///
/// # Errors
/// See [`start`].
pub fn start_with(durability: Durability) -> Result<Server> {
    let programs =
        Programs::find().with_context(|| format!("no MySQL server is installed: install {HOW_TO_INSTALL}"))?;
    let accounts = if programs.root.is_some() { unstable::ACCOUNTS } else { &["mysql", "nobody"] };
    Server::start(Box::new(MySql { programs, durability }), accounts)
}

/// True if [`start`] would find the programs.
#[must_use]
pub fn is_installed() -> bool {
    Programs::find().is_some()
}

struct MySql {
    programs: Programs,
    durability: Durability,
}

struct Programs {
    /// The folder that they see as `/`, if it is another one.
    root: Option<PathBuf>,
    server: PathBuf,
    client: PathBuf,
}

impl Programs {
    fn find() -> Option<Self> {
        Self::installed().or_else(|| Self::within(unstable::folder()?))
    }

    fn installed() -> Option<Self> {
        let mut folders = usual_folders();
        folders.extend(versioned_folders("/opt/homebrew/opt", "mysql"));
        folders.extend(versioned_folders("/usr/local/opt", "mysql"));
        let server = folders.iter().filter_map(|folder| find(std::slice::from_ref(folder), &["mysqld"]));
        let server = server.into_iter().find(|server| !is_mariadb(server))?;
        if let Some(folder) = server.parent() {
            folders.insert(0, folder.to_owned());
        }
        let client = find(&folders, &["mysql"])?;
        Some(Self { root: None, server, client })
    }

    fn within(root: PathBuf) -> Option<Self> {
        let server = unstable::program(&root, "/usr/sbin/mysqld")?;
        let client = unstable::program(&root, "/usr/bin/mysql")?;
        Some(Self { root: Some(root), server, client })
    }
}

impl Engine for MySql {
    fn name(&self) -> &'static str {
        "MySQL"
    }

    fn programs(&self) -> &Path {
        self.root().or_else(|| self.programs.server.parent()).unwrap_or(&self.programs.server)
    }

    fn root(&self) -> Option<&Path> {
        self.programs.root.as_deref()
    }

    fn url(&self, port: u16) -> String {
        // Without TLS, because tests read the traffic on the wire.
        format!("mysql://root@127.0.0.1:{port}/notify?ssl-mode=disabled")
    }

    fn initialise(&self, place: &Place) -> Result<Command> {
        // The account that it makes by itself is root@localhost, which names are not looked up for.
        let accounts = "CREATE USER root@'127.0.0.1'; GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;";
        fs::write(place.directory().join("accounts.sql"), accounts).context("cannot write MySQL's accounts")?;
        let mut command = place.command(&self.programs.server);
        command.args(["--no-defaults", "--initialize-insecure", "--secure-file-priv="]);
        command.arg(option("datadir", &place.data())).arg(option("init-file", &place.home().join("accounts.sql")));
        if self.durability == Durability::Fast {
            command.args(FAST);
        }
        Ok(command)
    }

    fn serve(&self, place: &Place, port: u16) -> Command {
        let mut command = place.command(&self.programs.server);
        command.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve", "--max-connections=300"]);
        // Its second protocol would take the same port on every server; a folder for files is missing.
        command.args([
            "--mysqlx=OFF",
            "--secure-file-priv=",
            "--innodb-buffer-pool-size=128M",
            &format!("--port={port}"),
        ]);
        command.arg(option("datadir", &place.data())).arg(option("socket", &socket(place)));
        command.arg(option("pid-file", &place.home().join("pid")));
        if self.durability == Durability::Fast {
            // Without the performance schema it needs half the memory.
            command.args(FAST).args(["--sync-binlog=0", "--performance-schema=OFF"]);
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
        // As MariaDB.
        (Signal::KILL, "KILL")
    }
}
