//! The program `solid-notify` on each store, by its URL: migrate, define, add, send, look, change. Its sessions on SQLite, which show every
//! command, are in `crates/cli/tests/cmd`.

use std::net::SocketAddr;
use std::process::Stdio;

use axum::http::StatusCode;
use serde_json::Value;
use sqlx::ConnectOptions;
use test_support::MariaDb;
use test_support::MySql;
use test_support::Postgres;
use test_support::Sqlite;
use test_support::{Database, TestDb};
use tokio::process::Command;

use crate::each_store;

/// The program with the URL of a store.
pub struct Program {
    pub url: String,
}

impl Program {
    /// Runs a command. Returns its exit code, what it printed, and its errors.
    pub async fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_notify-program"));
        command.args(["--url", &self.url, "--who", "alice", "--yes"]).args(arguments).stdin(Stdio::null());
        let output = command.output().await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// Runs a command that must end with this code. Returns the JSON that it printed.
    pub async fn json(&self, code: i32, arguments: &[&str]) -> Value {
        let (ended, out, errors) = self.run(&[&["--json"], arguments].concat()).await;
        assert_eq!(ended, code, "{arguments:?}: {out}{errors}");
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {out}{errors}"))
    }

    /// Sends what is due.
    async fn send(&self) -> Value {
        self.json(0, &["run", "--until-idle", "--allow-network", "127.0.0.0/8"]).await
    }
}

/// A receiver that answers parameters with the word `bad` by this status.
pub async fn receiver(refusal: StatusCode) -> SocketAddr {
    let receive = async move |body: String| match body.contains("bad") {
        true => refusal,
        false => StatusCode::OK,
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, axum::Router::new().fallback(receive)).into_future());
    address
}

