//! The channel `mail` with a mail server that answers as a test sets it: recipients, retries, attachments, and wrong configurations.

use std::time::Duration;

use serde_json::{Value, json};
use solid_notify::channels::{Mail, Mailer};
use solid_notify::{NotifyDef, Status};
use tempfile::TempDir;
use test_support::proxy::{Proxy, Weather};
use test_support::smtp::SmtpServer;

use crate::configured::{Configured, NAME, SecretFile, own_machine, refusal, response};
use crate::desk::{error, log};
use crate::mail_names::mail;

fn to(list: Value) -> Value {
    json!({ "to": list, "subject": "order {{ param.id }}", "text": "Hello" })
}

#[tokio::test]
async fn refused_address_ends_the_notice_when_the_others_have_the_mail() {
    let server = SmtpServer::start().await;
    server.reply("gone@example.org", "550 no such mailbox");
    let config = to(json!(["{{ param.to }}"]));
    let configured = Configured::with(mail(&server, ""), &config).await;
    let param = json!({ "id": 7, "to": ["a@example.org", "gone@example.org", "not an address", "b@example.org"] });
    let dead = configured.send(&param, Status::DeadLetter).await;
    let [taken] = &server.taken.all()[..] else { panic!("one mail expected") };
    assert_eq!(taken.to, ["a@example.org", "b@example.org"]);
    assert_eq!(taken.header("To"), "a@example.org, gone@example.org, b@example.org");
    assert!(error(&dead).contains("refused the address `gone@example.org`"), "{}", error(&dead));
    assert!(error(&dead).contains("the field `to` has \"not an address\""), "{}", error(&dead));
    assert_eq!(dead.last_class.as_deref(), Some("not_found"));
    assert_eq!(response(&dead), "250: fine");
    configured.close().await;
}

