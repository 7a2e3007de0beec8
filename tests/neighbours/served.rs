//! A running process, `solid-notify serve` or an application with the library: its start, its memory, its end.

use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use test_support::sending::PATIENCE;
use tokio::process::{Child, ChildStderr, Command};

use crate::http::client;
use crate::site::Site;
use crate::store::Store;

/// The usual level, and each try to store a reply, which is a warning once a minute.
const LOG: &str = "info,solid_notify_channels::amqp::replies=debug";

/// The program of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Program {
    #[default]
    Serve,
    /// `embedding.rs`.
    Application,
}

/// What a run changes of a usual start.
#[derive(Debug, Clone, Default)]
pub struct Start {
    pub program: Program,
    /// The URL of another database of `serve`.
    pub other: Option<String>,
    /// The log has each step, and its reader sleeps.
    pub log_is_unread: bool,
    /// A library that stands before the C library.
    pub preloaded: Option<PathBuf>,
}

/// The process. It ends with the test.
pub struct Served {
    pub address: SocketAddr,
    child: Child,
    _unread: Option<ChildStderr>,
}

impl Served {
    /// Starts it in the folder of the site, where its log goes, too, and waits until it is ready.
    pub async fn start<S: Store>(site: &Site<S>, change: &Start) -> Self {
        let folder = site.folder.path();
        // A port that was free a moment ago.
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = match change.program {
            Program::Serve => {
                site.configure(change.other.as_deref());
                let mut serve = Command::new(env!("CARGO_BIN_EXE_notify-served"));
                serve.arg("serve").arg("--config").arg(site.path("serve.toml"));
                serve.arg("--listen").arg(address.to_string());
                serve
            }
            Program::Application => {
                let mut application = Command::new(env!("CARGO_BIN_EXE_notify-embedding"));
                application.args([site.store.url(), address.to_string()]).arg(folder).arg(&site.brokers.name);
                application
            }
        };
        for variable in ["URL", "CONFIG", "LISTEN", "NODE", "LOG", "CONTEXT"] {
            command.env_remove(format!("SOLID_NOTIFY_{variable}"));
        }
        // The traces of panics take as much memory as the debug information of the program.
        command.env("RUST_BACKTRACE", "0");
        command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        if change.log_is_unread {
            command.env("SOLID_NOTIFY_LOG", "trace").stderr(Stdio::piped());
        } else {
            command.env("SOLID_NOTIFY_LOG", LOG).stderr(File::create(folder.join("log")).unwrap());
        }
        if let Some(library) = &change.preloaded {
            command.env("LD_PRELOAD", library);
        }
        let mut child = command.spawn().unwrap();
        let unread = child.stderr.take();
        let mut served = Self { address, child, _unread: unread };
        while served.get("/readyz/shop").await.is_none_or(|answer| answer.0 != 200) {
            let ended = served.child.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {:?}", std::fs::read_to_string(folder.join("log")));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        served
    }

    /// Returns status and body. `None`: there is no answer.
    pub async fn get(&self, path: &str) -> Option<(u16, String)> {
        let response = client().get(format!("http://{}{path}", self.address)).timeout(Duration::from_secs(10));
        let response = response.send().await.ok()?;
        Some((response.status().as_u16(), response.text().await.ok()?))
    }

    /// The most memory that it has had so far, in KiB.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id().unwrap())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
        peak.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Sends SIGTERM. Returns how long the end took, and the exit code.
    pub async fn stop(mut self) -> (Duration, Option<i32>) {
        let pid = self.child.id().unwrap().to_string();
        let began = Instant::now();
        assert!(std::process::Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap();
        (began.elapsed(), ended.code())
    }
}
