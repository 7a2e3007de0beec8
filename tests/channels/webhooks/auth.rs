//! How the receiver recognises the sender: basic authentication and OAuth 2. The bearer token is in `results.rs`.

use serde_json::{Value, json};
use solid_notify::{NewNotice, NotifyDef, Status};
use solid_notify_conformance::Backend;
use test_support::raw::{Raw, read_request};
use test_support::sending::{Calls, eventually, record};
use tokio::io::AsyncWriteExt;

use crate::webhooks::certificates::{Authority, in_front_of};
use crate::webhooks::sender::{Sender, failure, response, secret};
use crate::webhooks::server::Receiver;

/// An answer of a token endpoint.
fn granted(token: &str, seconds: u64) -> (u16, Vec<(&'static str, String)>, String) {
    (200, vec![], json!({ "access_token": token, "token_type": "Bearer", "expires_in": seconds }).to_string())
}

/// A configuration with OAuth 2.
fn config(receiver: &Receiver, tokens: &Receiver, files: &tempfile::TempDir) -> Value {
    let secret = secret(files, "client", "s3cret of +mine");
    let client =
        json!({ "token_url": tokens.url("/token"), "client_id": "shop", "client_secret": secret, "scope": "a b" });
    json!({ "url": receiver.url("/"), "auth": { "oauth2": client } })
}

#[tokio::test]
async fn user_and_password_are_sent_and_not_shown() {
    let (sender, receiver, files) =
        (Sender::local().await, Receiver::answering(200).await, tempfile::tempdir().unwrap());
    receiver.now([(403, vec![], "no dXNlcjpwYXNzLXdvcmQ= with pass-word".to_owned())]);
    let basic = json!({ "basic": { "user": "user", "password": secret(&files, "password", "pass-word") } });
    let failed = sender.send(json!({ "url": receiver.url("/"), "auth": basic }), &json!(1)).await;
    assert_eq!(receiver.only().header("authorization"), "Basic dXNlcjpwYXNzLXdvcmQ=");
    assert_eq!((failure(&failed).0, response(&failed).1), ("auth", Some("no … with …")));
    sender.close().await;
}

#[tokio::test]
async fn token_is_fetched_once_for_all_definitions_of_a_client() {
    let (sender, files) = (Sender::local().await, tempfile::tempdir().unwrap());
    let (receiver, tokens) = (Receiver::answering(200).await, Receiver::answering(200).await);
    tokens.now([granted("t0ken-1", 3600), granted("t0ken-2", 3600)]);
    let config = config(&receiver, &tokens, &files);
    sender.define("one", &config).await;
    sender.define("two", &config).await;
    for name in ["one", "two", "one"] {
        assert_eq!(sender.attempt(name, &json!(1)).await.status, Status::Succeeded);
    }
    let used: Vec<_> = receiver.got.all().iter().map(|got| got.header("authorization").to_owned()).collect();
    assert_eq!(used, ["Bearer t0ken-1"; 3]);
    let asked = tokens.only();
    assert_eq!((asked.uri.path(), asked.text()), ("/token", "grant_type=client_credentials&scope=a+b"));
    assert_eq!(asked.header("authorization"), "Basic c2hvcDpzM2NyZXQrb2YrJTJCbWluZQ==");
    sender.close().await;
}

/// Both servers have certificates of an authority that the operating system does not know.
#[tokio::test]
async fn token_and_notice_go_to_servers_of_a_trusted_authority_only() {
    let (sender, files) = (Sender::local().await, tempfile::tempdir().unwrap());
    let (receiver, tokens) = (Receiver::answering(200).await, Receiver::answering(200).await);
    let (of_receiver, of_tokens) = (Authority::new(), Authority::new());
    tokens.now([granted("t0ken-1", 3600)]);
    let secure_receiver = in_front_of(receiver.address(), &of_receiver.issue("localhost")).await;
    let secure_tokens = in_front_of(tokens.address(), &of_tokens.issue("localhost")).await;
    let mut config = config(&receiver, &tokens, &files);
    config["url"] = json!(format!("https://localhost:{}/hook", secure_receiver.address.port()));
    config["auth"]["oauth2"]["token_url"] = json!(format!("https://localhost:{}/token", secure_tokens.address.port()));
    let both = format!("{}{}", of_receiver.pem(), of_tokens.pem());
    for (trusted, asked, problem) in [
        (None, 0, "the token endpoint did not answer"),
        (Some(of_receiver.pem()), 0, "the token endpoint did not answer"),
        // The token stays here.
        (Some(of_tokens.pem()), 1, "the receiver did not answer"),
        (Some(both), 1, ""),
    ] {
        if let Some(pem) = &trusted {
            let file = secret(&files, "ca.pem", pem);
            config["tls"] = json!({ "ca_file": file.trim_start_matches("file:") });
        }
        let sent = sender.send(config.clone(), &json!(1)).await;
        assert_eq!(tokens.got.count(), asked, "{sent:?}");
        if problem.is_empty() {
            assert_eq!(sent.status, Status::Succeeded, "{sent:?}");
            break;
        }
        let (class, message) = failure(&sent);
        assert!(
            class == "network" && message.contains(problem) && message.contains("invalid peer certificate"),
            "{class} {message}"
        );
        assert_eq!((sent.status, receiver.got.count()), (Status::Failed, 0), "{sent:?}");
    }
    assert_eq!(receiver.only().header("authorization"), "Bearer t0ken-1");
    sender.close().await;
}

#[tokio::test]
async fn token_is_fetched_anew_after_its_time_and_after_a_401() {
    let (sender, files) = (Sender::local().await, tempfile::tempdir().unwrap());
    let (receiver, tokens) = (Receiver::answering(200).await, Receiver::answering(200).await);
    tokens.now([granted("t0ken-1", 0), granted("t0ken-2", 3600), granted("t0ken-3", 3600), granted("t0ken-4", 3600)]);
    sender.define("hook", &config(&receiver, &tokens, &files)).await;
    for _ in 0..2 {
        assert_eq!(sender.attempt("hook", &json!(1)).await.status, Status::Succeeded);
    }
    assert_eq!(tokens.got.count(), 2, "the first one was over at once");
    receiver.now([(401, vec![], String::new()), (200, vec![], String::new())]);
    assert_eq!(sender.attempt("hook", &json!(1)).await.status, Status::Succeeded);
    assert_eq!((tokens.got.count(), receiver.got.all().last().unwrap().header("authorization")), (3, "Bearer t0ken-3"));
    receiver.now([(401, vec![], "unknown t0ken-4".to_owned())]);
    let failed = sender.attempt("hook", &json!(1)).await;
    assert_eq!((failure(&failed).0, tokens.got.count(), receiver.got.count()), ("auth", 4, 6), "once and not again");
    assert_eq!(response(&failed), ("401", Some("unknown …")));
    sender.close().await;
}

#[tokio::test]
async fn failures_of_the_token_endpoint_have_their_class() {
    let (sender, files) = (Sender::local().await, tempfile::tempdir().unwrap());
    let (receiver, tokens) = (Receiver::answering(200).await, Receiver::answering(200).await);
    let config = config(&receiver, &tokens, &files);
    for (status, body, class, problem) in [
        (400, r#"{"error":"invalid_client","secret":"hunter2"}"#, "auth", "answered with the status 400"),
        (401, "hunter2", "auth", "answered with the status 401"),
        (503, "hunter2", "unavailable", "answered with the status 503"),
        (302, "hunter2", "unknown", "answered with the status 302"),
        (200, "hunter2", "unknown", "something other than a token"),
        (200, r#"{"access_token":"hunter2","token_type":"mac"}"#, "unknown", "of another type"),
        (
            200,
            r#"{"access_token":"hunter2\n","token_type":"Bearer"}"#,
            "unknown",
            "a character that no header may have",
        ),
    ] {
        tokens.now([(status, vec![], body.to_owned())]);
        let failed = sender.send(config.clone(), &json!(1)).await;
        let (got, message) = failure(&failed);
        assert!(got == class && message.contains(problem) && !message.contains("hunter2"), "{got} {message}");
    }
    assert_eq!(receiver.got.count(), 0);
    // None of them was kept.
    tokens.now([granted("good", 3600)]);
    assert_eq!(sender.send(config, &json!(1)).await.status, Status::Succeeded);
    sender.close().await;
}

#[tokio::test]
async fn token_endpoint_is_under_the_rules_of_addresses() {
    let sender = Sender::with(solid_notify::channels::Webhook::builder()).await;
    let oauth2 = json!({ "token_url": "http://169.254.169.254/token", "client_id": "a", "client_secret": "env:A" });
    let config = json!({ "url": "https://shop.example.com/", "auth": { "oauth2": oauth2 } });
    let definition = NotifyDef::new("hook").handler("webhook").handler_config(config.to_string());
    let refused = sender.backend.outbox().define_if_missing(definition).await.unwrap_err().to_string();
    assert!(refused.contains("auth.oauth2.token_url: the address 169.254.169.254"), "{refused}");
    sender.close().await;
}

#[tokio::test]
async fn attempts_at_the_same_time_fetch_one_token() {
    let (sender, files) = (Sender::local().await, tempfile::tempdir().unwrap());
    let (receiver, tokens) = (Receiver::answering(200).await, Receiver::answering(200).await);
    tokens.now([granted("t0ken-1", 3600)]);
    sender.define("hook", &config(&receiver, &tokens, &files)).await;
    let param = json!(1);
    let attempts = (0..20).map(|_| sender.attempt("hook", &param));
    let ended = futures_util::future::join_all(attempts).await;
    assert!(ended.iter().all(|ended| ended.status == Status::Succeeded));
    assert_eq!(tokens.got.count(), 1);
    sender.close().await;
}

#[tokio::test]
async fn private_name_of_a_token_endpoint_is_not_told_from_an_unknown_one() {
    let (sender, files) =
        (Sender::with(solid_notify::channels::Webhook::builder()).await, tempfile::tempdir().unwrap());
    let (receiver, tokens) = (Receiver::answering(200).await, Receiver::answering(200).await);
    let mut failures = Vec::new();
    for host in ["localhost", "no-such-host.invalid"] {
        let mut config = config(&receiver, &tokens, &files);
        config["url"] = json!("https://shop.example.com/");
        config["auth"]["oauth2"]["token_url"] = json!(format!("http://{host}:{}/token", tokens.port()));
        let failed = sender.send(config, &json!(1)).await;
        failures.push((failure(&failed).0.to_owned(), failure(&failed).1.to_owned()));
    }
    assert_eq!(failures[0], failures[1]);
    assert!(failures[0].1.contains("the name of the host has no address that may be reached"), "{failures:?}");
    assert_eq!(tokens.got.count(), 0);
    sender.close().await;
}

#[tokio::test]
async fn definition_that_waits_for_a_token_stops_no_other_one() {
    let (sender, files) = (Sender::local().await, tempfile::tempdir().unwrap());
    let (receiver, begun) = (Receiver::answering(200).await, Calls::default());
    let connections = begun.clone();
    // The first request for a token is never answered.
    let tokens = Raw::serving(move |mut stream| {
        connections.note(());
        let hangs = connections.count() == 1;
        async move {
            read_request(&mut stream).await;
            if hangs {
                std::future::pending::<()>().await;
            }
            let body = granted("t0ken-1", 3600).2;
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
    })
    .await;
    let mut config = config(&receiver, &Receiver::answering(200).await, &files);
    config["auth"]["oauth2"]["token_url"] = json!(tokens.url());
    config["timeout"] = json!("10m");
    sender.define("waits", &config).await;
    sender.define("other", &config).await;
    let waits = sender.backend.add_new(NewNotice::new("waits", 1).unwrap()).await.id();
    eventually("a token is asked for", async || begun.count() == 1).await;
    assert_eq!(sender.attempt("other", &json!(1)).await.status, Status::Succeeded);
    assert_eq!(record(&sender.backend, waits).await.status, Status::Sending);
}

#[tokio::test]
async fn token_endpoint_that_sends_without_an_end_is_cut() {
    let (sender, files) = (Sender::local().await, tempfile::tempdir().unwrap());
    let receiver = Receiver::answering(200).await;
    for head in ["HTTP/1.1 200 OK\r\n\r\n{\"access_token\":\"", "HTTP/1.1 200 OK\r\nx-long: "] {
        let taken = Calls::default();
        let counter = taken.clone();
        let tokens = Raw::serving(move |mut stream| {
            let counter = counter.clone();
            async move {
                read_request(&mut stream).await;
                let _ = stream.write_all(head.as_bytes()).await;
                let mut sent = 0;
                while stream.write_all(&[b'x'; 16 * 1024]).await.is_ok() {
                    sent += 16 * 1024;
                    assert!(sent < 64 * 1024 * 1024, "the client reads on and on");
                }
                counter.note(sent);
            }
        })
        .await;
        let mut config = config(&receiver, &Receiver::answering(200).await, &files);
        config["auth"]["oauth2"]["token_url"] = json!(tokens.url());
        let failed = sender.send(config, &json!(1)).await;
        assert!(failure(&failed).1.starts_with("the token endpoint "), "{failed:?}");
        eventually("the connection is closed", async || taken.count() > 0).await;
        // What the sockets hold, and far less than a token or a header may have.
        assert!(taken.all()[0] < 16 * 1024 * 1024, "{:?}", taken.all());
    }
    assert_eq!(receiver.got.count(), 0);
    sender.close().await;
}
