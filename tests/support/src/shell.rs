//! The client programs of the databases, `psql`, `mariadb` or `mysql`, `sqlite3`: scripts are fed to them as people do.
//!
//! A missing program fails its tests. `xtask` finds and installs the programs.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use percent_encoding::percent_decode_str;
use sqlx::ConnectOptions;
use sqlx::mysql::MySqlConnectOptions;
use test_servers::clients::{Client, PSQL, SQLITE3};

use crate::Database;
use crate::databases::{Cleanup, server_url};

/// A session of a client program that is to be started.
pub struct Shell(Command);

/// The result of a script.
#[derive(Debug)]
pub struct Said {
    /// Whether the program ended with success. Like a person's script, it stops at the first error.
    pub ok: bool,
    /// What it printed: values only.
    pub out: String,
    /// Its standard error.
    pub complaint: String,
}

impl Shell {
    /// The client of a test's database, in it.
    pub fn new<D: Database>(database: &Cleanup) -> Self {
        match database {
            Cleanup::Directory(directory) => Self::sqlite(&directory.path().join("test.db")),
            Cleanup::Schema(_, schema) => Self::psql().env("PGOPTIONS", &format!("-c search_path={schema}")),
            Cleanup::Database(server, name) => Self::mysql(D::CLIENT, server).arg(name),
        }
    }

    /// `psql` in no particular schema.
    pub fn psql() -> Self {
        Self::of(&PSQL)
            .args(&["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set", "ON_ERROR_STOP=1"])
            .args(&["--file", "-", "--dbname", &server_url("POSTGRES_URL")])
            .env("PGCLIENTENCODING", "UTF8")
    }

    /// `mariadb` or `mysql` in no particular database.
    pub fn mysql(client: &Client, server: &MySqlConnectOptions) -> Self {
        let url = server.to_url_lossy();
        let password = percent_decode_str(url.password().unwrap_or_default()).decode_utf8().unwrap();
        Self::of(client)
            .args(&["--no-defaults", "--batch", "--skip-column-names", "--raw", "--default-character-set=utf8mb4"])
            .args(&["--protocol=tcp", "--host", server.get_host(), "--port", &server.get_port().to_string()])
            .args(&["--user", server.get_username()])
            .env("MYSQL_PWD", &password)
    }

    /// `sqlite3` on a file.
    fn sqlite(file: &Path) -> Self {
        // The tests' own writers may have the lock.
        Self::of(&SQLITE3).args(&["-batch", "-bail", "-cmd", ".timeout 60000"]).arg(&file.to_string_lossy())
    }

    fn of(client: &Client) -> Self {
        let program = client
            .find()
            .unwrap_or_else(|missing| panic!("{missing}; or run `cargo xtask test`, which installs it where it can"));
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            // These would lead to another server, or change the printout.
            if ["PG", "MYSQL_", "MARIADB_"].iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(&name);
            }
        }
        Self(command)
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, argument: &str) -> Self {
        self.0.arg(argument);
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args(mut self, arguments: &[&str]) -> Self {
        self.0.args(arguments);
        self
    }

    /// A variable of the program's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.0.env(name, value);
        self
    }

    /// Feeds it a script and waits for its end.
    pub fn run(self, script: impl AsRef<[u8]>) -> Said {
        let mut command = self.0;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program that stops at an error does not read the rest.
        let _ = child.stdin.take().unwrap().write_all(script.as_ref());
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim_end().to_owned();
        Said { ok: output.status.success(), out: text(output.stdout), complaint: text(output.stderr) }
    }
}

impl Said {
    /// Returns its output. Fails when the script failed.
    #[track_caller]
    pub fn well(self) -> String {
        assert!(self.ok, "{}", self.complaint);
        self.out
    }

    /// Returns its standard error. Fails when the script succeeded.
    #[track_caller]
    pub fn refused(self) -> String {
        assert!(!self.ok, "it was accepted: {}", self.out);
        self.complaint
    }
}
