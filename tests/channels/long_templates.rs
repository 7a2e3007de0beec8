//! Templates that take long, and large parameters: they are rendered where masks and filters are, and the thread of the runtime goes on meanwhile.
//! All of these tests have a runtime of one thread.

use std::sync::mpsc;

use serde_json::{Value, json};
use solid_notify::channels::{Channel, ChannelExt, Chat, Mail, Mailer, Webhook};
use solid_notify::{NewNotice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use test_support::memory::MemoryBackend;
use test_support::sending::{allow_secrets, eventually, reaches, record};
use test_support::smtp::SmtpServer;
use tokio::sync::oneshot;

use crate::configured::{SecretFile, own_machine};
use crate::receiver::Receiver;

/// A template that takes hundreds of thousands of steps, and a plain one.
const COSTLY: &str = "{% for a in range(param.n) %}{% for b in range(param.n) %}{% endfor %}{% endfor %}done";
const PLAIN: &str = "{{ param.n }}";

/// How many plain notices are sent while the costly one waits.
const PLAIN_NOTICES: u64 = 20;

/// Takes the place of a definition for work that computes, until what it returns is dropped.
async fn take_place(backend: &MemoryBackend, definition: &'static str) -> mpsc::Sender<()> {
    let (end, ends) = mpsc::channel::<()>();
    let (begun, begins) = oneshot::channel();
    let outbox = backend.outbox().clone();
    tokio::spawn(async move {
        let work = move || {
            begun.send(()).unwrap();
            // An error means the end.
            let _ = ends.recv();
            Ok(())
        };
        outbox.engine().computing().run(definition, work).await
    });
    begins.await.unwrap();
    end
}

/// Sends a notice that takes long while its definition computes something else, and plain ones beside it. Returns the status of the long one at its end, and the
/// message of its error.
async fn sent_beside_plain_ones<C: Channel>(
    channel: C,
    (costly, plain): (Value, Value),
    param: Value,
) -> (Status, String) {
    let backend = MemoryBackend::default();
    allow_secrets(backend.outbox(), &[]);
    for (name, config) in [("costly", costly), ("plain", plain)] {
        let row = NotifyDef::new(name).handler(C::NAME).handler_config(config.to_string()).retry_interval("[1h]");
        backend.outbox().define_if_missing(row.timeout("10m")).await.unwrap();
    }
    let sweeper = backend.outbox().sweeper().channel(channel).start().await.unwrap();
    let held = take_place(&backend, "costly").await;
    let costly = backend.add_new(NewNotice::new("costly", &param).unwrap()).await.id();
    eventually("the attempt begins", async || record(&backend, costly).await.status != Status::NotSent).await;
    for number in 0..PLAIN_NOTICES {
        let plain = backend.add_new(NewNotice::new("plain", json!({ "n": number })).unwrap()).await.id();
        reaches(&backend, plain, Status::Succeeded).await;
    }
    assert_eq!(record(&backend, costly).await.status, Status::Sending, "it waits for its turn");
    drop(held);
    eventually("it ends", async || record(&backend, costly).await.status != Status::Sending).await;
    let ended = record(&backend, costly).await;
    sweeper.shutdown().await;
    (ended.status, ended.errors.last().map(|error| error.message.clone()).unwrap_or_default())
}

fn webhook() -> Webhook {
    Webhook::builder().allow_networks(&own_machine()).build().unwrap()
}

#[tokio::test]
async fn costly_template_of_a_webhook_leaves_the_runtime_to_others() {
    let receiver = Receiver::accepting("ok").await;
    let config = |template: &str| json!({ "url": receiver.url("/"), "body": { "json": format!("\"{template}\"") } });
    let sent = sent_beside_plain_ones(webhook(), (config(COSTLY), config("plain")), json!({ "n": 350 })).await;
    assert_eq!((sent.0, &receiver.posted.all().pop().unwrap().body), (Status::Succeeded, &json!("done")));
}

#[tokio::test]
async fn costly_template_of_a_chat_leaves_the_runtime_to_others() {
    let receiver = Receiver::accepting("ok").await;
    let url = SecretFile::new(&receiver.url("/hook"));
    let config = |text: &str| json!({ "service": "slack", "url": url.reference(), "text": text });
    let chat = Chat::new().allow_networks(&own_machine());
    let sent = sent_beside_plain_ones(chat, (config(COSTLY), config(PLAIN)), json!({ "n": 350 })).await;
    assert_eq!((sent.0, &receiver.posted.all().pop().unwrap().body["text"]), (Status::Succeeded, &json!("done")));
}

#[tokio::test]
async fn large_parameter_is_read_without_the_runtime() {
    let receiver = Receiver::accepting("ok").await;
    let config = |template: &str| json!({ "url": receiver.url("/"), "body": { "json": template } });
    let param = json!({ "numbers": vec![1; 400_000], "n": 1 });
    let configs = (config("{{ param.numbers | length }}"), config(PLAIN));
    let sent = sent_beside_plain_ones(webhook(), configs, param).await;
    assert_eq!((sent.0, &receiver.posted.all().pop().unwrap().body), (Status::Succeeded, &json!(400_000)));
}

#[tokio::test]
async fn large_request_is_signed_without_the_runtime() {
    let (receiver, key) = (Receiver::accepting("ok").await, SecretFile::new("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI="));
    let config = json!({ "url": receiver.url("/"), "signing_keys": [key.reference()] });
    let param = json!({ "text": "x".repeat(100_000) });
    let sent = sent_beside_plain_ones(webhook(), (config.clone(), config), param.clone()).await;
    assert_eq!((sent.0, &receiver.posted.all().pop().unwrap().body), (Status::Succeeded, &param));
}

/// The templates are short; the file is not.
#[tokio::test]
async fn large_mail_is_composed_without_the_runtime() {
    let (server, files) = (SmtpServer::start().await, tempfile::tempdir().unwrap());
    std::fs::write(files.path().join("payslip.pdf"), "x".repeat(100_000)).unwrap();
    let plain = json!({ "to": ["a@shop.example"], "subject": "x", "text": PLAIN });
    let mut large = plain.clone();
    large["attachments"] = json!([{ "name": "a", "content_type": "application/pdf", "file": "payslip.pdf" }]);
    let mailer = Mailer::from_url(&server.url()).unwrap().from("shop@shop.example").build().unwrap();
    let mail = Mail::with(mailer).attachments_from(files.path());
    let sent = sent_beside_plain_ones(mail, (large, plain), json!({ "n": 1 })).await;
    assert_eq!(sent.0, Status::Succeeded, "{sent:?}");
}

#[tokio::test]
async fn template_that_takes_too_many_steps_fails_where_it_is_rendered() {
    let receiver = Receiver::accepting("ok").await;
    let config = |template: &str| json!({ "url": receiver.url("/"), "body": { "text": template } });
    let sent = sent_beside_plain_ones(
        webhook(),
        (config(COSTLY), json!({ "url": receiver.url("/") })),
        json!({ "n": 10_000 }),
    )
    .await;
    assert!(sent.1.contains("it takes more than 1000000 steps"), "{sent:?}");
}
