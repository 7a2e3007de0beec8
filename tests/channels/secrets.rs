//! Which secrets the rows of definitions may use, on every channel, and that a file which cannot be read is no matter of others.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use solid_notify::channels::{Amqp, ChannelExt, Chat, Mail, Nats, RedisStreams, Webhook};
use solid_notify::definition::{SecretRule, SecretRules};
use solid_notify::testkit::{MemoryOutbox, TestSweeper};
use solid_notify::{NoticeRecord, NotifyDef, OutboxExt, Status, SweeperBuilder, add_notice};
use tempfile::TempDir;
use test_support::sending::{eventually, refusal_of};

use crate::configured::own_machine;
use crate::receiver::Receiver;

/// A variable that is set wherever tests run, and that rows may not use by default.
const VARIABLE: &str = "env:PATH";

/// An outbox in memory, and a sweeper with every channel.
struct Channels {
    outbox: MemoryOutbox,
    sweeper: TestSweeper,
}

impl Channels {
    async fn start(rules: SecretRules) -> Self {
        let outbox = MemoryOutbox::new();
        outbox.use_secret_rules(rules);
        Self { sweeper: TestSweeper::start(every_channel(&outbox)).await.unwrap(), outbox }
    }

    async fn define(&self, name: &str, channel: &str, config: &Value) {
        define(&self.outbox, name, channel, config).await;
    }

    /// Adds a notice of a definition, and returns it after its attempt.
    async fn attempt(&self, name: &str) -> NoticeRecord {
        let id = add(&self.outbox, name).await;
        self.sweeper.drain().await;
        self.outbox.find(id).await.unwrap().unwrap()
    }
}

fn every_channel(outbox: &MemoryOutbox) -> SweeperBuilder {
    let networks = own_machine();
    let webhook = Webhook::builder().allow_networks(&networks).build().unwrap();
    let chat = Chat::new().allow_networks(&networks);
    // The node reports with its beats.
    let sweeper = outbox.sweeper().maintenance_interval(Duration::from_millis(50)).channel(webhook).channel(chat);
    let sweeper = sweeper.channel(Mail::new().allow_networks(&networks));
    let sweeper = sweeper.channel(Amqp::new().allow_networks(&networks)).channel(Nats::new().allow_networks(&networks));
    sweeper.channel(RedisStreams::new().allow_networks(&networks))
}

async fn define(outbox: &MemoryOutbox, name: &str, channel: &str, config: &Value) {
    let row = NotifyDef::new(name).handler(channel).handler_config(config.to_string()).timeout("1h");
    outbox.define_if_missing(row.retry_interval("[1h]")).await.unwrap();
}

async fn add(outbox: &MemoryOutbox, name: &str) -> i64 {
    let mut tx = outbox.begin().await.unwrap();
    let id = add_notice(&mut tx, name, json!({ "order": 7 })).await.unwrap().id();
    tx.commit().await.unwrap();
    id
}

fn rule(pattern: &str) -> SecretRule {
    SecretRule::new(pattern).unwrap()
}

