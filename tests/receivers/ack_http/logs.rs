//! No ack token is in the log, because its owner can ack with it.

use std::time::Duration;

use solid_notify::ack_http::AckRouter;
use solid_notify::{NewNotice, Notice, NotifyDef, OutboxExt, Status, TokenKeys};
use solid_notify_conformance::Backend;
use test_support::log::Log;
use test_support::sending::{Calls, reaches};
use test_support::{Database, TestDb, on_each_database};

on_each_database!(tokens_of_acks_over_http_are_not_logged);

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
    let forged = format!("{token}-forged");
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
