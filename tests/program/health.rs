//! `health` on each store after `serve` was killed, and a row that names the password of the program's own database.

use std::process::Stdio;

use sqlx::ConnectOptions;
use test_servers::servers::redis;
use test_support::sending::eventually;
use test_support::{Database, MariaDb, MySql, Postgres, Sqlite, TestDb};
use tokio::process::Command;
use tokio::task::spawn_blocking;

use crate::verbs::{Program, on_postgres::url};

/// Two beats after its last node was killed a store is not healthy. The deadline of a wait is shorter than the three minutes for which the
/// handlers of a node count.
async fn killed_node_is_gone_from_health(url: String) {
    let program = Program { url };
    let mut serve = Command::new(env!("CARGO_BIN_EXE_notify-program"));
    serve.args(["--url", &program.url, "--yes", "serve", "--listen", "127.0.0.1:0"]);
    serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let (migrated, _, errors) = program.run(&["migrate"]).await;
    assert_eq!(migrated, 0, "{errors}");
    let healthy = async || {
        let (code, out, errors) = program.run(&["health"]).await;
        assert!(code < 2, "{out}{errors}");
        code == 0
    };
    assert!(!healthy().await, "no node runs yet");
    let mut serve = serve.spawn().unwrap();
    eventually("it is healthy", healthy).await;
    // SIGKILL.
    serve.kill().await.unwrap();
    eventually("it is no longer healthy", async || !healthy().await).await;
    let (_, out, _) = program.run(&["health"]).await;
    assert!(out.contains("none runs"), "{out}");
}

mod on_postgres {
    use super::*;

    #[tokio::test]
    async fn killed_node_is_gone_from_health_on_postgres() {
        let db = TestDb::<Postgres>::with_real_clock().await;
        killed_node_is_gone_from_health(url(&db)).await;
        db.close().await;
    }

    #[tokio::test]
    async fn row_cannot_use_the_password_of_the_context() {
        let db = TestDb::<Postgres>::with_real_clock().await;
        let folder = tempfile::tempdir().unwrap();
        let contexts = folder.path().join("contexts.toml");
        let url = url(&db);
        let shop = format!("[contexts.shop]\nurl = \"{url}\"\npassword = \"env:NOTIFY_SECRET_SHOP\"\n");
        std::fs::write(&contexts, format!("current = \"shop\"\n{shop}")).unwrap();
        let program = async |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_notify-program"));
            command.env("NOTIFY_SECRET_SHOP", "x").env("NOTIFY_SECRET_OTHER", "x").env_remove("SOLID_NOTIFY_URL");
            command.arg("--contexts").arg(&contexts).args(["--yes"]).args(arguments).stdin(Stdio::null());
            let output = command.output().await.unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            (output.status.code().unwrap(), text(output.stdout) + &text(output.stderr))
        };
        for (name, secret) in [("thief", "SHOP"), ("user", "OTHER")] {
            let auth = format!(r#"{{"bearer":"env:NOTIFY_SECRET_{secret}"}}"#);
            let config = format!(r#"handler_config={{"url":"https://127.0.0.1:1/","auth":{auth}}}"#);
            let (code, out) = program(&["def", "create", name, "handler=webhook", &config, "max_retry_times=0"]).await;
            assert_eq!(code, 0, "{out}");
            assert_eq!(program(&["add", name, "1"]).await.0, 0);
        }
        let (_, out) = program(&["run", "--until-idle", "--allow-network", "127.0.0.0/8"]).await;
        assert!(out.contains("\"env:NOTIFY_SECRET_SHOP\": it is a secret of the program itself"), "{out}");
        let (_, waiting) = program(&["msg", "list", "--def", "thief"]).await;
        assert!(waiting.contains("not sent"), "{waiting}");
        let (_, tried) = program(&["dead", "list", "--def", "user"]).await;
        assert!(tried.contains("user"), "another secret was used: {tried}");
        db.close().await;
    }
}

async fn killed_node_is_gone_from_health_on<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    killed_node_is_gone_from_health(db.pool.connect_options().to_url_lossy().into()).await;
    db.close().await;
}

mod on_mariadb {
    use super::*;

    #[tokio::test]
    async fn killed_node_is_gone_from_health_on_mariadb() {
        killed_node_is_gone_from_health_on::<MariaDb>().await;
    }
}

mod on_mysql {
    use super::*;

    #[tokio::test]
    async fn killed_node_is_gone_from_health_on_mysql() {
        killed_node_is_gone_from_health_on::<MySql>().await;
    }
}

mod on_sqlite {
    use super::*;

    #[tokio::test]
    async fn killed_node_is_gone_from_health_on_sqlite() {
        killed_node_is_gone_from_health_on::<Sqlite>().await;
    }
}

mod on_redis {
    use super::*;

    /// On a server of its own, because the nodes of other tests count on a shared one.
    #[tokio::test]
    async fn killed_node_is_gone_from_health_on_private_redis() {
        let server = spawn_blocking(redis::start).await.unwrap().unwrap();
        killed_node_is_gone_from_health(server.url().to_owned()).await;
    }
}

mod on_redis_cluster {
    use super::*;

    #[tokio::test]
    async fn killed_node_is_gone_from_health_on_private_redis_cluster() {
        let cluster = spawn_blocking(redis::start_cluster).await.unwrap().unwrap();
        killed_node_is_gone_from_health(cluster.url().to_owned()).await;
    }
}
