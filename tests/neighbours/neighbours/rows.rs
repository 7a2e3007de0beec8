//! Neighbours that are definitions, parameters and many notices; and the proofs that several neighbours share.

use std::time::Duration;

use serde_json::{Value, json};
use solid_notify::{NewNotice, NoticeRecord, NotifyDef, Status};
use test_support::sending::eventually;
use tokio::time::Instant;

use super::AtWork;
use crate::healthy::CUSTOMERS;
use crate::site::{Site, Store};
use crate::window::PATIENCE;

/// How many targets a notice is passed on to.
pub const TARGETS: usize = 200;
/// The length of a large parameter, in bytes.
const LARGE: usize = 200_000;
/// The definitions of [`broken`].
pub const BROKEN: [&str; 3] = ["bad_interval", "bad_config", "bad_handler"];

pub async fn secret_files<D: Store>(site: &Site<D>) {
    let pipe = site.path("secrets").join("pipe");
    if !pipe.exists() {
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    }
    for (name, file) in [("bad_pipe", pipe.to_str().unwrap()), ("bad_zero", "/dev/zero")] {
        let config = json!({ "url": site.http.url("/plain"), "signing_keys": [format!("file:{file}")] });
        site.define(NotifyDef::new(name).handler("webhook").handler_config(config.to_string())).await;
    }
}

/// A template that ends without this parameter, else its row would be refused.
pub async fn costly_template<D: Store>(site: &Site<D>) {
    let text = "{% if param.go %}{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}{% endfor %}{% endfor %}{% endfor %}{% endif %}";
    let config = json!({ "url": site.http.url("/plain"), "body": { "text": text } });
    site.define(NotifyDef::new("bad").handler("webhook").handler_config(config.to_string())).await;
}

pub async fn use_costly_template<D: Store>(site: &Site<D>, time: Duration, at: &mut AtWork) {
    at.ids = site.feed("bad", 30, time, |_| json!({ "go": true })).await;
}

