//! Requests that are wrong, on purpose or not: each gets its 4xx, none changes a notice or stops the server.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use reqwest::Method;
use solid_notify::Status;
use solid_notify::ack_http::AckRouter;
use solid_notify_conformance::Backend;
use test_support::memory::MemoryBackend;
use test_support::sending::record;

use tokio::time::Instant;

use super::server::{Server, delivered, reply};

#[tokio::test]
async fn unreadable_requests_are_refused_and_change_nothing() {
    let b = MemoryBackend::default();
    let server = Server::of(b.outbox()).await;
    let (id, token) = delivered(&b, 1).await.remove(0);
    let json = "application/json";
    let form = "application/x-www-form-urlencoded";
    let big = format!(r#"{{"reason": "{}"}}"#, "x".repeat(20_000));
    let cases: [(&str, &[u8], u16, &str); 15] = [
        (json, b"", 400, "no_token"),
        (json, b"{}", 400, "no_token"),
        (json, b"{\"token\": ", 400, "unreadable_body"),
        (json, b"[]", 400, "unreadable_body"),
        (json, b"7", 400, "unreadable_body"),
        (json, b"{\"token\": 7}", 400, "unreadable_body"),
        (json, b"{\"token\": \"\xff\"}", 400, "unreadable_body"),
        (json, b"{\"token\": \"a\", \"token\": \"b\"}", 400, "unreadable_body"),
        (json, b"{\"tokn\": \"a\"}", 400, "unreadable_body"),
        (json, &[b'['; 10_000], 400, "unreadable_body"),
        (json, big.as_bytes(), 413, "too_large"),
        (form, b"token=a&token=b", 400, "unreadable_body"),
        (form, b"other=a", 400, "unreadable_body"),
        ("text/plain", b"out of stock", 415, "unsupported_content_type"),
        ("", b"out of stock", 415, "unsupported_content_type"),
    ];
    for (content_type, body, status, result) in cases {
        let request = server.request(Method::POST, "/nack").header("content-type", content_type).body(body.to_vec());
        assert_eq!(reply(request).await, (status, result.to_owned()), "{}", String::from_utf8_lossy(body));
    }

    let in_body = format!(r#"{{"token": "{token}"}}"#);
    let post = |path: &str| server.request(Method::POST, path);
    let several = [
        post("/ack").header("ack-token", &token).header("ack-token", &token),
        post("/ack").header("authorization", format!("Bearer {token}")).header("authorization", "Bearer b"),
        post("/ack").header("ack-token", &token).header("content-type", json).body(in_body.clone()),
        post(&format!("/ack/{token}")).header("ack-token", &token),
        post(&format!("/ack/{token}")).header("content-type", json).body(in_body),
    ];
    for request in several {
        assert_eq!(reply(request).await, (400, "several_tokens".to_owned()));
    }
    for scheme in ["Basic", "Bearer", ""] {
        let request = post("/ack").header("authorization", format!("{scheme}{token}"));
        assert_eq!(reply(request).await, (400, "no_token".to_owned()));
    }
    let notice = record(&b, id).await;
    assert_eq!((notice.status, notice.errors.len()), (Status::AwaitingAck, 0));
}

#[tokio::test]
async fn altered_paths_change_nothing() {
    let b = MemoryBackend::default();
    let server = Server::of(b.outbox()).await;
    let (id, token) = delivered(&b, 1).await.remove(0);
    for (path, status) in [
        (format!("/ack/{token}/"), 404),
        (format!("//ack/{token}"), 404),
        (format!("/ack//{token}"), 404),
        (format!("/ACK/{token}"), 404),
        (format!("/nack/../ack/{token}"), 404),
        (format!("/ack/%2e%2e%2fack%2f{token}"), 403),
        (format!("/ack/{token}%00"), 403),
        (format!("/ack/{token}%2f"), 403),
        ("/ack/%ff%fe".to_owned(), 403),
        (format!("/ack/{}", "a".repeat(30_000)), 403),
        (format!("/ack?token={token}"), 400),
    ] {
        let request = format!("POST {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        let response = server.raw(request.as_bytes()).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {response}");
    }
    let header =
        [b"POST /ack HTTP/1.1\r\nhost: h\r\nconnection: close\r\nack-token: \xff\xfe\r\n\r\n".as_slice()].concat();
    assert!(server.raw(&header).await.starts_with("HTTP/1.1 403 "));
    assert_eq!(record(&b, id).await.status, Status::AwaitingAck);
}

#[tokio::test]
async fn endless_body_is_refused_at_its_limit() {
    let b = MemoryBackend::default();
    let (id, token) = delivered(&b, 1).await.remove(0);
    let server = Server::with(AckRouter::new(b.outbox()).body_limit(100).into_router()).await;
    let head = format!("POST /ack HTTP/1.1\r\nhost: h\r\nack-token: {token}\r\ncontent-type: application/json\r\n");
    let chunk = format!("40\r\n{}\r\n", "x".repeat(64));
    let endless = server.raw(format!("{head}transfer-encoding: chunked\r\n\r\n{chunk}{chunk}").as_bytes()).await;
    assert!(endless.starts_with("HTTP/1.1 413 ") && endless.contains("too_large"), "{endless}");
    assert_eq!(record(&b, id).await.status, Status::AwaitingAck);
    assert_eq!(server.post("ack", &token).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn slow_body_is_refused_after_the_time_limit() {
    let b = MemoryBackend::default();
    let (id, token) = delivered(&b, 1).await.remove(0);
    let limit = Duration::from_secs(3);
    let server = Server::with(AckRouter::new(b.outbox()).time_limit(limit).into_router()).await;
    let head = format!("POST /ack HTTP/1.1\r\nhost: h\r\nack-token: {token}\r\ncontent-type: application/json\r\n");
    let began = Instant::now();
    let slow = server.raw(format!("{head}content-length: 90\r\n\r\n{{").as_bytes()).await;
    // On the paused clock. A timer counts whole milliseconds.
    let took = began.elapsed();
    assert!(took >= limit && took < limit + Duration::from_millis(10), "{took:?}");
    assert!(slow.starts_with("HTTP/1.1 408 ") && slow.contains("too_slow"), "{slow}");
    assert_eq!(record(&b, id).await.status, Status::AwaitingAck);
}

#[tokio::test]
async fn peer_is_limited_by_its_address() {
    let b = MemoryBackend::default();
    let (_, token) = delivered(&b, 1).await.remove(0);
    // A limit of one per second may let a further request pass where a second goes by, so one peer sends many.
    let routes = AckRouter::new(b.outbox()).requests_per_second_of_peer(1).into_router();
    let server = Server::with(routes).await;
    assert_eq!(server.post("ack", "garbage").await.0, 403);
    let mut limited = None;
    for _ in 0..100 {
        let response = server.request(Method::POST, "/ack").header("ack-token", &token).send().await.unwrap();
        if response.status().as_u16() == 429 {
            limited = Some(response.headers()["retry-after"].clone());
            break;
        }
    }
    assert_eq!(limited.unwrap(), "1");

    // Behind a proxy, by the header that the proxy sets.
    let peer = |parts: &axum::http::request::Parts| parts.headers.get("x-real-ip")?.to_str().ok()?.parse().ok();
    let routes = AckRouter::new(b.outbox()).requests_per_second_of_peer(1).peer_by(peer).into_router();
    let server = Server::with(routes).await;
    for number in 1..20 {
        let address = IpAddr::from(Ipv4Addr::new(192, 0, 2, number));
        let request = server.request(Method::POST, "/ack").header("ack-token", &token);
        assert_eq!(reply(request.header("x-real-ip", address.to_string())).await.0, 200);
    }
}

#[tokio::test]
async fn invalid_tokens_do_not_use_up_the_limit_of_the_process() {
    let b = MemoryBackend::default();
    let (_, token) = delivered(&b, 1).await.remove(0);
    let server = Server::with(AckRouter::new(b.outbox()).requests_per_second(1).into_router()).await;
    for _ in 0..50 {
        assert_eq!(server.post("ack", "garbage").await.0, 403);
    }
    assert_eq!(server.post("ack", &token).await, (200, "applied".to_owned()));
    let mut replies = Vec::new();
    for _ in 0..50 {
        replies.push(server.post("ack", &token).await.0);
    }
    assert!(replies.contains(&429), "{replies:?}");
}
