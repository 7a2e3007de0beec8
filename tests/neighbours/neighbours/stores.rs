//! Neighbours that are stores: another one that stops answering, and damaged keys.

use std::time::Duration;

use serde_json::json;
use solid_notify::{NewNotice, NotifyDef};
use test_support::sending::eventually;

use super::AtWork;
use crate::served::Start;
use crate::site::Site;
use crate::store::Store;

/// The notices of the other store before it is cut off, and after.
const NOTICES: u32 = 20;
/// Long enough that the store is cut off before.
const LATER: Duration = Duration::from_secs(2);

/// The other store has a definition whose notices are received at the path `/other`.
pub async fn another<S: Store>(site: &Site<S>, start: &mut Start, at: &mut AtWork) {
    let other = site.other().await;
    for (name, path) in [("bad", "/other"), ("bad_later", "/later")] {
        let config = json!({ "url": site.http.url(path), "allow_hosts": ["127.0.0.1"] });
        let def = NotifyDef::new(name).handler("webhook").handler_config(config.to_string());
        other.outbox().define_if_missing(def).await.unwrap();
    }
    let (url, proxy) = other.breakable().await;
    start.other = Some(url);
    at.proxies.extend(proxy);
}

/// Cuts the other store off while it has notices that are due, and some that are due later.
pub async fn cut_off<S: Store>(site: &Site<S>, at: &mut AtWork) {
    let other = site.other().await;
    let notices = |name: &str, delay| {
        (0..NOTICES).map(move |number| NewNotice::new(name, number).unwrap().delay(delay)).collect()
    };
    other.add_many(notices("bad", Duration::ZERO)).await.unwrap();
    other.add_many(notices("bad_later", LATER)).await.unwrap();
    eventually("the other store is served", async || site.http.requests("/other") > 0).await;
    at.held.push(other.break_off(at.proxies.first()).await);
}

/// Checks that nothing of the other store was sent after it was cut off, and that calls of the process got no answer.
pub fn was_cut_off<S: Store>(site: &Site<S>, at: &AtWork) {
    assert_eq!(site.http.requests("/later"), 0);
    assert!(at.proxies.iter().all(|proxy| proxy.struck() > 0), "no call was stopped");
}

/// The definitions of [`damage`], and the key that is damaged of each.
const DAMAGED: [(&str, &str); 4] = [
    ("bad_ready", "ready:first_sends"),
    ("bad_sending", "status:sending"),
    ("bad_succeeded", "status:succeeded"),
    ("bad_limit", "limit"),
];

/// Definitions whose receiver is well.
pub async fn damaged<S: Store>(site: &Site<S>) {
    for (name, _) in DAMAGED {
        let config = json!({ "url": site.http.url("/plain"), "allow_hosts": ["127.0.0.1"] });
        site.define(NotifyDef::new(name).handler("webhook").handler_config(config.to_string())).await;
    }
}

/// Adds notices, and overwrites keys of their definitions before they are due.
pub async fn damage<S: Store>(site: &Site<S>) {
    for (name, key) in DAMAGED {
        let notice = |number: u32| NewNotice::new(name, number).unwrap().delay(Duration::from_secs(1));
        site.add(NOTICES, notice).await;
        site.store.damage(site.definition(name).await, key).await;
    }
}

/// Checks that calls failed because of the keys. The notices cannot be read either.
pub fn was_damaged<S: Store>(site: &Site<S>) {
    let log = std::fs::read_to_string(site.path("log")).unwrap();
    assert!(log.contains("WRONGTYPE"), "{log}");
}
