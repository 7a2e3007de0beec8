//! Runs a server of any product: starts it on a free port, waits until it responds, restarts and stops it.

use std::path::Path;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::engine::{Engine, Way};
use super::place::{Place, free_port};
use super::processes::kill_with_children;
use super::watchdog::Watchdog;

/// A running private server. Dropping it stops it and removes its directory.
///
/// Its methods block; in an asynchronous test call them on a thread for blocking work. When this
/// process is killed, so that nothing is dropped, a small shell that waits for this stops the
/// server and removes the directory.
pub struct Server {
    engine: Box<dyn Engine>,
    /// `None` once stopped for good.
    place: Option<Place>,
    watchdog: Watchdog,
    /// `None` while the server is down.
    child: Option<Child>,
    port: u16,
    url: String,
}

/// How a server ends before it is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// An orderly shutdown, which ends the clients' sessions, as an administrator does it.
    Graceful,
    /// `kill -9` of the server and its children, as in a crash. Committed transactions are kept.
    Kill,
}

/// Why a server does not run. For one of the reasons, another port helps.
enum Trouble {
    PortTaken,
    Other(anyhow::Error),
}

/// A first start takes a second or two; a loaded machine gets much more.
const TIME_TO_ANSWER: Duration = Duration::from_secs(240);
const TIME_TO_END: Duration = Duration::from_secs(60);

