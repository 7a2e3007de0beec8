//! Adding notices.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use chrono::DateTime;
use serde_json::{Value, json};
use solid_notify_core::notice::{LATEST_TIME, time_from_millis};
use solid_notify_core::{Error, NewNotice, NotifyDef, Status};

use super::Backend;

pub async fn a_committed_notice_exists_and_one_of_rolled_back_work_does_not(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let kept = b.add_new(NewNotice::new("sync", 1).unwrap()).await.id();
    let gone = b.add_and_roll_back(NewNotice::new("sync", 2).unwrap()).await.unwrap().id();
    assert!(b.outbox().find(kept).await.unwrap().is_some());
    if gone != kept {
        assert!(b.outbox().find(gone).await.unwrap().is_none());
    }
    let claimed = b.claim_slice(def_id, Status::NotSent, 10).await;
    assert_eq!(claimed.iter().map(|notice| notice.param.as_str()).collect::<Vec<_>>(), ["1"]);
}

pub async fn a_notice_is_due_at_once_unless_it_says_otherwise(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let record = b.record(id).await;
    assert_eq!(record.status, Status::NotSent);
    assert_eq!((record.fence, record.failures, record.crashes), (0, 0, 0));
    assert_eq!(record.create_time, b.clock().now());
    assert_eq!(record.next_call_time, Some(b.clock().now()));
    assert_eq!(record.worker, None);
    assert_eq!(b.claim_one(def_id).await.id, id);
}

pub async fn a_delayed_notice_is_due_when_its_delay_is_over(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    b.add_new(NewNotice::new("sync", 1).unwrap().delay(Duration::from_millis(1500))).await;
    b.clock().advance(Duration::from_millis(1499));
    assert!(b.claim_slice(def_id, Status::NotSent, 10).await.is_empty(), "a millisecond too early");
    b.clock().advance(Duration::from_millis(1));
    b.claim_one(def_id).await;
    let id = b.add_new(NewNotice::new("sync", 1).unwrap().delay(Duration::MAX)).await.id();
    assert!(b.record(id).await.next_call_time > Some(b.clock().now() + Duration::from_secs(9 * 365 * 86_400)));
    // A store may claim by another statement once it has seen that the queue slice has no ordering keys.
    assert!(b.claim_slice(def_id, Status::NotSent, 10).await.is_empty(), "not due for years");
}

pub async fn a_notice_can_be_sent_at_a_given_time(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let at = b.clock().now() + Duration::from_secs(86_400);
    let id = b.add_new(NewNotice::new("sync", 1).unwrap().at(at)).await.id();
    assert_eq!(b.record(id).await.next_call_time, Some(at));
    assert!(b.claim_slice(def_id, Status::NotSent, 10).await.is_empty());
    b.clock().advance(Duration::from_secs(86_400));
    b.claim_one(def_id).await;
    // A time in the past means at once.
    let past = b.clock().now() - Duration::from_secs(3600);
    b.add_new(NewNotice::new("sync", 1).unwrap().at(past)).await;
    b.claim_one(def_id).await;
    // A time that no database can store becomes the latest one that a caller may set.
    let never = DateTime::UNIX_EPOCH + Duration::from_secs(400_000_000_000);
    let id = b.add_new(NewNotice::new("sync", 1).unwrap().at(never)).await.id();
    assert_eq!(b.record(id).await.next_call_time, Some(time_from_millis(LATEST_TIME)));
}

pub async fn the_parameter_keeps_its_bytes(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let texts = [
        r#"{ "z" : 1.10,  "a":1e200000, "a": 2 , "sum": 12345678901234567890.123456789 }"#,
        r#"{"signed":"ü€😀\u00fc","t":"tab\tnewline\n\\ \" /"}"#,
        r#"[1.0,1,1.00,-0,-0.0]"#,
    ];
    for text in texts {
        let raw: Box<serde_json::value::RawValue> = serde_json::from_str(text).unwrap();
        b.add_new(NewNotice::new("sync", raw).unwrap()).await;
        assert_eq!(b.claim_one(def_id).await.param, text);
    }
}

