//! Webhooks through the proxy of the program: requests to `http` URLs, and tunnels for `https`.

use serde_json::json;
use solid_notify::Status;
use solid_notify::channels::Webhook;
use test_support::raw::{Raw, read_request, write_for_ever};
use test_support::sending::Calls;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;

use crate::webhooks::certificates::{Authority, receiver};
use crate::webhooks::hostile::sent_in_bounded_memory;
use crate::webhooks::sender::{Sender, failure};
use crate::webhooks::tls::config;

/// Interim responses, again and again.
const INTERIM: &str = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n";

/// The channel with this proxy.
async fn through(proxy: &Raw) -> Sender {
    Sender::with(Webhook::builder().proxy(format!("http://user:p%40ss@{}/", proxy.address))).await
}

/// Reads a request without a body.
async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

#[tokio::test]
async fn receiver_behind_a_tunnel_is_reached_by_http_2() {
    let (files, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let (receiver, versions) = receiver(&authority.issue("localhost"), None).await;
    let (heads, address) = (Calls::default(), receiver.address);
    let noted = heads.clone();
    let proxy = Raw::serving(move |mut stream| {
        let noted = noted.clone();
        async move {
            noted.note(read_head(&mut stream).await);
            let _ = stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await;
            let _ = copy_bidirectional(&mut stream, &mut TcpStream::connect(address).await.unwrap()).await;
        }
    })
    .await;
    let (sender, config) = (through(&proxy).await, config(address.port(), &files, &authority));
    sender.define("hook", &config).await;
    for number in 0..3 {
        let sent = sender.attempt("hook", &json!(number)).await;
        assert_eq!(sent.status, Status::Succeeded, "{sent:?}");
    }
    assert_eq!(versions.all(), [hyper::Version::HTTP_2; 3]);
    let heads = heads.all();
    let [head] = &heads[..] else { panic!("the connection is kept: {heads:?}") };
    assert!(head.starts_with(&format!("CONNECT localhost:{} HTTP/1.1\r\n", address.port())), "{head}");
    // The user and the password of the URL, without its escapes.
    assert!(head.contains("\r\nproxy-authorization: Basic dXNlcjpwQHNz\r\n"), "{head}");
    sender.close().await;
}

#[tokio::test]
async fn proxy_without_an_end_fails_by_a_limit() {
    let (files, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    for (url, first) in [("http", ""), ("https", ""), ("https", "HTTP/1.1 200 Connected\r\nx-long: ")] {
        let again = if first.is_empty() { INTERIM.repeat(1000) } else { "x".repeat(16 * 1024) };
        let proxy = Raw::serving(move |mut stream| {
            let again = again.clone();
            async move {
                read_request(&mut stream).await;
                let _ = stream.write_all(first.as_bytes()).await;
                write_for_ever(&mut stream, again.as_bytes()).await;
            }
        })
        .await;
        let sender = through(&proxy).await;
        let config = match url {
            "http" => json!({ "url": "http://shop.example.com/hook" }),
            _ => config(1, &files, &authority),
        };
        let failed = sent_in_bounded_memory(&sender, config).await;
        assert_eq!(failure(&failed).0, "network", "{url} {first:?}: {failed:?}");
        sender.close().await;
    }
}
