//! A store that is away, blocked or not set up: 5xx without anything of the inside, and the repeated request counts.

use std::time::Duration;

use reqwest::Method;
use solid_notify::ack_http::AckRouter;
use solid_notify::{AnyOutbox, Status};
use solid_notify_testkit::MemoryOutbox;
use sqlx::{Connection, Executor};
use test_support::sending::record;
use test_support::{Database, TestDb, on_each_database};

use super::server::{Server, delivered};

on_each_database!(broken_store_is_503_and_a_repeated_ack_counts);

async fn broken_store_is_503_and_a_repeated_ack_counts<D: Database>() {
    let db = TestDb::<D>::with_hand_clock().await;
    let server = Server::of(&db.outbox).await;
    let (id, token) = delivered(&db, 1).await.remove(0);
    db.sql("ALTER TABLE notify_msg RENAME TO notify_away").await;
    let response = server.request(Method::POST, "/ack").header("ack-token", &token).send().await.unwrap();
    assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (503, &"5".parse().unwrap()));
    let body = response.text().await.unwrap();
    assert!(body.contains(r#""result":"unavailable""#) && !body.contains("notify"), "{body}");
    db.sql("ALTER TABLE notify_away RENAME TO notify_msg").await;
    assert_eq!(server.post("ack", &token).await, (200, "applied".to_owned()));
    assert_eq!(record(&db, id).await.status, Status::Succeeded);
    db.close().await;
}

mod on_postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn blocked_store_is_503_within_the_limit() {
        let db = TestDb::<test_support::Postgres>::with_hand_clock().await;
        let (_, token) = delivered(&db, 1).await.remove(0);
        let routes = AckRouter::new(&db.outbox).time_limit(Duration::from_millis(200)).into_router();
        let server = Server::with(routes).await;
        let mut conn = db.pool.acquire().await.unwrap();
        let mut tx = conn.begin().await.unwrap();
        tx.execute("LOCK TABLE notify_msg IN ACCESS EXCLUSIVE MODE").await.unwrap();
        assert_eq!(server.post("ack", &token).await, (503, "unavailable".to_owned()));
        tx.rollback().await.unwrap();
        drop(conn);
        // With the usual limit, because a busy machine may need longer than the short one.
        let server = Server::of(&db.outbox).await;
        assert_eq!(server.post("ack", &token).await, (200, "applied".to_owned()));
        db.close().await;
    }
}

#[tokio::test]
async fn missing_keys_are_500() {
    let outbox = MemoryOutbox::builder().build();
    let server = Server::of(&AnyOutbox::clone(&outbox)).await;
    assert_eq!(server.post("ack", "garbage").await, (500, "failed".to_owned()));
}
