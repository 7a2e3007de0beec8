//! The program's `serve` while its database server restarts, and by an account without the rights that it needs.

use std::collections::BTreeSet;

use solid_notify::{ConnectedOutbox, Filter, NewNotice, Outbox, OutboxExt};
use test_servers::servers::{Ending, Server, mariadb, mysql, postgres};
use test_support::sending::eventually;
use tokio::task::spawn_blocking;

use crate::served::{Receiver, Served};

/// Restarts the server under notices. While it is down, `serve` says so; afterwards it goes on, and each notice is delivered.
async fn restarting_server_loses_nothing(start: fn() -> anyhow::Result<Server>) {
    let mut server = spawn_blocking(start).await.unwrap().unwrap();
    let receiver = Receiver::start().await;
    let outbox = ConnectedOutbox::connect(server.url()).await.unwrap();
    outbox.migrate().await.unwrap();
    outbox.define_if_missing(receiver.order()).await.unwrap();
    let mut serve = Served::start(server.url()).await;

    for (round, ending) in (0_u64..).zip([Ending::Kill, Ending::Graceful]) {
        serve.is_well().await;
        for number in round * 40..round * 40 + 40 {
            outbox.add(NewNotice::new("order", number).unwrap()).await.unwrap();
        }
        eventually("a delivery", async || receiver.count() as u64 > round * 40).await;
        server = spawn_blocking(move || {
            server.shut_down(ending).unwrap();
            server
        })
        .await
        .unwrap();
        eventually("it says that the database is down", async || {
            let said = serve.readiness().await;
            !said.ready && !said.sending && said.problem.contains("the database does not answer")
        })
        .await;
        server = spawn_blocking(move || {
            server.start_again().unwrap();
            server
        })
        .await
        .unwrap();
        // The pool of this test has lost its connections, too.
        eventually("the database is back", async || outbox.definitions().await.is_ok()).await;
    }
    // Attempts that a restart interrupted are settled when the server is back.
    eventually("everything is delivered", async || receiver.count() == 80).await;
    serve.is_well().await;
    serve.runs_on();
    let dead = outbox.operator("alice").preview(&Filter::dead_letters()).await.unwrap().total;
    assert_eq!(dead.count, 0, "{dead:?}");
}

mod on_mysql {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn serve_on_private_mysql_that_restarts_loses_nothing() {
        restarting_server_loses_nothing(mysql::start).await;
    }
}

mod on_mariadb {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn serve_on_private_mariadb_that_restarts_loses_nothing() {
        restarting_server_loses_nothing(mariadb::start).await;
    }
}

mod on_postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn serve_on_private_postgres_that_restarts_loses_nothing() {
        restarting_server_loses_nothing(postgres::start).await;
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
        let serve = Served::start(url.as_str()).await;
        eventually("it says what it lacks", async || {
            let said = serve.readiness().await;
            !said.ready && !said.sending && said.problem.contains("permission denied")
        })
        .await;
        run("GRANT notify_sweeper TO lacking".to_owned()).await;
        serve.is_well().await;
        let refusals: Vec<String> =
            serve.errors().into_iter().filter(|error| error.contains("refuses a call")).collect();
        let different: BTreeSet<&String> = refusals.iter().collect();
        assert_eq!(refusals.len(), different.len(), "each is said once: {refusals:#?}");
    }
}
