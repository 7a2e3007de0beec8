//! A definition and its targets hold together: nothing that is for targets goes to another receiver, is refused by rows of before, or is lost,
//! whatever people do to the rows.

use std::sync::atomic::Ordering;

use serde_json::value::RawValue;
use solid_notify::{AnyOutbox, FirstAttempt, NewNotice, NotifyDef, Status};
use solid_notify_conformance::Backend;
use solid_notify_core::definition::Definitions;
use solid_notify_core::engine::Engine;
use solid_notify_core::store::Edit;
use test_support::sending::{
    Calls, PATIENCE, definition, edit_by_hand, eventually, reaches, record, refusal_of, update,
};

use super::encryption::keys;
use super::targets::{Call, MINUTE, add, define, got, ids, off, order, sending, target};

/// Creates a target as plain SQL does: nothing is validated, no sweeper is woken.
async fn insert_by_hand(b: &dyn Backend, name: &str) {
    let row = NotifyDef::new(name).target_of(definition(b, "order").await.id);
    b.outbox().engine().stores().definitions.edit(&Edit::Create(row), "a test").await.unwrap();
}

pub async fn paused_target_gets_its_notices_and_they_wait(b: &dyn Backend) {
    define(b, order(), &[target("erp").enabled(false), target("mail")]).await;
    let calls = Calls::<Call>::default();
    let sweeper = sending(b, &calls, &off()).start().await.unwrap();
    let parent = reaches(b, add(b, 1).await, Status::Succeeded).await;
    assert_eq!(parent.end_reason.as_deref(), Some("passed on to 2 targets: erp, mail"));
    eventually("the other one gets it", async || calls.count() == 1).await;
    sweeper.idle().await;
    assert_eq!((got(&calls, 1), ids(b, "order/erp", Status::NotSent).await.len()), (vec!["mail".to_owned()], 1));
    update(b, "order/erp", |def| def.enabled(true)).await;
    eventually("what waited is sent", async || calls.count() == 2).await;
    assert_eq!(got(&calls, 1), ["erp", "mail"]);
    sweeper.shutdown().await;
}

pub async fn target_created_before_the_add_gets_the_notice(b: &dyn Backend) {
    define(b, order(), &[target("erp")]).await;
    let calls = Calls::<Call>::default();
    let sweeper = sending(b, &calls, &off()).start().await.unwrap();
    reaches(b, add(b, 0).await, Status::Succeeded).await;
    for amount in 1..6 {
        let name = format!("order/new{amount}");
        insert_by_hand(b, &name).await;
        reaches(b, add(b, amount).await, Status::Succeeded).await;
        let expected = usize::try_from(amount).unwrap() + 1;
        eventually("each target gets it", async || got(&calls, amount).len() == expected).await;
    }
    sweeper.shutdown().await;
}

/// The sweeper knows the definitions as some without targets, and another process creates their first ones, by each of the two ways.
pub async fn first_target_is_followed_by_each_node_when_its_call_returns(b: &dyn Backend) {
    define(b, order(), &[NotifyDef::new("bill").handler("order")]).await;
    let calls = Calls::<Call>::default();
    let sweeper = sending(b, &calls, &off()).start().await.unwrap();
    reaches(b, add(b, 1).await, Status::Succeeded).await;
    assert_eq!(got(&calls, 1), ["-"]);
    let engine = Engine::new(b.outbox().engine().stores().clone(), Some(b.clock().clone()));
    let (other, created) = (AnyOutbox::over(engine), Definitions::of([NotifyDef::target("bill", "erp")]).unwrap());
    let add_bill = async || {
        assert_eq!(other.apply(created).await.unwrap().created.len(), 1);
        b.add_new(NewNotice::new("bill", serde_json::json!({ "amount": 3 })).unwrap()).await.id()
    };
    let add_order = async || {
        other.define_if_missing(target("erp")).await.unwrap();
        add(b, 2).await
    };
    let (order, bill) = tokio::join!(add_order(), add_bill());
    for (id, amount) in [(order, 2), (bill, 3)] {
        reaches(b, id, Status::Succeeded).await;
        eventually("the target gets it", async || !got(&calls, amount).is_empty()).await;
        assert_eq!(got(&calls, amount), ["erp"]);
    }
    sweeper.shutdown().await;
}

pub async fn filter_ends_a_notice_only_by_its_present_row(b: &dyn Backend) {
    define(b, order().retry_interval("1h"), &[target("erp").target_filter("@.amount > 1")]).await;
    let (calls, fails) = (Calls::<Call>::default(), off());
    fails.store(true, Ordering::SeqCst);
    let sweeper = sending(b, &calls, &fails).start().await.unwrap();
    reaches(b, add(b, 7).await, Status::Succeeded).await;
    eventually("it fails", async || ids(b, "order/erp", Status::Failed).await.len() == 1).await;
    let waits = ids(b, "order/erp", Status::Failed).await[0];
    fails.store(false, Ordering::SeqCst);
    for round in 0..4 {
        // This node knows the filter that is narrowed by mistake, and not its correction.
        update(b, "order/erp", |def| def.target_filter("@.amount > 100")).await;
        reaches(b, add(b, 50).await, Status::Succeeded).await;
        edit_by_hand(b, "order/erp", |def| def.target_filter("@.amount > 1")).await;
        if round == 0 {
            b.outbox().operator("alice").reschedule(waits, b.clock().now()).await.unwrap();
            reaches(b, waits, Status::Succeeded).await;
        }
        let before = got(&calls, 8).len();
        reaches(b, add(b, 8).await, Status::Succeeded).await;
        eventually("the corrected filter decides", async || got(&calls, 8).len() == before + 1).await;
    }
    assert!(got(&calls, 50).is_empty());
    sweeper.shutdown().await;
}

