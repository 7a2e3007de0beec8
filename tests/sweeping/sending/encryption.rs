//! The column `encrypt_param`: handlers get the decrypted parameter, people see what the mask allows where the cipher is at hand, and
//! a notice that cannot be decrypted ends; `missing_keys.rs` has those that wait.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use solid_notify::cipher::{ParamKey, ParamKeys};
use solid_notify::definition::ALERT_DEFINITION;
use solid_notify::operate::AuditFilter;
use solid_notify::sweeper::Batch;
use solid_notify::{Alert, Failure, Filter, NewNotice, Notice, NotifyDef, OutboxExt, Response, Status};
use solid_notify_conformance::Backend;
use solid_notify_core::store::verb::Verb;
use test_support::log::Log;
use test_support::sending::{
    Calls, PATIENCE, add, definition, edit_by_hand, eventually, reaches, record, refusal_of, refused_by,
};

const SECRET: &str = "4111-qzvxj-encrypted";
/// A part of it, as handlers make from values. No digits: the log is that of the whole process, with its times, ports and ids.
const PART: &str = "qzvxj";

fn key(seed: u8) -> ParamKey {
    ParamKey::new(&[seed; 32]).unwrap()
}

/// Keys of which the first encrypts.
pub fn keys(ids: &[&str]) -> Arc<ParamKeys> {
    let seed = |id: &str| key(id.as_bytes()[0]);
    let first = ParamKeys::new(ids[0], seed(ids[0])).unwrap();
    Arc::new(ids[1..].iter().fold(first, |keys, id| keys.accept(*id, seed(id)).unwrap()))
}

pub fn encrypting(name: &str) -> NotifyDef {
    NotifyDef::new(name).encrypt_param(true).retry_interval("1h")
}

/// The parameter as it is stored.
async fn stored_param(b: &dyn Backend, id: i64) -> String {
    b.outbox().engine().stores().browse.find(id).await.unwrap().unwrap().param
}

/// Replaces the stored parameter, as SQL would.
async fn store_param(b: &dyn Backend, id: i64, param: String) {
    let changed = b.outbox().engine().stores().operate.change(id, &Verb::Edit { param }, "a test").await.unwrap();
    assert!(changed.is_applied(), "{changed:?}");
}

#[derive(Debug, Deserialize)]
struct Charge {
    then: String,
    card: String,
}

/// Ends in the way that the parameter says, each time with a text that has the secret.
async fn charge(notice: Notice<Charge>) -> Result<(), Failure> {
    tracing::warn!("encryption: got {notice:?}");
    let Charge { then, card } = notice.param();
    assert_eq!(card, SECRET, "the handler gets the parameter");
    assert!(notice.raw_param().contains(SECRET));
    let text = format!("card {card} ({PART}) is refused");
    notice.set_response(Response::new(format!("NO {PART}")).body(json!({ "card": card }).to_string()));
    if then != "retry" {
        notice.set_description(format!("card {PART}"));
    }
    match then.as_str() {
        "deliver" => Ok(()),
        "retry" => Err(Failure::retry(text)),
        "give up" => Err(Failure::give_up(text)),
        "say so" => Err(Failure::give_up("the terminal is closed").free_of_values()),
        "skip" => Err(Failure::skip(text)),
        _ => panic!("{text}"),
    }
}

