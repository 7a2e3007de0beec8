//! Every command of the program on every store. The commands come from the program's help, so one without a line here fails each test.

use std::collections::BTreeSet;
use std::process::Stdio;

use axum::http::StatusCode;
use serde_json::Value;
use test_support::{Database, MariaDb, MySql, Sqlite};
use tokio::process::Command;

use crate::each_store;
use crate::verbs::{Program, receiver};

/// Commands that have tests of their own, or no store.
const ELSEWHERE: &[&str] = &[
    // `health.rs`, on each store.
    "serve",
    // A story with a store of its own: `crates/cli/tests/demo.rs`.
    "demo",
    // No store: the sessions `contexts.md` and `usage.md`.
    "completions",
    "context add",
    "context list",
    "context remove",
    "context use",
    "man",
];

/// The commands of timed tasks, which only Redis has.
const OF_REDIS: &[&str] = &["task dead", "task due", "task quarantine", "task revive"];

/// Returns the commands that the help of the program lists.
async fn listed() -> BTreeSet<String> {
    let help = async |group: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_notify-program"));
        let output = command.args(group).arg("--help").output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let list = text.split("Commands:\n").nth(1).unwrap_or_default().split("\n\n").next().unwrap_or_default();
        let names = list.lines().filter_map(|line| line.split_whitespace().next());
        names.filter(|name| *name != "help").map(str::to_owned).collect::<Vec<_>>()
    };
    let mut all = BTreeSet::new();
    for group in help(&[]).await {
        let commands = help(&[&group]).await;
        match commands.is_empty() {
            true => drop(all.insert(group)),
            false => all.extend(commands.into_iter().map(|command| format!("{group} {command}"))),
        }
    }
    assert!(all.len() > 50, "{all:?}");
    all
}

/// The program on one store, and the commands that were run.
struct Walk {
    program: Program,
    listed: BTreeSet<String>,
    run: BTreeSet<String>,
}

impl Walk {
    /// Runs a command, whose exit code must be 0. Returns the JSON that it printed.
    async fn done(&mut self, arguments: &[&str]) -> Value {
        self.ends(0, arguments).await
    }

    /// Runs a command, which must end with this exit code.
    async fn ends(&mut self, code: i32, arguments: &[&str]) -> Value {
        self.note(arguments);
        self.program.json(code, arguments).await
    }

    /// Runs a command that prints text. Returns it.
    async fn prints(&mut self, arguments: &[&str]) -> String {
        self.note(arguments);
        let (code, out, errors) = self.program.run(arguments).await;
        assert_eq!(code, 0, "{arguments:?}: {out}{errors}");
        out
    }

    fn note(&mut self, arguments: &[&str]) {
        let names = [arguments[0].to_owned(), arguments[..arguments.len().min(2)].join(" ")];
        let name = names.iter().find(|name| self.listed.contains(*name)).unwrap_or_else(|| panic!("{arguments:?}"));
        self.run.insert(name.clone());
    }

    async fn add(&mut self, definition: &str, param: &str) -> String {
        self.done(&["add", definition, param]).await["id"].to_string()
    }

    async fn send(&mut self) {
        self.done(&["run", "--until-idle", "--allow-network", "127.0.0.0/8"]).await;
    }
}