pub async fn any_json_value_can_be_a_parameter(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let long = "x".repeat(1_000_000);
    let deep = (0..24).fold(json!(1), |inner, _| json!([inner]));
    let deep: Value = deep.get(0).cloned().unwrap();
    for value in
        [json!(null), json!(true), json!(-7), json!(""), json!([]), json!({}), json!({"": [null]}), json!(long), deep]
    {
        b.add_new(NewNotice::new("sync", &value).unwrap()).await;
        let mut claimed = b.claim_one(def_id).await;
        if claimed.param_is_left {
            claimed.param = b.stores().send.param(&claimed).await.unwrap().unwrap();
        }
        assert_eq!(serde_json::from_str::<Value>(&claimed.param).unwrap(), value);
    }
}

pub async fn an_unknown_definition_is_refused_with_the_nearest_name(b: &dyn Backend) {
    b.define(NotifyDef::new("sync_to_omp")).await;
    b.define(NotifyDef::new("mail_invoice")).await;
    let error = b.add(NewNotice::new("sync_to_opm", 1).unwrap()).await.unwrap_err();
    let Error::UnknownDefinition { name, nearest } = &error else { panic!("{error}") };
    assert_eq!((name.as_str(), nearest.as_deref()), ("sync_to_opm", Some("sync_to_omp")));
    assert!(error.to_string().contains("did you mean \"sync_to_omp\"?"), "{error}");
}

pub async fn names_are_compared_byte_by_byte(b: &dyn Backend) {
    for name in ["sync", "Sync", "sync ", "sÿnc", "syncé", "synce\u{301}"] {
        b.define(NotifyDef::new(name)).await;
    }
    for name in ["sync", "Sync", "sync ", "sÿnc", "syncé", "synce\u{301}"] {
        let id = b.add_to(name).await;
        assert_eq!(b.record(id).await.def_id, b.definition(name).await.id, "{name:?}");
    }
    assert!(b.add(NewNotice::new("SYNC", 1).unwrap()).await.is_err());
}

pub async fn values_that_some_database_cannot_store_are_refused_before_any_sql(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let deep = (0..25).fold(json!(1), |inner, _| json!([inner]));
    let bad = [
        NewNotice::new("sync", "a\0b").unwrap(),
        NewNotice::new("sync", json!({ "a\0": 1 })).unwrap(),
        NewNotice::new("sync", deep).unwrap(),
        NewNotice::new("sync", "x".repeat(1 << 20)).unwrap(),
        NewNotice::new("sync", 1).unwrap().description("a\0"),
        NewNotice::new("sync", 1).unwrap().description("x".repeat(65_537)),
        NewNotice::new("sync", 1).unwrap().trace_context("x".repeat(1001)),
        NewNotice::new("sync", 1).unwrap().ordering_key(""),
        NewNotice::new("sync", 1).unwrap().ordering_key("x".repeat(201)),
        NewNotice::new("sync", 1).unwrap().unique_until_ended("a\0"),
    ];
    for notice in bad {
        let error = b.add(notice).await.unwrap_err();
        assert!(matches!(error, Error::InvalidNotice { .. }), "{error}");
    }
    assert!(matches!(b.add(NewNotice::new("a\0", 1).unwrap()).await, Err(Error::UnknownDefinition { .. })));
    assert!(b.claim_slice(def_id, Status::NotSent, 10).await.is_empty());
}

pub async fn everything_that_is_said_of_a_notice_is_kept(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let notice = NewNotice::new("sync", 1).unwrap().description("Bestellung für 東京 😀").trace_context(trace);
    let id = b.add_new(notice).await.id();
    let claimed = b.claim_one(def_id).await;
    assert_eq!((claimed.id, claimed.def_id), (id, def_id));
    assert_eq!(claimed.description.as_deref(), Some("Bestellung für 東京 😀"));
    assert_eq!(claimed.trace_context.as_deref(), Some(trace));
    let record = b.record(id).await;
    assert_eq!(record.description, claimed.description);
    assert_eq!(record.trace_context, claimed.trace_context);
}