pub async fn encrypted_parameter_is_on_no_way_out_to_people(b: &dyn Backend) {
    let log = Log::start();
    b.outbox().use_param_cipher(keys(&["a"]));
    let def = encrypting("charge").mask(r#"["$.card"]"#).alert_trigger_type("each_failure").alert_cooldown("1ms");
    b.outbox().define_if_missing(def).await.unwrap();
    let alerts = Calls::default();
    let told = alerts.clone();
    let builder =
        b.outbox().sweeper().handler("charge", charge).handler(ALERT_DEFINITION, move |alert: Notice<Alert>| {
            told.note(alert.param().text());
            async { Ok(()) }
        });
    let sweeper = builder.start().await.unwrap();
    let alice = b.outbox().operator("alice");
    let mut shown = Vec::new();
    let ends = [
        ("deliver", Status::Succeeded),
        ("retry", Status::Failed),
        ("give up", Status::DeadLetter),
        ("say so", Status::DeadLetter),
        ("skip", Status::Cancelled),
        ("panic", Status::Failed),
    ];
    for (then, end) in ends {
        let notice =
            NewNotice::new("charge", json!({ "then": then, "card": SECRET })).unwrap().description("order of Ada");
        shown.push(format!("{notice:?}"));
        let receipt = b.add_new(notice).await;
        let id = receipt.id();
        reaches(b, id, end).await;
        shown.push(stored_param(b, id).await);
        let whole = record(b, id).await;
        assert!(whole.param.contains(SECRET), "the application gets the parameter");
        let notice = alice.show(id).await.unwrap().unwrap();
        let expected = json!({ "then": then, "card": "***" });
        assert_eq!(serde_json::from_str::<Value>(&notice.param).unwrap(), expected, "masked by the column `mask`");
        assert_eq!(notice.description.as_deref(), Some("order of Ada"), "that of the producer");
        if then == "say so" {
            assert_eq!(whole.errors[0].message, "the terminal is closed");
        }
        shown.extend([format!("{notice:?}"), serde_json::to_string(&notice).unwrap()]);
        shown.extend(whole.errors.iter().map(|error| format!("{error:?}")));
        let response = whole.response.as_ref().unwrap();
        assert_eq!((response.response.status(), response.response.body_text()), ("***", None));
        shown.extend([whole.description, whole.end_reason].into_iter().flatten());
        shown.push(alice.explain(id).await.unwrap().to_string());
        shown.push(format!("{:?}", receipt.first_attempt(PATIENCE).await));
    }
    eventually("two alerts", async || alerts.count() >= 2).await;
    assert!(alerts.all().iter().any(|text| text.contains("its text is not kept")), "{:?}", alerts.all());
    shown.extend(alerts.all());
    for filter in [Filter::dead_letters(), Filter::cancelled(), Filter::status(Status::Failed).definition("charge")] {
        shown.push(format!("{:?}", alice.list(&filter, None, 50).await.unwrap()));
    }
    let dead = alice.list(&Filter::dead_letters(), None, 2).await.unwrap().notices.remove(0).id;
    assert!(alice.edit(dead, json!({ "then": "deliver", "card": SECRET })).await.unwrap().is_applied());
    reaches(b, dead, Status::Succeeded).await;
    shown.push(stored_param(b, dead).await);
    let ended = Filter::ended().definition(ALERT_DEFINITION);
    for alert in alice.list(&ended, None, 50).await.unwrap().notices {
        shown.push(stored_param(b, alert.id).await);
    }
    sweeper.shutdown().await;
    shown.push(format!("{:?}", alice.audit(&AuditFilter::all(), None, 100).await.unwrap()));
    shown.extend(log.all());
    assert!(log.all().iter().any(|line| line.contains("encryption: got") && line.contains("<encrypted>")));
    for text in shown {
        assert!(!text.contains(SECRET) && !text.contains(PART), "{text}");
    }
}

pub async fn batch_handler_gets_decrypted_parameters_of_each_key(b: &dyn Backend) {
    b.outbox().define_if_missing(encrypting("sync")).await.unwrap();
    let mut ids = Vec::new();
    for (cipher, value) in [(&["a"][..], "one"), (&["b", "a"], "two"), (&["c", "b", "a"], "three")] {
        b.outbox().use_param_cipher(keys(cipher));
        ids.push(b.add_new(NewNotice::new("sync", value).unwrap()).await.id());
        assert!(stored_param(b, *ids.last().unwrap()).await.contains(&format!("{{\"$encrypted\":\"{}\"", cipher[0])));
    }
    let calls = Calls::default();
    let seen = calls.clone();
    let handler = move |notices: Vec<Notice<String>>| {
        for notice in &notices {
            seen.note(notice.param().clone());
        }
        async move { Ok(notices.iter().map(|_| Ok(())).collect()) }
    };
    let sweeper = b.outbox().sweeper().batch_handler("sync", Batch::up_to(3), handler).start().await.unwrap();
    for id in ids {
        reaches(b, id, Status::Succeeded).await;
    }
    let mut all = calls.all();
    all.sort();
    assert_eq!(all, ["one", "three", "two"]);
    sweeper.shutdown().await;
}

pub async fn node_without_the_cipher_leaves_the_definition_alone(b: &dyn Backend) {
    b.outbox().define_if_missing(encrypting("sync")).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("plain")).await.unwrap();
    let waits = b.add_new(NewNotice::new("sync", 1).unwrap().param_cipher(keys(&["a"]))).await.id();
    let handler = |_: Notice<i64>| async { Ok(()) };
    let sweeper = b.outbox().sweeper().handler("sync", handler).handler("plain", handler).start().await.unwrap();
    let sent = add(b, "plain").await;
    reaches(b, sent, Status::Succeeded).await;
    sweeper.idle().await;
    let untouched = record(b, waits).await;
    assert_eq!((untouched.status, untouched.fence, untouched.failures), (Status::NotSent, 0, 0));
    let problem = refusal_of(b.outbox(), "sync").await;
    assert!(problem.starts_with("encrypt_param: this node has no cipher"), "{problem}");
    let alice = b.outbox().operator("alice");
    let explained = alice.explain(waits).await.unwrap().to_string();
    assert_eq!(explained, format!("it is due, but no node can send it: {problem}"));
    assert_eq!(alice.show(waits).await.unwrap().unwrap().param, "\"<encrypted>\"");
    b.outbox().use_param_cipher(keys(&["a"]));
    reaches(b, waits, Status::Succeeded).await;
    eventually("nothing is refused any more", async || refused_by(b.outbox(), "sync").await.is_empty()).await;
    sweeper.shutdown().await;
}

