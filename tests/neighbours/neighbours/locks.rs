//! Neighbours that hold locks in an open transaction.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use solid_notify::{NewNotice, NotifyDef, Status};
use test_support::databases::server_url;
use test_support::sending::eventually;

use super::AtWork;
use crate::http::ack;
use crate::served::Served;
use crate::site::Site;
use crate::store::Store;

/// Acks over HTTP that are sent at the same time.
const ACKS: u32 = 8;
/// Replies through a broker.
const REPLIES: u32 = 200;
/// The pause of those over HTTP. All clients of this machine share 100 requests in a second.
const ACK_PAUSE: Duration = Duration::from_millis(250);

pub async fn rows<S: Store>(site: &Site<S>) {
    for (name, path) in [("bad_gone", "/gone"), ("bad_locked", "/plain")] {
        let config = json!({ "url": site.http.url(path) });
        site.define(NotifyDef::new(name).handler("webhook").handler_config(config.to_string())).await;
    }
}

/// Locks the definition, then adds notices of both. Those of the other one are due after they are locked.
pub async fn hold_rows<S: Store>(site: &Site<S>, at: &mut AtWork) {
    at.held.push(site.store.lock_definition(site.definition("bad_gone").await).await);
    let locked = |number: u32| NewNotice::new("bad_locked", number).unwrap().delay(Duration::from_secs(1));
    at.ids = site.add(20, locked).await;
    at.held.push(site.store.lock_notices(&at.ids).await);
    at.ids.extend(site.feed("bad_gone", 20, Duration::ZERO, |number| number.into()).await);
}

/// Checks that the receiver answered 410 and no notice has ended. Those that were locked have had no attempt.
pub async fn rows_were_held<S: Store>(site: &Site<S>, at: &AtWork) {
    assert!(site.http.requests("/gone") > 0);
    let all = site.all(&at.ids).await;
    assert!(all.iter().all(|notice| !notice.status.is_final()), "{:#?}", all.last());
    assert!(all.iter().take(20).all(|notice| notice.fence == 0), "{:#?}", all[0]);
    let rows = site.store.outbox().definitions().await.unwrap();
    let gone = rows.iter().find(|state| state.row.name == "bad_gone").unwrap();
    assert!(gone.row.enabled, "its lock kept it from being paused");
}

pub async fn acks<S: Store>(site: &Site<S>) {
    let config = json!({ "url": site.http.url("/keep") });
    let def = NotifyDef::new("bad").handler("webhook").handler_config(config.to_string());
    site.define(def.need_confirm(true).max_confirm_delay("1h")).await;
}

/// Adds notices, and waits until all of them await their acks.
async fn delivered<S: Store>(site: &Site<S>, count: u32) -> Vec<i64> {
    let ids = site.feed("bad", count, Duration::ZERO, |number| number.into()).await;
    for id in &ids {
        site.one_is(&[*id], "it awaits its ack", |notice| notice.status == Status::AwaitingAck).await;
    }
    ids
}

/// Locks notices that await their acks, and sends the acks again and again.
pub async fn hold_acks<S: Store>(site: &Site<S>, served: &Served, at: &mut AtWork) {
    at.ids = delivered(site, ACKS).await;
    at.held.push(site.store.lock_notices(&at.ids).await);
    let (tokens, serve, refused) = (site.http.tokens(), served.address, at.counter("locked acks"));
    assert_eq!(tokens.len(), at.ids.len());
    for token in tokens {
        let refused = refused.clone();
        at.tasks.spawn(async move {
            loop {
                if ack(serve, &token).await == Some(503) {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
                tokio::time::sleep(ACK_PAUSE).await;
            }
        });
    }
}

pub async fn replies<S: Store>(site: &Site<S>) {
    site.brokers.take_tokens();
    let url = site.secret("amqp", &server_url("AMQP_URL"));
    let config = json!({ "url": url, "routing_key": site.brokers.kept, "reply_queue": site.brokers.replies });
    let def = NotifyDef::new("bad").handler("amqp").handler_config(config.to_string());
    site.define(def.need_confirm(true).max_confirm_delay("1h")).await;
}

/// Locks notices that await their acks, and replies to each.
pub async fn hold_replies<S: Store>(site: &Site<S>, at: &mut AtWork) {
    at.ids = delivered(site, REPLIES).await;
    at.held.push(site.store.lock_notices(&at.ids).await);
    let tokens = site.brokers.take_tokens();
    assert_eq!(tokens.len(), at.ids.len());
    for token in tokens {
        site.brokers.ack(&token).await;
    }
    // Before, so many acks at once delay others, locked or not.
    let are_tried = async || {
        let log = std::fs::read_to_string(site.path("log")).unwrap();
        log.matches("cannot store a reply yet").count() >= at.ids.len()
    };
    eventually("each reply is tried", are_tried).await;
}

/// Adds notices to a target in an open transaction, and notices with the same dedupe keys to its definition.
pub async fn hold_dedupe_keys<S: Store>(site: &Site<S>, at: &mut AtWork) {
    let of =
        |name: &str, number: u32| NewNotice::new(name, number).unwrap().unique_until_ended(format!("held {number}"));
    at.held.push(site.store.add_uncommitted((0..10).map(|number| of("bad/t0", number)).collect()).await);
    at.ids = site.add(10, |number| of("bad", number)).await;
}
