//! The client programs for SQL: `psql`, `mariadb`, `mysql`, `sqlite3`. Tests run scripts in them.
//!
//! They are searched in the folders of a server's programs. The `xtask` program installs them.

use std::path::PathBuf;

use anyhow::{Result, anyhow};

use crate::servers::programs::{find, usual_folders, versioned_folders};

/// A client program.
#[derive(Debug)]
pub struct Client {
    /// Its names, the likeliest first.
    names: &'static [&'static str],
    /// Where else it may be: in `FOLDER/PREFIX*/bin`.
    elsewhere: &'static [(&'static str, &'static str)],
    /// The package of Debian and Ubuntu that has it.
    pub package: &'static str,
    /// What to install.
    pub how_to_install: &'static str,
}

/// PostgreSQL's.
pub const PSQL: Client = Client {
    names: &["psql"],
    elsewhere: &[
        ("/usr/lib/postgresql", ""),
        ("/usr", "pgsql-"),
        ("/opt/homebrew/opt", "libpq"),
        ("/opt/homebrew/opt", "postgresql"),
        ("/usr/local/opt", "libpq"),
        ("/usr/local/opt", "postgresql"),
    ],
    package: "postgresql-client",
    how_to_install: "PostgreSQL's client `psql` (Debian and Ubuntu: `apt-get install postgresql-client`; \
        Fedora: `dnf install postgresql`; Homebrew: `brew install libpq`)",
};

/// MariaDB's; older releases call it `mysql`.
pub const MARIADB: Client = Client {
    names: &["mariadb", "mysql"],
    elsewhere: &[("/opt/homebrew/opt", "mariadb"), ("/usr/local/opt", "mariadb")],
    package: "mariadb-client",
    how_to_install: "MariaDB's client `mariadb` (Debian and Ubuntu: `apt-get install mariadb-client`; \
        Fedora: `dnf install mariadb`; Homebrew: `brew install mariadb`)",
};

/// MySQL's; MariaDB's talks to that server, too.
pub const MYSQL: Client = Client {
    names: &["mysql", "mariadb"],
    elsewhere: &[("/opt/homebrew/opt", "mysql"), ("/usr/local/opt", "mysql")],
    package: "mariadb-client",
    how_to_install: "MySQL's client `mysql`, or MariaDB's `mariadb` (Debian and Ubuntu: `apt-get install mariadb-client`; \
        Fedora: `dnf install mysql`; Homebrew: `brew install mysql-client`)",
};

/// The shell of SQLite.
pub const SQLITE3: Client = Client {
    names: &["sqlite3"],
    elsewhere: &[("/opt/homebrew/opt", "sqlite"), ("/usr/local/opt", "sqlite")],
    package: "sqlite3",
    how_to_install: "SQLite's shell `sqlite3` (Debian and Ubuntu: `apt-get install sqlite3`; Fedora: `dnf install sqlite`; \
        Homebrew: `brew install sqlite`)",
};

impl Client {
    /// Returns the path of the program.
    ///
    /// # Errors
    /// Fails when the program is missing, and says what to install.
    pub fn find(&self) -> Result<PathBuf> {
        let mut folders = usual_folders();
        folders.extend(self.elsewhere.iter().flat_map(|(parent, prefix)| versioned_folders(parent, prefix)));
        find(&folders, self.names)
            .ok_or_else(|| anyhow!("a client program is missing: install {}", self.how_to_install))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_is_missing_is_named_with_what_to_install() {
        let missing = Client { names: &["no-such-program"], elsewhere: &[], ..PSQL };
        let message = missing.find().map_err(|error| error.to_string()).unwrap_err();
        for word in ["psql", "apt-get install postgresql-client", "dnf install", "brew install"] {
            assert!(message.contains(word), "`{word}` is missing: {message}");
        }
    }
}
