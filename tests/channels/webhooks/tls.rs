//! TLS: certificates that are accepted and refused, certificates of the client, HTTP/2.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use solid_notify::{NewNotice, Status};
use solid_notify_conformance::Backend;
use test_support::raw::Raw;
use test_support::sending::{eventually, record};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use crate::webhooks::certificates::{Authority, Issued, receiver, server_config};
use crate::webhooks::sender::{Sender, failure, secret};

/// The configuration for a receiver there, which trusts this authority.
pub fn config(port: u16, files: &tempfile::TempDir, authority: &Authority) -> Value {
    let reference = secret(files, "ca.pem", &authority.pem());
    json!({ "url": format!("https://localhost:{port}/hook"), "tls": { "ca_file": reference.trim_start_matches("file:") } })
}

/// Adds the certificate of the client.
fn with_identity(mut config: Value, files: &tempfile::TempDir, issued: &Issued) -> Value {
    config["tls"]["certificate"] = json!(secret(files, "client.pem", &issued.certificate.pem()));
    config["tls"]["key"] = json!(secret(files, "client.key", &issued.key.serialize_pem()));
    config
}

#[tokio::test]
async fn receiver_with_a_trusted_certificate_is_reached_by_http_2() {
    let (sender, files, authority) = (Sender::local().await, tempfile::tempdir().unwrap(), Authority::new());
    let (receiver, versions) = receiver(&authority.issue("localhost"), None).await;
    let config = config(receiver.address.port(), &files, &authority);
    let sent = sender.send(config, &json!(1)).await;
    assert_eq!((sent.status, versions.all()), (Status::Succeeded, vec![hyper::Version::HTTP_2]), "{sent:?}");
    sender.close().await;
}

#[tokio::test]
async fn certificate_that_cannot_be_trusted_is_a_failure() {
    let (sender, files, authority) = (Sender::local().await, tempfile::tempdir().unwrap(), Authority::new());
    for (what, issued) in [
        ("expired", authority.issue_expired("localhost")),
        ("another host", authority.issue("shop.example.com")),
        ("unknown authority", Authority::new().issue("localhost")),
    ] {
        let (receiver, versions) = receiver(&issued, None).await;
        let failed = sender.send(config(receiver.address.port(), &files, &authority), &json!(1)).await;
        assert_eq!((failure(&failed).0, versions.count()), ("network", 0), "{what}: {failed:?}");
    }
    sender.close().await;
}

#[tokio::test]
async fn client_shows_its_certificate_and_a_replaced_one() {
    let (sender, files) = (Sender::local().await, tempfile::tempdir().unwrap());
    let (authority, clients) = (Authority::new(), Authority::new());
    let (receiver, versions) = receiver(&authority.issue("localhost"), Some(&clients)).await;
    let without = config(receiver.address.port(), &files, &authority);
    let failed = sender.send(without.clone(), &json!(1)).await;
    assert_eq!((failure(&failed).0, versions.count()), ("network", 0), "{failed:?}");
    let stranger = with_identity(without.clone(), &files, &authority.issue("sender"));
    sender.define("mutual", &stranger).await;
    assert_eq!(failure(&sender.attempt("mutual", &json!(1)).await).0, "network");
    // The same references, with a certificate of the right authority in the files.
    with_identity(without, &files, &clients.issue("sender"));
    let sent = sender.attempt("mutual", &json!(1)).await;
    assert_eq!((sent.status, versions.count()), (Status::Succeeded, 1), "{sent:?}");
    sender.close().await;
}

#[tokio::test]
async fn file_that_is_no_certificate_is_named_and_not_shown() {
    let (sender, files) = (Sender::local().await, tempfile::tempdir().unwrap());
    let wrong = secret(&files, "wrong.pem", "hunter2");
    let path = wrong.trim_start_matches("file:");
    let missing = files.path().join("missing");
    for (tls, problem) in [
        (json!({ "ca_file": path }), "tls.ca_file"),
        (json!({ "ca_file": missing }), "cannot read the secret \"file:/"),
        (json!({ "certificate": wrong, "key": wrong }), "`certificate` and `key` are no certificate"),
    ] {
        let failed = sender.send(json!({ "url": "https://localhost:1/", "tls": tls }), &json!(1)).await;
        let (_, message) = failure(&failed);
        assert!(message.contains(problem) && !message.contains("hunter2"), "{message}");
    }
    sender.close().await;
}

/// Types of frames.
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GO_AWAY: u8 = 7;

/// A frame of HTTP/2: its type, its flags, its stream, its content.
pub fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), content].concat()
}

