//! The operator's verbs beside others: each change and its entry in the audit, or neither; each dead letter is revived once,
//! beside concurrent retries and purges.

use std::collections::HashSet;
use std::time::Duration;

use chrono::Utc;
use solid_notify::{Failure, NewNotice, Notice, NotifyDef, OutboxExt, Status, add_notice, add_notices};
use solid_notify_conformance::{Backend, outcome};
use solid_notify_core::operate::{AuditFilter, Filter, Rate};
use solid_notify_core::store::verb::VerbResult;
use solid_notify_core::store::{Claim, ClaimWhat, Purge};
use solid_notify_core::transition::Next;
use test_support::faulty::faulty;
use test_support::sending::{add, reaches};
use test_support::{Database, TestDb, on_each_database};

on_each_database!(
    an_operation_that_cannot_be_audited_is_not_made,
    of_two_bulk_retries_at_once_each_takes_its_share,
    a_bulk_retry_beside_a_purge_takes_what_is_left,
    of_many_operators_who_retry_a_dead_letter_at_once_one_revives_it,
    a_dedupe_key_goes_to_one_however_many_want_it,
    a_dead_letter_whose_id_was_given_again_is_passed_over,
    dead_letters_made_during_a_bulk_retry_are_left_for_the_next_one,
    an_edited_dead_letter_is_sent_again_by_the_sweepers,
);

mod servers {
    use super::a_purge_that_waits_leaves_what_has_failed_again;

    test_support::on_each_server!(a_purge_that_waits_leaves_what_has_failed_again);
}

#[tokio::test]
async fn groups_of_dead_letters_read_the_definitions_once() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync").mask(r#"["$.card"]"#)).await.unwrap();
    let sweeper = outbox.sweeper().handler("sync", |notice: Notice<serde_json::Value>| async move {
        Err(Failure::give_up(format!("{}: no account tiger lily", notice.param()["why"].as_str().unwrap())))
    });
    let sweeper = sweeper.start().await.unwrap();
    for why in ["closed", "frozen", "unknown"] {
        let param = serde_json::json!({ "card": "tiger lily", "why": why });
        let id = b.add_new(NewNotice::new("sync", param).unwrap()).await.id();
        outbox.wake();
        reaches(&b, id, Status::DeadLetter).await;
    }
    sweeper.shutdown().await;
    let before = store.diary.count();
    let groups = outbox.operator("alice").groups(&Filter::dead_letters()).await.unwrap();
    let mut messages: Vec<&str> = groups.iter().map(|group| group.message.as_str()).collect();
    messages.sort_unstable();
    assert_eq!(messages, ["closed: no account ***", "frozen: no account ***", "unknown: no account ***"]);
    let reads = store.diary.all()[before..].iter().filter(|call| **call == "definitions").count();
    assert_eq!(reads, 1);
}

async fn claim<D: Database>(db: &TestDb<D>, status: Status) -> Vec<solid_notify_core::ClaimedNotice> {
    let def_id = db.outbox.definitions().await.unwrap()[0].row.id;
    let (what, worker) = (ClaimWhat::Slice(status), "worker".to_owned());
    let claim = Claim { def_id, what, limit: 500, lease: Duration::from_secs(60), worker, quota: None };
    db.outbox.engine().stores().send.claim(&claim).await.unwrap().notices
}

/// Makes dead letters of all due notices, and returns their ids.
async fn kill<D: Database>(db: &TestDb<D>) -> Vec<i64> {
    let mut killed = Vec::new();
    loop {
        let claimed = claim(db, Status::NotSent).await;
        if claimed.is_empty() {
            return killed;
        }
        let dead = || Next::Finish { status: Status::DeadLetter, reason: None, keep: true };
        let batch: Vec<_> = claimed.iter().map(|claimed| outcome(claimed, dead())).collect();
        db.outbox.engine().stores().send.settle(&batch).await.unwrap();
        killed.extend(claimed.iter().map(|claimed| claimed.id));
    }
}