pub async fn altered_parameters_are_dead_letters_and_copied_ones_wait(b: &dyn Backend) {
    b.outbox().use_param_cipher(keys(&["a"]));
    // Also where a rule retries the class.
    let def = |name: &str| encrypting(name).retry_rules(r#"{"invalid": "[1s,1s]"}"#);
    for name in ["first", "second"] {
        b.outbox().define_if_missing(def(name)).await.unwrap();
    }
    let add = async |name: &str| b.add_new(NewNotice::new(name, SECRET).unwrap()).await.id();
    let (copied, from) = (add("second").await, add("first").await);
    store_param(b, copied, stored_param(b, from).await).await;
    let (first, second) = (definition(b, "first").await.id, definition(b, "second").await.id);
    let renamed = add("second").await;
    let of = |id: i64| format!("\"definition\":{id}");
    store_param(b, renamed, stored_param(b, from).await.replace(&of(first), &of(second))).await;
    let mut others = vec![renamed];
    for change in [
        |param: String| param.replacen("\"ciphertext\":\"", "\"ciphertext\":\"AAAA", 1),
        |param: String| param.replacen("\"ciphertext\"", "\"text\"", 1),
        |_| r#"{"$encrypted":"a","ciphertext":""}"#.to_owned(),
        |param: String| param.replacen(",\"definition\"", ",\"of\"", 1),
    ] {
        let id = add("first").await;
        store_param(b, id, change(stored_param(b, id).await)).await;
        others.push(id);
    }
    let calls = Calls::default();
    let seen = calls.clone();
    let handler = move |notice: Notice<String>| {
        seen.note(notice.id());
        async { Ok(()) }
    };
    let builder = b.outbox().sweeper().handler("first", handler.clone()).handler("second", handler);
    let sweeper = builder.start().await.unwrap();
    for id in others {
        let dead = reaches(b, id, Status::DeadLetter).await;
        assert_eq!((dead.failures, dead.last_class.as_deref()), (1, Some("invalid")));
        let reason = dead.end_reason.unwrap();
        assert!(reason.starts_with("its parameter cannot be decrypted: it is not what was encrypted"), "{reason}");
        assert_eq!(dead.errors[0].class, "invalid");
        let seen = b.outbox().operator("alice").show(id).await.unwrap().unwrap();
        assert_eq!(seen.param, "\"<encrypted>\"");
    }
    reaches(b, from, Status::Succeeded).await;
    let problem = refusal_of(b.outbox(), "second").await;
    let expected =
        format!("target_of: the parameter of notice {copied} is encrypted for the definition {first} (\"first\")");
    assert!(problem.starts_with(&expected), "{problem}");
    sweeper.idle().await;
    let waits = record(b, copied).await;
    assert_eq!((waits.status, waits.failures, waits.crashes), (Status::NotSent, 0, 0));
    assert_eq!(calls.all(), [from], "no handler was called for the others");
    sweeper.shutdown().await;
}

pub async fn plaintext_of_before_is_sent_and_stays_out_of_texts(b: &dyn Backend) {
    b.outbox().use_param_cipher(keys(&["a"]));
    b.outbox().define_if_missing(NotifyDef::new("charge").retry_interval("1h")).await.unwrap();
    let param = json!({ "then": "give up", "card": SECRET });
    let before = b.add_new(NewNotice::new("charge", param).unwrap()).await.id();
    edit_by_hand(b, "charge", |def| def.encrypt_param(true)).await;
    assert!(definition(b, "charge").await.encrypt_param);
    let sweeper = b.outbox().sweeper().handler("charge", charge).start().await.unwrap();
    let dead = reaches(b, before, Status::DeadLetter).await;
    assert_eq!(
        dead.end_reason.as_deref(),
        Some("the handler gave up: its text is not kept, because the parameter is encrypted")
    );
    sweeper.shutdown().await;
}

/// Neither at once nor after the sweep that settles the attempt; of one whose parameter was stored before, after that sweep.
pub async fn nack_of_an_encrypted_parameter_keeps_no_text(b: &dyn Backend) {
    b.outbox().use_param_cipher(keys(&["a"]));
    let def = NotifyDef::new("charge").retry_interval("1h").need_confirm(true).max_confirm_delay("1h");
    b.outbox().define_if_missing(def).await.unwrap();
    let add = async || b.add_new(NewNotice::new("charge", SECRET).unwrap()).await.id();
    let before = add().await;
    edit_by_hand(b, "charge", |def| def.encrypt_param(true)).await;
    let [refused, by_alice] = [add().await, add().await];
    let handler = |_: Notice<String>| async { Ok(()) };
    let sweeper = b.outbox().sweeper().handler("charge", handler).start().await.unwrap();
    for id in [before, refused, by_alice] {
        reaches(b, id, Status::AwaitingAck).await;
    }
    let text = format!("no account for {PART}");
    let message = async |id: i64| record(b, id).await.errors[0].message.clone();
    let not_kept = "its receiver refused it; its text is not kept, because the parameter is encrypted";
    b.outbox().nack(refused, &text).await.unwrap();
    assert_eq!(message(refused).await, not_kept);
    b.outbox().nack(before, &text).await.unwrap();
    b.outbox().operator("alice").nack(by_alice, "called them").await.unwrap();
    b.outbox().wake();
    for (id, message) in [(before, not_kept), (refused, not_kept), (by_alice, "alice nacked it: called them")] {
        let failed = reaches(b, id, Status::Failed).await;
        assert_eq!(failed.errors[0].message, message);
    }
    sweeper.shutdown().await;
}

/// A target's filter reads the decrypted parameter, and its stored notice stays encrypted, also after an edit.
pub async fn a_target_gets_an_encrypted_parameter_by_its_filter(b: &dyn Backend) {
    b.outbox().use_param_cipher(keys(&["one"]));
    b.outbox().define_if_missing(encrypting("order").handler("charge")).await.unwrap();
    for (target, filter) in [("large", "@.amount > 100"), ("small", "@.amount < 10")] {
        let target = NotifyDef::target("order", target).target_filter(filter);
        b.outbox().define_if_missing(target).await.unwrap();
    }
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = b.outbox().sweeper().handler("charge", move |notice: Notice<Value>| {
        noted.note((notice.id(), notice.target().unwrap_or("-").to_owned(), notice.param()["amount"].as_i64()));
        let edited = notice.param()["amount"] == 501;
        async move { if edited { Ok(()) } else { Err(Failure::retry("down")) } }
    });
    let sweeper = sweeper.start().await.unwrap();
    let id = b.add_new(NewNotice::new("order", json!({ "amount": 500, "card": SECRET })).unwrap()).await.id();
    let parent = reaches(b, id, Status::Succeeded).await;
    assert_eq!(parent.end_reason.as_deref(), Some("passed on to the target large"));
    eventually("the target gets it", async || calls.count() == 1).await;
    let (of_target, target, amount) = calls.all().remove(0);
    assert_eq!((target.as_str(), amount), ("large", Some(500)));
    reaches(b, of_target, Status::Failed).await;
    assert!(!stored_param(b, of_target).await.contains(SECRET), "the notice of the target is stored encrypted");
    assert!(record(b, of_target).await.param.contains(SECRET), "the application reads it");
    let alice = b.outbox().operator("alice");
    assert!(alice.edit(of_target, json!({ "amount": 501, "card": SECRET })).await.unwrap().is_applied());
    assert!(!stored_param(b, of_target).await.contains(SECRET));
    alice.reschedule(of_target, b.clock().now()).await.unwrap();
    reaches(b, of_target, Status::Succeeded).await;
    sweeper.shutdown().await;
}

pub async fn a_target_encrypts_only_under_a_definition_that_encrypts(b: &dyn Backend) {
    b.outbox().use_param_cipher(keys(&["a"]));
    b.outbox().define_if_missing(NotifyDef::new("plain")).await.unwrap();
    let error = b.outbox().define_if_missing(NotifyDef::target("plain", "erp").encrypt_param(true)).await.unwrap_err();
    assert!(error.to_string().contains("true also for the definition that it is a target of"), "{error}");
    b.outbox().define_if_missing(encrypting("order")).await.unwrap();
    let target = NotifyDef::target("order", "erp").encrypt_param(true);
    b.outbox().define_if_missing(target).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let handler = move |notice: Notice<String>| {
        noted.note(notice.id());
        async { Ok(()) }
    };
    let sweeper = b.outbox().sweeper().handler("order", handler).start().await.unwrap();
    // One is encrypted for the definition, the other for the target itself.
    for name in ["order", "order/erp"] {
        b.add_new(NewNotice::new(name, SECRET).unwrap()).await;
    }
    eventually("the target has both", async || calls.count() == 2).await;
    for id in calls.all() {
        reaches(b, id, Status::Succeeded).await;
        assert!(stored_param(b, id).await.starts_with("{\"$encrypted\""));
        assert!(record(b, id).await.param.contains(SECRET), "the application reads it");
    }
    sweeper.shutdown().await;
}