/// A configuration for each field of each channel that names a secret, which is `reference`.
fn each_field(reference: &str) -> Vec<(&'static str, &'static str, Value)> {
    let file = "/etc/hostname";
    let (hook, mail) = (
        json!({ "url": "https://h.example/" }),
        json!({ "from": "a@x.org", "to": ["b@x.org"], "subject": "x", "text": "x" }),
    );
    let with = |base: &Value, fields: Value| {
        let mut config = base.clone();
        config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        config
    };
    let oauth2 = json!({ "token_url": "https://t.example/", "client_id": "a", "client_secret": reference });
    let allowed = "env:NOTIFY_SECRET_X";
    let (chat, amqp) = (json!({ "service": "ding_talk", "text": "x" }), json!({ "routing_key": "x" }));
    let (nats, redis) = (json!({ "subject": "x" }), json!({ "stream": "x" }));
    let secrets = json!({ "a": reference });
    vec![
        ("webhook", "signing_keys", with(&hook, json!({ "signing_keys": [reference] }))),
        ("webhook", "bearer", with(&hook, json!({ "auth": { "bearer": reference } }))),
        ("webhook", "basic", with(&hook, json!({ "auth": { "basic": { "user": "a", "password": reference } } }))),
        ("webhook", "oauth2", with(&hook, json!({ "auth": { "oauth2": oauth2 } }))),
        ("webhook", "certificate", with(&hook, json!({ "tls": { "certificate": reference, "key": allowed } }))),
        ("webhook", "key", with(&hook, json!({ "tls": { "certificate": allowed, "key": reference } }))),
        ("webhook", "ca_file", with(&hook, json!({ "tls": { "ca_file": file } }))),
        ("webhook", "secrets", with(&hook, json!({ "secrets": secrets }))),
        ("mail", "smtp", with(&mail, json!({ "smtp": reference }))),
        ("mail", "secrets", with(&mail, json!({ "smtp": allowed, "secrets": secrets }))),
        ("chat", "url", with(&chat, json!({ "url": reference }))),
        ("chat", "secret", with(&chat, json!({ "url": allowed, "secret": reference }))),
        ("chat", "secrets", with(&chat, json!({ "url": allowed, "secrets": secrets }))),
        ("amqp", "url", with(&amqp, json!({ "url": reference }))),
        ("amqp", "secrets", with(&amqp, json!({ "url": allowed, "secrets": secrets }))),
        ("nats", "url", with(&nats, json!({ "url": reference }))),
        ("nats", "credentials", with(&nats, json!({ "url": allowed, "credentials": reference }))),
        ("nats", "secrets", with(&nats, json!({ "url": allowed, "secrets": secrets }))),
        ("redis_stream", "url", with(&redis, json!({ "url": reference }))),
        ("redis_stream", "secrets", with(&redis, json!({ "url": allowed, "secrets": secrets }))),
    ]
}

#[tokio::test]
async fn definition_waits_for_a_secret_that_is_not_allowed_and_says_how() {
    let outbox = MemoryOutbox::new();
    let sweeper = every_channel(&outbox).start().await.unwrap();
    let receiver = Receiver::accepting("ok").await;
    let status = async |id| outbox.find(id).await.unwrap().unwrap().status;
    define(&outbox, "healthy", "webhook", &json!({ "url": receiver.url("/") })).await;
    let fields = each_field(VARIABLE);
    let mut waiting = Vec::new();
    for (channel, field, config) in &fields {
        let name = format!("{channel}.{field}");
        define(&outbox, &name, channel, config).await;
        waiting.push((add(&outbox, &name).await, name));
    }
    let healthy = add(&outbox, "healthy").await;
    eventually("the healthy one is sent", async || status(healthy).await == Status::Succeeded).await;
    for (_, name) in &waiting {
        let problem = refusal_of(&outbox, name).await;
        let reference = if name == "webhook.ca_file" { "file:/etc/hostname" } else { VARIABLE };
        assert!(problem.contains(reference) && problem.contains("[secrets.NAME]"), "{name}: {problem}");
    }
    for (id, name) in &waiting {
        let notice = outbox.find(*id).await.unwrap().unwrap();
        assert_eq!((notice.status, notice.failures), (Status::NotSent, 0), "{name}");
    }
    // Once the program allows them, they are tried.
    outbox.use_secret_rules(SecretRules::default().allow(rule(VARIABLE)).allow(rule("file:/etc/")));
    for (id, name) in &waiting {
        eventually(&format!("{name} is tried"), async || status(*id).await != Status::NotSent).await;
    }
    sweeper.shutdown().await;
}

