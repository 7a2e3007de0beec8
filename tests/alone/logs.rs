//! The log has names and ids, and neither parameters nor settings, because they may have secrets.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use solid_notify::ack_http::AckRouter;
use solid_notify::{Failure, NewNotice, Notice, NotifyDef, OutboxExt, Status, TokenKeys};
use solid_notify_testkit::conformance::Backend;
use solid_notify_tests::log::Log;
use solid_notify_tests::sending::{Calls, reaches};
use solid_notify_tests::{Database, TestDb, on_each_database};

on_each_database!(
    define_logs_changed_columns_without_their_values,
    statements_of_the_store_are_not_logged,
    tokens_of_acks_over_http_are_not_logged,
);

/// The tests of this program share a log, in which each finds its own words.
fn unique(word: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{word}-{}-end", COUNT.fetch_add(1, Ordering::Relaxed))
}

async fn define_logs_changed_columns_without_their_values<D: Database>() {
    let log = Log::with_statements();
    let db = TestDb::<D>::with_real_clock().await;
    let (name, stored, changed) = (unique("sync"), unique("stored"), unique("changed"));
    db.outbox.define_if_missing(NotifyDef::new(&name).handler_config(&stored)).await.unwrap();
    db.outbox.define_if_missing(NotifyDef::new(&name).handler_config(&changed)).await.unwrap();
    let lines = log.all();
    assert!(lines.iter().any(|line| line.contains(&name) && line.contains("handler_config")));
    assert!(!lines.iter().any(|line| line.contains(&stored) || line.contains(&changed)));
    db.close().await;
}

async fn statements_of_the_store_are_not_logged<D: Database>() {
    let log = Log::with_statements();
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync").retry_interval("1h")).await.unwrap();
    let secret = unique("secret");
    let error = secret.clone();
    let sweeper = db
        .outbox
        .sweeper()
        .poll_interval(Duration::from_millis(20))
        .handler("sync", move |_: Notice<String>| {
            let error = error.clone();
            async { Err(Failure::retry(error)) }
        })
        .start()
        .await
        .unwrap();
    let id = db.add_new(NewNotice::new("sync", &secret).unwrap()).await.id();
    reaches(&db, id, Status::Failed).await;
    sweeper.shutdown().await;
    let is_statement = |line: &String| line.contains("db.statement=");
    // Those of a migration begin with a comment; it runs on the application's connections.
    let is_migration = |line: &String| line.starts_with("summary=\"-- ");
    let statements =
        || log.all().into_iter().filter(|line| is_statement(line) && !is_migration(line)).collect::<Vec<_>>();
    let told = statements().into_iter().find(|line| line.contains(&secret) || line.contains("notify_msg m"));
    assert_eq!(told, None);
    // The application's connections follow its own log settings.
    let own = unique("application");
    db.sql(&format!("SELECT '{own}'")).await;
    assert!(statements().iter().any(|line| line.contains(&own)));
    db.close().await;
}

async fn tokens_of_acks_over_http_are_not_logged<D: Database>() {
    let log = Log::with_statements();
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.use_token_keys(TokenKeys::new(&[7; 32]).unwrap());
    db.outbox.define_if_missing(NotifyDef::new("sync").need_confirm(true)).await.unwrap();
    let tokens: Calls<String> = Calls::default();
    let noted = tokens.clone();
    let deliver = move |notice: Notice<String>| {
        noted.note(notice.ack_token(Duration::from_secs(60)).unwrap());
        async { Ok(()) }
    };
    let sweeper = db.outbox.sweeper().handler("sync", deliver).start().await.unwrap();
    let id = db.add_new(NewNotice::new("sync", "x").unwrap()).await.id();
    reaches(&db, id, Status::AwaitingAck).await;
    sweeper.shutdown().await;
    let token = tokens.all().remove(0);

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(axum::serve(listener, AckRouter::new(&db.outbox).into_router()).into_future());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let post = async |path: &str, token: &str, body: &str| {
        let request = client.post(format!("{url}{path}")).header("content-type", "application/json");
        let request = if path.contains(token) { request } else { request.header("ack-token", token) };
        request.body(body.to_owned()).send().await.unwrap().status().as_u16()
    };
    let forged = format!("{token}{}", unique("forged"));
    let in_body = format!(r#"{{"token": "{token}", "other": 1}}"#);
    assert_eq!(post("/ack", &forged, "").await, 403);
    assert_eq!(post(&format!("/nack/{forged}"), &forged, "").await, 403);
    assert_eq!(post("/ack", &token, &in_body).await, 400);
    db.sql("ALTER TABLE notify_msg RENAME TO notify_away").await;
    assert_eq!(post("/ack", &token, "").await, 503);
    db.sql("ALTER TABLE notify_away RENAME TO notify_msg").await;
    assert_eq!(post(&format!("/ack/{token}"), &token, "").await, 200);
    server.abort();

    // The sweeper gives the token to the handler alone, and the routes of this crate log none. The client of this test logs URLs.
    let lines = log.all();
    assert!(lines.iter().any(|line| line.contains("refused the token")), "the refusals are logged");
    assert!(lines.iter().any(|line| line.contains(&format!("notice={id}")) && line.contains("cannot store")));
    let telling: Vec<_> = lines.iter().filter(|line| line.contains(&token)).collect();
    assert_eq!(telling, Vec::<&String>::new());
    db.close().await;
}