#[tokio::test]
async fn retry_leaves_out_those_who_have_the_mail_and_repeats_its_id() {
    let server = SmtpServer::start().await;
    server.reply("busy@example.org", "450 try later");
    server.reply("gone@example.org", "550 no such mailbox");
    // Encrypted and masked parameters must not be in the description.
    let row = NotifyDef::new(NAME).handler_config(to(json!(["{{ param.to }}"])).to_string()).mask(r#"["$.to"]"#);
    let configured = Configured::with_row(mail(&server, ""), row).await;
    let param = json!({ "id": 7, "to": ["gone@example.org", "a@example.org", "busy@example.org"] });
    let failed = configured.send(&param, Status::Failed).await;
    assert_eq!(failed.last_class.as_deref(), Some("busy"), "what passes decides, and not what lasts");
    let description = failed.description.clone().unwrap();
    assert!(description.starts_with("delivered to: ") && !description.contains("example"), "{description}");
    server.reply("busy@example.org", "250 fine");
    let dead = configured.retry(&failed, Status::DeadLetter).await;
    assert_eq!(dead.last_class.as_deref(), Some("not_found"));
    let [first, second] = &server.taken.all()[..] else { panic!("two mails expected") };
    assert_eq!(
        (&first.to[..], &second.to[..]),
        (&["a@example.org".to_owned()][..], &["busy@example.org".to_owned()][..])
    );
    for name in ["Message-ID", "To"] {
        assert_eq!(first.header(name), second.header(name));
    }
    assert!(first.header("Message-ID").ends_with("@example.org>"), "{first:?}");
    configured.close().await;
}

#[tokio::test]
async fn secret_of_the_row_is_inserted_in_a_mail_and_not_kept() {
    let (server, secret) = (SmtpServer::start().await, SecretFile::new("hunter2-of-a-mail"));
    let mut config = to(json!(["a@example.org"]));
    config["text"] = "See https://shop.example/{{ secrets.key }}".into();
    config["secrets"] = json!({ "key": secret.reference() });
    let configured = Configured::with(mail(&server, ""), &config).await;
    let done = configured.send(&json!({ "id": 7 }), Status::Succeeded).await;
    assert!(server.taken.all()[0].text.contains("https://shop.example/hunter2-of-a-mail"));
    assert!(!format!("{done:?}").contains("hunter2"), "{done:?}");
    secret.write("another-of-a-mail");
    configured.send(&json!({ "id": 8 }), Status::Succeeded).await;
    assert!(
        server.taken.all()[1].text.contains("https://shop.example/another-of-a-mail"),
        "it is read in each attempt"
    );
    configured.close().await;
    let literal = json!({ "to": ["a@x.org"], "subject": "x", "text": "x", "secrets": { "key": "hunter2" } });
    let refused = refusal(mail(&server, ""), &literal).await;
    assert!(refused.contains("secrets.key: expected a reference") && !refused.contains("hunter2"), "{refused}");
}

#[tokio::test]
async fn test_of_an_operator_is_marked_in_the_subject() {
    let server = SmtpServer::start().await;
    let mut config = to(json!(["a@example.org"]));
    config["text"] = "{% if notice.test %}Only a test{% else %}Real{% endif %}".into();
    let configured = Configured::with(mail(&server, ""), &config).await;
    configured.test(&json!({ "id": 7 }), Status::Succeeded).await;
    configured.send(&json!({ "id": 8 }), Status::Succeeded).await;
    let [test, real] = &server.taken.all()[..] else { panic!("two mails expected") };
    assert_eq!((test.header("Subject"), real.header("Subject")), ("[test] order 7", "order 8"));
    assert!(test.text.contains("Only a test") && real.text.contains("Real"), "{test:?} {real:?}");
    configured.close().await;
}

#[tokio::test]
async fn parameter_adds_no_recipient() {
    let server = SmtpServer::start().await;
    let configured = Configured::with(mail(&server, ""), &to(json!(["{{ param.to }}", "{{ param.more }}"]))).await;
    for hostile in [
        "a@example.org, eve@example.org",
        "a@example.org\neve@example.org",
        "a@example.org\r\nBcc: eve@example.org",
        "a@example.org> RCPT TO:<eve@example.org",
        "Eve <eve@example.org> <a@example.org>",
        "\"a\r\nRCPT TO:<eve@example.org>\"@example.org",
    ] {
        let dead = configured.send(&json!({ "id": 7, "to": hostile, "more": null }), Status::DeadLetter).await;
        assert!(error(&dead).contains("which is no mail address"), "{hostile}: {}", error(&dead));
        assert_eq!(dead.last_class.as_deref(), Some("invalid"));
    }
    assert_eq!(server.taken.count(), 0);
    let none = configured.send(&json!({ "id": 7, "to": null, "more": [" "] }), Status::DeadLetter).await;
    assert!(error(&none).contains("`to`, `cc` and `bcc` give no address"), "{}", error(&none));
    let many: Vec<String> = (0..101).map(|n| format!("a{n}@example.org")).collect();
    let dead = configured.send(&json!({ "id": 7, "to": many, "more": null }), Status::DeadLetter).await;
    assert!(error(&dead).contains("101 recipients"), "{}", error(&dead));
    configured.send(&json!({ "id": 7, "to": many[..100], "more": "a1@example.org" }), Status::Succeeded).await;
    assert_eq!(server.taken.all()[0].to.len(), 100, "each once");
    configured.close().await;
}

#[tokio::test]
async fn missing_value_sends_nothing_and_shows_no_value() {
    let server = SmtpServer::start().await;
    let config = json!({ "to": ["a@example.org"], "subject": "x", "html": "<p>{{ param.order.id }}</p>" });
    let configured = Configured::with(mail(&server, ""), &config).await;
    let dead = configured.send(&json!({ "secret": "hunter2" }), Status::DeadLetter).await;
    assert!(error(&dead).contains("the template `html`") && !error(&dead).contains("hunter2"), "{}", error(&dead));
    assert_eq!((dead.last_class.as_deref(), server.taken.count()), (Some("invalid"), 0));
    configured.close().await;
}

#[tokio::test]
async fn attachments_have_limits_and_stay_in_their_folder() {
    let server = SmtpServer::start().await;
    let folder = TempDir::new().unwrap();
    std::fs::create_dir(folder.path().join("allowed")).unwrap();
    std::fs::write(folder.path().join("secret"), "hunter2").unwrap();
    std::fs::write(folder.path().join("allowed/large.bin"), vec![7; 101]).unwrap();
    std::fs::write(folder.path().join("allowed/fits.bin"), vec![7; 50]).unwrap();
    let mut config = to(json!(["a@example.org"]));
    config["attachments"] = json!([
        { "name": "a.bin", "file": "{{ param.file }}" },
        { "name": "b.bin", "base64": "{{ param.base64 }}" },
    ]);
    let channel = mail(&server, "").attachments_from(folder.path().join("allowed")).max_attachment_bytes(100);
    let configured = Configured::with(channel, &config).await;
    let sixty = "A".repeat(80);
    let absolute = folder.path().join("secret").display().to_string();
    for (file, base64, expected, class) in [
        ("../secret", "", "is not below the folder", "invalid"),
        (&absolute, "", "is not below the folder", "invalid"),
        ("missing.bin", "", "cannot read the attachment \"missing.bin\"", "not_found"),
        ("large.bin", "", "more than 100 bytes: at `attachments[0]", "invalid"),
        ("fits.bin", &sixty, "more than 100 bytes: at `attachments[1]", "invalid"),
        ("fits.bin", "no base64!", "attachments[1].base64 gives no Base64", "invalid"),
    ] {
        let dead = configured.send(&json!({ "id": 7, "file": file, "base64": base64 }), Status::DeadLetter).await;
        assert!(error(&dead).contains(expected), "{file}: {}", error(&dead));
        assert_eq!(dead.last_class.as_deref(), Some(class), "{file}");
    }
    assert_eq!(server.taken.count(), 0);
    configured.send(&json!({ "id": 7, "file": "fits.bin", "base64": "A".repeat(64) }), Status::Succeeded).await;
    configured.close().await;
}

#[tokio::test]
async fn changed_secret_changes_the_server_without_a_restart() {
    let (first, second) = (SmtpServer::start().await, SmtpServer::start().await);
    let secret = SecretFile::new(&first.url());
    let mut config = to(json!(["a@example.org"]));
    config["smtp"] = secret.reference().into();
    config["from"] = "{{ param.shop }}@example.org".into();
    let configured = Configured::with(Mail::new().allow_networks(&own_machine()), &config).await;
    configured.send(&json!({ "id": 1, "shop": "north" }), Status::Succeeded).await;
    configured.send(&json!({ "id": 2, "shop": "south" }), Status::Succeeded).await;
    secret.write("smtp://user:hunter2-of-smtp@127.0.0.1?tls=perhaps");
    let failed = configured.send(&json!({ "id": 3, "shop": "north" }), Status::Failed).await;
    assert!(error(&failed).contains("has none of the forms"), "{}", error(&failed));
    secret.write(&second.url());
    configured.retry(&failed, Status::Succeeded).await;
    let senders = |server: &SmtpServer| server.taken.all().into_iter().map(|taken| taken.from).collect::<Vec<_>>();
    assert_eq!(senders(&first), ["north@example.org", "south@example.org"]);
    assert_eq!(senders(&second), ["north@example.org"]);
    configured.close().await;
    let leaks: Vec<_> = log().all().into_iter().filter(|line| line.contains("hunter2-of-smtp")).collect();
    assert!(leaks.is_empty(), "{leaks:?}");
}

#[tokio::test]
async fn server_that_restarts_or_stalls_gets_the_mail_later() {
    let server = SmtpServer::start().await;
    let proxy = Proxy::start(([127, 0, 0, 1], server.port).into(), || ()).await;
    let mailer = Mailer::plaintext("127.0.0.1").port(proxy.port).from("shop@example.org");
    let mailer = mailer.timeout(Duration::from_secs(3)).build().unwrap();
    let configured = Configured::with(Mail::with(mailer), &to(json!(["a@example.org"]))).await;
    // A port on which nothing listens: the server is down.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    proxy.lead_to(free);
    let failed = configured.send(&json!({ "id": 1 }), Status::Failed).await;
    let server_name = format!("the mail server 127.0.0.1:{}", proxy.port);
    assert!(error(&failed).contains(&server_name), "{}", error(&failed));
    proxy.lead_to(([127, 0, 0, 1], server.port).into());
    proxy.set(Weather::Stall);
    let stalled = configured.retry(&failed, Status::Failed).await;
    assert!(error(&stalled).contains("it took longer than 3s"), "{}", error(&stalled));
    assert_eq!(stalled.last_class.as_deref(), Some("timeout"));
    assert_eq!(server.taken.count(), 0);
    proxy.set(Weather::Fair);
    configured.retry(&stalled, Status::Succeeded).await;
    assert_eq!(server.taken.count(), 1);
    server.reply(".", "451 the disk is full");
    let refused = configured.send(&json!({ "id": 2 }), Status::Failed).await;
    assert_eq!(refused.last_class.as_deref(), Some("unavailable"));
    assert!(response(&refused).starts_with("451: "), "{}", response(&refused));
    configured.close().await;
}

#[tokio::test]
async fn wrong_row_of_a_mail_is_refused_with_the_field() {
    let smtp = "file:/run/smtp";
    for (config, expected) in [
        (json!({ "to": ["a@x.org"], "subject": "x", "text": "x" }), "`smtp` is missing"),
        (json!({ "smtp": smtp, "to": ["a@x.org"], "subject": "x", "text": "x" }), "`from` is missing"),
        (json!({ "smtp": "smtp://u:hunter2@x", "subject": "x" }), "smtp: expected a reference to a secret"),
        (json!({ "smtp": smtp, "from": "a@x.org", "subject": "x", "text": "x" }), "no recipient"),
        (json!({ "smtp": smtp, "from": "a@x.org", "to": ["a@x.org"], "subject": "x" }), "`text`, `html` or both"),
        (json!({ "to": ["{{ param. }}"], "subject": "x" }), "to[0]: "),
        (json!({ "to": [], "subject": "x", "bc": [] }), "unknown field `bc`"),
        (
            json!({ "subject": "x", "attachments": [{ "name": "x", "content_type": "pdf" }] }),
            "content_type: \"pdf\" is no media",
        ),
        (
            json!({ "smtp": smtp, "from": "a@x.org", "to": ["a@x.org"], "subject": "x", "text": "x",
                    "attachments": [{ "name": "x", "content": "x", "file": "x" }] }),
            "attachments[0]: set one of",
        ),
        (
            json!({ "smtp": smtp, "from": "a@x.org", "to": ["a@x.org"], "subject": "x", "text": "x",
                    "attachments": [{ "name": "x", "file": "x" }] }),
            "attachments[0].file: the program allows no folder",
        ),
    ] {
        let refused = refusal(Mail::new(), &config).await;
        assert!(refused.contains(expected) && !refused.contains("hunter2"), "{config}: {refused}");
    }
}