/// Runs every command on an empty store. `has_schema`: it has tables and not keys.
async fn every_command_works(url: &str, has_schema: bool) {
    let program = Program { url: url.to_owned() };
    let mut walk = Walk { program, listed: listed().await, run: BTreeSet::new() };
    walk.done(&["migrate"]).await;
    walk.ends(1, &["health"]).await;
    walk.ends(1, &["doctor"]).await;
    definitions(&mut walk).await;
    notices(&mut walk).await;
    dead_letters_and_bulk_acts(&mut walk).await;
    alerts_and_circuits(&mut walk).await;
    for arguments in [
        &["pause-all", "--reason", "a test"][..],
        &["resume-all"],
        &["audit"],
        &["nodes"],
        &["stats"],
        &["series"],
        &["top"],
    ] {
        walk.done(arguments).await;
    }
    match has_schema {
        true => assert!(walk.prints(&["schema"]).await.contains("notify_msg")),
        false => {
            walk.note(&["schema"]);
            assert_eq!(walk.program.run(&["schema"]).await.0, 2);
        }
    }
    timed_tasks(&mut walk, !has_schema).await;
    let elsewhere: BTreeSet<String> = ELSEWHERE.iter().map(|name| (*name).to_owned()).collect();
    assert!(elsewhere.is_subset(&walk.listed) && elsewhere.is_disjoint(&walk.run), "{elsewhere:?}");
    let missing: Vec<&String> =
        walk.listed.iter().filter(|name| !walk.run.contains(*name) && !elsewhere.contains(*name)).collect();
    assert!(missing.is_empty(), "add these commands to tests/program/commands.rs: {missing:?}");
}