/// An outbox whose program says nothing of secrets. The variable is set nowhere, so the attempt is made, and fails.
#[tokio::test]
async fn row_may_use_by_default_what_the_book_names() {
    let outbox = MemoryOutbox::new();
    let sweeper = every_channel(&outbox).start().await.unwrap();
    let status = async |id| outbox.find(id).await.unwrap().unwrap().status;
    let with = |secret: &str| json!({ "url": "https://127.0.0.1:1/", "auth": { "bearer": secret } });
    define(&outbox, "own", "webhook", &with("env:NOTIFY_SECRET_OF_NO_TEST")).await;
    let folder = std::env::var("CREDENTIALS_DIRECTORY").unwrap_or_else(|_| "/run/secrets/solid-notify".to_owned());
    define(&outbox, "file", "webhook", &with(&format!("file:{folder}/of-no-test"))).await;
    for (name, missing) in [("own", "environment variable not found"), ("file", "No such file")] {
        let id = add(&outbox, name).await;
        eventually("it is tried", async || status(id).await == Status::Failed).await;
        let tried = outbox.find(id).await.unwrap().unwrap();
        assert!(tried.errors[0].message.contains(missing), "{name}: {:?}", tried.errors);
    }
    sweeper.shutdown().await;
}

#[tokio::test]
async fn secret_is_sent_to_the_hosts_alone_that_its_rule_names() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str, content: &str| {
        std::fs::write(folder.path().join(name), content).unwrap();
        format!("file:{}", folder.path().join(name).display())
    };
    let receiver = Receiver::accepting("{}").await;
    let url = receiver.url("/hook");
    let all = format!("file:{}/", folder.path().display());
    let key = file("key", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let configs = [
        ("webhook", json!({ "url": url, "signing_keys": [key] })),
        ("webhook", json!({ "url": url, "auth": { "bearer": key } })),
        ("webhook", json!({ "url": url, "headers": { "x-key": "{{ secrets.key }}" }, "secrets": { "key": key } })),
        (
            "webhook",
            json!({ "url": url, "auth": { "oauth2": { "token_url": url, "client_id": "a", "client_secret": key } } }),
        ),
        ("chat", json!({ "service": "slack", "url": file("chat", &url), "text": "x" })),
        (
            "mail",
            json!({ "smtp": file("smtp", "smtp://127.0.0.1:1?tls=none"), "from": "a@x.org", "to": ["b@x.org"], "subject": "x",
                    "text": "{{ secrets.key }}", "secrets": { "key": key } }),
        ),
        ("amqp", json!({ "url": file("amqp", "amqp://127.0.0.1:1"), "routing_key": "x" })),
        ("nats", json!({ "url": file("nats", "nats://127.0.0.1:1"), "subject": "x" })),
        ("redis_stream", json!({ "url": file("redis", "redis://127.0.0.1:1"), "stream": "x" })),
    ];
    for (host, is_right) in [("other.example", false), ("127.0.0.1", true)] {
        let channels = Channels::start(SecretRules::none().allow(rule(&all).hosts([host]))).await;
        for (at, (channel, config)) in configs.iter().enumerate() {
            let name = format!("{channel}-{at}");
            channels.define(&name, channel, config).await;
            let before = receiver.posted.count();
            let notice = channels.attempt(&name).await;
            assert_eq!(notice.status == Status::NotSent, !is_right, "{name} to {host}: {notice:?}");
            if !is_right {
                let problem = refusal_of(&channels.outbox, &name).await;
                let says_how = problem.contains("not for \"127.0.0.1\"; to allow it, add the host");
                assert!(problem.starts_with("handler_config: ") && says_how, "{name}: {problem}");
                assert_eq!(notice.failures, 0, "{name}");
            }
            assert!(is_right || receiver.posted.count() == before, "{name}: something was sent");
        }
    }
}

