//! Definitions that a service may not or cannot send, on each store: a secret or an address that is not allowed, a row that is invalid, a key that
//! it does not have. Their notices wait and lose no try, `health`, `explain` and `def show` name the reason, and the others are sent.

use std::sync::Arc;

use solid_notify::cipher::{ParamKey, ParamKeys};
use solid_notify::definition::Updated;
use solid_notify::spi::store::{Edit, Edited};
use solid_notify::{ConnectedOutbox, NewNotice, NotifyDef, Status};
use test_support::sending::{eventually, refusal_of};
use test_support::{MariaDb, MySql, Sqlite};

use crate::each_store;
use crate::served::{Receiver, Served};
use crate::verbs::Program;

/// The definitions, each with what the reason for its refusal contains.
const REFUSED: [(&str, &str); 4] = [
    ("address", "allow_networks"),
    ("invalid", "retry_interval"),
    ("sealed", "it is encrypted with the key \"z\", which this process does not have"),
    ("secret", "\"env:PATH\": the program does not let rows of \"secret\" use it"),
];

async fn row_of(outbox: &ConnectedOutbox, name: &str) -> NotifyDef {
    outbox.definitions().await.unwrap().into_iter().find(|state| state.row.name == name).unwrap().row
}

async fn refused_rows_wait_and_say_why(url: &str) {
    let program = Program { url: url.to_owned() };
    let receiver = Receiver::start().await;
    let outbox = ConnectedOutbox::connect(url).await.unwrap();
    outbox.migrate().await.unwrap();
    let keys = |id: &str, seed| Arc::new(ParamKeys::new(id, ParamKey::new(&[seed; 32]).unwrap()).unwrap());
    outbox.use_param_cipher(keys("z", 2));
    let right = format!(r#"{{"url":"{}"}}"#, receiver.url);
    let row = |name: &str| NotifyDef::new(name).handler("webhook").handler_config(right.as_str());
    let with_secret = format!(r#"{{"url":"{}","auth":{{"bearer":"env:PATH"}}}}"#, receiver.url);
    for row in [
        row("address").handler_config(r#"{"url":"http://10.0.0.1/"}"#),
        row("healthy"),
        row("invalid"),
        row("sealed").encrypt_param(true),
        row("secret").handler_config(with_secret),
    ] {
        outbox.define_if_missing(row).await.unwrap();
    }
    // By hand, because no verb stores such a row.
    let seen = row_of(&outbox, "invalid").await;
    let edit = Edit::Replace { new: seen.clone().retry_interval("[5x]"), seen };
    let edited = outbox.engine().stores().definitions.edit(&edit, "a test").await.unwrap();
    assert!(matches!(edited, Edited::Stored(_)), "{edited:?}");

    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=").unwrap();
    let lines = format!("url = '{url}'\nparam_keys = ['a=file:{}']", key.display());
    let serve = Served::start_in(folder, &lines, |_| {}).await;
    serve.is_well().await;
    let mut ids = Vec::new();
    for (number, (name, _)) in (1..).zip(REFUSED) {
        ids.push(outbox.add(NewNotice::new(name, number).unwrap()).await.unwrap().id());
    }
    let healthy = NewNotice::new("healthy", 9).unwrap();
    outbox.add(healthy).await.unwrap();
    eventually("the healthy one arrives", async || receiver.has(9)).await;
    for (id, (name, reason)) in ids.iter().zip(REFUSED) {
        if name != "invalid" {
            let problem = refusal_of(&outbox, name).await;
            assert!(problem.contains(reason), "{name}: {problem}");
        }
        let (code, why, errors) = program.run(&["msg", "explain", &id.to_string()]).await;
        assert!(code == 0 && why.contains(reason), "{name}: {why}{errors}");
        let (_, shown, errors) = program.run(&["def", "show", name]).await;
        assert!(shown.contains(reason), "{name}: {shown}{errors}");
        let notice = outbox.find(*id).await.unwrap().unwrap();
        assert_eq!((notice.status, notice.failures, notice.crashes), (Status::NotSent, 0, 0), "{name}");
    }
    let health = program.json(1, &["health"]).await;
    assert_eq!(health["refused_definitions"], serde_json::json!(["address", "sealed", "secret"]), "{health}");
    assert_eq!(health["invalid_definitions"], serde_json::json!(["invalid"]), "{health}");
    serve.is_well().await;

    for (name, corrected) in [("address", row("address")), ("invalid", row("invalid")), ("secret", row("secret"))] {
        let seen = row_of(&outbox, name).await;
        let done = outbox.update(&seen, corrected).await.unwrap();
        assert!(matches!(done, Updated::Stored(_)), "{name}: {done:?}");
    }
    eventually("the corrected ones arrive", async || [1, 2, 4].into_iter().all(|number| receiver.has(number))).await;
    assert!(!receiver.has(3), "no node has its key");
}

mod on_postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn refused_rows_wait_and_say_why_on_postgres() {
        each_store::on_postgres(refused_rows_wait_and_say_why).await;
    }
}

mod on_mariadb {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn refused_rows_wait_and_say_why_on_mariadb() {
        each_store::on::<MariaDb>(refused_rows_wait_and_say_why).await;
    }
}

mod on_mysql {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn refused_rows_wait_and_say_why_on_mysql() {
        each_store::on::<MySql>(refused_rows_wait_and_say_why).await;
    }
}

mod on_sqlite {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn refused_rows_wait_and_say_why_on_sqlite() {
        each_store::on::<Sqlite>(refused_rows_wait_and_say_why).await;
    }
}

mod on_redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn refused_rows_wait_and_say_why_on_redis() {
        each_store::on_redis_at("REDIS_URL", refused_rows_wait_and_say_why).await;
    }
}

mod on_redis_cluster {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn refused_rows_wait_and_say_why_on_redis_cluster() {
        each_store::on_redis_at("REDIS_CLUSTER_URL", refused_rows_wait_and_say_why).await;
    }
}
