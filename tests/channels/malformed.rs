//! Wrong configurations of every channel: random changes of a valid one. None makes a channel panic. Each is refused by an error that names the
//! field, or it is accepted and its notice is sent, fails or waits.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use solid_notify::channels::{Amqp, Channel, ChannelExt, Chat, Mail, Nats, RedisStreams, Webhook};
use solid_notify::definition::{SecretRule, SecretRules};
use solid_notify::{NewNotice, NotifyDef, OutboxExt, Status, Sweeper};
use solid_notify_conformance::Backend;
use test_support::memory::MemoryBackend;
use test_support::sending::{eventually, record, refused_by};
use tokio::runtime::Runtime;

use crate::configured::{SecretFile, own_machine};

/// A change at a place of a configuration.
#[derive(Debug, Clone)]
enum Change {
    Replace(Value),
    Remove,
    /// Adds a field to the object that is there or around it.
    Add(String, Value),
    Rename(String),
    /// Inserts a text into the text that is there.
    Insert(Index, String),
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any_text(), inner), 0..4).prop_map(|fields| Value::from(Map::from_iter(fields))),
        ]
    })
}

/// Texts with signs that templates, URLs, durations, headers and references to secrets give a meaning to.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{{".to_owned()),
        Just("}}".to_owned()),
        Just("{% if ".to_owned()),
        Just("{{ param.id }}".to_owned()),
        Just("{{ secrets.none }}".to_owned()),
        Just("env:".to_owned()),
        Just("file:/".to_owned()),
        Just("http://".to_owned()),
        Just("\r\n".to_owned()),
        Just("\0".to_owned()),
        Just("99999999999999999999d".to_owned()),
        ".{0,8}",
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => any_json().prop_map(Change::Replace),
        1 => Just(Change::Remove),
        1 => ("surplus_[a-z]{1,6}", any_json()).prop_map(|(name, value)| Change::Add(name, value)),
        1 => "surplus_[a-z]{1,6}".prop_map(Change::Rename),
        3 => (any::<Index>(), any_text()).prop_map(|(at, text)| Change::Insert(at, text)),
    ]
}

/// Returns the places of a configuration, as JSON pointers, except for that of the whole.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, inner)| (name.clone(), inner)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(k, inner)| (k.to_string(), inner)).collect(),
        _ => Vec::new(),
    };
    for (name, inner) in inner {
        let place = format!("{at}/{name}");
        places(inner, &place, found);
        found.push(place);
    }
}

/// Changes a place. Returns the names by which an error may name it: that of the field, and that of the one around it.
fn change(config: &mut Value, place: &str, change: &Change) -> Vec<String> {
    let (around, last) = place.rsplit_once('/').unwrap();
    let mut names: Vec<String> =
        place.split('/').filter(|name| !name.is_empty() && name.parse::<usize>().is_err()).map(str::to_owned).collect();
    names.reverse();
    names.truncate(2);
    match change {
        Change::Replace(value) => *config.pointer_mut(place).unwrap() = value.clone(),
        Change::Insert(at, text) => {
            if let Some(Value::String(old)) = config.pointer_mut(place) {
                let starts: Vec<usize> = old.char_indices().map(|(k, _)| k).chain([old.len()]).collect();
                old.insert_str(*at.get(&starts), text);
            }
        }
        Change::Add(name, value) => {
            let is_object = config.pointer(place).is_some_and(Value::is_object);
            let object = if is_object { place } else { around };
            if let Some(Value::Object(fields)) = config.pointer_mut(object) {
                fields.insert(name.clone(), value.clone());
                names.insert(0, name.clone());
            }
        }
        Change::Remove | Change::Rename(_) => match config.pointer_mut(around) {
            Some(Value::Object(fields)) => {
                let old = fields.remove(last).unwrap();
                if let Change::Rename(name) = change {
                    fields.insert(name.clone(), old);
                    names.insert(0, name.clone());
                }
            }
            Some(Value::Array(list)) => drop(list.remove(last.parse().unwrap())),
            _ => {}
        },
    }
    names
}

/// A running sweeper with one channel.
struct Bench {
    backend: MemoryBackend,
    sweeper: Sweeper,
    handler: &'static str,
    names: AtomicUsize,
}

