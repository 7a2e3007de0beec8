//! Receivers that repeat the secrets of an attempt, on every channel, also in long texts: neither the response nor the error that the notice keeps
//! has them, nor the log.

use serde_json::{Value, json};
use solid_notify::channels::{Amqp, Channel, Chat, Mail, Nats, RedisStreams, Webhook};
use solid_notify::testkit::MemoryOutbox;
use solid_notify::{NoticeRecord, Status};
use test_support::sending::eventually;
use test_support::smtp::SmtpServer;

use crate::brokers::Sending;
use crate::brokers::fake::{Answer, Fake, INFO, method, short};
use crate::configured::{Configured, SecretFile, own_machine};
use crate::desk::log;
use crate::receiver::Receiver;
use crate::webhooks;

const SECRET: &str = "AbC/d \"ü\"+~7";

/// The secret as it is, as programs write it into URLs, JSON and HTML, and in Base64.
const REPEATED: &str = "no AbC/d \"ü\"+~7 or AbC%2fd%20%22%C3%bc%22%2B%7e7 or AbC\\/d \\u0022\\u00FC\\u0022\\u002b~7 or QWJDL2QgIsO8Iit+Nw== \
                        or AbC&#x2F;d &#34;&uuml;&QUOT;&#43;&#x7e;7";

/// What each spelling of it has.
const PARTS: [&str; 7] = ["AbC", "2fd", "u00FC", "QWJD", "~7", "uuml", "x7e"];

/// The same at the beginning of a long text.
fn long(bytes: usize) -> String {
    format!("{REPEATED} {}", SECRET.repeat(bytes / SECRET.len()))
}

