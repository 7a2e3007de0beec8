//! Targets: each gets each notice that its filter lets through, once, with its own configuration, retries, limits, order and alerts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use solid_notify::alert::AlertReason;
use solid_notify::definition::ALERT_DEFINITION;
use solid_notify::{Alert, ErrorClass, Failure, NewNotice, Notice, NotifyDef, OutboxExt, Status, SweeperBuilder};
use solid_notify_conformance::Backend;
use solid_notify_core::store::{ClaimWhat, QueueSlice};
use test_support::sending::{Calls, definition, edit_by_hand, eventually, reaches, record, refusal_of, update};

use super::delivery::claim_and_die;

pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// An attempt: target, configuration, the amount of the order, and the idempotency key.
pub(super) type Call = (String, String, i64, String);

/// Builds a sweeper that records what its handler `order` gets. It fails for the target `erp` while the flag is set.
pub(super) fn sending(b: &dyn Backend, calls: &Calls<Call>, fails: &Arc<AtomicBool>) -> SweeperBuilder {
    let (calls, fails) = (calls.clone(), Arc::clone(fails));
    b.outbox().sweeper().handler("order", move |notice: Notice<Value>| {
        let amount = notice.param()["amount"].as_i64().unwrap_or_default();
        let target = notice.target().unwrap_or("-").to_owned();
        let config = notice.handler_config().unwrap_or("-").to_owned();
        let fail = target == "erp" && fails.load(Ordering::SeqCst);
        calls.note((target, config, amount, notice.idempotency_key()));
        async move { if fail { Err(Failure::retry("down").class(ErrorClass::Unavailable)) } else { Ok(()) } }
    })
}

pub(super) fn off() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}

pub(super) async fn define(b: &dyn Backend, order: NotifyDef, targets: &[NotifyDef]) {
    for def in [order].iter().chain(targets) {
        b.outbox().define_if_missing(def.clone()).await.unwrap();
    }
}

pub(super) fn order() -> NotifyDef {
    NotifyDef::new("order")
}

pub(super) fn target(name: &str) -> NotifyDef {
    NotifyDef::target("order", name)
}

pub(super) async fn add(b: &dyn Backend, amount: i64) -> i64 {
    b.add_new(NewNotice::new("order", json!({ "amount": amount })).unwrap()).await.id()
}

/// The targets that got the order of this amount, sorted.
pub(super) fn got(calls: &Calls<Call>, amount: i64) -> Vec<String> {
    let mut got: Vec<String> =
        calls.all().into_iter().filter(|call| call.2 == amount).map(|(target, ..)| target).collect();
    got.sort();
    got
}

/// The ids of a definition's notices of a status.
pub(super) async fn ids(b: &dyn Backend, name: &str, status: Status) -> Vec<i64> {
    let slice = QueueSlice::of(definition(b, name).await.id, status);
    let listed = b.outbox().engine().stores().browse.list(&slice, 1000).await.unwrap();
    listed.into_iter().map(|listed| listed.id).collect()
}

pub async fn definition_with_targets_needs_no_handler_of_its_own(b: &dyn Backend) {
    let (http, lost) = (target("erp").handler("http"), target("lost").handler("nothing"));
    define(b, order(), &[http.clone(), lost, target("bare")]).await;
    let sweeper = b.outbox().sweeper().handler("http", |_: Notice<Value>| async { Ok(()) }).start().await.unwrap();
    let alice = b.outbox().operator("alice");
    eventually("its row is written", async || !alice.nodes().await.unwrap().is_empty()).await;
    let nodes = alice.nodes().await.unwrap();
    let states = b.outbox().definitions().await.unwrap();
    let of = |name: &str| states.iter().find(|state| state.row.name == name).unwrap();
    let handled = |name: &str| (of(name).handler(), of(name).is_handled_by(&nodes));
    assert_eq!(handled("order"), (None, true), "it passes its notices on");
    assert_eq!(handled("order/erp"), (Some("http"), true));
    assert_eq!(handled("order/lost"), (Some("nothing"), false));
    assert_eq!(handled("order/bare"), (Some("order"), false), "inherited");
    let findings = alice.examine().await;
    let found = findings.iter().find(|finding| finding.check == "handlers").map(|finding| finding.found.as_str());
    assert_eq!(found, Some("no living node has the handlers of order/bare, order/lost"));
    let preview = alice.preview_edit(&of("order").row, &of("order").row.clone().timeout("7s")).await.unwrap();
    assert_eq!(preview.inherited_by.len(), 3, "{preview}");
    update(b, "order/erp", |def| def.timeout("9s")).await;
    let preview = alice.preview_edit(&of("order").row, &of("order").row.clone().timeout("7s")).await.unwrap();
    let told = preview.to_string();
    assert!(
        told.contains("inherited by order/lost, order/bare: ") || told.contains("by order/bare, order/lost: "),
        "{told}"
    );
    sweeper.shutdown().await;
}