impl Bench {
    async fn start<C: Channel>(channel: C) -> Self {
        let backend = MemoryBackend::default();
        // A node reports only some seconds later that it may not use a secret; that a secret is missing shows at once.
        let rules = ["env:*", "file:/"].map(|pattern| SecretRule::new(pattern).unwrap());
        backend.outbox().use_secret_rules(rules.into_iter().fold(SecretRules::default(), SecretRules::allow));
        let sweeper = backend.outbox().sweeper().channel(channel).start().await.unwrap();
        Self { backend, sweeper, handler: C::NAME, names: AtomicUsize::new(0) }
    }

    /// Stores a definition with this configuration, and adds a notice. Returns the error, if it is refused.
    async fn try_out(&self, config: &str) -> Option<String> {
        let name = format!("malformed-{}", self.names.fetch_add(1, Ordering::Relaxed));
        let row =
            NotifyDef::new(&*name).handler(self.handler).handler_config(config).retry_interval("[1h]").timeout("20s");
        let outbox = self.backend.outbox();
        if let Err(refused) = outbox.define_if_missing(row).await {
            return Some(refused.to_string());
        }
        self.sweeper.idle().await;
        let param = json!({ "id": 7, "name": "a/b", "to": ["b@example.org"] });
        let id = self.backend.add_new(NewNotice::new(&*name, param).unwrap()).await.id();
        eventually("the attempt ends, or the definition is refused", async || {
            let status = record(&self.backend, id).await.status;
            !matches!(status, Status::NotSent | Status::Sending) || !refused_by(outbox, &name).await.is_empty()
        })
        .await;
        let ended = record(&self.backend, id).await;
        let panicked = ended.errors.iter().any(|error| error.message.contains("panic"));
        assert!(!panicked, "{config}: {:?}", ended.errors);
        None
    }
}

/// Tries changed configurations of a channel.
fn changed_configurations_are_refused_or_tried<C: Channel>(channel: C, valid: &Value) {
    let runtime = Runtime::new().unwrap();
    let bench = runtime.block_on(Bench::start(channel));
    assert_eq!(runtime.block_on(bench.try_out(&valid.to_string())), None, "the configuration without a change");
    let mut all = Vec::new();
    places(valid, "", &mut all);
    let cases = Config { cases: 150, failure_persistence: None, ..Config::default() };
    let tried = TestRunner::new(cases.clone()).run(&(any::<Index>(), any_change()), |(place, what)| {
        let mut config = valid.clone();
        let names = change(&mut config, place.get::<String>(&all), &what);
        if let Some(refused) = runtime.block_on(bench.try_out(&config.to_string())) {
            let is_named = names.iter().any(|name| refused.contains(name.as_str()));
            prop_assert!(is_named, "{} is refused, and none of {:?} is named: {}", config, names, refused);
        }
        Ok(())
    });
    tried.unwrap_or_else(|failed| panic!("{failed}"));
    // No JSON at all, or another one.
    let tried = TestRunner::new(cases).run(&(any::<Index>(), any_text()), |(at, text)| {
        let mut config = valid.to_string();
        let starts: Vec<usize> = config.char_indices().map(|(k, _)| k).collect();
        config.insert_str(*at.get(&starts), &text);
        if let Some(refused) = runtime.block_on(bench.try_out(&config)) {
            prop_assert!(refused.contains("handler_config"), "{}: {}", config, refused);
        }
        Ok(())
    });
    tried.unwrap_or_else(|failed| panic!("{failed}"));
    runtime.block_on(bench.sweeper.shutdown());
}

/// No server listens there, so an attempt ends at once.
const NOWHERE: &str = "127.0.0.1:1";

