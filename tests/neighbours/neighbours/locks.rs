//! Neighbours that hold locks in an open transaction.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use solid_notify::sql::Dialect;
use solid_notify::{NewNotice, NotifyDef, Status};

use super::AtWork;
use crate::http::ack;
use crate::served::Served;
use crate::site::{Site, Store};

/// Acks that are sent at the same time.
const ACKS: u32 = 8;
/// Their pause. All clients of this machine share 100 requests in a second.
const ACK_PAUSE: Duration = Duration::from_millis(250);

pub async fn rows<D: Store>(site: &Site<D>) {
    for (name, path) in [("bad_gone", "/gone"), ("bad_locked", "/plain")] {
        let config = json!({ "url": site.http.url(path) });
        site.define(NotifyDef::new(name).handler("webhook").handler_config(config.to_string())).await;
    }
}

/// Locks rows until the end.
async fn lock<D: Store>(site: &Site<D>, at: &mut AtWork, sql: String) {
    let mut other = site.db.pool.begin().await.unwrap();
    D::Db::script(&mut other, sql.into()).await.unwrap();
    at.held.push(Box::new(other));
}

/// Locks notices, one by one: a statement for several would also lock the gaps between them on MariaDB, where others insert.
async fn lock_notices<D: Store>(site: &Site<D>, at: &mut AtWork) {
    let locks = at.ids.iter().map(|id| format!("SELECT id FROM notify_msg WHERE id = {id} FOR UPDATE;")).collect();
    lock(site, at, locks).await;
}

/// Locks the definition, then adds notices of both. Those of the other one are due after they are locked.
pub async fn hold_rows<D: Store>(site: &Site<D>, at: &mut AtWork) {
    let definition = site.definition("bad_gone").await;
    lock(site, at, format!("SELECT id FROM notify_def WHERE id = {definition} FOR UPDATE")).await;
    let locked = |number: u32| NewNotice::new("bad_locked", number).unwrap().delay(Duration::from_secs(1));
    at.ids = site.add(20, locked).await;
    lock_notices(site, at).await;
    at.ids.extend(site.feed("bad_gone", 20, Duration::ZERO, |number| number.into()).await);
}

/// Checks that the receiver answered 410 and no notice has ended. Those that were locked have had no attempt.
pub async fn rows_were_held<D: Store>(site: &Site<D>, at: &AtWork) {
    assert!(site.http.requests("/gone") > 0);
    let all = site.all(&at.ids).await;
    assert!(all.iter().all(|notice| !notice.status.is_final()), "{:#?}", all.last());
    assert!(all.iter().take(20).all(|notice| notice.fence == 0), "{:#?}", all[0]);
    let rows = site.db.outbox.definitions().await.unwrap();
    let gone = rows.iter().find(|state| state.row.name == "bad_gone").unwrap();
    assert!(gone.row.enabled, "its lock kept it from being paused");
}

pub async fn acks<D: Store>(site: &Site<D>) {
    let config = json!({ "url": site.http.url("/keep") });
    let def = NotifyDef::new("bad").handler("webhook").handler_config(config.to_string());
    site.define(def.need_confirm(true).max_confirm_delay("1h")).await;
}

/// Locks notices that await their acks, and sends the acks again and again.
pub async fn hold_acks<D: Store>(site: &Site<D>, served: &Served, at: &mut AtWork) {
    at.ids = site.feed("bad", ACKS, Duration::ZERO, |number| number.into()).await;
    for id in &at.ids {
        site.one_is(&[*id], "it awaits its ack", |notice| notice.status == Status::AwaitingAck).await;
    }
    lock_notices(site, at).await;
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

/// Adds notices to a target in an open transaction, and notices with the same dedupe keys to its definition.
pub async fn hold_dedupe_keys<D: Store>(site: &Site<D>, at: &mut AtWork) {
    let mut other = site.db.outbox.begin().await.unwrap();
    for number in 0..10 {
        let notice = NewNotice::new("bad/t0", number).unwrap();
        notice.unique_until_ended(format!("held {number}")).add(&mut other).await.unwrap();
    }
    at.held.push(Box::new(other));
    let same = |number: u32| NewNotice::new("bad", number).unwrap().unique_until_ended(format!("held {number}"));
    at.ids = site.add(10, same).await;
}
