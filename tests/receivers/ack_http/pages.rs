//! People who follow a link: the page with the button, and the page with the result. Programs that follow links change nothing.

use axum::Router;
use reqwest::Method;
use solid_notify::Status;
use solid_notify::ack_http::AckRouter;
use solid_notify_conformance::Backend;
use test_support::memory::MemoryBackend;
use test_support::sending::record;

use super::server::{Server, delivered};

const BROWSER: &str = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8";

#[tokio::test]
async fn get_and_head_change_nothing() {
    let b = MemoryBackend::default();
    let server = Server::of(b.outbox()).await;
    let (id, token) = delivered(&b, 1).await.remove(0);
    for verb in ["ack", "nack"] {
        for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE, Method::PATCH] {
            let request = server.request(method.clone(), &format!("/{verb}/{token}")).header("ack-token", &token);
            let expected = if method == Method::GET || method == Method::HEAD { 200 } else { 405 };
            assert_eq!(request.send().await.unwrap().status().as_u16(), expected, "{method}");
            let request = server.request(method, &format!("/{verb}")).header("ack-token", &token);
            let response = request.send().await.unwrap();
            assert_eq!((response.status().as_u16(), &response.headers()["allow"]), (405, &"POST".parse().unwrap()));
        }
    }
    let notice = record(&b, id).await;
    assert_eq!((notice.status, notice.errors.len()), (Status::AwaitingAck, 0));
}

#[tokio::test]
async fn page_has_a_form_and_neither_token_nor_script() {
    let b = MemoryBackend::default();
    let server = Server::of(b.outbox()).await;
    let (id, token) = delivered(&b, 1).await.remove(0);
    let path = format!("/ack/{token}");
    let page = server.request(Method::GET, &path).header("accept", BROWSER).send().await.unwrap();
    let header = |name| page.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    let policy = header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; form-action 'self';"), "{policy}");
    assert_eq!([header("cache-control"), header("referrer-policy")], ["no-store", "no-referrer"]);
    let html = page.text().await.unwrap();
    assert!(html.contains("<form method=\"post\">") && html.contains("<button>Confirm</button>"), "{html}");
    assert!(!html.contains(&token) && !html.contains("<script") && !html.contains("http"), "{html}");
    // The page does not tell whether a token is valid.
    let of_garbage = server.request(Method::GET, "/ack/garbage").header("accept", BROWSER).send().await.unwrap();
    assert_eq!((of_garbage.status().as_u16(), of_garbage.text().await.unwrap()), (200, html));

    // A browser posts the form without fields.
    let form = "application/x-www-form-urlencoded";
    let posted = server.request(Method::POST, &path).header("accept", BROWSER).header("content-type", form);
    let posted = posted.send().await.unwrap();
    assert_eq!(posted.status().as_u16(), 200);
    let html = posted.text().await.unwrap();
    assert!(html.contains("<p>The confirmation is stored.</p>"), "{html}");
    assert_eq!(record(&b, id).await.status, Status::Succeeded);
    let refused = server.request(Method::POST, "/ack/garbage").header("accept", BROWSER).send().await.unwrap();
    assert_eq!(refused.status().as_u16(), 403);
    assert!(refused.text().await.unwrap().contains("<h1>Not done</h1>"));
}

#[tokio::test]
async fn form_of_a_nack_sends_the_reason() {
    let b = MemoryBackend::default();
    let server = Server::of(b.outbox()).await;
    let (id, token) = delivered(&b, 1).await.remove(0);
    let path = format!("/nack/{token}");
    let page = server.request(Method::GET, &path).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("name=\"reason\"") && page.contains("<button>Refuse</button>"), "{page}");
    let form = "application/x-www-form-urlencoded";
    let posted =
        server.request(Method::POST, &path).header("content-type", form).body("reason=no+more+%3Cb%3E+%E5%8D%95");
    assert_eq!(posted.send().await.unwrap().status().as_u16(), 200);
    assert_eq!(record(&b, id).await.errors[0].message, "its receiver refused it: no more <b> 单");
}

#[tokio::test]
async fn routes_work_below_a_path_with_parameters() {
    let b = MemoryBackend::default();
    let (_, token) = delivered(&b, 1).await.remove(0);
    let routes = AckRouter::new(b.outbox()).into_router();
    let server = Server::with(Router::new().nest("/tenants/{tenant}", routes).with_state(7)).await;
    let acked = server.request(Method::POST, &format!("/tenants/blue/ack/{token}")).send().await.unwrap();
    assert_eq!(acked.status().as_u16(), 200);
}