pub async fn each_target_gets_each_notice_once_from_two_sweepers(b: &dyn Backend) {
    let own = target("erp").handler_config("own");
    define(b, order().handler_config("shared").timeout("7s"), &[own, target("mail")]).await;
    let calls = Calls::default();
    let one = sending(b, &calls, &off()).start().await.unwrap();
    let other = sending(b, &calls, &off()).start().await.unwrap();
    let mut parents = Vec::new();
    for amount in 0..40 {
        parents.push(add(b, amount).await);
    }
    eventually("each target gets each notice", async || calls.count() >= 80).await;
    for id in parents {
        let parent = reaches(b, id, Status::Succeeded).await;
        assert_eq!(parent.end_reason.as_deref(), Some("passed on to 2 targets: erp, mail"));
    }
    one.idle().await;
    other.idle().await;
    let mut times = BTreeMap::new();
    for (target, config, amount, key) in calls.all() {
        assert_eq!(config, if target == "erp" { "own" } else { "shared" });
        *times.entry((target, amount)).or_insert(0) += 1;
        times.entry((key, -1)).and_modify(|_| panic!("an idempotency key of two notices")).or_insert(1);
    }
    assert_eq!(times.len(), 160, "each target got each notice, with a key of its own");
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    one.shutdown().await;
    other.shutdown().await;
}

pub async fn a_filter_lets_through_what_it_accepts(b: &dyn Backend) {
    let (large, small) =
        (target("large").target_filter("@.amount > 100"), target("small").target_filter("@.amount < 10"));
    define(b, order(), &[large, small]).await;
    let calls = Calls::default();
    let sweeper = sending(b, &calls, &off()).start().await.unwrap();
    let (nine, fifty, more) = (add(b, 9).await, add(b, 50).await, add(b, 500).await);
    for (id, reason) in [
        (nine, "passed on to the target small"),
        (fifty, "no target accepted it"),
        (more, "passed on to the target large"),
    ] {
        assert_eq!(reaches(b, id, Status::Succeeded).await.end_reason.as_deref(), Some(reason));
    }
    eventually("two are sent", async || calls.count() == 2).await;
    sweeper.idle().await;
    assert_eq!(
        (got(&calls, 9), got(&calls, 50), got(&calls, 500)),
        (vec!["small".into()], vec![], vec!["large".into()])
    );
    let explained = b.outbox().operator("alice").explain(fifty).await.unwrap().to_string();
    assert!(explained.contains("no target accepted it"), "{explained}");
    sweeper.shutdown().await;
}