#[tokio::test]
async fn client_secret_is_used_where_its_rule_names_both_hosts() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("client"), "s3cret").unwrap();
    let secret = format!("file:{}", folder.path().join("client").display());
    let all = format!("file:{}/", folder.path().display());
    let granted = json!({ "access_token": "t0ken", "token_type": "Bearer" }).to_string();
    let (tokens, receiver) = (Receiver::accepting(&granted).await, Receiver::accepting("").await);
    let token_url = tokens.url("/token").replace("127.0.0.1", "localhost");
    let client = json!({ "token_url": token_url, "client_id": "a", "client_secret": secret });
    let config = json!({ "url": receiver.url("/"), "auth": { "oauth2": client } });
    for (hosts, missing) in [
        (&["localhost"][..], Some("127.0.0.1")),
        (&["127.0.0.1"], Some("localhost")),
        (&["localhost", "127.0.0.1"], None),
    ] {
        let channels = Channels::start(SecretRules::none().allow(rule(&all).hosts(hosts.to_vec()))).await;
        channels.define("hook", "webhook", &config).await;
        let notice = channels.attempt("hook").await;
        match missing {
            Some(host) => {
                let problem = refusal_of(&channels.outbox, "hook").await;
                assert!(problem.contains(&format!("not for \"{host}\"")), "{problem}");
                assert_eq!((tokens.posted.count(), receiver.posted.count()), (0, 0));
            }
            None => assert_eq!(notice.status, Status::Succeeded, "{notice:?}"),
        }
    }
}

#[tokio::test]
async fn host_of_a_url_does_not_depend_on_a_secret() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("key"), "hunter2").unwrap();
    let channels =
        Channels::start(SecretRules::none().allow(rule(&format!("file:{}/", folder.path().display())))).await;
    let config = |url: &str| {
        let key = format!("file:{}", folder.path().join("key").display());
        json!({ "url": url, "allow_hosts": ["*.example.org", "example.org"], "secrets": { "key": key } })
    };
    for (at, url) in [
        "https://{{ secrets.key }}.example.org/",
        "https://{{ secrets['k' ~ 'ey'] | upper }}.example.org/",
        "https://a{% if secrets.key == 'hunter2' %}b{% endif %}.example.org/",
        "{% set u = 'https://x' ~ secrets.key[:2] ~ '.example.org/' %}{{ u }}",
    ]
    .iter()
    .enumerate()
    {
        let name = format!("hook-{at}");
        channels.define(&name, "webhook", &config(url)).await;
        let notice = channels.attempt(&name).await;
        let last = notice.errors.last().unwrap();
        assert_eq!(last.class, "invalid", "{url}");
        assert!(last.message.contains("its host depends on a secret") && !last.message.contains("hunter2"), "{last:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipe_or_device_in_place_of_a_file_fails_its_own_notices_alone() {
    let folder = TempDir::new().unwrap();
    let (pipe, large) = (folder.path().join("pipe"), folder.path().join("large"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::fs::write(&large, vec![b'x'; 64 * 1024 + 1]).unwrap();
    let zero = Path::new("/dev/zero");
    let rules =
        SecretRules::none().allow(rule(&format!("file:{}/", folder.path().display()))).allow(rule("file:/dev/"));
    let channels = Channels::start(rules).await;
    let receiver = Receiver::accepting("ok").await;
    channels.define("healthy", "webhook", &json!({ "url": receiver.url("/") })).await;
    for path in [pipe.as_path(), zero, &large] {
        let reference = format!("file:{}", path.display());
        for (channel, field, mut config) in each_field(&reference) {
            if field == "ca_file" {
                config["tls"]["ca_file"] = json!(path);
            }
            // A second secret of some configurations is missing; the file is the one that cannot be read.
            let text = config.to_string().replace("env:NOTIFY_SECRET_X", &reference);
            let name = format!("{channel}.{field}.{}", path.file_name().unwrap().display());
            channels.define(&name, channel, &serde_json::from_str(&text).unwrap()).await;
            let notice = channels.attempt(&name).await;
            let message = notice.errors.last().map(|last| last.message.clone()).unwrap_or_default();
            let expected = if path == large { "more than 65536 bytes" } else { "no regular file" };
            assert!(message.contains(expected), "{name}: {message}");
            assert_eq!(channels.attempt("healthy").await.status, Status::Succeeded);
        }
    }
}