/// Begins a connection of HTTP/2 and reads until the head of a request. Returns its stream.
pub async fn read_request_of_http_2(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> std::io::Result<u32> {
    stream.read_exact(&mut [0; 24]).await?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    loop {
        match read_frame(stream).await? {
            (SETTINGS, 0, _) => stream.write_all(&frame(SETTINGS, 1, 0, &[])).await?,
            (HEADERS, _, id) => return Ok(id),
            _ => {}
        }
    }
}

/// Reads a frame. Returns its type, its flags and its stream.
async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<(u8, u8, u32)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    let [a, b, c, kind, flags, id @ ..] = head;
    let mut content = vec![0; usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap()];
    stream.read_exact(&mut content).await?;
    Ok((kind, flags, u32::from_be_bytes(id)))
}

/// Answers requests over HTTP/2 with 200, or only the first one, and closes the connection with an error after `most` further ones.
async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, most: Option<usize>) -> std::io::Result<()> {
    stream.read_exact(&mut [0; 24]).await?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    let mut requests = 0;
    loop {
        let (kind, flags, id) = read_frame(&mut stream).await?;
        match kind {
            SETTINGS if flags == 0 => stream.write_all(&frame(SETTINGS, 1, 0, &[])).await?,
            HEADERS => {
                requests += 1;
                match most.filter(|_| requests > 1) {
                    // The status 200 is number 8 of the table of headers; the response has no body.
                    None => stream.write_all(&frame(HEADERS, 5, id, &[0x88])).await?,
                    Some(most) if requests > most => {
                        // The last stream is 0, the reason ENHANCE_YOUR_CALM.
                        stream.write_all(&frame(GO_AWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 11])).await?;
                        return stream.shutdown().await;
                    }
                    Some(_) => {}
                }
            }
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_closed_because_of_one_request_costs_the_others_no_try() {
    const REQUESTS: usize = 5;
    let (sender, files, authority) = (Sender::local().await, tempfile::tempdir().unwrap(), Authority::new());
    let mut tls = server_config(&authority.issue("localhost"), None);
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let (acceptor, connections) = (TlsAcceptor::from(Arc::new(tls)), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&connections);
    let server = Raw::serving(move |stream| {
        let (acceptor, number) = (acceptor.clone(), counter.fetch_add(1, Ordering::Relaxed));
        async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            // The first connection ends with the requests after the one that made it.
            let _ = serve(stream, (number == 0).then_some(REQUESTS)).await;
        }
    })
    .await;
    sender.define("hook", &config(server.address.port(), &files, &authority)).await;
    let add = async |number: usize| sender.backend.add_new(NewNotice::new("hook", number).unwrap()).await.id();
    // Several requests at once would make a connection each, of which one is kept.
    let first = add(0).await;
    eventually("it is sent", async || record(&sender.backend, first).await.status == Status::Succeeded).await;
    let mut ids = vec![first];
    for number in 1..=REQUESTS {
        ids.push(add(number).await);
    }
    for id in ids {
        eventually("it is sent again", async || record(&sender.backend, id).await.status == Status::Succeeded).await;
        let notice = record(&sender.backend, id).await;
        assert!(notice.failures == 0 && notice.errors.is_empty(), "{:?}", notice.errors);
    }
    assert!(connections.load(Ordering::Relaxed) > 1);
    sender.close().await;
}

/// Each request is sent on a connection of its own from its second time on, so each later failure is its own.
#[tokio::test]
async fn request_that_closes_each_connection_is_handed_back_once() {
    let (sender, files, authority) = (Sender::local().await, tempfile::tempdir().unwrap(), Authority::new());
    let mut tls = server_config(&authority.issue("localhost"), None);
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let (acceptor, requests) = (TlsAcceptor::from(Arc::new(tls)), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&requests);
    let server = Raw::serving(move |stream| {
        let (acceptor, counter) = (acceptor.clone(), Arc::clone(&counter));
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let Ok(_) = read_request_of_http_2(&mut stream).await else { return };
            counter.fetch_add(1, Ordering::Relaxed);
            // The last stream is 0, the reason ENHANCE_YOUR_CALM.
            let _ = stream.write_all(&frame(GO_AWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 11])).await;
            let _ = stream.shutdown().await;
        }
    })
    .await;
    sender.define("hook", &config(server.address.port(), &files, &authority)).await;
    let id = sender.backend.add_new(NewNotice::new("hook", 1).unwrap()).await.id();
    for failures in 1..3 {
        let failed = async || record(&sender.backend, id).await.errors.len() == failures;
        eventually("the attempt has failed", failed).await;
        assert_eq!(requests.load(Ordering::Relaxed), failures + 1);
        sender.backend.clock().advance(std::time::Duration::from_secs(2 * 3600));
    }
    sender.close().await;
}