pub async fn an_invalid_filter_pauses_its_target_only_and_loses_nothing(b: &dyn Backend) {
    define(b, order(), &[target("erp"), target("mail")]).await;
    edit_by_hand(b, "order/erp", |def| def.target_filter("amount > 1")).await;
    let calls = Calls::default();
    let sweeper = sending(b, &calls, &off()).start().await.unwrap();
    let (first, second) = (add(b, 1).await, add(b, 7).await);
    for id in [first, second] {
        reaches(b, id, Status::Succeeded).await;
    }
    eventually("the other target gets both", async || calls.count() == 2).await;
    sweeper.idle().await;
    assert_eq!((got(&calls, 1), got(&calls, 7)), (vec!["mail".into()], vec!["mail".into()]));
    let states = b.outbox().definitions().await.unwrap();
    let of = |name: &str| states.iter().find(|state| state.row.name == name).unwrap();
    assert!(of("order").problems.is_empty() && of("order/mail").problems.is_empty());
    assert_eq!((of("order/erp").problems.len(), of("order/erp").problems[0].column), (1, "target_filter"));
    let waiting = ids(b, "order/erp", Status::NotSent).await;
    assert_eq!(waiting.len(), 2);
    update(b, "order/erp", |def| def.target_filter("@.amount > 1")).await;
    eventually("what the corrected filter accepts is sent", async || got(&calls, 7).len() == 2).await;
    let parents = [record(b, waiting[0]).await.parent_id, record(b, waiting[1]).await.parent_id];
    let of_first = parents.iter().position(|parent| *parent == Some(first)).unwrap();
    let skipped = reaches(b, waiting[of_first], Status::Cancelled).await;
    assert_eq!(skipped.end_reason.as_deref(), Some("the target does not accept it: @.amount > 1"));
    assert_eq!(got(&calls, 1), ["mail"]);
    sweeper.shutdown().await;
    // A refusal is no attempt.
    let (from, until) = (b.clock().now() - MINUTE, b.clock().now() + MINUTE);
    let points = b.outbox().operator("alice").series(Some("order/erp"), from, until, MINUTE).await.unwrap();
    let counted = points.iter().map(|point| (point.counts.succeeded, point.counts.skipped));
    assert_eq!(counted.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1)), (1, 0));
}

pub async fn a_filter_that_cannot_be_judged_lets_only_that_notice_wait(b: &dyn Backend) {
    let costly = target("erp").target_filter("count(@..*..*..*..*..*..*) > 1 || @.amount > 1");
    define(b, order(), &[costly, target("mail")]).await;
    let calls = Calls::default();
    let sweeper = sending(b, &calls, &off()).start().await.unwrap();
    let large = json!({ "amount": 1, "all": vec![json!([[[[[[[]]]]]]]); 50_000] });
    let hard = b.add_new(NewNotice::new("order", large).unwrap()).await.id();
    for id in [hard, add(b, 7).await] {
        reaches(b, id, Status::Succeeded).await;
    }
    eventually("the others are sent", async || calls.count() == 3).await;
    assert_eq!((got(&calls, 1), got(&calls, 7)), (vec!["mail".into()], vec!["erp".into(), "mail".into()]));
    // Before and during its attempt it is not put off yet.
    let put_off = async || match ids(b, "order/erp", Status::NotSent).await[..] {
        [id] => record(b, id).await.next_call_time > Some(b.clock().now()),
        _ => false,
    };
    eventually("it waits", put_off).await;
    let waits = ids(b, "order/erp", Status::NotSent).await[0];
    let untouched = record(b, waits).await;
    assert_eq!((untouched.status, untouched.failures, untouched.crashes), (Status::NotSent, 0, 0));
    let problem = format!(
        "target_filter: it cannot be judged for the parameter of notice {waits}: it takes more than 4000000 steps (at byte 6 of the \
         expression); it waits, and the others are sent"
    );
    assert_eq!(refusal_of(b.outbox(), "order/erp").await, problem);
    let explained = b.outbox().operator("alice").explain(waits).await.unwrap().to_string();
    assert!(explained.contains(&format!("a node reports: {problem}")), "{explained}");
    update(b, "order/erp", |def| def.target_filter("@.amount > 0")).await;
    b.clock().advance(MINUTE);
    b.outbox().wake();
    reaches(b, waits, Status::Succeeded).await;
    sweeper.shutdown().await;
}

