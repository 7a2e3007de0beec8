//! Tests that operators send: the mark, the entry in the audit, and what is refused.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use solid_notify_core::notice::Status;
use solid_notify_core::operate::AuditFilter;
use solid_notify_core::store::{NamedTarget, Settle, Settled};
use solid_notify_core::test_mark::TEST_TAG;
use solid_notify_core::transition::Next;
use solid_notify_core::{ALERT_DEFINITION, Error, Filter, NewNotice, NotifyDef, PURGE_DEFINITION};

use super::{Backend, outcome, succeed};

pub async fn a_test_is_a_marked_notice_with_its_entry_in_the_audit(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let real = b.add_to("sync").await;
    let wakes = b.outbox().engine().wakes();
    let param = serde_json::json!({ "order": "订单 7" });
    let id = b.alice().test_send("sync", &param).await.unwrap();
    assert!(wakes.has_changed().unwrap(), "the sweepers look at once");
    let (record, now) = (b.record(id).await, b.clock().now());
    assert_eq!((record.status, record.def_id, record.fence), (Status::NotSent, def_id, 0));
    assert_eq!((record.create_time, record.next_call_time), (now, Some(now)));
    assert_eq!((record.param, record.tag.as_deref()), (param.to_string(), Some(TEST_TAG)));
    let [entry] = &b.audit(&AuditFilter::all()).await[..] else { panic!("one entry expected") };
    assert_eq!((entry.who.as_str(), entry.act.as_str(), entry.time), ("alice", "test_send", now));
    assert_eq!((entry.def_id, entry.notice_id), (Some(def_id), Some(id)));
    assert_eq!(b.audit_of(id).await, std::slice::from_ref(entry));
    let claimed = b.claim_slice(def_id, Status::NotSent, 10).await;
    let tags: Vec<_> = claimed.iter().map(|claimed| (claimed.id, claimed.tag.as_deref())).collect();
    assert_eq!(tags, [(real, None), (id, Some(TEST_TAG))], "a claim returns the mark");
    assert_eq!(b.settle_one(succeed(&claimed[1])).await, Settled::Stored);
    let tests = b.alice().list(&Filter::ended().tag(TEST_TAG), None, 10).await.unwrap().notices;
    assert_eq!(tests.iter().map(|test| test.id).collect::<Vec<_>>(), [id]);
}

pub async fn a_test_is_passed_on_to_targets_as_a_test(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("order")).await;
    let target = b.define(NotifyDef::target("order", "erp")).await;
    let id = b.alice().test_send("order", 7).await.unwrap();
    let next = Next::Finish { status: Status::Succeeded, reason: None, keep: true };
    let passed_on =
        Settle { pass_to: vec![NamedTarget::new(target, "erp")], ..outcome(&b.claim_one(def_id).await, next) };
    assert_eq!(b.settle_one(passed_on).await, Settled::Stored);
    let of_target = b.claim_one(target).await;
    assert_eq!(of_target.tag.as_deref(), Some(TEST_TAG));
    assert_eq!(b.record(of_target.id).await.parent_id, Some(id));
    // Of one target alone.
    let alone = b.alice().test_send(target, 8).await.unwrap();
    let claimed = b.claim_one(target).await;
    assert_eq!((claimed.id, claimed.tag.as_deref()), (alone, Some(TEST_TAG)));
}

pub async fn a_test_of_what_sends_no_notices_of_the_application_is_refused(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("gone")).await;
    b.outbox().delete(&b.definition("gone").await).await.unwrap();
    let built_in = b.define(NotifyDef::new(ALERT_DEFINITION)).await;
    b.define(NotifyDef::new(PURGE_DEFINITION)).await;
    let alice = b.alice();
    for (refused, words) in [
        (alice.test_send(def_id, 1).await, "is deleted"),
        (alice.test_send(built_in, 1).await, "is built in"),
        (alice.test_send(PURGE_DEFINITION, 1).await, "is built in"),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(&error, Error::Invalid { .. }) && error.to_string().contains(words), "{error}");
    }
    for unknown in [alice.test_send("gone", 1).await, alice.test_send(1_000, 1).await] {
        assert!(matches!(unknown.unwrap_err(), Error::UnknownDefinition { .. }));
    }
    b.define(NotifyDef::new("sync")).await;
    let long = alice.test_send("sync", "x".repeat(2 << 20)).await.unwrap_err();
    assert!(matches!(long, Error::InvalidNotice { .. }), "{long}");
    assert!(b.stores().send.due(true).await.unwrap().slices.is_empty(), "nothing was added");
    assert!(b.audit(&AuditFilter::all().act("test_send")).await.is_empty());
}

pub async fn a_notice_of_an_application_is_no_test(b: &dyn Backend) {
    b.define(NotifyDef::new("sync")).await;
    for tag in [TEST_TAG, "notify:", "notify:other"] {
        let refused = b.add(NewNotice::new("sync", 1).unwrap().tag(tag)).await.unwrap_err().to_string();
        assert!(refused.contains("tag begins with \"notify:\""), "{refused}");
    }
    let other = b.add_new(NewNotice::new("sync", 1).unwrap().tag("order:notify:test")).await.id();
    assert_eq!(b.record(other).await.tag.as_deref(), Some("order:notify:test"));
}