/// The names of its definitions are its own, because Redis is shared.
async fn main_verbs_work(url: &str) {
    let program = Program { url: url.to_owned() };
    let name = &format!("program_{:016x}", fastrand::u64(..));
    let config = format!(r#"handler_config={{"url":"http://{}/"}}"#, receiver(StatusCode::UNPROCESSABLE_ENTITY).await);
    program.json(0, &["migrate"]).await;
    let created = program.json(0, &["def", "create", name, "handler=webhook", &config, "max_retry_times=0"]).await;
    assert_eq!((&created["result"], &created["row"]["name"]), (&"stored".into(), &name.as_str().into()));
    assert_eq!(program.json(3, &["def", "create", name]).await["result"], "conflict");
    program.json(0, &["def", "edit", name, "timeout=9s"]).await;
    assert_eq!(program.json(0, &["def", "versions", name]).await[0]["differences"][0]["after"], "9s");

    let good = program.json(0, &["add", name, r#"{"order":7}"#, "--tag", "order:7"]).await["id"].to_string();
    let bad = program.json(0, &["add", name, r#""bad""#]).await["id"].to_string();
    let later =
        program.json(0, &["add", name, "1", "--delay", "1h", "--unique-until-ended", "one"]).await["id"].to_string();
    assert_eq!(program.json(3, &["add", name, "--unique-until-ended", "one"]).await["duplicate"], true);
    let waiting = program.json(0, &["msg", "list", "--def", name]).await;
    assert_eq!(waiting["notices"].as_array().unwrap().len(), 3);
    program.send().await;
    assert_eq!(program.json(0, &["msg", "show", &good]).await["status"], "succeeded");
    assert_eq!(program.json(0, &["msg", "explain", &later]).await["why"], "not_due_until");

    let dead = program.json(0, &["dead", "list", "--def", name]).await;
    assert_eq!(dead["notices"][0]["id"].to_string(), bad);
    let group = program.json(0, &["dead", "groups", "--def", name]).await;
    assert_eq!((&group[0]["count"], group[0]["example"].to_string()), (&1.into(), bad.clone()));
    assert_eq!(program.json(0, &["msg", "edit", &bad, "\"good\""]).await[0]["result"], "applied");
    program.send().await;
    assert_eq!(program.json(0, &["msg", "show", &bad]).await["status"], "succeeded");
    assert_eq!(program.json(3, &["msg", "retry", &bad]).await[0]["result"], "already_succeeded");
    let cancelled = program.json(0, &["msg", "cancel", "--def", name, "--reason", "a test", "--here"]).await;
    assert_eq!(cancelled["changed"], 1);
    assert_eq!(program.json(3, &["msg", "cancel", &later, "--reason", "again"]).await[0]["result"], "already_ended");

    let audit = program.json(0, &["audit", "--def", name]).await;
    let acts: Vec<&str> =
        audit["entries"].as_array().unwrap().iter().map(|entry| entry["act"].as_str().unwrap()).collect();
    assert_eq!(acts, ["cancel", "edit", "edited", "created"]);
    assert!(audit["entries"].as_array().unwrap().iter().all(|entry| entry["who"] == "alice"), "{audit}");
    let (code, toml, errors) = program.run(&["def", "export", name]).await;
    assert!(code == 0 && toml.contains(&format!("[{name}]\n")) && toml.contains("timeout = \"9s\""), "{toml}{errors}");
    program.json(0, &["def", "delete", name]).await;
    let (code, _, errors) = program.run(&["def", "show", name]).await;
    assert!(code == 4 && errors.contains("there is no definition"), "{errors}");
}

pub mod on_postgres {
    use super::*;

    /// A test has a schema of its own there, which the URL has to name.
    #[tokio::test]
    async fn program_works_on_postgres() {
        let db = TestDb::<Postgres>::with_real_clock().await;
        main_verbs_work(&url(&db)).await;
        db.close().await;
    }

    pub fn url(db: &TestDb<Postgres>) -> String {
        let options = db.pool.connect_options();
        let mut url = options.to_url_lossy();
        url.query_pairs_mut().append_pair("options", options.get_options().unwrap());
        url.into()
    }
}

async fn on<D: Database>() {
    each_store::on::<D>(main_verbs_work).await;
}

mod on_mariadb {
    use super::*;

    #[tokio::test]
    async fn program_works_on_mariadb() {
        on::<MariaDb>().await;
    }
}

mod on_mysql {
    use super::*;

    #[tokio::test]
    async fn program_works_on_mysql() {
        on::<MySql>().await;
    }
}

mod on_sqlite {
    use super::*;

    #[tokio::test]
    async fn program_works_on_sqlite() {
        on::<Sqlite>().await;
    }

    /// The table shows its id in place of the name; in JSON the name is empty, and the id is beside it.
    #[tokio::test]
    async fn alert_of_a_definition_deleted_by_sql_shows_its_id() {
        let db = TestDb::<Sqlite>::with_real_clock().await;
        let program = Program { url: db.pool.connect_options().to_url_lossy().into() };
        let config = r#"handler_config={"url":"http://127.0.0.1:1/"}"#;
        let created = program.json(0, &["def", "create", "gone", "handler=webhook", config, "max_retry_times=0"]).await;
        program.json(0, &["add", "gone", "1"]).await;
        assert_eq!(program.send().await["dead_letters"], 1);
        db.sql("DELETE FROM notify_def WHERE name = 'gone'").await;
        let json = program.json(0, &["alerts", "list"]).await;
        let id = &created["row"]["id"];
        assert_eq!((&json[0]["def_id"], &json[0]["definition"]), (id, &"".into()), "{json}");
        let (_, table, errors) = program.run(&["alerts", "list"]).await;
        assert!(table.lines().nth(1).is_some_and(|line| line.starts_with(&format!("{id} "))), "{table}{errors}");
        db.close().await;
    }
}

mod on_redis {
    use super::*;

    #[tokio::test]
    async fn program_works_on_redis() {
        main_verbs_work(&test_support::databases::server_url("REDIS_URL")).await;
    }

    #[tokio::test]
    async fn program_shows_and_revives_timed_tasks() {
        use solid_notify_timed::{Redis, TaskLease, TaskOutcome, TimedTasks};

        let url = test_support::databases::server_url("REDIS_URL");
        let tasks = TimedTasks::new(Redis::connect(&url).await.unwrap());
        let kind = &format!("program_{:016x}", fastrand::u64(..));
        let program = Program { url };
        assert_eq!(program.json(0, &["task", "due", kind]).await["next_due"], Value::Null);
        tasks.add_as(kind, "dead", std::time::Duration::ZERO, &7).await.unwrap();
        let lease = TaskLease::of(std::time::Duration::from_secs(60));
        let claimed = tasks.claim::<i64>(kind, 1, &lease).await.unwrap().tasks.remove(0);
        tasks.settle(kind, &[claimed.outcome(TaskOutcome::Dead("it \u{1b}[2J failed".to_owned()))]).await.unwrap();
        tasks.add_as(kind, "damaged", std::time::Duration::ZERO, "text").await.unwrap();
        assert_eq!(tasks.due::<i64>(kind, 10).await.unwrap().damaged.len(), 1);

        let counts = program.json(0, &["task", "due", kind]).await;
        assert_eq!((&counts["dead"], &counts["aside"], &counts["waiting"]), (&1.into(), &1.into(), &0.into()));
        let dead = program.json(0, &["task", "dead", kind]).await;
        assert_eq!((&dead[0]["id"], &dead[0]["value"]), (&"dead".into(), &7.into()));
        let (_, table, _) = program.run(&["task", "dead", kind]).await;
        assert!(table.contains("dead") && !table.contains('\u{1b}'), "{table}");
        assert_eq!(program.json(0, &["task", "quarantine", kind]).await[0]["id"], "damaged");
        assert_eq!(program.json(3, &["task", "revive", kind, "dead", "other"]).await["revived"], 1);
        assert_eq!(program.json(4, &["task", "revive", kind, "dead"]).await["revived"], 0);
        assert_eq!(program.json(0, &["task", "due", kind]).await["due"], 1);
        let (code, _, errors) = program.run(&["task", "due", "{bad}"]).await;
        assert!(code == 5 && errors.contains("cannot be used"), "{errors}");
        tasks.delete(kind, &["dead", "damaged"]).await.unwrap();
    }
}

#[tokio::test]
async fn unreachable_store_has_an_exit_code_and_shows_no_password() {
    let program = Program { url: "postgres://app:hunter2@127.0.0.1:1/shop".to_owned() };
    let (code, out, errors) = program.run(&["def", "list"]).await;
    assert!(code == 6 && out.is_empty() && errors.contains("app:***@127.0.0.1"), "{errors}");
    assert!(!errors.contains("hunter2"), "{errors}");
}
