//! Error classes: how the rules of a definition treat failures of each class.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use solid_notify::SweeperBuilder;
use solid_notify::{
    ErrorClass, Failure, Filter, HttpStatus, NewNotice, Notice, NoticeRecord, NotifyDef, OutboxExt, Status,
};
use solid_notify_conformance::Backend;
use solid_notify_core::store::{Claim, ClaimWhat};
use test_support::sending::{Calls, add, definition, edit_by_hand, eventually, reaches, record, update};

/// Builds a sweeper whose handler `sync` fails each time, and returns its calls.
fn failing(b: &dyn Backend, failure: impl Fn() -> Failure + Send + Sync + 'static) -> (SweeperBuilder, Calls<()>) {
    let (calls, failure) = (Calls::default(), Arc::new(failure));
    let noted = calls.clone();
    let builder = b.outbox().sweeper().handler("sync", move |_: Notice<i64>| {
        noted.note(());
        let failure = failure.clone();
        async move { Err(failure()) }
    });
    (builder, calls)
}

/// Returns the notice after its failure number `failures`, when it waits for its retry.
async fn failed(b: &dyn Backend, id: i64, failures: i64) -> NoticeRecord {
    eventually("a failed try", async || {
        let record = record(b, id).await;
        record.failures == failures && record.status != Status::Sending
    })
    .await;
    let record = record(b, id).await;
    assert_eq!(record.status, Status::Failed, "{:?}", record.end_reason);
    record
}

fn wait_of(b: &dyn Backend, record: &NoticeRecord) -> u64 {
    (record.next_call_time.unwrap() - b.clock().now()).to_std().unwrap().as_secs()
}

pub async fn a_permanent_error_is_not_retried(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    for (status, class) in [(401, "auth"), (404, "not_found"), (422, "invalid")] {
        let (builder, calls) = failing(b, move || HttpStatus(status).into());
        let sweeper = builder.start().await.unwrap();
        let id = add(b, "sync").await;
        let dead = reaches(b, id, Status::DeadLetter).await;
        assert_eq!((dead.failures, dead.last_class.as_deref()), (1, Some(class)));
        let reason = format!(
            "a failure of class {class} is not retried (unless retry_rules say so); the last error: HTTP status {status}"
        );
        assert_eq!(dead.end_reason, Some(reason));
        assert_eq!(calls.count(), 1);
        sweeper.shutdown().await;
    }
    let (builder, _calls) = failing(b, || HttpStatus(503).into());
    let sweeper = builder.start().await.unwrap();
    let id = add(b, "sync").await;
    assert_eq!(failed(b, id, 1).await.last_class.as_deref(), Some("unavailable"));
    // A handler that asks for a retry gets it.
    sweeper.shutdown().await;
    let wish = || Failure::retry_in(Duration::from_secs(77), HttpStatus(401));
    let sweeper = failing(b, wish).0.start().await.unwrap();
    let id = add(b, "sync").await;
    let retried = failed(b, id, 1).await;
    assert_eq!((wait_of(b, &retried), retried.last_class.as_deref()), (77, Some("auth")));
    sweeper.shutdown().await;
}

pub async fn permanent_error_is_retried_where_a_rule_says_so(b: &dyn Backend) {
    let rules = r#"{ "auth": "[7s, 8s]" }"#;
    b.outbox().define_if_missing(NotifyDef::new("sync").max_retry_times(2).retry_rules(rules)).await.unwrap();
    let (builder, calls) = failing(b, || HttpStatus(401).into());
    let sweeper = builder.start().await.unwrap();
    let id = add(b, "sync").await;
    for (failures, delay) in [(1, 7), (2, 8)] {
        assert_eq!(wait_of(b, &failed(b, id, failures).await), delay);
        b.clock().advance(Duration::from_secs(delay));
    }
    let dead = reaches(b, id, Status::DeadLetter).await;
    assert_eq!(dead.end_reason.as_deref(), Some("all 3 tries failed; the last error: HTTP status 401"));
    assert_eq!(calls.count(), 3);
    sweeper.shutdown().await;
}

