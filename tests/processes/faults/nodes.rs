//! The processes: a producer, which also sends, and sweepers. Each start gets a name of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use test_support::journal::{Event, Journal};
use test_support::sending::PATIENCE;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use crate::faults::injected::Fault;

/// The role of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Producer,
    Sweeper,
    /// A sweeper whose clock is so many seconds off.
    WithWrongClock(i32),
}

/// The running processes, and the names of the ended ones.
pub struct Nodes {
    directory: PathBuf,
    url: String,
    journal: Journal,
    /// The library that shifts a clock.
    wrong_clock: PathBuf,
    running: Vec<Node>,
    dead: Vec<String>,
    started: usize,
}

struct Node {
    name: String,
    role: Role,
    child: Child,
}

impl Nodes {
    pub fn new(directory: &Path, url: String) -> Self {
        let wrong_clock = directory.join("wrong_clock.so");
        if Fault::WrongClocks.is_possible() {
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/faults/wrong_clock.c");
            let mut compiler = std::process::Command::new("cc");
            compiler.args(["-shared", "-fPIC", "-o"]).arg(&wrong_clock).arg(source);
            assert!(compiler.status().expect("a C compiler, which SQLite needs, too").success());
        }
        Self {
            directory: directory.to_owned(),
            url,
            journal: Journal::open(&directory.join("journal")),
            wrong_clock,
            running: Vec::new(),
            dead: Vec::new(),
            started: 0,
        }
    }

    /// Starts a process; returns its name.
    pub fn start(&mut self, role: Role) -> String {
        self.started += 1;
        let (letter, word) = match role {
            Role::Producer => ('p', "producer"),
            Role::Sweeper => ('s', "sweeper"),
            Role::WithWrongClock(_) => ('c', "sweeper"),
        };
        let name = format!("{letter}{}", self.started);
        let log = std::fs::File::create(self.log_of(&name)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_notify-node"));
        command.args([&*name, word]).env("NOTIFY_NODE_URL", &self.url).current_dir(&self.directory);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        if let Role::WithWrongClock(seconds) = role {
            command.env("LD_PRELOAD", &self.wrong_clock).env("NOTIFY_CLOCK_SHIFT", seconds.to_string());
        }
        self.running.push(Node { name: name.clone(), role, child: command.spawn().unwrap() });
        name
    }

    fn log_of(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.log"))
    }

    /// Kills one process of a role; returns its name.
    pub async fn kill(&mut self, role: Role) -> String {
        let of_role: Vec<usize> = (0..self.running.len()).filter(|at| self.running[*at].role == role).collect();
        let mut node = self.running.swap_remove(of_role[fastrand::usize(..of_role.len())]);
        node.child.kill().await.unwrap();
        self.journal.add(&Event::Killed { node: node.name.clone() });
        self.dead.push(node.name.clone());
        node.name
    }

    /// The names of the killed.
    pub fn dead(&self) -> &[String] {
        &self.dead
    }

    /// Writes a line to every process.
    pub async fn tell(&mut self, order: &str) {
        for node in &mut self.running {
            let input = node.child.stdin.as_mut().unwrap();
            input.write_all(format!("{order}\n").as_bytes()).await.expect("no process ends by itself");
        }
    }

    /// Names the processes that have ended without a request, with the end of their logs.
    pub fn fallen(&mut self) -> Vec<String> {
        let fallen = self.running.iter_mut().filter_map(|node| {
            let status = node.child.try_wait().unwrap()?;
            Some((node.name.clone(), status))
        });
        let fallen: Vec<_> = fallen.collect();
        fallen
            .into_iter()
            .map(|(name, status)| format!("{name} ended ({status}):\n{}", self.last_words(&name)))
            .collect()
    }

    /// Stops them in good order.
    pub async fn stop(&mut self) {
        self.tell("stop").await;
        for mut node in std::mem::take(&mut self.running) {
            // Waiting would close it, and a process without input ends at once.
            let _input = node.child.stdin.take();
            let ended = tokio::time::timeout(PATIENCE, node.child.wait()).await;
            let status = ended.unwrap_or_else(|_| panic!("{} does not stop", node.name)).unwrap();
            assert!(status.success(), "{} ended with {status}:\n{}", node.name, self.last_words(&node.name));
        }
    }

    /// Returns the ends of all logs that are not empty.
    pub fn logs(&self) -> String {
        let names = (1..=self.started).flat_map(|n| ['p', 's', 'c'].map(|letter| format!("{letter}{n}")));
        let words = names.map(|name| (self.last_words(&name), name)).filter(|(words, _)| !words.is_empty());
        words.map(|(words, name)| format!("--- {name}\n{words}\n")).collect()
    }

    /// Removes the lines that every failure and every kill logs.
    fn last_words(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.log_of(name)).unwrap_or_default();
        let is_usual = |line: &&str| line.contains("an attempt failed") || line.contains("the lease expired");
        let lines: Vec<&str> = text.lines().filter(|line| !is_usual(line)).collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }
}
