//! The program's `serve` as a process: its file, its log, its readiness; and a receiver of what it sends.

use std::collections::BTreeSet;
use std::fs::File;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use serde_json::Value;
use solid_notify::{ConnectedOutbox, NewNotice, NotifyDef};
use tempfile::TempDir;
use test_support::sending::eventually;
use tokio::process::{Child, Command};

/// A running `serve` with one database, `shop`. It ends with the test.
pub struct Served {
    folder: TempDir,
    child: Child,
    address: String,
}

/// What `/readyz/shop` says.
#[derive(Debug, PartialEq)]
pub struct Readiness {
    pub ready: bool,
    pub sending: bool,
    pub problem: String,
}

impl Served {
    /// Starts it with a database, and waits until it listens.
    pub async fn start(url: &str) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), &format!("url = '{url}'"), |_| {}).await
    }

    /// As [`Self::start`], with its file and its log in this folder, and with these lines about the database in its file. `change` changes the command.
    pub async fn start_in(folder: TempDir, database: &str, change: impl FnOnce(&mut Command)) -> Self {
        write(&folder, database);
        let mut program = Command::new(env!("CARGO_BIN_EXE_notify-program"));
        program.arg("serve").arg("--config").arg(folder.path().join("serve.toml")).stdin(Stdio::null());
        program.stdout(Stdio::null()).stderr(File::create(folder.path().join("log")).unwrap()).kill_on_drop(true);
        change(&mut program);
        let child = program.spawn().unwrap();
        let mut served = Self { folder, child, address: String::new() };
        eventually("it listens", async || served.log().contains("listens on ")).await;
        let log = served.log();
        let address = log.lines().find_map(|line| line.split_once("listens on ").map(|(_, address)| address.trim()));
        served.address = address.unwrap().to_owned();
        served
    }

    /// Lets it read its file again, with another URL.
    pub fn reload(&self, url: &str) {
        write(&self.folder, &format!("url = '{url}'"));
        let pid = self.child.id().unwrap().to_string();
        assert!(std::process::Command::new("kill").args(["-s", "HUP", &pid]).status().unwrap().success());
    }

    /// Returns the log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Returns how often a text is in the log.
    pub fn logged(&self, text: &str) -> usize {
        self.log().matches(text).count()
    }

    /// Returns the errors in the log, without their times.
    pub fn errors(&self) -> Vec<String> {
        self.log().lines().filter_map(|line| line.split_once("ERROR").map(|(_, text)| text.to_owned())).collect()
    }

    /// Returns what it says of its database.
    pub async fn readiness(&self) -> Readiness {
        let response = reqwest::get(format!("http://{}/readyz/shop", self.address)).await.unwrap();
        let status = response.status().as_u16();
        let body = response.text().await.unwrap();
        let said: Value = serde_json::from_str(&body).unwrap();
        let is = |name: &str| said[name].as_bool().unwrap_or_else(|| panic!("{name}: {body}"));
        let readiness = Readiness {
            ready: is("ready"),
            sending: is("sending"),
            problem: said["problem"].as_str().unwrap_or_default().to_owned(),
        };
        assert_eq!(status, if readiness.ready { 200 } else { 503 }, "{body}");
        readiness
    }

    /// Waits until it says that all is well.
    pub async fn is_well(&self) {
        let well = Readiness { ready: true, sending: true, problem: String::new() };
        eventually("all is well", async || self.readiness().await == well).await;
    }

    /// Panics when it has ended.
    pub fn runs_on(&mut self) {
        assert!(self.child.try_wait().unwrap().is_none(), "the program runs on: {}", self.log());
    }
}

/// Writes its file.
fn write(folder: &TempDir, database: &str) {
    let text = format!(
        "[http]\nlisten = '127.0.0.1:0'\n[log]\nfilter = 'info,solid_notify_sweeper=debug,solid_notify_cli=debug'\n[channels]\n\
         allow_networks = ['127.0.0.0/8']\n[databases.shop]\n{database}\n"
    );
    std::fs::write(folder.path().join("serve.toml"), text).unwrap();
}

/// A receiver of numbers.
pub struct Receiver {
    pub url: String,
    arrived: Arc<Mutex<BTreeSet<u64>>>,
}

impl Receiver {
    pub async fn start() -> Self {
        let arrived = Arc::<Mutex<BTreeSet<u64>>>::default();
        let receive = async |State(arrived): State<Arc<Mutex<BTreeSet<u64>>>>, body: String| {
            arrived.lock().unwrap().insert(body.parse().unwrap());
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let routes = Router::new().fallback(receive).with_state(Arc::clone(&arrived));
        tokio::spawn(axum::serve(listener, routes).into_future());
        Self { url, arrived }
    }

    /// The definition `order`, which sends here.
    pub fn order(&self) -> NotifyDef {
        let definition =
            NotifyDef::new("order").handler("webhook").handler_config(format!("{{\"url\":\"{}\"}}", self.url));
        definition.retry_interval("100ms").max_retry_times(100)
    }

    /// Returns whether a number arrived.
    pub fn has(&self, number: u64) -> bool {
        self.arrived.lock().unwrap().contains(&number)
    }

    /// Returns how many different numbers arrived.
    pub fn count(&self) -> usize {
        self.arrived.lock().unwrap().len()
    }

    /// Adds a number, as soon as the database takes it, and waits until it arrives.
    pub async fn gets(&self, outbox: &ConnectedOutbox, number: u64) {
        let add = async || outbox.add(NewNotice::new("order", number).unwrap()).await.is_ok();
        eventually("a notice is added", add).await;
        eventually("it arrives", async || self.has(number)).await;
    }
}
