//! `run --until-idle` on each store, where the rows of definitions let it send nothing: its exit code, and what it says about the notices that
//! wait. Its node has ended when it says so.

use test_support::{MariaDb, MySql, Sqlite};

use crate::each_store;
use crate::verbs::Program;

async fn refused_notices_fail_a_run_until_idle(url: &str) {
    let program = Program { url: url.to_owned() };
    program.json(0, &["migrate"]).await;
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("inside");
    std::fs::write(&inside, "http://127.0.0.1:1/").unwrap();
    let allowed = format!("file:{}/", folder.path().display());
    let run =
        async |more: &[&str]| program.run(&[&["run", "--until-idle", "--allow-secret", &allowed], more].concat()).await;
    let (code, _, errors) = run(&[]).await;
    assert_eq!(code, 0, "nothing waits: {errors}");
    let secret = r#"{"url":"https://receiver.invalid/","auth":{"bearer":"env:PATH"}}"#.to_owned();
    // The address in a secret is refused at the attempt, so the notice waits, and not its definition.
    let chat = format!(r#"{{"service":"slack","url":"file:{}","text":"x"}}"#, inside.display());
    for (name, handler, config, reason) in [
        ("secret", "webhook", secret, "\"env:PATH\": the program does not let rows of \"secret\" use it"),
        ("chat", "chat", chat, "it waits, and the others are sent"),
        ("address", "webhook", r#"{"url":"http://127.0.0.1:1/"}"#.to_owned(), "--allow-network"),
    ] {
        let (handler, config) = (format!("handler={handler}"), format!("handler_config={config}"));
        program.json(0, &["def", "create", name, &handler, &config, "max_retry_times=0"]).await;
        let (code, _, errors) = run(&[]).await;
        assert_eq!(code, 0, "no notice of {name} waits: {errors}");
        let id = program.json(0, &["add", name, "1"]).await["id"].to_string();
        let (code, tally, errors) = run(&[]).await;
        assert_eq!(code, 1, "{name}: {tally}{errors}");
        assert!(tally.contains("dead letters: 0"), "{name}: {tally}");
        // The log of the sweeper is before the last lines.
        let (_, said) = errors.rsplit_once("error: ").unwrap_or_default();
        assert!(said.starts_with(&format!("notices of {name} wait: ")) && said.contains(reason), "{name}: {errors}");
        assert_eq!(program.json(0, &["msg", "show", &id]).await["status"], "not_sent");
        program.json(0, &["msg", "cancel", &id, "--reason", "a test"]).await;
    }

    // Where the network is allowed, it is tried.
    let id = program.json(0, &["add", "address", "1"]).await["id"].to_string();
    let (code, _, errors) = run(&["--allow-network", "127.0.0.0/8"]).await;
    assert_eq!(code, 0, "{errors}");
    assert_eq!(program.json(0, &["msg", "show", &id]).await["status"], "dead_letter");
}

mod on_postgres {
    use super::*;

    #[tokio::test]
    async fn refused_notices_fail_a_run_until_idle_on_postgres() {
        each_store::on_postgres(refused_notices_fail_a_run_until_idle).await;
    }
}

mod on_mariadb {
    use super::*;

    #[tokio::test]
    async fn refused_notices_fail_a_run_until_idle_on_mariadb() {
        each_store::on::<MariaDb>(refused_notices_fail_a_run_until_idle).await;
    }
}

mod on_mysql {
    use super::*;

    #[tokio::test]
    async fn refused_notices_fail_a_run_until_idle_on_mysql() {
        each_store::on::<MySql>(refused_notices_fail_a_run_until_idle).await;
    }
}

mod on_sqlite {
    use super::*;

    #[tokio::test]
    async fn refused_notices_fail_a_run_until_idle_on_sqlite() {
        each_store::on::<Sqlite>(refused_notices_fail_a_run_until_idle).await;
    }
}

mod on_redis {
    use super::*;

    #[tokio::test]
    async fn refused_notices_fail_a_run_until_idle_on_redis() {
        each_store::on_redis_at("REDIS_URL", refused_notices_fail_a_run_until_idle).await;
    }
}

mod on_redis_cluster {
    use super::*;

    #[tokio::test]
    async fn refused_notices_fail_a_run_until_idle_on_redis_cluster() {
        each_store::on_redis_at("REDIS_CLUSTER_URL", refused_notices_fail_a_run_until_idle).await;
    }
}
