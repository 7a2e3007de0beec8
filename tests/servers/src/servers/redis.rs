//! Private Redis servers from installed programs: one, or a cluster of three masters without or with a replica for each.
//!
//! Only the special parts of Redis are here; [`Server`] starts it, waits and stops it. By default
//! the servers write a log of every change, so that a `kill -9` of the server alone loses nothing.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;

use super::engine::Engine;
use super::place::Place;
use super::programs::{find, usual_folders};
use super::{Durability, Server, unstable};

/// The programs to install so that [`start`] and [`start_cluster`] work.
pub const HOW_TO_INSTALL: &str = "Redis's server program `redis-server`, version 7 or later (Debian and Ubuntu: \
    `apt-get install redis-server`; Fedora: `dnf install valkey`; Homebrew: `brew install redis`)";

/// The slots of a cluster.
const SLOTS: u16 = 16384;
const MASTERS: u16 = 3;

/// What a server writes to disk (`appendonly`, `appendfsync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// Nothing but the snapshots that a command asks for.
    Nothing,
    /// Every change, and the operating system decides when it reaches the disk.
    Unforced,
    /// Every change, forced to the disk each second. Meanwhile it may reply before it writes, so that a `kill -9` loses some
    /// changes.
    EverySecond,
    /// Every change, forced to the disk before the reply.
    Always,
}

/// Starts a server that loses its data when the machine crashes.
///
/// # Errors
/// Fails when the program is not installed, naming what to install, and when the server does not answer in time, with the end of
/// its log.
pub fn start() -> Result<Server> {
    start_with(Durability::Fast)
}

/// Starts a server with the wanted durability: the default one is `appendfsync everysec`.
///
/// # Errors
/// See [`start`].
pub fn start_with(durability: Durability) -> Result<Server> {
    start_logging(if durability == Durability::Fast { Log::Unforced } else { Log::EverySecond })
}

/// Starts a server that writes this to disk.
///
/// # Errors
/// See [`start`].
pub fn start_logging(log: Log) -> Result<Server> {
    start_one(log, Part::Alone)
}

/// True if [`start`] would find the program.
#[must_use]
pub fn is_installed() -> bool {
    program().is_some()
}

/// Three masters that share the slots, and behind them their replicas in the same order, where there are any. Dropping it stops
/// them.
pub struct Cluster {
    nodes: Vec<Server>,
    url: String,
}

impl Cluster {
    /// The URLs of its nodes, separated by commas.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its nodes.
    pub fn nodes(&mut self) -> &mut [Server] {
        &mut self.nodes
    }

    /// The folder that the program was found in.
    #[must_use]
    pub fn programs(&self) -> &Path {
        self.nodes.first().map_or(Path::new(""), Server::programs)
    }
}

/// Starts a cluster without replicas, and returns when every node knows that it is complete.
///
/// # Errors
/// See [`start`].
pub fn start_cluster() -> Result<Cluster> {
    start_nodes(MASTERS, Part::Node)
}

/// Starts a cluster with a replica for each master, which is promoted two or three seconds after the end of the master. Returns
/// when every node knows all of that, and every replica has what its master has.
///
/// # Errors
/// See [`start`].
pub fn start_cluster_with_replicas() -> Result<Cluster> {
    let cluster = start_nodes(2 * MASTERS, Part::HastyNode)?;
    let (masters, replicas) = cluster.nodes.split_at(usize::from(MASTERS));
    for (master, replica) in masters.iter().zip(replicas) {
        let id = ask(master.port(), &["CLUSTER", "MYID"])?;
        ask(replica.port(), &["CLUSTER", "REPLICATE", &id])?;
    }
    for replica in replicas {
        wait_until(replica.port(), &["INFO", "replication"], |info| info.contains("master_link_status:up"))?;
    }
    for node in &cluster.nodes {
        wait_until(node.port(), &["CLUSTER", "NODES"], |nodes| nodes.matches("slave ").count() == replicas.len())?;
    }
    Ok(cluster)
}

