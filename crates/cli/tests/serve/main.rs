//! The program's `serve`, as a process, on SQLite, with a receiver over HTTP. What it does while a database server restarts is tested in
//! `tests/program/serve.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod http;
mod isolation;
mod lifetime;
mod receiver;
mod reload;

use std::fmt::Display;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use solid_notify::operate::Filter;
use solid_notify::{ConnectedOutbox, NewNotice, NotifyDef};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::receiver::Receiver;

/// The deadline of a wait. It only ends a test that hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// A folder with the file of `serve`, databases and logs.
struct Site {
    folder: TempDir,
}

impl Site {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn url(&self, database: &str) -> String {
        format!("sqlite://{}?mode=rwc", self.path(database).display())
    }

    /// Writes the file of `serve`: what all tests need, and these databases.
    fn write(&self, rest: &str) {
        let text = format!(
            "[http]\nlisten = '127.0.0.1:0'\n[log]\nfilter = 'info'\n[channels]\nallow_networks = ['127.0.0.0/8']\n{rest}"
        );
        std::fs::write(self.path("serve.toml"), text).unwrap();
    }

    /// The lines of the file for a database.
    fn database(&self, name: &str) -> String {
        format!("[databases.{name}]\nurl = '{}'\n", self.url(name))
    }

    /// Makes a database with a definition `order` that sends to the receiver.
    async fn outbox(&self, database: &str, receiver: &Receiver) -> ConnectedOutbox {
        let outbox = ConnectedOutbox::connect(&self.url(database)).await.unwrap();
        outbox.migrate().await.unwrap();
        let config = format!("{{\"url\":\"http://{}/\"}}", receiver.address);
        let definition = NotifyDef::new("order").handler("webhook").handler_config(config);
        outbox.define_if_missing(definition.retry_interval("100ms").timeout("10s")).await.unwrap();
        outbox
    }

    /// Starts `serve`, and waits until it listens.
    async fn serve(&self) -> Serve {
        self.serve_with(|command| command).await
    }

    async fn serve_with(&self, change: impl FnOnce(&mut Command) -> &mut Command) -> Serve {
        let log = self.path("log");
        let mut command = program();
        command.arg("serve").arg("--config").arg(self.path("serve.toml"));
        command.current_dir(self.folder.path());
        change(&mut command).stderr(File::create(&log).unwrap());
        let mut serve = Serve { child: command.spawn().unwrap(), log, address: ([127, 0, 0, 1], 0).into() };
        let line = serve.logged("listens on ").await;
        serve.address = line.rsplit("listens on ").next().unwrap().trim().parse().unwrap();
        serve
    }
}

/// The program, without the settings of the person who runs the tests. It ends with the test.
fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_solid-notify"));
    for variable in ["URL", "CONFIG", "LISTEN", "NODE", "LOG", "CONTEXT"] {
        command.env_remove(format!("SOLID_NOTIFY_{variable}"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    command
}

/// A running `serve`.
struct Serve {
    child: Child,
    log: PathBuf,
    address: SocketAddr,
}

impl Serve {
    /// Waits for a line of the log with this text. Returns the last one.
    async fn logged(&mut self, text: &str) -> String {
        let mut ended = None;
        let found = eventually(async || {
            let log = std::fs::read_to_string(&self.log).unwrap();
            ended = self.child.try_wait().unwrap();
            let line = log.lines().rev().find(|line| line.contains(text)).map(str::to_owned);
            line.or(ended.map(|_| String::new())).ok_or(log)
        })
        .await;
        assert!(!found.is_empty(), "it ended with {ended:?}:\n{}", std::fs::read_to_string(&self.log).unwrap());
        found
    }

    /// Returns status and body.
    async fn get(&self, path: &str) -> (u16, String) {
        let response = reqwest::get(format!("http://{}{path}", self.address)).await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    async fn ready(&self, path: &str) {
        eventually(async || {
            let (status, body) = self.get(path).await;
            if status == 200 { Ok(()) } else { Err(body) }
        })
        .await;
    }

    #[cfg(unix)]
    fn signal(&self, name: &str) {
        let pid = self.child.id().unwrap().to_string();
        assert!(std::process::Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Waits for the end.
    async fn end(&mut self) -> ExitStatus {
        tokio::time::timeout(LIMIT, self.child.wait()).await.unwrap().unwrap()
    }
}

/// Adds notices with these numbers.
async fn add(outbox: &ConnectedOutbox, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        outbox.add(NewNotice::new("order", number).unwrap()).await.unwrap();
    }
}

/// Waits until a sweeper has stored its first heartbeat, and returns the id of its node.
async fn node(outbox: &ConnectedOutbox) -> String {
    eventually(async || {
        let node = outbox.operator("test").nodes().await.unwrap().into_iter().next();
        node.map(|node| node.id).ok_or("there is no node")
    })
    .await
}

/// Counts notices.
async fn count(outbox: &ConnectedOutbox, filter: Filter) -> u64 {
    outbox
        .operator("test")
        .counts(&filter.definition("order"))
        .await
        .unwrap()
        .iter()
        .map(|class| class.count.count)
        .sum()
}

/// Waits until no notice of the definition is live.
async fn until_all_ended(outbox: &ConnectedOutbox) {
    eventually(async || match count(outbox, Filter::live()).await {
        0 => Ok(()),
        live => Err(format!("{live} notices are live")),
    })
    .await;
}

/// Waits until this is Ok: what happens in another process can only be looked for. An error says what there is instead.
async fn eventually<T, E: Display>(mut find: impl AsyncFnMut() -> Result<T, E>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        match find().await {
            Ok(found) => return found,
            Err(instead) => assert!(Instant::now() < end, "it did not happen within {LIMIT:?}: {instead}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_example_with_every_key_is_valid() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/every_key.toml");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("serve.toml");
    let secret = folder.path().join("slack-url");
    std::fs::write(&secret, "https://hooks.slack.com/services/x").unwrap();
    let text = std::fs::read_to_string(example).unwrap().replace("/run/secrets/slack-url", secret.to_str().unwrap());
    std::fs::write(&file, text).unwrap();
    let mut check = program();
    check.args(["serve", "--check", "--config"]).arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped());
    check
        .env("SMTP_URL", "smtp://u:p@mail.example.org:587")
        .env("SHOP_PASSWORD", "x")
        .env("PARAM_KEY", format!("{}=", "A".repeat(43)));
    check.env("TOKEN_KEY", "1".repeat(32)).env("OLD_TOKEN_KEY", "2".repeat(32));
    let output = check.output().await.unwrap();
    let (out, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!((output.status.code(), out.trim()), (Some(0), "the file is valid; databases: shop"), "{errors}");
}