async fn with_dead_letters<D: Database>(count: i64) -> (TestDb<D>, Vec<i64>) {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let mut tx = db.outbox.begin().await.unwrap();
    add_notices(&mut tx, (0..count).map(|n| NewNotice::new("sync", n).unwrap())).await.unwrap();
    tx.commit().await.unwrap();
    let killed = kill(&db).await;
    assert_eq!(killed.len(), usize::try_from(count).unwrap());
    // Notices that ended in the millisecond in which the call begins are left for the next call.
    tokio::time::sleep(Duration::from_millis(5)).await;
    (db, killed)
}

async fn an_operation_that_cannot_be_audited_is_not_made<D: Database>() {
    let (db, dead) = with_dead_letters::<D>(3).await;
    let mut tx = db.outbox.begin().await.unwrap();
    let live = add_notice(&mut tx, "sync", 1).await.unwrap().id();
    tx.commit().await.unwrap();
    let (on, off) = match <D::Db as sqlx::Database>::NAME {
        "PostgreSQL" => (
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
             CREATE TRIGGER refuse BEFORE INSERT ON notify_audit FOR EACH ROW EXECUTE FUNCTION refuse()",
            "DROP TRIGGER refuse ON notify_audit",
        ),
        "MySQL" => (
            "CREATE TRIGGER refuse BEFORE INSERT ON notify_audit FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'",
            "DROP TRIGGER refuse",
        ),
        _ => (
            "CREATE TRIGGER refuse BEFORE INSERT ON notify_audit BEGIN SELECT RAISE(ABORT, 'no'); END",
            "DROP TRIGGER refuse",
        ),
    };
    let alice = db.outbox.operator("alice");
    let before = (db.outbox.find(live).await.unwrap(), db.outbox.find(dead[0]).await.unwrap());
    db.sql(on).await;
    assert!(alice.test_send("sync", 1).await.is_err());
    assert!(alice.retry(dead[0]).await.is_err());
    assert!(alice.edit(dead[0], 7).await.is_err());
    assert!(alice.edit(live, 7).await.is_err());
    assert!(alice.cancel(live, "x").await.is_err());
    assert!(alice.ack(live).await.is_err() && alice.ack(dead[0]).await.is_err());
    assert!(alice.reschedule(live, Utc::now() + Duration::from_secs(60)).await.is_err());
    assert!(alice.retry_all(&Filter::dead_letters(), Rate::AT_ONCE).await.is_err());
    assert!(alice.cancel_all(&Filter::waiting(), "x").await.is_err());
    db.sql(off).await;
    assert_eq!(alice.counts(&Filter::live()).await.unwrap().iter().map(|count| count.count.count).sum::<u64>(), 1);
    assert!((db.outbox.find(live).await.unwrap(), db.outbox.find(dead[0]).await.unwrap()) == before);
    assert_eq!(alice.preview(&Filter::dead_letters()).await.unwrap().total.count, 3);
    assert!(alice.audit(&AuditFilter::all(), None, 10).await.unwrap().entries.is_empty());
    assert_eq!(alice.retry_all(&Filter::dead_letters(), Rate::AT_ONCE).await.unwrap().changed, 3);
    assert_eq!(alice.audit(&AuditFilter::all(), None, 10).await.unwrap().entries.len(), 1);
    db.close().await;
}

async fn of_two_bulk_retries_at_once_each_takes_its_share<D: Database>() {
    let (db, dead) = with_dead_letters::<D>(1200).await;
    let filter = Filter::dead_letters();
    let operators = ["alice", "bob", "carol"].map(|who| db.outbox.operator(who));
    let retries = operators.iter().map(|operator| operator.retry_all(&filter, Rate::AT_ONCE));
    let done = futures_util::future::join_all(retries).await;
    let changed: u64 = done.iter().map(|done| done.as_ref().unwrap().changed).sum();
    assert_eq!(changed, 1200, "{done:?}");
    let mut revived = HashSet::new();
    while revived.len() < dead.len() {
        let claimed = claim(&db, Status::Failed).await;
        assert!(!claimed.is_empty());
        for notice in claimed {
            assert_eq!(notice.fence, 2);
            assert!(revived.insert(notice.id), "{} was revived twice", notice.id);
        }
    }
    assert_eq!(changes_in_the_audit(&db).await, 1200);
    db.close().await;
}

