//! The processes of the demo: commands, and `serve`. They are this program, as a person would start it.

use std::fs::{File, OpenOptions};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};

use super::screen::{Party, command};
use crate::exit::{Exit, Failure, Outcome};

/// The database of shop and program.
pub(super) const DATABASE: &str = "shop.db";
/// The log of `serve`.
pub(super) const LOG: &str = "serve.log";

/// No step takes as long as this.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// Secrets of the demo live as long as its processes.
const TOKEN_KEY: &str = "the key of a demo, which protects nothing";

/// Starts processes in the folder of the demo.
pub(super) struct Programs {
    program: PathBuf,
    folder: PathBuf,
    /// Where `serve` listens.
    address: SocketAddr,
    chat: String,
}

impl Programs {
    /// Writes the files of the demo.
    pub(super) fn new(folder: &Path, address: SocketAddr, receiving: SocketAddr) -> Outcome<Self> {
        let program = std::env::current_exe().map_err(|error| Failure::cannot("find this program", error))?;
        let write = |name: &str, text: String| {
            std::fs::write(folder.join(name), text)
                .map_err(|error| Failure::cannot("write the files of the demo", error))
        };
        write("shop.toml", include_str!("shop.toml").replace("RECEIVER", &receiving.to_string()))?;
        write("serve.toml", include_str!("serve.toml").replace("LISTEN", &address.to_string()))?;
        Ok(Self { program, folder: folder.to_owned(), address, chat: format!("http://{receiving}/chat") })
    }

    /// Returns the file of definitions.
    pub(super) fn definitions(&self) -> Outcome<String> {
        std::fs::read_to_string(self.folder.join("shop.toml"))
            .map_err(|error| Failure::cannot("read the definitions", error))
    }

    /// Shows a command, runs it, and fails if it fails.
    pub(super) async fn run(&self, arguments: &[&str]) -> Outcome<()> {
        command(arguments)?;
        let ended = self.command(arguments).status().await.map_err(|error| Failure::cannot("run a command", error))?;
        match ended.success() {
            true => Ok(()),
            false => Err(Failure::new(Exit::Failed, format!("this command ended with {ended}"))),
        }
    }

    /// Starts `serve`, and waits until it is ready.
    pub(super) async fn serve(&self) -> Outcome<Serve> {
        let arguments = ["serve", "--config", "serve.toml"];
        command(&arguments)?;
        let log = OpenOptions::new().create(true).append(true).open(self.folder.join(LOG));
        let log: File = log.map_err(|error| Failure::cannot("open the log", error))?;
        let began = Instant::now();
        let child =
            self.command(&arguments).stderr(log).spawn().map_err(|error| Failure::cannot("start serve", error))?;
        let mut serve = Serve { child };
        let ready = format!("http://{}/readyz", self.address);
        let client = reqwest::Client::new();
        loop {
            if client.get(&ready).send().await.is_ok_and(|response| response.status().is_success()) {
                Party::Serve.does(&format!("is ready after {} ms", began.elapsed().as_millis()))?;
                return Ok(serve);
            }
            let ended = serve.child.try_wait().map_err(|error| Failure::cannot("look at serve", error))?;
            if ended.is_some() || began.elapsed() > LIMIT {
                return Err(Failure::new(Exit::Failed, "serve does not become ready"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null()).kill_on_drop(true);
        for variable in ["CONTEXT", "CONTEXTS", "CONFIG", "LISTEN", "NODE", "LOG"] {
            command.env_remove(format!("SOLID_NOTIFY_{variable}"));
        }
        command.env("SOLID_NOTIFY_URL", format!("sqlite://{}?mode=rwc", self.folder.join(DATABASE).display()));
        command.env("SOLID_NOTIFY_WHO", "demo").env("DEMO_CHAT_URL", &self.chat).env("DEMO_TOKEN_KEY", TOKEN_KEY);
        command
    }
}

/// A running `serve`.
pub(super) struct Serve {
    child: Child,
}

impl Serve {
    /// Ends it as `kill -9` does.
    pub(super) async fn kill(mut self) -> Outcome<()> {
        self.child.kill().await.map_err(|error| Failure::cannot("kill serve", error))
    }

    /// Asks it to end, and waits until it has.
    pub(super) async fn stop(mut self) -> Outcome<()> {
        #[cfg(unix)]
        if let Some(pid) = self.child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())) {
            let asked = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            asked.map_err(|error| Failure::cannot("stop serve", error))?;
            let ended = self.child.wait().await.map_err(|error| Failure::cannot("wait for serve", error))?;
            return match ended.success() {
                true => Ok(()),
                false => Err(Failure::new(Exit::Failed, format!("serve ended with {ended}"))),
            };
        }
        self.kill().await
    }
}

/// Returns an address of this machine that no program listens on.
pub(super) fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}