pub async fn a_failing_target_has_its_own_circuit_retries_and_alerts(b: &dyn Backend) {
    // One at a time, so that none begins before the failure of the one before is stored.
    let order = order().breaker_failures(2).breaker_pause("5m").max_retry_times(0).max_concurrency_total(1);
    define(b, order, &[target("erp"), target("mail")]).await;
    let (calls, alerts) = (Calls::default(), Calls::<Alert>::default());
    let fails = Arc::new(AtomicBool::new(true));
    let told = alerts.clone();
    let builder = sending(b, &calls, &fails).handler(ALERT_DEFINITION, move |alert: Notice<Alert>| {
        told.note(alert.into_param());
        async { Ok(()) }
    });
    let sweeper = builder.start().await.unwrap();
    for amount in 0..6 {
        add(b, amount).await;
    }
    let count = |name: &str| calls.all().iter().filter(|call| call.0 == name).count();
    eventually("the other target gets all", async || count("mail") == 6).await;
    eventually("the circuit opens", async || alerts.all().iter().any(|alert| alert.reason == AlertReason::CircuitOpen))
        .await;
    sweeper.idle().await;
    assert_eq!(count("erp"), 2, "its circuit is open");
    assert!(alerts.all().iter().all(|alert| alert.definition == "order/erp"), "{:?}", alerts.all());
    assert!(alerts.all().iter().any(|alert| alert.reason == AlertReason::FinalFailure));
    assert_eq!(ids(b, "order/erp", Status::DeadLetter).await.len(), 2);
    assert_eq!(ids(b, "order/erp", Status::NotSent).await.len(), 4);
    fails.store(false, Ordering::SeqCst);
    b.clock().advance(5 * MINUTE);
    eventually("the rest is sent", async || count("erp") == 6).await;
    let dead = ids(b, "order/erp", Status::DeadLetter).await;
    b.outbox().operator("alice").retry(dead[0]).await.unwrap();
    reaches(b, dead[0], Status::Succeeded).await;
    assert_eq!(count("mail"), 6);
    sweeper.shutdown().await;
}

pub async fn a_target_that_fails_stops_the_order_of_no_other(b: &dyn Backend) {
    define(b, order().retry_interval("1h"), &[target("erp"), target("mail")]).await;
    let calls = Calls::default();
    let fails = Arc::new(AtomicBool::new(true));
    let sweeper = sending(b, &calls, &fails).start().await.unwrap();
    for amount in 0..3 {
        b.add_new(NewNotice::new("order", json!({ "amount": amount })).unwrap().ordering_key("customer 7")).await;
    }
    let amounts =
        |name: &str| calls.all().into_iter().filter(|call| call.0 == name).map(|call| call.2).collect::<Vec<_>>();
    eventually("the other target gets all", async || amounts("mail").len() == 3).await;
    sweeper.idle().await;
    assert_eq!((amounts("mail"), amounts("erp")), (vec![0, 1, 2], vec![0]));
    fails.store(false, Ordering::SeqCst);
    b.clock().advance(60 * MINUTE);
    eventually("its own follow", async || amounts("erp").len() == 4).await;
    assert_eq!(amounts("erp"), [0, 0, 1, 2]);
    sweeper.shutdown().await;
}

pub async fn each_target_awaits_its_own_ack(b: &dyn Backend) {
    define(b, order().need_confirm(true), &[target("erp"), target("mail").max_confirm_delay("1m")]).await;
    let sweeper = sending(b, &Calls::default(), &off()).start().await.unwrap();
    let parent = reaches(b, add(b, 1).await, Status::Succeeded).await;
    eventually("both wait", async || {
        ids(b, "order/erp", Status::AwaitingAck).await.len() == 1
            && ids(b, "order/mail", Status::AwaitingAck).await.len() == 1
    })
    .await;
    let erp = ids(b, "order/erp", Status::AwaitingAck).await[0];
    b.outbox().ack(erp).await.unwrap();
    let erp = record(b, erp).await;
    assert_eq!((erp.status, erp.parent_id), (Status::Succeeded, Some(parent.id)));
    assert_eq!(ids(b, "order/mail", Status::AwaitingAck).await.len(), 1);
    sweeper.shutdown().await;
}