pub async fn rule_can_refuse_any_retry_of_a_class(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_rules(r#"{"busy": "never"}"#)).await.unwrap();
    let sweeper = failing(b, || Failure::retry("full").class(ErrorClass::Busy)).0.start().await.unwrap();
    let id = add(b, "sync").await;
    let dead = reaches(b, id, Status::DeadLetter).await;
    let reason = "a failure of class busy is not retried (a rule of retry_rules); the last error: full";
    assert_eq!((dead.failures, dead.end_reason.as_deref()), (1, Some(reason)));
    sweeper.shutdown().await;
}

pub async fn a_class_with_more_tries_than_the_others_uses_all_of_them(b: &dyn Backend) {
    let def = NotifyDef::new("sync").retry_interval("5s").max_retry_times(1).retry_rules(r#"{"busy": 5}"#);
    b.outbox().define_if_missing(def).await.unwrap();
    let (builder, calls) = failing(b, || HttpStatus(429).into());
    let sweeper = builder.start().await.unwrap();
    let id = add(b, "sync").await;
    for failures in 1..5 {
        assert_eq!(wait_of(b, &failed(b, id, failures).await), 5);
        b.clock().advance(Duration::from_secs(5));
    }
    let dead = reaches(b, id, Status::DeadLetter).await;
    assert_eq!((dead.failures, calls.count()), (5, 5));
    let reason =
        "all 5 tries failed: 5 are allowed to class busy (a rule of retry_rules); the last error: HTTP status 429";
    assert_eq!(dead.end_reason.as_deref(), Some(reason));
    sweeper.shutdown().await;
}

pub async fn a_class_has_its_own_intervals(b: &dyn Backend) {
    let rules = r#"{"busy": "[1m,2m,3m]"}"#;
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("[5s,6s,7s]").retry_rules(rules)).await.unwrap();
    let busy = Arc::new(AtomicBool::new(true));
    let now = busy.clone();
    let failure = move || HttpStatus(if now.load(Ordering::Relaxed) { 429 } else { 503 }).into();
    let sweeper = failing(b, failure).0.start().await.unwrap();
    let id = add(b, "sync").await;
    // The delay depends on the number of tries, not on their classes.
    for (failures, is_busy, delay) in [(1, true, 60), (2, false, 6), (3, true, 180)] {
        let shown = failed(b, id, failures).await;
        assert_eq!(wait_of(b, &shown), delay, "after {failures}");
        assert_eq!(shown.last_class.as_deref(), Some(if is_busy { "busy" } else { "unavailable" }));
        busy.store(!is_busy, Ordering::Relaxed);
        b.clock().advance(Duration::from_secs(delay));
    }
    reaches(b, id, Status::DeadLetter).await;
    sweeper.shutdown().await;
}

pub async fn rules_that_change_while_a_retry_waits_hold_for_the_next_failure(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("5s")).await.unwrap();
    let sweeper = failing(b, || HttpStatus(503).into()).0.start().await.unwrap();
    let id = add(b, "sync").await;
    assert_eq!(wait_of(b, &failed(b, id, 1).await), 5);
    update(b, "sync", |def| def.retry_rules(r#"{"unavailable": "9m"}"#)).await;
    sweeper.idle().await;
    assert_eq!(wait_of(b, &record(b, id).await), 5, "a time that is set stays");
    b.clock().advance(Duration::from_secs(5));
    assert_eq!(wait_of(b, &failed(b, id, 2).await), 540);
    update(b, "sync", |def| def.retry_rules(r#"{"unavailable": "never"}"#)).await;
    sweeper.idle().await;
    b.clock().advance(Duration::from_secs(540));
    let dead = reaches(b, id, Status::DeadLetter).await;
    assert_eq!(dead.failures, 3, "the third try was made, and its failure judged by the new rule");
    sweeper.shutdown().await;
}

pub async fn wrong_rules_pause_the_definition_until_they_are_corrected(b: &dyn Backend) {
    let wrong = NotifyDef::new("sync").retry_rules(r#"{"auht": "never"}"#);
    let refused = b.outbox().define_if_missing(wrong).await.unwrap_err().to_string();
    assert!(refused.contains("auht") && refused.contains("not_found"), "{refused}");
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    edit_by_hand(b, "sync", |def| def.retry_rules(r#"{"auth": "5x"}"#)).await;
    let sweeper = b.outbox().sweeper().handler("sync", |_: Notice<i64>| async { Ok(()) }).start().await.unwrap();
    let id = add(b, "sync").await;
    sweeper.idle().await;
    assert_eq!(record(b, id).await.fence, 0);
    let problems = definition(b, "sync").await.policy().unwrap_err();
    assert_eq!(problems[0].column, "retry_rules");
    // White space alone is no rule.
    edit_by_hand(b, "sync", |def| def.retry_rules(" \n")).await;
    b.outbox().wake();
    reaches(b, id, Status::Succeeded).await;
    sweeper.shutdown().await;
}

pub async fn a_classifier_of_the_application_wins_and_may_panic(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let (builder, _calls) = failing(b, || HttpStatus(401).into());
    let builder = builder.classify(|error| (error.downcast_ref::<HttpStatus>()?.0 == 401).then_some(ErrorClass::Busy));
    let sweeper = builder.start().await.unwrap();
    let id = add(b, "sync").await;
    assert_eq!(failed(b, id, 1).await.last_class.as_deref(), Some("busy"));
    sweeper.shutdown().await;
    let (builder, _calls) = failing(b, || HttpStatus(401).into());
    let sweeper = builder.classify(|_| panic!("a classifier broke")).start().await.unwrap();
    let id = add(b, "sync").await;
    let shown = failed(b, id, 1).await;
    assert_eq!(shown.last_class.as_deref(), Some("unknown"));
    assert_eq!(shown.errors[0].message, "HTTP status 401", "the error itself is not lost");
    sweeper.shutdown().await;
}

pub async fn a_class_of_the_application_follows_its_rule(b: &dyn Backend) {
    const DECLINED: ErrorClass = ErrorClass::own("payment.declined");
    const LIMITED: ErrorClass = ErrorClass::own("payment.limited");
    let rules = r#"{"payment.declined": "never", "payment.limited": "77s"}"#;
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_rules(rules)).await.unwrap();
    let sweeper = failing(b, || Failure::retry("no").class(DECLINED)).0.start().await.unwrap();
    let id = add(b, "sync").await;
    let dead = reaches(b, id, Status::DeadLetter).await;
    assert_eq!(
        (dead.last_class.as_deref(), dead.errors[0].class.as_str()),
        (Some("payment.declined"), "payment.declined")
    );
    let counted =
        b.outbox().operator("alice").preview(&Filter::dead_letters().class("payment.declined")).await.unwrap();
    assert_eq!(counted.total.count, 1);
    sweeper.shutdown().await;
    let sweeper = failing(b, || Failure::retry("later").class(LIMITED)).0.start().await.unwrap();
    let id = add(b, "sync").await;
    assert_eq!(wait_of(b, &failed(b, id, 1).await), 77);
    sweeper.shutdown().await;
}

pub async fn each_attempt_shows_its_class_and_its_causes(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("5s").timeout("1s")).await.unwrap();
    let tries = Calls::default();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", move |_: Notice<i64>| {
            let before = tries.note(());
            async move {
                match before {
                    0 => {
                        let cause = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                        Err(anyhow::Error::new(cause).context("asking OMP").context("booking").into())
                    }
                    1 => Err(Failure::retry_in(Duration::from_secs(5), HttpStatus(429))),
                    2 => panic!("two is even"),
                    _ => Err(Failure::give_up(anyhow::Error::new(HttpStatus(403)))),
                }
            }
        })
        .start()
        .await
        .unwrap();
    let id = add(b, "sync").await;
    for failures in 1..=3 {
        failed(b, id, failures).await;
        b.clock().advance(Duration::from_secs(5));
    }
    let dead = reaches(b, id, Status::DeadLetter).await;
    let types: Vec<_> = dead.errors.iter().map(|one| one.error_type.as_deref()).collect();
    let status = std::any::type_name::<HttpStatus>();
    assert_eq!(types, [Some("std::io::error::Error"), Some(status), None, Some(status)], "a panic has no type");
    let shown: Vec<_> = dead.errors.iter().map(|one| (one.class.as_str(), one.message.as_str())).collect();
    assert_eq!(
        shown,
        [
            ("network", "booking: asking OMP: connection reset"),
            ("busy", "HTTP status 429"),
            ("unknown", "the handler panicked: two is even"),
            ("auth", "HTTP status 403"),
        ]
    );
    assert_eq!(dead.last_class.as_deref(), Some("auth"));
    assert_eq!(dead.end_reason.as_deref(), Some("the handler gave up: HTTP status 403"));
    sweeper.shutdown().await;
}

pub async fn an_unreadable_parameter_is_retried_where_a_rule_says_so(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_rules(r#"{"invalid": "1h"}"#)).await.unwrap();
    let sweeper = failing(b, || "?".into()).0.start().await.unwrap();
    let id = b.add_new(NewNotice::new("sync", "a text").unwrap()).await.id();
    let waits = failed(b, id, 1).await;
    assert_eq!((wait_of(b, &waits), waits.last_class.as_deref()), (3600, Some("invalid")));
    assert!(waits.errors[0].message.contains("cannot be read into"), "{}", waits.errors[0].message);
    sweeper.shutdown().await;
}

pub async fn a_notice_that_kills_its_process_follows_the_rule_for_crashes(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_rules(r#"{"crash": "never"}"#)).await.unwrap();
    let id = add(b, "sync").await;
    let claim = Claim {
        def_id: definition(b, "sync").await.id,
        what: ClaimWhat::Ids(vec![id]),
        limit: 1,
        lease: Duration::from_secs(60),
        worker: "a process that dies".to_owned(),
        quota: None,
    };
    assert_eq!(b.outbox().engine().stores().send.claim(&claim).await.unwrap().notices.len(), 1);
    b.clock().advance(Duration::from_secs(60));
    let (builder, calls) = failing(b, || "?".into());
    let sweeper = builder.outage_grace(Duration::ZERO).start().await.unwrap();
    let dead = reaches(b, id, Status::DeadLetter).await;
    assert_eq!((dead.crashes, dead.last_class.as_deref(), calls.count()), (1, Some("crash"), 0));
    assert_eq!(dead.end_reason.as_deref(), Some("a failure of class crash is not retried (a rule of retry_rules)"));
    sweeper.shutdown().await;
}