fn start_nodes(count: u16, part: Part) -> Result<Cluster> {
    let nodes = (0..count).map(|_| start_one(Log::Unforced, part)).collect::<Result<Vec<_>>>()?;
    let share = SLOTS / MASTERS;
    let first = nodes.first().context("a cluster has nodes")?.port();
    for (number, node) in (0..count).zip(&nodes) {
        ask(node.port(), &["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()])?;
        if number < MASTERS {
            let last = if number + 1 == MASTERS { SLOTS - 1 } else { (number + 1) * share - 1 };
            ask(node.port(), &["CLUSTER", "ADDSLOTSRANGE", &(number * share).to_string(), &last.to_string()])?;
        }
        if number > 0 {
            let (port, bus) = (first.to_string(), bus_port(first).to_string());
            ask(node.port(), &["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
        }
    }
    let known = format!("cluster_known_nodes:{count}");
    for node in &nodes {
        wait_until(node.port(), &["CLUSTER", "INFO"], |info| {
            let says = |line: &str| info.lines().any(|other| other.trim() == line);
            says("cluster_state:ok") && says(&known) && says("cluster_size:3")
        })?;
    }
    let urls: Vec<&str> = nodes.iter().map(Server::url).collect();
    let url = urls.join(",");
    Ok(Cluster { nodes, url })
}

fn start_one(log: Log, part: Part) -> Result<Server> {
    let (root, program) =
        program().with_context(|| format!("no Redis server is installed: install {HOW_TO_INSTALL}"))?;
    let accounts = if root.is_some() { unstable::ACCOUNTS } else { &["redis", "nobody"] };
    Server::start(Box::new(Redis { root, program, log, part }), accounts)
}

/// Returns the program, and the folder that it sees as `/` if it is another one.
fn program() -> Option<(Option<PathBuf>, PathBuf)> {
    if unstable::is_wanted() {
        let root = unstable::folder()?;
        let program = unstable::program(&root, "/usr/bin/valkey-server")?;
        return Some((Some(root), program));
    }
    Some((None, find(&usual_folders(), &["redis-server", "valkey-server"])?))
}

/// Whether a server belongs to a cluster.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Alone,
    Node,
    /// A node that soon takes others for dead: where it is waited for.
    HastyNode,
}

struct Redis {
    root: Option<PathBuf>,
    program: PathBuf,
    log: Log,
    part: Part,
}

impl Engine for Redis {
    fn name(&self) -> &'static str {
        "Redis"
    }

    fn programs(&self) -> &Path {
        self.root().or_else(|| self.program.parent()).unwrap_or(&self.program)
    }

    fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    fn url(&self, port: u16) -> String {
        format!("redis://127.0.0.1:{port}")
    }

    fn initialise(&self, place: &Place) -> Result<Command> {
        let mut command = place.command(Path::new("mkdir"));
        command.arg(place.data());
        Ok(command)
    }

    fn serve(&self, place: &Place, port: u16) -> Command {
        let mut command = place.command(&self.program);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""]);
        // A replica gets everything at once, without the usual wait of five seconds for further replicas.
        command.args(["--repl-diskless-sync-delay", "0"]);
        match self.log {
            Log::Nothing => command.args(["--appendonly", "no"]),
            Log::Unforced => command.args(["--appendonly", "yes", "--appendfsync", "no"]),
            Log::EverySecond => command.args(["--appendonly", "yes", "--appendfsync", "everysec"]),
            Log::Always => command.args(["--appendonly", "yes", "--appendfsync", "always"]),
        };
        command.arg("--dir").arg(place.data());
        if self.part != Part::Alone {
            command.args(["--cluster-enabled", "yes", "--cluster-port", &bus_port(port).to_string()]);
        }
        if self.part == Part::HastyNode {
            command.args(["--cluster-node-timeout", "2000"]);
        }
        command
    }

    fn check_session(&self, place: &Place, port: u16) -> Result<()> {
        let answer = ask(port, &["CONFIG", "GET", "dir"])?;
        // No other server has this directory.
        ensure!(answer.contains(&*place.data().to_string_lossy()), "another program answers: {}", answer.trim());
        Ok(())
    }

    fn graceful(&self) -> Signal {
        Signal::TERM
    }

    fn discard(&self) -> (Signal, &'static str) {
        (Signal::KILL, "KILL")
    }
}

/// Where the nodes of a cluster talk to each other: as far away as usual, in the direction in which there are ports.
fn bus_port(port: u16) -> u16 {
    port.checked_add(10_000).unwrap_or(port - 10_000)
}

fn wait_until(port: u16, question: &[&str], is_so: impl Fn(&str) -> bool) -> Result<()> {
    let begin = Instant::now();
    loop {
        let answer = ask(port, question)?;
        if is_so(&answer) {
            return Ok(());
        }
        if begin.elapsed() > Duration::from_secs(60) {
            bail!("the cluster is not complete; {} says: {answer}", question.join(" "));
        }
        sleep(Duration::from_millis(50));
    }
}

/// Sends one command and returns the lines of the reply.
fn ask(port: u16, words: &[&str]) -> Result<String> {
    let limit = Duration::from_secs(5);
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), limit)?;
    stream.set_read_timeout(Some(limit))?;
    let mut command = format!("*{}\r\n", words.len());
    for word in words {
        command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(command.as_bytes())?;
    let mut reader = BufReader::new(stream);
    read(&mut reader)
}

fn read(reader: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    ensure!(reader.read_line(&mut line)? > 0, "it closed the connection");
    let rest = line.trim_end().get(1..).unwrap_or_default().to_owned();
    match line.as_bytes().first() {
        Some(b'$') => {
            let mut text = vec![0; rest.parse::<usize>().context("a length")? + 2];
            reader.read_exact(&mut text)?;
            Ok(String::from_utf8_lossy(&text).trim_end().to_owned())
        }
        Some(b'*') => {
            let count: usize = rest.parse().context("a number of answers")?;
            Ok((0..count).map(|_| read(reader)).collect::<Result<Vec<_>>>()?.join("\n"))
        }
        Some(b'-') => bail!("it answers: {rest}"),
        _ => Ok(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_in_each_of_its_forms() -> Result<()> {
        let read = |text: &str| read(&mut text.as_bytes());
        assert_eq!(read("+OK\r\n")?, "OK");
        assert_eq!(read("*2\r\n$3\r\ndir\r\n$4\r\n/tmp\r\n")?, "dir\n/tmp");
        assert!(read("-ERR no\r\n").is_err() && read("").is_err());
        Ok(())
    }

    #[test]
    fn a_bus_has_a_port_of_its_own() {
        assert_eq!((bus_port(30_000), bus_port(60_000)), (40_000, 50_000));
    }
}
