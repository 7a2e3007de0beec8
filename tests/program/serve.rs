//! The program's `serve` while its database server restarts, and by an account without the rights that it needs.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use solid_notify::{ConnectedOutbox, NewNotice, NotifyDef, Outbox, OutboxExt};
use test_servers::servers::{Ending, postgres};
use test_support::sending::eventually;
use tokio::process::Command;
use tokio::task::spawn_blocking;

/// The numbers that arrived.
type Arrived = Arc<Mutex<BTreeSet<u64>>>;

mod on_postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn serve_on_private_postgres_that_restarts_loses_nothing() {
        let mut server = spawn_blocking(postgres::start).await.unwrap().unwrap();
        let arrived = Arrived::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = format!("http://{}/", listener.local_addr().unwrap());
        let routes = Router::new().fallback(receive).with_state(Arc::clone(&arrived));
        tokio::spawn(axum::serve(listener, routes).into_future());

        let outbox = ConnectedOutbox::connect(server.url()).await.unwrap();
        outbox.migrate().await.unwrap();
        let definition =
            NotifyDef::new("order").handler("webhook").handler_config(format!("{{\"url\":\"{receiver}\"}}"));
        outbox.define_if_missing(definition.retry_interval("100ms").max_retry_times(100)).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("serve.toml");
        let text =
            "[http]\nlisten = '127.0.0.1:0'\n[channels]\nallow_networks = ['127.0.0.0/8']\n[databases.shop]\nurl = ";
        std::fs::write(&file, format!("{text}'{}'\n", server.url())).unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_notify-program"));
        let serve = program.arg("serve").arg("--config").arg(&file).stdin(Stdio::null()).stderr(Stdio::null());
        let mut serve = serve.kill_on_drop(true).spawn().unwrap();

        for (round, ending) in (0_u64..).zip([Ending::Kill, Ending::Graceful, Ending::Kill]) {
            for number in round * 40..round * 40 + 40 {
                outbox.add(NewNotice::new("order", number).unwrap()).await.unwrap();
            }
            eventually("a delivery", async || arrived.lock().unwrap().len() as u64 > round * 40).await;
            server = spawn_blocking(move || {
                server.restart(ending).unwrap();
                server
            })
            .await
            .unwrap();
            // The pool of this test has lost its connections, too.
            eventually("the database is back", async || outbox.definitions().await.is_ok()).await;
        }
        // Attempts that a restart interrupted are settled when the server is back.
        eventually("everything is delivered", async || arrived.lock().unwrap().len() == 120).await;
        assert!(serve.try_wait().unwrap().is_none(), "the program runs on");
    }

    /// An account that may only read: nothing is sent and no ack can be stored, which is said once. When the right is there, all goes on.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn serve_on_private_postgres_says_which_right_it_lacks() {
        let server = spawn_blocking(postgres::start).await.unwrap().unwrap();
        let outbox = ConnectedOutbox::connect(server.url()).await.unwrap();
        outbox.migrate().await.unwrap();
        let sweeper = outbox.sweeper().start().await.unwrap();
        sweeper.shutdown().await;
        let pool = sqlx::PgPool::connect(server.url()).await.unwrap();
        let run = async |sql: String| {
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&pool).await.unwrap();
        };
        run(Outbox::<sqlx::Postgres>::roles().unwrap().to_owned()).await;
        run("CREATE ROLE lacking LOGIN PASSWORD 'x' IN ROLE notify_reader".to_owned()).await;
        let mut url = url::Url::parse(server.url()).unwrap();
        url.set_username("lacking").unwrap();
        url.set_password(Some("x")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (file, log) = (folder.path().join("serve.toml"), folder.path().join("log"));
        std::fs::write(&file, format!("[http]\nlisten = '127.0.0.1:0'\n[databases.shop]\nurl = '{url}'\n")).unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_notify-program"));
        let serve = program.arg("serve").arg("--config").arg(&file).stdin(Stdio::null());
        let _serve = serve.stderr(std::fs::File::create(&log).unwrap()).kill_on_drop(true).spawn().unwrap();
        let logged = || std::fs::read_to_string(&log).unwrap();
        eventually("it listens", async || logged().contains("listens on ")).await;
        let address =
            logged().lines().find_map(|line| Some(line.split_once("listens on ")?.1.trim().to_owned())).unwrap();
        let ready = async || {
            let response = reqwest::get(format!("http://{address}/readyz/shop")).await.unwrap();
            (response.status().as_u16(), response.text().await.unwrap())
        };
        eventually("it says what it lacks", async || {
            let (status, body) = ready().await;
            status == 503 && body.contains("permission denied") && body.contains("\"sending\":false")
        })
        .await;
        run("GRANT notify_sweeper TO lacking".to_owned()).await;
        eventually("it is ready", async || ready().await == (200, "{\"ready\":true,\"sending\":true}".to_owned()))
            .await;
        let refusals: Vec<String> = logged()
            .lines()
            .filter(|line| line.contains("ERROR") && line.contains("refuses a call"))
            .map(str::to_owned)
            .collect();
        let different: BTreeSet<&str> =
            refusals.iter().filter_map(|line| line.split_once("ERROR").map(|(_, text)| text)).collect();
        assert_eq!(refusals.len(), different.len(), "each is said once: {refusals:#?}");
    }
}

async fn receive(State(arrived): State<Arrived>, body: String) {
    arrived.lock().unwrap().insert(body.parse().unwrap());
}