pub async fn filters_judge_values_as_they_are_written(b: &dyn Backend) {
    let filters = [
        ("a", "@.account == 9007199254740992"),
        ("b", "@.account == 9007199254740993"),
        ("de", "@.country == 'DE'"),
        ("huge", "@.x >= 1e999999999"),
        ("large", "@.x == 10e399"),
    ];
    let targets = filters.map(|(name, filter)| target(name).target_filter(filter));
    define(b, order(), &targets).await;
    let sweeper = sending(b, &Calls::default(), &off()).start().await.unwrap();
    for (param, reason) in [
        (r#"{"account":9007199254740993}"#, "passed on to the target b"),
        (r#"{"account":9007199254740992.0}"#, "passed on to the target a"),
        (r#"{"account":900719925474099.3e1}"#, "passed on to the target b"),
        (r#"{"country":"FR","note":"\ud83d"}"#, "no target accepted it"),
        (r#"{"country":"DE","note":"\ud83d"}"#, "passed on to the target de"),
        (r#"{"country":"FR","x":1e400}"#, "passed on to the target large"),
        (r#"{"country":"FR","x":1e999999999}"#, "passed on to the target huge"),
        (r#"{"country":"FR","x":1}"#, "no target accepted it"),
    ] {
        let raw = RawValue::from_string(param.to_owned()).unwrap();
        let id = b.add_new(NewNotice::new("order", raw).unwrap()).await.id();
        let end = reaches(b, id, Status::Succeeded).await;
        assert_eq!(end.end_reason.as_deref(), Some(reason), "{param}");
    }
    sweeper.shutdown().await;
}

pub async fn definition_of_invalid_targets_sends_nothing_itself(b: &dyn Backend) {
    define(b, order().mask(r#"["$.amount"]"#), &[target("erp")]).await;
    define(b, NotifyDef::new("other").handler("order"), &[]).await;
    let other = definition(b, "other").await.id;
    edit_by_hand(b, "order", |def| def.target_of(other)).await;
    let calls = Calls::<Call>::default();
    let sweeper = sending(b, &calls, &off()).start().await.unwrap();
    let [own, of_other] =
        [add(b, 1).await, b.add_new(NewNotice::new("other", serde_json::json!({ "amount": 2 })).unwrap()).await.id()];
    let passed = reaches(b, of_other, Status::Succeeded).await;
    assert_eq!(passed.end_reason.as_deref(), Some("passed on to the target order"));
    sweeper.idle().await;
    assert_eq!((calls.count(), record(b, own).await.status), (0, Status::NotSent), "it waits");
    let states = b.outbox().definitions().await.unwrap();
    for name in ["order", "order/erp"] {
        let state = states.iter().find(|state| state.row.name == name).unwrap();
        assert_eq!(state.problems.first().map(|problem| problem.column), Some("target_of"), "{name}");
    }
    let alice = b.outbox().operator("alice");
    let explained = alice.explain(own).await.unwrap().to_string();
    assert!(explained.contains("target_of"), "{explained}");
    let erp = b.add_new(NewNotice::new("order/erp", serde_json::json!({ "amount": 3 })).unwrap()).await.id();
    assert!(alice.show(erp).await.unwrap().unwrap().param.contains("***"), "it inherits the mask");
    update(b, "order", |mut def| {
        def.target_of = None;
        def
    })
    .await;
    eventually("what waited is passed on", async || got(&calls, 1) == ["erp"] && got(&calls, 2) == ["erp"]).await;
    sweeper.shutdown().await;
}

pub async fn target_that_demands_encryption_is_owed_a_plaintext(b: &dyn Backend) {
    define(b, order(), &[target("erp"), target("mail")]).await;
    edit_by_hand(b, "order/erp", |def| def.encrypt_param(true)).await;
    let calls = Calls::<Call>::default();
    let sweeper = sending(b, &calls, &off()).start().await.unwrap();
    let id = add(b, 1).await;
    eventually("the other one gets it", async || got(&calls, 1) == ["mail"]).await;
    let problem = refusal_of(b.outbox(), "order").await;
    assert!(problem.starts_with(&format!("encrypt_param: notice {id} is owed to erp")), "{problem}");
    sweeper.idle().await;
    let parent = record(b, id).await;
    assert_eq!((parent.status.is_final(), parent.failures, parent.crashes), (false, 0, 0));
    assert!(ids(b, "order/erp", Status::NotSent).await.is_empty(), "no plaintext is stored for it");
    update(b, "order/erp", |def| def.encrypt_param(false)).await;
    b.clock().advance(MINUTE);
    b.outbox().wake();
    let parent = reaches(b, id, Status::Succeeded).await;
    assert_eq!(parent.end_reason.as_deref(), Some("passed on to 2 targets: mail, erp"));
    eventually("it gets what was owed", async || got(&calls, 1) == ["erp", "mail"]).await;
    sweeper.shutdown().await;
}

pub async fn first_attempt_names_the_targets_that_kept_earlier_notices(b: &dyn Backend) {
    define(b, order().retry_interval("1h"), &[target("erp"), target("mail")]).await;
    let (calls, fails) = (Calls::<Call>::default(), off());
    fails.store(true, Ordering::SeqCst);
    let sweeper = sending(b, &calls, &fails).start().await.unwrap();
    let first = async |amount: i64| {
        let order = NewNotice::new("order", serde_json::json!({ "amount": amount })).unwrap();
        let added = b.add_new(order.unique_until_ended("order 7")).await;
        (added.id(), added.first_attempt(PATIENCE).await)
    };
    let (id, result) = first(1).await;
    assert_eq!(result, FirstAttempt::PassedOn("passed on to 2 targets: erp, mail".to_owned()));
    assert_eq!(record(b, id).await.end_reason.as_deref(), Some("passed on to 2 targets: erp, mail"));
    eventually("one of them waits for its retry", async || ids(b, "order/erp", Status::Failed).await.len() == 1).await;
    eventually("the other one has ended", async || ids(b, "order/mail", Status::Succeeded).await.len() == 1).await;
    let earlier = ids(b, "order/erp", Status::Failed).await[0];
    let text = format!("passed on to the target mail; `erp` still has notice {earlier} of this dedupe key");
    let (id, result) = first(2).await;
    assert_eq!(result, FirstAttempt::PassedOn(text.clone()));
    assert_eq!(record(b, id).await.end_reason, Some(text.clone()));
    eventually("the other one has ended", async || ids(b, "order/mail", Status::Succeeded).await.len() == 2).await;
    // Where nothing of it is kept, the producer gets the same, unless a sweep takes the notice before the dispatch does.
    update(b, "order", |def| def.keep_history("none")).await;
    let mut amount = 3;
    let (id, result) = loop {
        let (id, result) = first(amount).await;
        if result != FirstAttempt::StillDue {
            break (id, result);
        }
        assert!(amount < 13, "each of them was taken by a sweep");
        amount += 1;
    };
    assert_eq!(result, FirstAttempt::PassedOn(text));
    assert!(b.outbox().find(id).await.unwrap().is_none());
    eventually("the other one gets each", async || (2..=amount).all(|amount| got(&calls, amount) == ["mail"])).await;
    sweeper.shutdown().await;
}

/// Moved by plain SQL, which nothing checks before.
pub async fn encrypted_notices_of_a_moved_target_wait_for_its_return(b: &dyn Backend) {
    b.outbox().use_param_cipher(keys(&["a"]));
    define(b, order().encrypt_param(true).retry_interval("1h"), &[target("erp")]).await;
    define(b, NotifyDef::new("other").handler("order").encrypt_param(true), &[]).await;
    let (calls, fails) = (Calls::<Call>::default(), off());
    fails.store(true, Ordering::SeqCst);
    let sweeper = sending(b, &calls, &fails).start().await.unwrap();
    reaches(b, add(b, 1).await, Status::Succeeded).await;
    eventually("it fails", async || ids(b, "order/erp", Status::Failed).await.len() == 1).await;
    let waits = ids(b, "order/erp", Status::Failed).await[0];
    let (of, other) = (definition(b, "order").await.id, definition(b, "other").await.id);
    edit_by_hand(b, "order/erp", |def| def.target_of(other)).await;
    b.outbox().wake();
    sweeper.idle().await;
    fails.store(false, Ordering::SeqCst);
    b.outbox().operator("alice").reschedule(waits, b.clock().now()).await.unwrap();
    let problem = refusal_of(b.outbox(), "order/erp").await;
    let expected = format!(
        "target_of: the parameter of notice {waits} is encrypted for the definition {of} (\"order\"), and \"order/erp\" is neither that \
         definition nor its target; set target_of to {of} again"
    );
    assert!(problem.starts_with(&expected), "{problem}");
    sweeper.idle().await;
    let untouched = record(b, waits).await;
    assert_eq!((untouched.status, untouched.failures, untouched.crashes), (Status::Failed, 1, 0), "it counts nothing");
    edit_by_hand(b, "order/erp", |def| def.target_of(of)).await;
    // The sweeper may try it once more before it follows the row.
    eventually("it is sent", async || {
        b.clock().advance(MINUTE);
        b.outbox().wake();
        record(b, waits).await.status == Status::Succeeded
    })
    .await;
    assert_eq!(got(&calls, 1), ["erp", "erp"]);
    sweeper.shutdown().await;
}