/// Sends a notice, and checks what it keeps of its failure.
async fn keeps_no_secret<C: Channel>(channel: C, config: Value, becomes: Status) {
    let name = C::NAME;
    let configured = Configured::with(channel, &config).await;
    let failed: NoticeRecord = configured.send(&json!(1), becomes).await;
    let error = failed.errors.last().unwrap().message.clone();
    let response = failed.response.as_ref().map(|last| last.response.to_string()).unwrap_or_default();
    let all = format!("{error}\n{response}");
    for part in PARTS {
        assert!(!all.contains(part), "{name} shows {part}: {all}");
    }
    assert!(all.contains("no … or … or … or …w== or …"), "{name}: {all}");
    configured.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_channel_keeps_a_secret_that_its_receiver_repeats() {
    let (key, networks) = (SecretFile::new(SECRET), own_machine());
    let secrets = json!({ "key": key.reference() });
    let receiver = webhooks::server::Receiver::answering(500).await;
    receiver.now([(500, vec![], long(1_000_000))]);
    let config = json!({ "url": receiver.url("/"), "headers": { "x-key": "{{ secrets.key }}" }, "secrets": secrets });
    keeps_no_secret(Webhook::builder().allow_networks(&networks).build().unwrap(), config, Status::Failed).await;

    let receiver = Receiver::accepting(&json!({ "errcode": 7, "errmsg": long(6000) }).to_string()).await;
    let url = SecretFile::new(&receiver.url("/hook"));
    let config = json!({ "service": "ding_talk", "url": url.reference(), "secret": key.reference(), "text": "x" });
    keeps_no_secret(Chat::new().allow_networks(&networks), config, Status::Failed).await;

    let server = SmtpServer::start().await;
    server.reply(".", Box::leak(format!("450 {REPEATED}").into_boxed_str()));
    let url = SecretFile::new(&server.url());
    let config = json!({ "smtp": url.reference(), "from": "a@x.org", "to": ["b@x.org"], "subject": "x", "text": "{{ secrets.key }}",
                         "secrets": secrets });
    keeps_no_secret(Mail::new().allow_networks(&networks), config, Status::Failed).await;

    let password = "AbC%2Fd%20%22%C3%BC%22%2B~7";
    let refused = [&530u16.to_be_bytes()[..], &short(REPEATED), &[0; 4]].concat();
    let server = Fake::amqp(0, (10, 11), Answer::once(method(0, (10, 50), &refused))).await;
    let url = SecretFile::new(&format!("amqp://shop:{password}@127.0.0.1:{}", server.port));
    keeps_no_secret(
        Amqp::new().allow_networks(&networks),
        json!({ "url": url.reference(), "routing_key": "x" }),
        Status::DeadLetter,
    )
    .await;

    let server =
        Fake::nats(Answer::once(INFO), "CONNECT", Answer::once(format!("-ERR '{}'\r\n", long(1_000_000)))).await;
    let url = SecretFile::new(&format!("nats://shop:{password}@127.0.0.1:{}", server.port));
    keeps_no_secret(
        Nats::new().allow_networks(&networks),
        json!({ "url": url.reference(), "subject": "x" }),
        Status::Failed,
    )
    .await;

    let server = Fake::redis(vec![("XADD", Answer::once(format!("-ERR {}\r\n", long(1_000_000))))]).await;
    let url = SecretFile::new(&format!("redis://shop:{password}@127.0.0.1:{}", server.port));
    keeps_no_secret(
        RedisStreams::new().allow_networks(&networks),
        json!({ "url": url.reference(), "stream": "x" }),
        Status::Failed,
    )
    .await;
}

/// Sends a notice to a broker that answers with the password, and waits until its attempt has failed.
async fn fails<C: Channel>(channel: C, url: &str, config: Value) {
    let sending = Sending::start(channel, url).await;
    sending.define("repeated", config).await;
    let id = sending.add("repeated", json!(1)).await;
    sending.fails(id).await;
    sending.sweeper.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_has_nothing_of_what_brokers_say() {
    let (networks, said) = (own_machine(), "not-for-the-log");
    let url = |scheme: &str, server: &Fake| format!("{scheme}://shop:{said}@127.0.0.1:{}", server.port);

    let server = Fake::nats(Answer::once(INFO), "HPUB", Answer::last(format!("-ERR '{said}'\r\n"))).await;
    fails(Nats::new().allow_networks(&networks), &url("nats", &server), json!({ "subject": "x" })).await;

    let refusal = Answer::last(format!("-ERR Protocol error: {said}\r\n"));
    let server = Fake::redis(vec![("XADD", refusal)]).await;
    fails(RedisStreams::new().allow_networks(&networks), &url("redis", &server), json!({ "stream": "x" })).await;

    let blocked = method(0, (10, 60), &short(said));
    let close = method(0, (10, 50), &[&501u16.to_be_bytes()[..], &short(said), &[0; 4]].concat());
    let server = Fake::amqp(0, (60, 40), Answer::last([blocked, close].concat())).await;
    fails(Amqp::new().allow_networks(&networks), &url("amqp", &server), json!({ "routing_key": "x" })).await;

    let close = method(1, (20, 40), &[&404u16.to_be_bytes()[..], &short(said), &[0; 4]].concat());
    let server = Fake::amqp(0, (60, 20), Answer::once(close)).await;
    let (outbox, amqp) = (MemoryOutbox::new(), Amqp::new().allow_networks(&networks));
    let replies = amqp.replies(&outbox);
    let sending = Sending::over(outbox, amqp, &url("amqp", &server)).await;
    sending.define("order", json!({ "routing_key": "x", "reply_queue": "replies-of-said" })).await;
    let is_logged =
        || log().all().iter().any(|line| line.contains("cannot receive") && line.contains("replies-of-said"));
    eventually("the consumer fails", async || is_logged()).await;
    drop(replies);
    sending.sweeper.shutdown().await;

    // At lower levels the clients log what they read, which the program leaves out by default.
    let leaks = [log().errors_with(said), log().warnings_with(said), log().infos_with(said)].concat();
    assert!(leaks.is_empty(), "{leaks:?}");
}
