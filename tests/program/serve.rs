//! The program's `serve` while its database server restarts.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use solid_notify::{ConnectedOutbox, NewNotice, NotifyDef};
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
            "[http]\nlisten = '127.0.0.1:0'\n[webhook]\nallow_networks = ['127.0.0.0/8']\n[databases.shop]\nurl = ";
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
}

async fn receive(State(arrived): State<Arrived>, body: String) {
    arrived.lock().unwrap().insert(body.parse().unwrap());
}
