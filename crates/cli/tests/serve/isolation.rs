//! What one database of `serve` cannot take from another one, and a row not from the program.

use std::time::Duration;

use solid_notify::operate::Filter;
use solid_notify::{NewNotice, NotifyDef};
use sqlx::Connection;

use crate::receiver::Receiver;
use crate::{Site, add, count, eventually, until_all_ended};

/// All slots of the first database wait for a receiver, then its store does not answer.
#[tokio::test]
async fn database_that_hangs_does_not_stop_another_one() {
    let site = Site::new();
    let (hanging, receiver) = (Receiver::slow(Duration::from_secs(600)).await, Receiver::start().await);
    let (held, well) = (site.outbox("held", &hanging).await, site.outbox("well", &receiver).await);
    let row = well.definitions().await.unwrap().into_iter().find(|state| state.row.name == "order").unwrap().row;
    let acked = row.clone().need_confirm(true).max_confirm_delay("1h");
    well.operator("test").edit_definition(&row, acked).await.unwrap();
    let key = site.path("key");
    std::fs::write(&key, "a secret of a test, which has 32 bytes").unwrap();
    let keys = format!("token_keys = ['file:{}']\n", key.display());
    let databases = format!("{}{keys}{}{keys}", site.database("held"), site.database("well"));
    site.write(&format!("[sweeper]\nmax_running = 4\n{databases}"));
    let serve = site.serve().await;
    serve.ready("/readyz").await;
    add(&held, 0..20).await;
    hanging.wait_for_numbers(4).await;
    let client = reqwest::Client::new();
    let sends_and_stores_acks = async |numbers: std::ops::Range<u64>| {
        for number in numbers {
            add(&well, [number]).await;
            let seen = receiver.wait_for(|seen| seen.numbers.contains_key(&number)).await;
            let ack = client.post(format!("http://{}/well/ack", serve.address)).header("ack-token", seen.token);
            assert_eq!(ack.send().await.unwrap().status(), 200);
        }
        until_all_ended(&well).await;
        serve.ready("/readyz/well").await;
    };
    sends_and_stores_acks(0..5).await;
    let mut lock = sqlx::SqliteConnection::connect(&site.url("held")).await.unwrap();
    sqlx::raw_sql("BEGIN EXCLUSIVE").execute(&mut lock).await.unwrap();
    sends_and_stores_acks(5..10).await;
    assert_eq!(count(&well, Filter::dead_letters()).await, 0);
}

/// The key of tokens is in the folder whose files rows may use.
#[tokio::test]
async fn row_cannot_use_a_secret_of_the_program() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    let outbox = site.outbox("shop", &receiver).await;
    let secrets = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = secrets.path().join(name);
        std::fs::write(&path, "a secret of a test, which has 32 bytes").unwrap();
        format!("file:{}", path.display())
    };
    let (own, of_rows) = (file("key=1"), file("erp"));
    for (name, secret) in [("thief", &own), ("user", &of_rows)] {
        let config = format!(r#"{{"url":"http://{}/","auth":{{"bearer":"{secret}"}}}}"#, receiver.address);
        outbox.define_if_missing(NotifyDef::new(name).handler("webhook").handler_config(config)).await.unwrap();
    }
    site.write(&format!("{}token_keys = ['{own}']\n", site.database("shop")));
    let _serve = site.serve_with(|command| command.env("CREDENTIALS_DIRECTORY", secrets.path())).await;
    for (name, number) in [("thief", 1_u64), ("user", 2)] {
        outbox.add(NewNotice::new(name, number).unwrap()).await.unwrap();
    }
    receiver.wait_for_numbers(1).await;
    eventually(async || {
        let states = outbox.definitions().await.unwrap();
        let thief = states.into_iter().find(|state| state.row.name == "thief").unwrap();
        let refused = format!("{:?}", thief.refused_by);
        if refused.contains("secret of the program itself") { Ok(()) } else { Err(refused) }
    })
    .await;
    let seen = receiver.wait_for_numbers(1).await;
    assert_eq!(seen.numbers.into_keys().collect::<Vec<_>>(), [2]);
}
