//! Webhooks through the proxy of the program: requests to `http` URLs, and tunnels for `https`.

use serde_json::json;
use solid_notify::channels::Webhook;
use solid_notify::{NotifyDef, Status};
use solid_notify_conformance::Backend;
use test_support::raw::{Raw, read_request, write_for_ever};
use test_support::sending::Calls;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;

use crate::webhooks::certificates::{Authority, receiver};
use crate::webhooks::hostile::sent_in_bounded_memory;
use crate::webhooks::sender::{Sender, failure};
use crate::webhooks::tls::config;

/// The value of `proxy-authorization` for the user and the password of [`through`], without the escapes of the URL.
const CREDENTIALS: &str = "\r\nproxy-authorization: Basic dXNlcjpwQHNz\r\n";

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

/// A proxy that connects those who know its credentials to hosts of this machine, and no others. It notes the heads of requests.
async fn connecting(credentials: &'static str) -> (Raw, Calls<String>) {
    let heads = Calls::default();
    let noted = heads.clone();
    let proxy = Raw::serving(move |mut stream| {
        let noted = noted.clone();
        async move {
            let head = read_head(&mut stream).await;
            noted.note(head.clone());
            let target = head.strip_prefix("CONNECT ").and_then(|rest| rest.split_once(" HTTP/1.1\r\n"));
            let refusal = match target {
                _ if !head.contains(credentials) => "407 Proxy Authentication Required",
                Some((target, _)) if target.starts_with("localhost:") => {
                    let mut receiver = TcpStream::connect(target).await.unwrap();
                    let _ = stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await;
                    let _ = copy_bidirectional(&mut stream, &mut receiver).await;
                    return;
                }
                _ => "403 Forbidden",
            };
            let _ = stream.write_all(format!("HTTP/1.1 {refusal}\r\ncontent-length: 0\r\n\r\n").as_bytes()).await;
        }
    })
    .await;
    (proxy, heads)
}

#[tokio::test]
async fn receiver_behind_a_tunnel_is_reached_by_http_2() {
    let (files, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let (receiver, versions) = receiver(&authority.issue("localhost"), None).await;
    let (proxy, heads) = connecting(CREDENTIALS).await;
    let port = receiver.address.port();
    let (sender, config) = (through(&proxy).await, config(port, &files, &authority));
    sender.define("hook", &config).await;
    for number in 0..3 {
        let sent = sender.attempt("hook", &json!(number)).await;
        assert_eq!(sent.status, Status::Succeeded, "{sent:?}");
    }
    assert_eq!(versions.all(), [hyper::Version::HTTP_2; 3]);
    let heads = heads.all();
    let [head] = &heads[..] else { panic!("the connection is kept: {heads:?}") };
    assert!(head.starts_with(&format!("CONNECT localhost:{port} HTTP/1.1\r\n")), "{head}");
    assert!(head.contains(CREDENTIALS), "{head}");
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

#[tokio::test]
async fn proxy_that_refuses_is_named_and_the_notice_is_retried() {
    let (sound, _) = connecting(CREDENTIALS).await;
    let (of_others, _) = connecting("\r\nproxy-authorization: Basic b3RoZXI=\r\n").await;
    let gone = Raw::serving(|_| async {}).await;
    for (proxy, url) in [
        (&sound, "https://shop.example.com/hook"),
        (&of_others, "https://shop.example.com/hook"),
        (&of_others, "http://shop.example.com/hook"),
        (&gone, "https://shop.example.com/hook"),
    ] {
        let sender = through(proxy).await;
        let failed = sender.send(json!({ "url": url }), &json!(1)).await;
        let (class, message) = failure(&failed);
        assert_eq!((failed.status, class), (Status::Failed, "network"), "{url}: {failed:?}");
        assert!(message.contains(&format!("through the proxy {}", proxy.address)), "{url}: {message}");
        assert!(!message.contains("user:") && !message.contains("p@ss") && !message.contains("p%40ss"), "{message}");
        sender.close().await;
    }
}

/// The proxy resolves names. Addresses are in the URL, and the channel judges them before it asks the proxy.
#[tokio::test]
async fn proxy_is_not_asked_for_a_private_address() {
    let (proxy, heads) = connecting(CREDENTIALS).await;
    let sender = through(&proxy).await;
    let refused =
        |url: &str| NotifyDef::new("literal").handler("webhook").handler_config(json!({ "url": url }).to_string());
    for url in ["https://10.0.0.1/", "https://[::1]/", "https://169.254.169.254/latest/meta-data/"] {
        let problem = sender.backend.outbox().define_if_missing(refused(url)).await.unwrap_err().to_string();
        assert!(problem.contains("url: the address"), "{url}: {problem}");
    }
    let config = json!({ "url": "https://{{ param }}/", "allow_hosts": ["127.0.0.1", "10.0.0.1"] });
    for host in ["127.0.0.1", "10.0.0.1", "0x7f000001"] {
        let failed = sender.send(config.clone(), &json!(host)).await;
        let (class, message) = failure(&failed);
        assert!(class == "invalid" && message.contains("is refused because it is"), "{host}: {class} {message}");
    }
    assert_eq!(heads.count(), 0);
    sender.close().await;
}