/// Returns how many notices each step changed, according to the audit.
async fn changes_in_the_audit<D: Database>(db: &TestDb<D>) -> u64 {
    let entries = db.outbox.operator("auditor").audit(&AuditFilter::all(), None, 500).await.unwrap().entries;
    let count = |detail: &str| detail.split(": ").nth(1).unwrap().split(' ').next().unwrap().parse::<u64>().unwrap();
    let steps = entries.iter().filter(|entry| entry.notice_id.is_none());
    steps.map(|entry| count(entry.detail.as_deref().unwrap().split_once("at once").unwrap().1)).sum()
}

async fn a_bulk_retry_beside_a_purge_takes_what_is_left<D: Database>() {
    let (db, dead) = with_dead_letters::<D>(1500).await;
    let def_id = db.outbox.definitions().await.unwrap()[0].row.id;
    let purge = Purge::History { def_id, status: Status::DeadLetter, older_than: Duration::ZERO, limit: 100 };
    let purged = async {
        let mut ids = Vec::new();
        for _ in 0..5 {
            let rows = db.outbox.engine().stores().send.purge(&purge).await.unwrap();
            ids.extend(rows.into_iter().map(|row| row.id));
        }
        ids
    };
    let alice = db.outbox.operator("alice");
    let filter = Filter::dead_letters();
    let (purged, done) = tokio::join!(purged, alice.retry_all(&filter, Rate::AT_ONCE));
    let done = done.unwrap();
    let (mut live, mut gone) = (0, 0);
    for id in &dead {
        match db.outbox.find(*id).await.unwrap().map(|record| record.status) {
            Some(Status::Failed) => live += 1,
            Some(other) => panic!("{id} is {other:?}"),
            None => {
                assert!(purged.contains(id), "{id} vanished");
                gone += 1;
            }
        }
    }
    assert_eq!((live, live + gone), (done.changed, 1500), "{done:?}");
    db.close().await;
}

async fn of_many_operators_who_retry_a_dead_letter_at_once_one_revives_it<D: Database>() {
    let (db, dead) = with_dead_letters::<D>(1).await;
    let operators: Vec<_> = (0..8).map(|n| db.outbox.operator(&format!("operator {n}"))).collect();
    let answers = futures_util::future::join_all(operators.iter().map(|operator| operator.retry(dead[0]))).await;
    assert!(answers.iter().all(|answer| *answer.as_ref().unwrap() == VerbResult::Applied), "{answers:?}");
    let entries = operators[0].audit(&AuditFilter::all().notice(dead[0]), None, 100).await.unwrap().entries;
    let revivals = entries.iter().filter(|entry| entry.detail.as_ref().unwrap().starts_with("it was a dead letter"));
    assert_eq!(revivals.count(), 1, "{entries:?}");
    let claimed = claim(&db, Status::Failed).await;
    assert_eq!((claimed.len(), claimed[0].fence), (1, 2));
    db.close().await;
}

async fn a_dedupe_key_goes_to_one_however_many_want_it<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let keyed = || NewNotice::new("sync", 1).unwrap().unique_until_ended("k");
    let mut dead = Vec::new();
    for _ in 0..6 {
        let mut tx = db.outbox.begin().await.unwrap();
        keyed().add(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        dead.extend(kill(&db).await);
    }
    let alice = db.outbox.operator("alice");
    let answers = futures_util::future::join_all(dead.iter().map(|id| alice.retry(*id))).await;
    let answers: Vec<VerbResult> = answers.into_iter().map(Result::unwrap).collect();
    let winner = dead[answers.iter().position(|answer| *answer == VerbResult::Applied).unwrap()];
    for (id, answer) in dead.iter().zip(&answers) {
        let expected = if *id == winner { VerbResult::Applied } else { VerbResult::DedupeKeyTaken(winner) };
        assert_eq!(*answer, expected);
    }
    db.close().await;
}

