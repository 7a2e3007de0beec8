//! Neighbours that are definitions, parameters and many notices; and the proofs that several neighbours share.

use std::time::Duration;

use serde_json::{Value, json};
use solid_notify::{Filter, NewNotice, NoticeRecord, NotifyDef, Status};
use test_support::sending::eventually;
use tokio::time::Instant;

use super::AtWork;
use crate::healthy::{self, CUSTOMERS};
use crate::settings::SLOTS;
use crate::site::Site;
use crate::store::Store;
use crate::window::{PATIENCE, Rate, send};

/// How many targets a notice is passed on to.
pub const TARGETS: usize = 100;
/// The definitions of [`hanging_together`].
const HANGING: usize = 6;
/// The length of a large parameter, in bytes.
const LARGE: usize = 200_000;
/// The definitions of [`broken`].
pub const BROKEN: [&str; 3] = ["bad_interval", "bad_config", "bad_handler"];

pub async fn secret_files<S: Store>(site: &Site<S>) {
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
pub async fn costly_template<S: Store>(site: &Site<S>) {
    let text = "{% if param.go %}{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}{% endfor %}{% endfor %}{% endfor %}{% endif %}";
    let config = json!({ "url": site.http.url("/plain"), "body": { "text": text } });
    site.define(NotifyDef::new("bad").handler("webhook").handler_config(config.to_string())).await;
}

pub async fn use_costly_template<S: Store>(site: &Site<S>, time: Duration, at: &mut AtWork) {
    at.ids = site.feed("bad", 30, time, |_| json!({ "go": true })).await;
}

/// A target with a filter that no evaluation within the limits can judge, and one with a pattern of the parameter, whose receiver fails. Both inherit
/// a mask, which is applied where an attempt fails.
pub async fn costly_filter<S: Store>(site: &Site<S>) {
    site.define(NotifyDef::new("bad").handler("webhook").mask(r#"["$..*..*..*..*"]"#)).await;
    for (name, path, filter) in
        [("t", "/plain", "@..[?@..[?@..[?@..*]]]"), ("fails", "/busy", "search(@.text, @.pattern)")]
    {
        let config = json!({ "url": site.http.url(path) }).to_string();
        let target = NotifyDef::target("bad", name).handler("webhook").handler_config(config);
        site.define(target.target_filter(filter)).await;
    }
}

pub async fn use_costly_filter<S: Store>(site: &Site<S>, time: Duration, at: &mut AtWork) {
    let deep = vec![json!([[[[[[[[[[[]]]]]]]]]]]); 6_000];
    let param = json!({ "text": format!("{}d", "a".repeat(50_000)), "pattern": "(a|b|ab)*[a-z]{30}d", "deep": deep });
    at.ids = site.feed("bad", 3, time, |_| param.clone()).await;
}

/// Checks that the notices have come to both targets, that attempts of one have failed, and that none has been sent.
pub async fn targets_wait<S: Store>(site: &Site<S>, at: &AtWork) {
    let is_passed_on = async || site.all(&at.ids).await.iter().all(|notice| notice.status == Status::Succeeded);
    eventually("the notices are passed on", is_passed_on).await;
    let is_judged = async || site.live("bad/t").await.iter().any(|notice| notice.fence > 0);
    eventually("a filter is judged", is_judged).await;
    let fails = async || site.live("bad/fails").await.iter().any(|notice| notice.failures > 1);
    eventually("a receiver fails", fails).await;
    assert_eq!(site.count("bad/", &Filter::ended()).await, 0);
}

/// A definition with so many targets. With an unknown handler their notices wait.
pub async fn targets<S: Store>(site: &Site<S>, count: usize) {
    site.define(NotifyDef::new("bad").handler("webhook")).await;
    for number in 0..count {
        let target = NotifyDef::target("bad", &format!("t{number}")).handler("nothing");
        // Together they take more steps than one may take on a thread of the runtime.
        site.define(target.target_filter("length(@) != 7 && @ != null")).await;
    }
}

/// Definitions whose receivers hang, each second one with a target.
pub async fn hanging_together<S: Store>(site: &Site<S>) {
    let config = json!({ "url": site.http.url("/hang") }).to_string();
    for number in 0..HANGING {
        let name = format!("bad_{number}");
        let def = NotifyDef::new(&name).handler("webhook").handler_config(config.clone()).timeout("1s");
        site.define(def.max_concurrency(1000)).await;
        if number % 2 == 0 {
            site.define(NotifyDef::target(&name, "t").max_concurrency(1000)).await;
        }
    }
}

pub async fn hang_together<S: Store>(site: &Site<S>, at: &mut AtWork) {
    let count = u32::try_from(SLOTS / 2).unwrap();
    for number in 0..HANGING {
        // Those with a target are sent there.
        let name = if number % 2 == 0 { format!("bad_{number}/t") } else { format!("bad_{number}") };
        at.ids.extend(site.feed(&name, count, Duration::ZERO, |number| number.into()).await);
    }
    // Before, nothing tells which receivers are slow, as with one of them.
    for of_one in at.ids.chunks(SLOTS / 2) {
        site.one_is(of_one, "an attempt times out", failed).await;
    }
    send(site, Rate { count: healthy::COUNT, gap: Duration::from_millis(1) }).await;
}

/// Parameters that look encrypted, of a definition that this process has no key for.
pub async fn undecryptable<S: Store>(site: &Site<S>, at: &mut AtWork) {
    at.ids = site.add(500, |number| NewNotice::new("bad", number).unwrap().delay(Duration::from_secs(1))).await;
    let param = json!({ "$encrypted": "gone", "ciphertext": "AAAA" });
    site.store.set_params(site.definition("bad").await, &param).await;
}

/// Checks that each was claimed and handed back.
pub async fn all_are_held_back<S: Store>(site: &Site<S>, at: &AtWork) {
    let are_claimed = async || site.all(&at.ids).await.iter().all(|notice| notice.fence > 0);
    eventually("all are claimed", are_claimed).await;
    all_wait(site, at, false).await;
}

/// A bulk act that cancels many notices while they wait for a handler.
pub async fn cancel_many<S: Store>(site: &Site<S>, at: &mut AtWork) {
    let ids = site.feed("bad", 3000, Duration::ZERO, |number| number.into()).await;
    at.ids = ids[ids.len() - 20..].to_vec();
    let alice = site.store.outbox().operator("alice");
    let live = Filter::status(Status::NotSent).definition("bad");
    alice.start_cancel_all(&live, "a test", "5000/1s".parse().unwrap()).await.unwrap();
}

/// Checks that the act has come to its last notices.
pub async fn all_are_cancelled<S: Store>(site: &Site<S>, at: &AtWork) {
    let are_cancelled = async || site.all(&at.ids).await.iter().all(|notice| notice.status == Status::Cancelled);
    eventually("the act ends", are_cancelled).await;
}

pub async fn without_handler<S: Store>(site: &Site<S>) {
    site.define(NotifyDef::new("bad").handler("nothing")).await;
}

pub async fn pass_on<S: Store>(site: &Site<S>, at: &mut AtWork) {
    at.ids = site.feed("bad", 3, Duration::ZERO, |_| "x".repeat(LARGE).into()).await;
}

pub async fn broken<S: Store>(site: &Site<S>) {
    for name in BROKEN {
        site.define(NotifyDef::new(name).handler("webhook")).await;
    }
    let changes = ["retry_interval", "handler_config", "handler"].into_iter().zip(["often", "{", "nothing"]);
    for (name, (column, value)) in BROKEN.into_iter().zip(changes) {
        site.store.edit_by_hand(site.definition(name).await, column, value).await;
    }
}

/// Adds a few notices to each of these: each is retried ten times in a second, and what many retries do is shown by another neighbour.
pub async fn feed<S: Store>(site: &Site<S>, at: &mut AtWork, names: &[&str]) {
    for name in names {
        at.ids.extend(site.feed(name, 5, Duration::ZERO, |number| number.into()).await);
    }
}

pub async fn retry_at_once<S: Store>(site: &Site<S>, at: &mut AtWork, count: u32) {
    let all = site.feed("bad", count, Duration::ZERO, |number| number.into()).await;
    // They are sent in this order, so these show that retries come.
    at.ids = all[..20].to_vec();
    site.one_is(&at.ids, "an attempt fails", |notice| notice.failures > 0).await;
}

pub async fn use_gone_customer<S: Store>(site: &Site<S>, time: Duration, at: &mut AtWork) {
    at.ids = site.feed(CUSTOMERS, 20, time, |number| json!({ "number": number, "customer": "gone" })).await;
}

pub async fn stick<S: Store>(site: &Site<S>, at: &mut AtWork) {
    at.ids = site.add(500, |number| NewNotice::new("bad", Value::from(number)).unwrap().ordering_key("stuck")).await;
    site.one_is(&at.ids[..1], "the first one fails", |notice| notice.failures > 0).await;
}

fn failed(notice: &NoticeRecord) -> bool {
    notice.failures > 0
}

/// Checks that no notice has ended, and whether each definition has had failed attempts.
pub async fn all_wait<S: Store>(site: &Site<S>, at: &AtWork, with_failures: bool) {
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
pub async fn all_time_out<S: Store>(site: &Site<S>, at: &AtWork) {
    let all = site.all(&at.ids).await;
    assert!(all.iter().all(|notice| notice.status != Status::Succeeded));
    let late = all.iter().filter(|notice| notice.last_class.as_deref() == Some("timeout")).count();
    assert!(late > 0, "{:#?}", all[0]);
}

/// Checks that all notices are dead letters of this class, but those that are not due yet.
pub async fn all_are_dead<S: Store>(site: &Site<S>, at: &AtWork, class: &str) {
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
pub async fn all_are_passed_on<S: Store>(site: &Site<S>, at: &AtWork) {
    let is_passed_on = async || site.all(&at.ids).await.iter().all(|notice| notice.status == Status::Succeeded);
    eventually("the notices are passed on", is_passed_on).await;
    assert_eq!(site.count("bad/", &Filter::live()).await, TARGETS * at.ids.len());
}

/// Checks that only the first notice has had attempts.
pub async fn all_stick<S: Store>(site: &Site<S>, at: &AtWork) {
    let all = site.all(&at.ids).await;
    let others = all.iter().skip(1).filter(|notice| notice.fence > 0).count();
    assert!(all[0].failures > 1 && !all[0].status.is_final() && others == 0, "{:#?}, {others} others", all[0]);
}