impl Server {
    /// The URL, of the empty database `notify` where it is a database. It stays the same over a restart.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The TCP port on 127.0.0.1. It stays the same over a restart.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process number of the server, or `None` while it is down.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The directory with everything that the server has written.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.place.as_ref().map_or(Path::new(""), Place::directory)
    }

    /// The folder that the server's program was found in.
    #[must_use]
    pub fn programs(&self) -> &Path {
        self.engine.programs()
    }

    /// Runs SQL over TCP in the database `notify` through the product's own client program, and
    /// returns what it prints: a line per row, without headings.
    ///
    /// # Errors
    /// Fails with the client's message when the server does not answer or refuses the statement, and when it is no database.
    pub fn query(&self, sql: &str) -> Result<String> {
        self.ask(Way::Tcp, sql)
    }

    /// Ends the server and starts it again with its data, on its port.
    ///
    /// # Errors
    /// As in [`Server::shut_down`] and [`Server::start_again`].
    pub fn restart(&mut self, ending: Ending) -> Result<()> {
        self.shut_down(ending)?;
        self.start_again()
    }

    /// Ends the server and leaves it down, for a test of an outage. It is no error when it is down
    /// already.
    ///
    /// # Errors
    /// Fails when an orderly shutdown does not end in time; the server is then killed.
    pub fn shut_down(&mut self, ending: Ending) -> Result<()> {
        match ending {
            Ending::Kill => self.kill(),
            Ending::Graceful => {
                self.send(self.engine.graceful())?;
                if self.has_ended_within(TIME_TO_END)? {
                    return Ok(());
                }
                self.kill()?;
                bail!("{} did not shut down within {TIME_TO_END:?} and was killed", self.engine.name());
            }
        }
    }

    /// Starts the server after [`Server::shut_down`], and returns when it answers.
    ///
    /// # Errors
    /// Fails when it runs already, when another program has taken its port, and when it does not
    /// answer in time, with the end of its log.
    pub fn start_again(&mut self) -> Result<()> {
        ensure!(self.has_ended()?, "{} runs already", self.engine.name());
        match self.launch() {
            Ok(()) => Ok(()),
            Err(Trouble::Other(error)) => Err(error),
            Err(Trouble::PortTaken) => {
                bail!("another program took port {} while {} was down", self.port, self.engine.name())
            }
        }
    }

    /// Stops the server for good and removes its directory. Dropping does the same, but can only
    /// print a failure.
    ///
    /// # Errors
    /// Fails when the process cannot be ended or the directory cannot be removed.
    pub fn stop(mut self) -> Result<()> {
        self.discard()
    }

    /// Makes the data directory and starts the server on a free port.
    pub(super) fn start(engine: Box<dyn Engine>, accounts: &[&str]) -> Result<Self> {
        let place = Place::new(accounts, engine.root())?;
        let watchdog = Watchdog::over_server(engine.discard().1, place.directory().as_os_str())?;
        let mut server = Self { engine, place: Some(place), watchdog, child: None, port: 0, url: String::new() };
        server.initialise()?;
        // Between asking for a free port and using it, another program may take it.
        for _ in 0..10 {
            server.port = free_port()?;
            server.url = server.engine.url(server.port);
            match server.launch() {
                Ok(()) => return Ok(server),
                Err(Trouble::PortTaken) => {}
                Err(Trouble::Other(error)) => return Err(error),
            }
        }
        bail!("{} found ten ports taken in a row", server.engine.name())
    }

    fn initialise(&self) -> Result<()> {
        let (place, name) = (self.place()?, self.engine.name());
        let status = place
            .in_background(self.engine.initialise(place)?)?
            .status()
            .with_context(|| format!("cannot run the program that makes {name}'s data directory"))?;
        ensure!(
            status.success(),
            "cannot make {name}'s data directory ({status}); its log ends with:\n{}",
            place.log_tail()
        );
        Ok(())
    }

    /// Starts the process and waits until it answers. When it does not, it is down afterwards.
    fn launch(&mut self) -> Result<(), Trouble> {
        let place = self.place()?;
        let log_before = place.log_length();
        let mut command = place.in_background(self.engine.serve(place, self.port))?;
        let child = command.spawn().with_context(|| format!("cannot start {}", self.engine.name()))?;
        let process = child.id();
        self.child = Some(child);
        self.watchdog.watch(process)?;
        let Err(error) = self.wait_until_it_answers() else {
            return Ok(());
        };
        self.kill()?;
        // All products print the operating system's error text.
        let port_taken = self.place()?.log_since(log_before).to_lowercase().contains("address already in use");
        Err(if port_taken { Trouble::PortTaken } else { Trouble::Other(error) })
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let name = self.engine.name();
        let begin = Instant::now();
        while let Err(error) = self.knock() {
            ensure!(
                !self.has_ended()?,
                "{name} ended instead of serving; its log ends with:\n{}",
                self.place()?.log_tail()
            );
            if begin.elapsed() > TIME_TO_ANSWER {
                bail!(
                    "{name} did not answer within {TIME_TO_ANSWER:?} ({error:#}); its log ends with:\n{}",
                    self.place()?.log_tail()
                );
            }
            sleep(Duration::from_millis(20));
        }
        // Then by the URL. The database is missing after the first start only.
        if self.is_database()? && self.ask(Way::Tcp, "SELECT 1").is_err() {
            self.ask(Way::Socket, "CREATE DATABASE notify")?;
            self.ask(Way::Tcp, "SELECT 1")?;
        }
        Ok(())
    }

    /// Checks that our server responds: a database over its socket, which no other server has.
    fn knock(&self) -> Result<()> {
        if self.is_database()? {
            return self.ask(Way::Socket, "SELECT 1").map(drop);
        }
        self.engine.check_session(self.place()?, self.port)
    }

    fn is_database(&self) -> Result<bool> {
        Ok(self.engine.ask(self.place()?, self.port, Way::Socket, "").is_some())
    }

    fn ask(&self, way: Way, sql: &str) -> Result<String> {
        let name = self.engine.name();
        let mut command = self
            .engine
            .ask(self.place()?, self.port, way, sql)
            .with_context(|| format!("{name} is no database, and knows no SQL"))?;
        let output = command.output().with_context(|| format!("cannot run {name}'s client program"))?;
        ensure!(
            output.status.success(),
            "{name}'s client program says: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    fn place(&self) -> Result<&Place> {
        self.place.as_ref().context("the server was stopped for good")
    }

    fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            // An error means that it has ended by itself, which the caller detects next.
            let _ = kill_process(Pid::from_child(child), signal);
        }
    }

    /// Begins the shutdown. A kill includes the children.
    fn send(&mut self, signal: Signal) -> Result<()> {
        if signal == Signal::KILL {
            return self.kill();
        }
        self.signal(signal);
        Ok(())
    }

    fn kill(&mut self) -> Result<()> {
        if let Some(child) = &self.child {
            kill_with_children(Pid::from_child(child));
        }
        ensure!(self.has_ended_within(TIME_TO_END)?, "{} cannot be killed", self.engine.name());
        Ok(())
    }

    /// Whether the process is down. This reaps it, so that its number is forgotten at the same
    /// time.
    fn has_ended(&mut self) -> Result<bool> {
        if let Some(child) = &mut self.child {
            if child.try_wait().context("cannot ask whether a server has ended")?.is_none() {
                return Ok(false);
            }
            self.child = None;
            self.watchdog.unwatch()?;
        }
        Ok(true)
    }

    fn has_ended_within(&mut self, limit: Duration) -> Result<bool> {
        let begin = Instant::now();
        while !self.has_ended()? {
            if begin.elapsed() > limit {
                return Ok(false);
            }
            sleep(Duration::from_millis(5));
        }
        Ok(true)
    }

    fn discard(&mut self) -> Result<()> {
        let Some(place) = self.place.take() else {
            return Ok(());
        };
        self.send(self.engine.discard().0)?;
        if !self.has_ended_within(Duration::from_secs(10))? {
            self.kill()?;
        }
        place.remove()?;
        self.watchdog.dismiss()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.discard() {
            eprintln!("stopping a private {} server failed: {error:#}", self.engine.name());
        }
    }
}

impl From<anyhow::Error> for Trouble {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}