async fn a_dead_letter_whose_id_was_given_again_is_passed_over<D: Database>() {
    let (db, dead) = with_dead_letters::<D>(3).await;
    let def_id = db.outbox.definitions().await.unwrap()[0].row.id;
    db.sql(&format!("INSERT INTO notify_msg (id, def_id, param) VALUES ({}, {def_id}, '7')", dead[1])).await;
    let alice = db.outbox.operator("alice");
    let done = alice.retry_all(&Filter::dead_letters(), Rate::AT_ONCE).await.unwrap();
    assert_eq!((done.changed, done.passed_over), (2, 1));
    assert_eq!(alice.cancel(dead[1], "the live one").await.unwrap(), VerbResult::Applied);
    let record = db.outbox.find(dead[1]).await.unwrap().unwrap();
    assert_eq!((record.status, record.param.as_str()), (Status::Cancelled, "7"));
    db.close().await;
}

async fn dead_letters_made_during_a_bulk_retry_are_left_for_the_next_one<D: Database>() {
    let (db, dead) = with_dead_letters::<D>(3).await;
    let later = "UPDATE notify_msg_history SET finish_time = '2100-01-01 00:00:00' WHERE id =";
    db.sql(&format!("{later} {}", dead[2])).await;
    let alice = db.outbox.operator("alice");
    let filter = Filter::dead_letters().until(Utc::now() + Duration::from_secs(1 << 34));
    assert_eq!(alice.retry_all(&filter, Rate::AT_ONCE).await.unwrap().changed, 2);
    assert_eq!(db.outbox.find(dead[2]).await.unwrap().unwrap().status, Status::DeadLetter);
    db.close().await;
}

async fn an_edited_dead_letter_is_sent_again_by_the_sweepers<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = db
        .outbox
        .sweeper()
        .handler("sync", |notice: Notice<i64>| async move {
            if *notice.param() == 1 { Err(Failure::give_up("not this one")) } else { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    let id = add(&db, "sync").await;
    reaches(&db, id, Status::DeadLetter).await;
    let alice = db.outbox.operator("alice");
    assert_eq!(alice.edit(id, 2).await.unwrap(), VerbResult::Applied);
    assert_eq!(reaches(&db, id, Status::Succeeded).await.fence, 2);
    sweeper.shutdown().await;
    db.close().await;
}

/// A purge selects first and then deletes. It must not delete a notice that was revived in between.
async fn a_purge_that_waits_leaves_what_has_failed_again<D: Database>()
where
    for<'c> &'c mut <D::Db as sqlx::Database>::Connection: sqlx::Executor<'c, Database = D::Db>,
{
    let (db, dead) = with_dead_letters::<D>(2).await;
    let def_id = db.outbox.definitions().await.unwrap()[0].row.id;
    db.sql("UPDATE notify_msg_history SET finish_time = '2020-01-01 00:00:00'").await;
    let mut other = db.pool.begin().await.unwrap();
    let again = format!("UPDATE notify_msg_history SET finish_time = '2100-01-01 00:00:00' WHERE id = {}", dead[0]);
    sqlx::Executor::execute(&mut *other, sqlx::AssertSqlSafe(again)).await.unwrap();
    let older_than = Duration::from_secs(3600);
    let purge = Purge::History { def_id, status: Status::DeadLetter, older_than, limit: 100 };
    let ends = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        other.commit().await.unwrap();
    };
    let (purged, ()) = tokio::join!(db.outbox.engine().stores().send.purge(&purge), ends);
    let purged: Vec<i64> = purged.unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(purged, [dead[1]], "only what was deleted is logged");
    assert!(db.outbox.find(dead[0]).await.unwrap().is_some());
    assert!(db.outbox.find(dead[1]).await.unwrap().is_none());
    db.close().await;
}
