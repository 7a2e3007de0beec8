//! TLS: certificates that are accepted and refused, certificates of the client, HTTP/2.

use serde_json::{Value, json};
use solid_notify::Status;

use crate::webhooks::certificates::{Authority, Issued, receiver};
use crate::webhooks::sender::{Sender, failure, secret};

/// The configuration for a receiver there, which trusts this authority.
fn config(port: u16, files: &tempfile::TempDir, authority: &Authority) -> Value {
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
