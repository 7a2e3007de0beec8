//! Acks by plain SQL.

use std::time::Duration;

use solid_notify::operate::AuditFilter;
use solid_notify::{NewNotice, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use solid_notify_core::store::{Claim, ClaimWhat};
use test_support::sending::{reaches, record};
use test_support::{TestDb, on_each_database};

use super::statement::Plain;

on_each_database!(
    an_ack_counts_if_and_only_if_its_transaction_commits,
    ack_in_each_state_returns_its_result,
    a_trigger_acks,
    next_notice_of_the_ordering_key_is_due_after_an_ack,
);

/// Adds a notice that was delivered and awaits its ack.
async fn delivered<D: Plain>(db: &TestDb<D>) -> i64 {
    db.outbox.define_if_missing(NotifyDef::new("sync").need_confirm(true)).await.unwrap();
    let sweeper = db.outbox.sweeper().handler("sync", |_: Notice<i64>| async { Ok(()) }).start().await.unwrap();
    let notice = NewNotice::new("sync", 1).unwrap().description("d").ordering_key("k");
    let id = db.add_new(notice).await.id();
    reaches(db, id, Status::AwaitingAck).await;
    sweeper.shutdown().await;
    id
}

async fn an_ack_counts_if_and_only_if_its_transaction_commits<D: Plain>() {
    let db = TestDb::<D>::with_real_clock().await;
    let id = delivered(&db).await;
    db.shell().run(format!("BEGIN; {} ROLLBACK;", D::ack(id))).well();
    assert_eq!(record(&db, id).await.status, Status::AwaitingAck);
    let before = record(&db, id).await;
    let said = db.shell().run(format!("BEGIN; {} COMMIT;", D::ack(id))).well();
    assert!(D::ANSWERS.is_none_or(|[applied, ..]| said.contains(applied)), "{said}");
    let after = record(&db, id).await;
    assert_eq!((after.status, after.end_reason.as_deref()), (Status::Succeeded, Some("acked")));
    assert!(after.finish_time.unwrap() >= after.create_time);
    assert_eq!((after.description, after.ordering_key), (before.description, before.ordering_key));
    assert_eq!((after.fence, after.worker, after.param), (1, before.worker, before.param));
    db.close().await;
}

async fn ack_in_each_state_returns_its_result<D: Plain>() {
    let db = TestDb::<D>::with_real_clock().await;
    let id = delivered(&db).await;
    db.sql("UPDATE notify_msg SET failures = 1").await;
    let says = |id: i64, answer: usize| {
        let said = db.shell().run(format!("BEGIN; {} COMMIT;", D::ack(id))).well();
        assert!(D::ANSWERS.is_none_or(|answers| said.contains(answers[answer])), "{said}");
    };
    says(id, 0);
    says(id, 1);
    db.sql("UPDATE notify_msg_history SET status = 6").await;
    says(id, 2);
    assert_eq!(record(&db, id).await.status, Status::Cancelled);
    db.sql("UPDATE notify_msg_history SET status = 3").await;
    says(id, 3);
    let record = record(&db, id).await;
    assert_eq!(record.end_reason.as_deref(), Some("acked after it had been given up"));
    assert_eq!(record.status, Status::Succeeded);
    let audit = db.outbox.operator("auditor").audit(&AuditFilter::all(), None, 10).await.unwrap().entries;
    assert_eq!(audit.len(), 1, "{audit:?}");
    assert_eq!((audit[0].act.as_str(), audit[0].notice_id, audit[0].def_id), ("ack", Some(id), Some(record.def_id)));
    says(id + 1000, 4);
    db.close().await;
}

async fn a_trigger_acks<D: Plain>() {
    let db = TestDb::<D>::with_real_clock().await;
    let id = delivered(&db).await;
    db.shell().run(D::ANSWERS_TABLE).well();
    db.shell().run(format!("INSERT INTO replies VALUES ({id});")).well();
    assert_eq!(record(&db, id).await.status, Status::Succeeded);
    db.close().await;
}

async fn next_notice_of_the_ordering_key_is_due_after_an_ack<D: Plain>() {
    let db = TestDb::<D>::with_real_clock().await;
    let id = delivered(&db).await;
    let next = db.add(NewNotice::new("sync", 2).unwrap().ordering_key("k")).await.unwrap().id();
    let def_id = db.outbox.operator("alice").definition("sync").await.unwrap().id;
    let claim = Claim {
        def_id,
        what: ClaimWhat::Slice(Status::NotSent),
        limit: 10,
        lease: Duration::from_secs(60),
        worker: "worker-1".to_owned(),
        quota: None,
    };
    assert_eq!(db.outbox.engine().stores().send.claim(&claim).await.unwrap().notices, [], "the claim blocks it");
    db.shell().run(format!("BEGIN; {} COMMIT;", D::ack(id))).well();
    assert_eq!(db.outbox.engine().stores().send.claim(&claim).await.unwrap().notices[0].id, next);
    db.close().await;
}