/// A target with a filter that no evaluation within the limits can judge.
pub async fn costly_filter<D: Store>(site: &Site<D>) {
    site.define(NotifyDef::new("bad").handler("webhook").mask(r#"["$..*..*..*..*"]"#)).await;
    let config = json!({ "url": site.http.url("/plain") }).to_string();
    let target = NotifyDef::target("bad", "t").handler("webhook").handler_config(config);
    site.define(target.target_filter("count(@..*..*..*..*..*..*) > 1")).await;
}

pub async fn use_costly_filter<D: Store>(site: &Site<D>, time: Duration, at: &mut AtWork) {
    let deep = json!([[[[[[[]]]]]]]);
    at.ids = site.feed("bad", 3, time, |_| vec![deep.clone(); 20_000].into()).await;
}

/// Checks that the notices have come to their target, and that none of them has been sent.
pub async fn targets_wait<D: Store>(site: &Site<D>, at: &AtWork) {
    let is_passed_on = async || site.all(&at.ids).await.iter().all(|notice| notice.status == Status::Succeeded);
    eventually("the notices are passed on", is_passed_on).await;
    let waiting = "SELECT COUNT(*) FROM notify_msg WHERE parent_id IS NOT NULL AND fence > 0";
    let held_back = async || D::number(&site.db.pool, waiting).await > 0;
    eventually("the target's notices are judged", held_back).await;
    let ended = D::number(&site.db.pool, "SELECT COUNT(*) FROM notify_msg_history WHERE parent_id IS NOT NULL").await;
    assert_eq!(ended, 0);
}

/// A definition with so many targets. With an unknown handler their notices wait.
pub async fn targets<D: Store>(site: &Site<D>, count: usize) {
    site.define(NotifyDef::new("bad").handler("webhook")).await;
    for number in 0..count {
        site.define(NotifyDef::target("bad", &format!("t{number}")).handler("nothing")).await;
    }
}

pub async fn pass_on<D: Store>(site: &Site<D>, at: &mut AtWork) {
    at.ids = site.feed("bad", 3, Duration::ZERO, |_| "x".repeat(LARGE).into()).await;
}

pub async fn broken<D: Store>(site: &Site<D>) {
    for name in BROKEN {
        site.define(NotifyDef::new(name).handler("webhook")).await;
    }
    for change in
        ["retry_interval = 'often' WHERE name = 'bad_interval'", "handler_config = '{' WHERE name = 'bad_config'"]
    {
        site.db.sql(&format!("UPDATE notify_def SET {change}")).await;
    }
    site.db.sql("UPDATE notify_def SET handler = 'nothing' WHERE name = 'bad_handler'").await;
}

/// Adds 20 notices to each of these.
pub async fn feed<D: Store>(site: &Site<D>, at: &mut AtWork, names: &[&str]) {
    for name in names {
        at.ids.extend(site.feed(name, 20, Duration::ZERO, |number| number.into()).await);
    }
}

pub async fn retry_at_once<D: Store>(site: &Site<D>, at: &mut AtWork, count: u32) {
    let all = site.feed("bad", count, Duration::ZERO, |number| number.into()).await;
    // They are sent in this order, so these show that retries come.
    at.ids = all[..20].to_vec();
    site.one_is(&at.ids, "an attempt fails", |notice| notice.failures > 0).await;
}

pub async fn use_gone_customer<D: Store>(site: &Site<D>, time: Duration, at: &mut AtWork) {
    at.ids = site.feed(CUSTOMERS, 20, time, |number| json!({ "number": number, "customer": "gone" })).await;
}

pub async fn stick<D: Store>(site: &Site<D>, at: &mut AtWork) {
    at.ids = site.add(500, |number| NewNotice::new("bad", Value::from(number)).unwrap().ordering_key("stuck")).await;
    site.one_is(&at.ids[..1], "the first one fails", |notice| notice.failures > 0).await;
}

fn failed(notice: &NoticeRecord) -> bool {
    notice.failures > 0
}

/// Checks that no notice has ended, and whether each definition has had failed attempts.
pub async fn all_wait<D: Store>(site: &Site<D>, at: &AtWork, with_failures: bool) {
    let all = site.all(&at.ids).await;
    let ended: Vec<_> = all.iter().filter(|notice| notice.status.is_final()).collect();
    assert!(ended.is_empty() && !all.is_empty(), "{ended:#?}");
    let mut definitions: Vec<i64> = all.iter().map(|notice| notice.def_id).collect();
    definitions.dedup();
    for definition in definitions {
        let mut own = all.iter().filter(|notice| notice.def_id == definition);
        assert_eq!(own.any(failed), with_failures, "{:#?}", all.iter().find(|notice| notice.def_id == definition));
    }
}

/// Checks that attempts have timed out, and none has succeeded.
pub async fn all_time_out<D: Store>(site: &Site<D>, at: &AtWork) {
    let all = site.all(&at.ids).await;
    assert!(all.iter().all(|notice| notice.status != Status::Succeeded));
    let late = all.iter().filter(|notice| notice.last_class.as_deref() == Some("timeout")).count();
    assert!(late > 0, "{:#?}", all[0]);
}

/// Checks that all notices are dead letters of this class, but those that are not due yet.
pub async fn all_are_dead<D: Store>(site: &Site<D>, at: &AtWork, class: &str) {
    let is_dead =
        |notice: &NoticeRecord| notice.status == Status::DeadLetter && notice.last_class.as_deref() == Some(class);
    let deadline = Instant::now() + PATIENCE;
    let mut all = site.all(&at.ids).await;
    while !all.iter().all(|notice| notice.status.is_final()) && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
        all = site.all(&at.ids).await;
    }
    let other = all.iter().find(|notice| !is_dead(notice));
    assert!(other.is_none() && !all.is_empty(), "{other:#?}");
}

/// Checks that each target has each notice, once all are passed on.
pub async fn all_are_passed_on<D: Store>(site: &Site<D>, at: &AtWork) {
    let is_passed_on = async || site.all(&at.ids).await.iter().all(|notice| notice.status == Status::Succeeded);
    eventually("the notices are passed on", is_passed_on).await;
    let passed = D::number(&site.db.pool, "SELECT COUNT(*) FROM notify_msg WHERE parent_id IS NOT NULL").await;
    assert_eq!(usize::try_from(passed).unwrap(), TARGETS * at.ids.len());
}

/// Checks that only the first notice has had attempts.
pub async fn all_stick<D: Store>(site: &Site<D>, at: &AtWork) {
    let all = site.all(&at.ids).await;
    let others = all.iter().skip(1).filter(|notice| notice.fence > 0).count();
    assert!(all[0].failures > 1 && !all[0].status.is_final() && others == 0, "{:#?}, {others} others", all[0]);
}