pub async fn a_notice_whose_sender_died_is_passed_on_once(b: &dyn Backend) {
    define(b, order().max_retry_times(0), &[target("erp"), target("mail")]).await;
    let notice = NewNotice::new("order", json!({ "amount": 1 })).unwrap().max_tries(1);
    let id = b.add_new(notice).await.id();
    claim_and_die(b, "order", ClaimWhat::Slice(Status::NotSent)).await;
    let calls = Calls::default();
    let sweeper = sending(b, &calls, &off()).start().await.unwrap();
    sweeper.idle().await;
    b.clock().advance(MINUTE);
    let parent = reaches(b, id, Status::Succeeded).await;
    assert_eq!((parent.fence, parent.crashes), (2, 1), "passing on is no try");
    eventually("both get it", async || calls.count() == 2).await;
    sweeper.idle().await;
    assert_eq!(got(&calls, 1), ["erp", "mail"]);
    sweeper.shutdown().await;
}

pub async fn an_edit_of_the_definition_holds_for_its_targets_at_once(b: &dyn Backend) {
    define(b, order().handler_config("old"), &[target("erp"), target("mail").handler_config("own")]).await;
    let calls = Calls::default();
    let sweeper = sending(b, &calls, &off()).start().await.unwrap();
    update(b, "order", |def| def.handler_config("new").enabled(false)).await;
    let id = add(b, 1).await;
    sweeper.idle().await;
    assert_eq!((record(b, id).await.status, calls.count()), (Status::NotSent, 0), "the definition is paused");
    update(b, "order", |def| def.enabled(true)).await;
    eventually("both get it", async || calls.count() == 2).await;
    sweeper.idle().await;
    let mut configs: Vec<String> = calls.all().into_iter().map(|call| call.1).collect();
    configs.sort();
    assert_eq!(configs, ["new", "own"]);
    // Its mask hides the parameters of its targets, too.
    update(b, "order", |def| def.mask(r#"["$.amount"]"#).handler("elsewhere")).await;
    let alice = b.outbox().operator("alice");
    let shown = alice.show(ids(b, "order/erp", Status::Succeeded).await[0]).await.unwrap().unwrap();
    assert!(shown.param.contains("***") && shown.parent_id == Some(id), "{shown:?}");
    let waits = add(b, 2).await;
    reaches(b, waits, Status::Succeeded).await;
    // Redis inserts it a moment after the outcome.
    eventually("the target has it", async || ids(b, "order/erp", Status::NotSent).await.len() == 1).await;
    let child = ids(b, "order/erp", Status::NotSent).await[0];
    let explained = alice.explain(child).await.unwrap().to_string();
    assert!(explained.contains("no living node has the handler \"elsewhere\""), "{explained}");
    sweeper.shutdown().await;
}

pub async fn a_deleted_target_sends_what_it_has_and_gets_no_more(b: &dyn Backend) {
    define(b, order().retry_interval("1h"), &[target("erp"), target("mail")]).await;
    let calls = Calls::default();
    let fails = Arc::new(AtomicBool::new(true));
    let sweeper = sending(b, &calls, &fails).start().await.unwrap();
    add(b, 1).await;
    eventually("both get it", async || calls.count() == 2).await;
    sweeper.idle().await;
    let failed = ids(b, "order/erp", Status::Failed).await[0];
    for name in ["order/erp", "order/mail"] {
        let row = definition(b, name).await;
        b.outbox().delete(&row).await.unwrap();
        let id = add(b, 2).await;
        reaches(b, id, Status::Succeeded).await;
    }
    fails.store(false, Ordering::SeqCst);
    b.clock().advance(60 * MINUTE);
    reaches(b, failed, Status::Succeeded).await;
    eventually("all are sent", async || calls.count() == 5).await;
    assert_eq!(got(&calls, 1), ["erp", "erp", "mail"]);
    assert_eq!(got(&calls, 2), ["-", "mail"], "without a target the handler of the definition gets it");
    sweeper.shutdown().await;
}
