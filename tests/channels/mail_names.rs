//! Mails by a row: quoted addresses and names, the name in EHLO, texts and files as they were.

use serde_json::{Value, json};
use solid_notify::Status;
use solid_notify::channels::{Mail, Mailer};
use test_support::smtp::SmtpServer;

use crate::configured::{Configured, refusal};
use crate::desk::error;

/// A channel that sends through a server, whose URL has these options, too.
pub fn mail(server: &SmtpServer, options: &str) -> Mail {
    let url = format!("{}{options}", server.url());
    Mail::with(Mailer::from_url(&url).unwrap().from("Shop <shop@example.org>").build().unwrap())
}

fn to(list: Value) -> Value {
    json!({ "to": list, "subject": "=?utf-8?B?aGVsbG8=?=", "text": "Hello\rworld" })
}

#[tokio::test]
async fn quoted_address_and_name_with_a_comma_get_the_mail() {
    let server = SmtpServer::start().await;
    server.reply("\"night, shift\"@example.org", "450 try later");
    let list = json!(["\"Doe, Jane\" <jane@example.org>", "{{ param.others }}"]);
    let configured = Configured::with(mail(&server, ""), &to(list)).await;
    let param = json!({ "others": ["\"night, shift\"@example.org", "a@example.org"] });
    let failed = configured.send(&param, Status::Failed).await;
    server.reply("\"night, shift\"@example.org", "250 fine");
    configured.retry(&failed, Status::Succeeded).await;
    let recipients: Vec<_> = server.taken.all().into_iter().map(|taken| taken.to).collect();
    assert_eq!(recipients, [vec!["jane@example.org", "a@example.org"], vec!["\"night, shift\"@example.org"]]);
    let first = &server.taken.all()[0];
    assert_eq!(first.header("Subject"), "=?utf-8?b?PT91dGYtOD9CP2FHVnNiRzg9Pz0=?=");
    let all = "=?utf-8?b?RG9lLCBKYW5l?= <jane@example.org>, \"night, shift\"@example.org, a@example.org";
    assert_eq!(first.header("To"), all, "the name is encoded");
    assert!(!first.text.contains("Hello"), "a lone carriage return is in Base64: {}", first.text);
    configured.close().await;
}

#[tokio::test]
async fn constant_text_that_is_no_address_is_refused_with_the_row() {
    let server = SmtpServer::start().await;
    for (field, address, expected) in [
        ("to", "a@x.org, b@x.org", "to[1] has \"a@x.org, b@x.org\", which is no mail address: the part before the `@`"),
        ("cc", "\"Doe", "cc[1] has \"\\\"Doe\", which is no mail address: it has no `@`"),
        ("reply_to", "ops", "reply_to[1] has \"ops\", which is no mail address: it has no `@`"),
    ] {
        let mut config = to(json!(["fine@example.org"]));
        config[field] = json!(["{{ param.any }}", address]);
        let refused = refusal(mail(&server, ""), &config).await;
        assert!(refused.contains(expected), "{refused}");
    }
}

#[tokio::test]
async fn name_in_ehlo_is_that_of_the_url() {
    let server = SmtpServer::start().await;
    let to = to(json!(["a@example.org"]));
    let configured = Configured::with(mail(&server, "&hello=shop.example.org"), &to).await;
    configured.send(&json!(1), Status::Succeeded).await;
    assert_eq!(server.taken.all()[0].hello, "shop.example.org");
    configured.close().await;
}

#[tokio::test]
async fn refused_name_in_ehlo_is_retried_and_no_fault_of_an_address() {
    let refusals = [
        ("EHLO", "550 5.7.1 invalid name"),
        ("a@example.org", "504 5.5.2 <vm>: need fully-qualified hostname"),
        ("a@example.org", "550 5.7.1 <vm>: Helo command rejected: Host not found"),
    ];
    for (command, reply) in refusals {
        let server = SmtpServer::start().await;
        server.reply(command, reply);
        let to = to(json!(["a@example.org", "b@example.org"]));
        let configured = Configured::with(mail(&server, "&hello=vm"), &to).await;
        let failed = configured.send(&json!(1), Status::Failed).await;
        assert_eq!(failed.last_class.as_deref(), Some("unknown"), "{reply}: {failed:?}");
        let text = error(&failed);
        assert!(text.contains("does not accept the name vm of this sender") && text.contains("`?hello=`"), "{text}");
        assert_eq!(server.taken.count(), 0);
        server.reply(command, "250 fine");
        configured.retry(&failed, Status::Succeeded).await;
        assert_eq!(server.taken.all()[0].to, ["a@example.org", "b@example.org"]);
        configured.close().await;
    }
}

#[tokio::test]
async fn refused_address_stays_the_fault_of_the_address() {
    let server = SmtpServer::start().await;
    server.reply("gone@example.org", "550 no such mailbox");
    let configured = Configured::with(mail(&server, ""), &to(json!(["gone@example.org"]))).await;
    let dead = configured.send(&json!(1), Status::DeadLetter).await;
    assert_eq!(dead.last_class.as_deref(), Some("not_found"));
    configured.close().await;
}
