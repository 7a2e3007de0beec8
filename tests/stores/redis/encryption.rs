//! Definitions with `encrypt_param`: no key of Redis has a plaintext.

use std::sync::Arc;

use ::redis::{Commands, Value as Stored, cmd};
use serde_json::{Value, json};
use solid_notify::alert::ALERT_DEFINITION;
use solid_notify::cipher::{ParamKey, ParamKeys};
use solid_notify::{Alert, Failure, NewNotice, Notice, NotifyDef, OutboxExt, Status, add_notices};
use test_support::redis::OwnPrefix;
use test_support::sending::eventually;
use test_support::{RedisServer, on_each_redis};

const SECRET: &str = "4111-8888-stored-nowhere";

on_each_redis!(no_key_has_a_plaintext);

/// Returns how many keys have this text, in a value or as a name.
fn keys_with(own: &OwnPrefix, text: &str) -> usize {
    let mut count = 0;
    own.on_each_node(|node| {
        let keys: Vec<String> = node.scan_match(format!("*{}*", own.prefix)).unwrap().map(Result::unwrap).collect();
        for key in keys {
            let kind: String = cmd("TYPE").arg(&key).query(node).unwrap();
            let value: Stored = match kind.as_str() {
                "hash" => node.hgetall(&key),
                "list" => node.lrange(&key, 0, -1),
                "set" => node.smembers(&key),
                "zset" => node.zrange_withscores(&key, 0, -1),
                "string" => node.get(&key),
                "stream" => cmd("XRANGE").arg(&key).arg("-").arg("+").query(node),
                kind => panic!("no test reads a key of the type {kind}"),
            }
            .unwrap();
            count += usize::from(key.contains(text) || texts(&value).iter().any(|found| found.contains(text)));
        }
    });
    count
}

/// Returns all texts of a value.
fn texts(value: &Stored) -> Vec<String> {
    match value {
        Stored::BulkString(bytes) => vec![String::from_utf8_lossy(bytes).into_owned()],
        Stored::SimpleString(text) => vec![text.clone()],
        Stored::Array(values) | Stored::Set(values) => values.iter().flat_map(texts).collect(),
        Stored::Map(pairs) => pairs.iter().flat_map(|(one, other)| [texts(one), texts(other)].concat()).collect(),
        _ => Vec::new(),
    }
}

async fn no_key_has_a_plaintext<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let mut outbox = own.outbox().await;
    let keys = ParamKeys::new("key-of-2026", ParamKey::new(&[7; 32]).unwrap()).unwrap();
    outbox.use_param_cipher(Arc::new(keys));
    let def = NotifyDef::new("charge").encrypt_param(true).retry_interval("1h").alert_trigger_type("each_failure");
    outbox.define_if_missing(def).await.unwrap();
    let handler = |notice: Notice<Value>| async move {
        let text = format!("card {}", notice.param()["card"].as_str().unwrap());
        match notice.param()["then"].as_str().unwrap() {
            "retry" => Err(Failure::retry(text)),
            "give up" => Err(Failure::give_up(text)),
            _ => Ok(()),
        }
    };
    let alerts = |_: Notice<Alert>| async { Ok(()) };
    let builder = outbox.sweeper().handler("charge", handler).handler(ALERT_DEFINITION, alerts);
    let sweeper = builder.start().await.unwrap();
    let new = |then: &str| NewNotice::new("charge", json!({ "then": then, "card": SECRET })).unwrap();
    let mut batch = outbox.begin().await.unwrap();
    let batched = new("retry").add(&mut batch).await.unwrap().id();
    batch.commit().await.unwrap();
    let all = [new("retry"), new("give up"), new("deliver").unique_until_ended("a"), new("deliver").skipped("a test")];
    let all = add_notices(&mut outbox, all).await.unwrap();
    let ends = [Status::Failed, Status::DeadLetter, Status::Succeeded, Status::Cancelled];
    for (id, end) in all.iter().map(|receipt| receipt.id()).zip(ends).chain([(batched, Status::Failed)]) {
        let ended = async || outbox.find(id).await.unwrap().unwrap().status == end;
        eventually(&format!("notice {id} becomes {end:?}"), ended).await;
        assert!(outbox.find(id).await.unwrap().unwrap().param.contains(SECRET));
    }
    outbox.operator("alice").edit(all[1].id(), json!({ "then": "deliver", "card": SECRET })).await.unwrap();
    sweeper.shutdown().await;
    assert!(keys_with(&own, "key-of-2026") >= 5, "the search finds what is stored");
    assert_eq!(keys_with(&own, SECRET), 0);
    own.close();
}