async fn definitions(walk: &mut Walk) {
    // Its failures open circuits.
    let receiver = receiver(StatusCode::SERVICE_UNAVAILABLE).await;
    let config = format!(r#"handler_config={{"url":"http://{receiver}/"}}"#);
    for (name, column) in [("sync", "breaker_failures=1"), ("acked", "need_confirm=true"), ("gone", "timeout=7s")] {
        walk.done(&["def", "create", name, "handler=webhook", &config, "max_retry_times=0", column]).await;
    }
    walk.done(&["def", "preview", "acked", "timeout=9s"]).await;
    walk.done(&["def", "edit", "acked", "timeout=9s"]).await;
    assert_eq!(walk.done(&["def", "versions", "acked"]).await.as_array().unwrap().len(), 2);
    walk.done(&["def", "rollback", "acked", "1"]).await;
    // Nothing waits for a retry.
    walk.ends(3, &["def", "retime", "acked"]).await;
    walk.done(&["def", "simulate", "sync", "--lasting", "10m", "--outage", "0s"]).await;
    walk.done(&["def", "pause", "sync"]).await;
    walk.done(&["def", "resume", "sync"]).await;
    walk.done(&["def", "delete", "gone"]).await;
    assert_eq!(walk.done(&["def", "show", "acked"]).await["row"]["name"], "acked");
    assert!(!walk.done(&["def", "list"]).await.as_array().unwrap().is_empty());
    // Its notice is sent by another process, as in operation.
    let mut sender = Command::new(env!("CARGO_BIN_EXE_notify-program"));
    sender.args(["--url", &walk.program.url, "--yes", "run", "--allow-network", "127.0.0.0/8"]);
    sender.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let mut sender = sender.spawn().unwrap();
    walk.done(&["def", "test", "sync", "1", "--wait", "5m"]).await;
    sender.kill().await.unwrap();
    let toml = walk.prints(&["def", "export", "sync"]).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("definitions.toml");
    std::fs::write(&file, toml.replace("[sync]", "[sync]\ntimeout = \"8s\"")).unwrap();
    let file = file.to_str().unwrap();
    walk.ends(3, &["def", "diff", file]).await;
    walk.done(&["def", "apply", file]).await;
    walk.done(&["def", "diff", file]).await;
}

async fn notices(walk: &mut Walk) {
    let (first, second) = (walk.add("acked", "1").await, walk.add("acked", "2").await);
    walk.done(&["msg", "edit", &first, "3"]).await;
    walk.done(&["msg", "reschedule", &first, "2h"]).await;
    walk.done(&["msg", "explain", &first]).await;
    walk.done(&["msg", "reschedule", &first, "now"]).await;
    walk.send().await;
    assert_eq!(walk.done(&["msg", "show", &first]).await["status"], "awaiting_ack");
    walk.done(&["msg", "ack", &first]).await;
    walk.done(&["msg", "nack", &second, "--reason", "refused"]).await;
    assert_eq!(walk.done(&["msg", "show", &first]).await["status"], "succeeded");
    let third = walk.add("acked", "4").await;
    walk.done(&["msg", "cancel", &third, "--reason", "a test"]).await;
    walk.done(&["msg", "retry", &third]).await;
    // The nack waits for a sweeper that decides.
    assert_eq!(walk.done(&["msg", "list", "--def", "acked"]).await["notices"].as_array().unwrap().len(), 2);
    walk.done(&["msg", "cancel", &third, "--reason", "again"]).await;
    let purged = walk.done(&["msg", "purge", "--status", "cancelled", "--all", "--reason", "a test", "--here"]).await;
    assert_eq!(purged["changed"], 1, "{purged}");
}

async fn dead_letters_and_bulk_acts(walk: &mut Walk) {
    walk.add("sync", "\"bad\"").await;
    walk.send().await;
    let of_sync = ["--def", "sync"];
    for command in ["list", "groups", "preview"] {
        walk.done(&[&["dead", command][..], &of_sync].concat()).await;
    }
    let act = walk.done(&[&["dead", "retry"][..], &of_sync].concat()).await["id"].to_string();
    walk.done(&["bulk", "list"]).await;
    walk.done(&["bulk", "pause", &act]).await;
    walk.done(&["bulk", "resume", &act]).await;
    walk.done(&["bulk", "show", &act]).await;
    walk.done(&["bulk", "cancel", &act, "--reason", "a test"]).await;
    let purged = walk.done(&[&["dead", "purge", "--reason", "a test", "--here"][..], &of_sync].concat()).await;
    assert_eq!(purged["changed"], 1, "{purged}");
}

/// The circuit of `sync` is open since its dead letter, for which there is an alert.
async fn alerts_and_circuits(walk: &mut Walk) {
    assert!(!walk.done(&["alerts", "list"]).await.as_array().unwrap().is_empty());
    walk.done(&["alerts", "silence", "sync", "--until", "2h", "--reason", "a test"]).await;
    walk.done(&["alerts", "unsilence", "sync"]).await;
    walk.done(&["alerts", "ack", "sync"]).await;
    walk.done(&["circuit", "list"]).await;
    walk.done(&["circuit", "close", "sync"]).await;
}

async fn timed_tasks(walk: &mut Walk, has_them: bool) {
    let kind = format!("commands_{:016x}", fastrand::u64(..));
    for command in OF_REDIS {
        let mut arguments: Vec<&str> = command.split(' ').chain([kind.as_str()]).collect();
        let is_revive = *command == "task revive";
        arguments.extend(is_revive.then_some("none"));
        match has_them {
            // There is no task of this kind.
            true => drop(walk.ends(if is_revive { 4 } else { 0 }, &arguments).await),
            false => {
                walk.note(&arguments);
                assert_eq!(walk.program.run(&arguments).await.0, 2, "{arguments:?}");
            }
        }
    }
}

async fn on<D: Database>() {
    each_store::on::<D>(async |url| every_command_works(url, true).await).await;
}

mod on_sqlite {
    use super::*;

    #[tokio::test]
    async fn every_command_works_on_sqlite() {
        on::<Sqlite>().await;
    }
}

mod on_postgres {
    use super::*;

    #[tokio::test]
    async fn every_command_works_on_postgres() {
        each_store::on_postgres(async |url| every_command_works(url, true).await).await;
    }
}

mod on_mariadb {
    use super::*;

    #[tokio::test]
    async fn every_command_works_on_mariadb() {
        on::<MariaDb>().await;
    }
}

mod on_mysql {
    use super::*;

    #[tokio::test]
    async fn every_command_works_on_mysql() {
        on::<MySql>().await;
    }
}

/// A pause of everything stops no other test, because the keys have a prefix of their own.
async fn on_redis_at(variable: &str) {
    each_store::on_redis_at(variable, async |url| every_command_works(url, false).await).await;
}

mod on_redis {
    use super::*;

    #[tokio::test]
    async fn every_command_works_on_redis() {
        on_redis_at("REDIS_URL").await;
    }
}

mod on_redis_cluster {
    use super::*;

    #[tokio::test]
    async fn every_command_works_on_redis_cluster() {
        on_redis_at("REDIS_CLUSTER_URL").await;
    }
}
