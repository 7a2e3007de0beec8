//! A private NATS server with JetStream from installed programs, without accounts or with one.
//!
//! Only the special parts of NATS are here; [`Server`] starts it, waits and stops it.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::Server;
use super::engine::Engine;
use super::place::Place;
use super::programs::{find, usual_folders};

/// The program to install so that [`start`] works.
pub const HOW_TO_INSTALL: &str = "the NATS server, `nats-server` (Debian and Ubuntu: `apt-get install nats-server`; \
    Homebrew: `brew install nats-server`)";

/// Starts a server.
///
/// # Errors
/// Fails when the program is not installed, naming what to install, and when the server does not answer in time, with the end of
/// its log.
pub fn start() -> Result<Server> {
    start_as(None)
}

/// Starts a server that asks for this user and password.
///
/// # Errors
/// See [`start`].
pub fn start_with_account(user: &str, password: &str) -> Result<Server> {
    start_as(Some([user.to_owned(), password.to_owned()]))
}

fn start_as(account: Option<[String; 2]>) -> Result<Server> {
    let program = program().with_context(|| format!("no NATS server is installed: install {HOW_TO_INSTALL}"))?;
    Server::start(Box::new(Nats { program, account }), &["nats", "nobody"])
}

/// True if [`start`] would find the program.
#[must_use]
pub fn is_installed() -> bool {
    program().is_some()
}

fn program() -> Option<PathBuf> {
    find(&usual_folders(), &["nats-server"])
}

struct Nats {
    program: PathBuf,
    /// User and password.
    account: Option<[String; 2]>,
}

impl Engine for Nats {
    fn name(&self) -> &'static str {
        "NATS"
    }

    fn programs(&self) -> &Path {
        self.program.parent().unwrap_or(&self.program)
    }

    fn url(&self, port: u16) -> String {
        format!("nats://127.0.0.1:{port}")
    }

    fn initialise(&self, place: &Place) -> Result<Command> {
        let mut command = place.command(Path::new("mkdir"));
        command.arg(place.data());
        Ok(command)
    }

    fn serve(&self, place: &Place, port: u16) -> Command {
        let mut command = place.command(&self.program);
        command.args(["--addr", "127.0.0.1", "--port", &port.to_string(), "--name", &node(port)]);
        command.arg("--jetstream").arg("--store_dir").arg(place.data());
        if let Some([user, password]) = &self.account {
            command.args(["--user", user, "--pass", password]);
        }
        command
    }

    fn check_session(&self, _place: &Place, port: u16) -> Result<()> {
        // The greeting contains the name of the server, which no other server has.
        ensure!(greeting(port)?.contains(&node(port)), "another program answers");
        Ok(())
    }

    fn graceful(&self) -> Signal {
        Signal::TERM
    }

    fn discard(&self) -> (Signal, &'static str) {
        (Signal::KILL, "KILL")
    }
}

fn node(port: u16) -> String {
    format!("notify-{port}")
}

/// Returns what the server on this port of 127.0.0.1 says to a client: the line `INFO {…}`.
pub(super) fn greeting(port: u16) -> Result<String> {
    let limit = Duration::from_secs(5);
    let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), limit)?;
    stream.set_read_timeout(Some(limit))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    ensure!(line.starts_with("INFO "), "its first line is not that of a NATS server");
    Ok(line)
}