#[test]
fn malformed_configuration_of_a_webhook_is_refused_or_tried() {
    let secret = SecretFile::new("s3cret-of-a-row");
    let key = SecretFile::new("whsec_c2VjcmV0LW9mLWEtc2lnbmF0dXJlLWtleQ==");
    let oauth2 = json!({ "token_url": format!("http://{NOWHERE}/token"), "client_id": "shop", "client_secret": secret.reference(),
                         "scope": "a b", "credentials": "body" });
    let config = json!({
        "url": format!("http://{NOWHERE}/orders/{{{{ param.id | urlencode }}}}"), "method": "PUT", "timeout": "5s",
        "headers": { "x-order": "{{ notice.id }} {{ secrets.key }}" }, "body": { "json": "{\"id\": {{ param.id }}}" },
        "secrets": { "key": secret.reference() }, "signing_keys": [key.reference()], "success": ["2xx", 304],
        "auth": { "oauth2": oauth2 }, "max_request_bytes": 1000, "max_response_bytes": 1000, "allow_hosts": ["127.0.0.1"],
    });
    let webhook = || Webhook::builder().allow_networks(&own_machine()).build().unwrap();
    changed_configurations_are_refused_or_tried(webhook(), &config);
    let mut other = config;
    other["auth"] = json!({ "basic": { "user": "shop", "password": secret.reference() } });
    other["body"] =
        json!({ "cloud_events": { "mode": "binary", "source": "shop", "subject": "{{ param.id }}", "type": "order" } });
    changed_configurations_are_refused_or_tried(webhook(), &other);
}

#[test]
fn malformed_configuration_of_a_mail_is_refused_or_tried() {
    let url = SecretFile::new(&format!("smtp://{NOWHERE}?tls=none"));
    let config = json!({
        "smtp": url.reference(), "from": "shop@example.org", "from_name": "Shop", "to": ["{{ param.to }}"],
        "cc": ["c@example.org"], "bcc": ["d@example.org"], "reply_to": ["e@example.org"], "subject": "order {{ param.id }}",
        "text": "Hello", "html": "<p>{{ param.name }}</p>", "secrets": { "key": url.reference() },
        "attachments": [{ "name": "a.txt", "content": "{{ param | tojson }}", "content_type": "text/plain" }],
    });
    changed_configurations_are_refused_or_tried(Mail::new().allow_networks(&own_machine()), &config);
}

#[test]
fn malformed_configuration_of_a_chat_is_refused_or_tried() {
    let (url, secret) = (SecretFile::new(&format!("http://{NOWHERE}/hook")), SecretFile::new("SECofrow"));
    let config = json!({ "service": "ding_talk", "url": url.reference(), "text": "order {{ param.id }}", "keyword": "shop",
                         "secret": secret.reference(), "secrets": { "key": secret.reference() } });
    changed_configurations_are_refused_or_tried(Chat::new().allow_networks(&own_machine()), &config);
}

#[test]
fn malformed_configuration_of_amqp_is_refused_or_tried() {
    let url = SecretFile::new(&format!("amqp://{NOWHERE}"));
    let config = json!({ "url": url.reference(), "exchange": "orders", "routing_key": "order.{{ param.id }}", "body": "{{ param.id }}",
                         "headers": { "x-order": "{{ param.id }}" }, "content_type": "text/plain", "expiration": "1h", "priority": 3,
                         "mandatory": true, "persistent": false, "reply_queue": "replies", "secrets": { "key": url.reference() } });
    changed_configurations_are_refused_or_tried(Amqp::new().allow_networks(&own_machine()), &config);
}

#[test]
fn malformed_configuration_of_nats_is_refused_or_tried() {
    let url = SecretFile::new(&format!("nats://{NOWHERE}"));
    let config = json!({ "url": url.reference(), "subject": "orders.{{ param.id }}", "body": "{{ param.id }}",
                         "headers": { "X-Order": "{{ param.id }}" }, "expected_stream": "ORDERS", "secrets": { "key": url.reference() } });
    changed_configurations_are_refused_or_tried(Nats::new().allow_networks(&own_machine()), &config);
}

#[test]
fn malformed_configuration_of_a_redis_stream_is_refused_or_tried() {
    let url = SecretFile::new(&format!("redis://{NOWHERE}"));
    let config = json!({ "url": url.reference(), "stream": "orders:{{ param.id }}", "fields": { "order": "{{ param.id }}" },
                         "maxlen": 1000, "secrets": { "key": url.reference() } });
    changed_configurations_are_refused_or_tried(RedisStreams::new().allow_networks(&own_machine()), &config);
}
