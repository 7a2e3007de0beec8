//! Blocked notices: a notice behind an unfinished one of its ordering key costs a claim nothing, and is claimed as soon as the
//! notice in front has ended.

use std::time::Duration;

use solid_notify::{NewNotice, NotifyDef, Status, ack_notice};
use solid_notify_conformance::{Backend, outcome, succeed};
use solid_notify_core::store::{Claim, ClaimWhat, Look, Settle, Settled};
use solid_notify_core::transition::Next;
use test_support::{Database, TestDb, on_each_database};

on_each_database!(
    blocked_notices_leave_the_due_part_of_their_slice,
    next_notice_of_a_key_is_claimed_when_the_one_in_front_ends,
    blocked_notice_is_looked_at_again_after_ten_minutes,
    many_blocked_notices_do_not_delay_another_key,
);

async fn define<D: Database>(db: &TestDb<D>) -> i64 {
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    db.outbox.operator("alice").definition("sync").await.unwrap().id
}

async fn add<D: Database>(db: &TestDb<D>, key: Option<&str>) -> i64 {
    let notice = NewNotice::new("sync", 1).unwrap();
    let notice = key.into_iter().fold(notice, |notice, key| notice.ordering_key(key));
    db.add(notice).await.unwrap().id()
}

fn claim(def_id: i64) -> Claim {
    let what = ClaimWhat::Slice(Status::NotSent);
    Claim { def_id, what, limit: 20, lease: Duration::from_secs(60), worker: "worker-1".to_owned(), quota: None }
}

/// Returns the ids that a claim of first sends returns.
async fn claimed<D: Database>(db: &TestDb<D>, def_id: i64) -> Vec<i64> {
    let claims = db.outbox.engine().stores().send.claim(&claim(def_id)).await.unwrap();
    claims.notices.iter().map(|notice| notice.id).collect()
}

async fn settle<D: Database>(db: &TestDb<D>, settle: Settle) {
    assert_eq!(db.outbox.engine().stores().send.settle(&[settle]).await.unwrap(), [Settled::Stored]);
}

async fn is_due<D: Database>(db: &TestDb<D>) -> bool {
    let due = db.outbox.engine().stores().send.due(true).await.unwrap();
    due.slices.iter().any(|slice| slice.status == Status::NotSent && slice.after.is_zero())
}

/// A definition with one notice being sent and two blocked behind it; returns the ids.
async fn blocked_behind_one<D: Database>(db: &TestDb<D>) -> (i64, [i64; 3]) {
    let def_id = define(db).await;
    let mut ids = [0; 3];
    for id in &mut ids {
        *id = add(db, Some("key")).await;
    }
    assert_eq!(claimed(db, def_id).await, [ids[0]]);
    assert!(claimed(db, def_id).await.is_empty());
    assert!(!is_due(db).await, "the notices behind it are blocked");
    (def_id, ids)
}

async fn blocked_notices_leave_the_due_part_of_their_slice<D: Database>() {
    let db = TestDb::<D>::with_hand_clock().await;
    let (def_id, [_, second, _]) = blocked_behind_one(&db).await;
    // Another key, and one without, are claimed at once; a queue slice without keys is claimed without windows later on.
    let other = add(&db, Some("other")).await;
    let free = add(&db, None).await;
    assert_eq!(claimed(&db, def_id).await, [other, free]);
    // An operator who sets the time of a blocked notice unblocks it.
    db.outbox.operator("alice").reschedule(second, chrono::DateTime::UNIX_EPOCH).await.unwrap();
    assert!(is_due(&db).await);
    assert!(claimed(&db, def_id).await.is_empty() && !is_due(&db).await, "it is still behind the first one");
    db.close().await;
}

async fn next_notice_of_a_key_is_claimed_when_the_one_in_front_ends<D: Database>() {
    let finish = |status, keep, reason: Option<&str>| Next::Finish { status, reason: reason.map(str::to_owned), keep };
    for way in ["success", "success without history", "dead letter", "cancelled", "cancelled in bulk", "ack"] {
        let db = TestDb::<D>::with_hand_clock().await;
        let (def_id, [first, second, third]) = blocked_behind_one(&db).await;
        let sending = db.outbox.find(first).await.unwrap().unwrap();
        let held = Look::ClaimedBy { worker: sending.worker.unwrap() };
        let held = db.outbox.engine().stores().send.look(&held, 10).await.unwrap().remove(0);
        if way == "cancelled" {
            // A claimed notice is cancelled only after its lease.
            db.clock().advance(Duration::from_secs(61));
        }
        match way {
            "success" => settle(&db, succeed(&held)).await,
            "success without history" => settle(&db, outcome(&held, finish(Status::Succeeded, false, None))).await,
            "dead letter" => settle(&db, outcome(&held, finish(Status::DeadLetter, true, Some("no")))).await,
            "cancelled" => drop(db.outbox.operator("alice").cancel(first, "no").await.unwrap()),
            "cancelled in bulk" => {
                // All three: later notices of the key are not blocked for ever.
                settle(&db, outcome(&held, Next::Wait { status: Status::Failed, after: Duration::from_secs(60) }))
                    .await;
                let filter = solid_notify::Filter::waiting().definition("sync");
                db.outbox.operator("alice").cancel_all(&filter, "no").await.unwrap();
            }
            _ => {
                let mut tx = db.outbox.begin().await.unwrap();
                ack_notice(&mut tx, first).await.unwrap();
                tx.commit().await.unwrap();
            }
        }
        if way == "cancelled in bulk" {
            let later = add(&db, Some("key")).await;
            assert_eq!(claimed(&db, def_id).await, [later], "{way}");
        } else {
            assert_eq!(claimed(&db, def_id).await, [second], "{way}");
            assert!(claimed(&db, def_id).await.is_empty(), "{way}: {third} is still behind");
        }
        db.close().await;
    }
}

async fn blocked_notice_is_looked_at_again_after_ten_minutes<D: Database>() {
    let db = TestDb::<D>::with_hand_clock().await;
    let (def_id, [first, second, _]) = blocked_behind_one(&db).await;
    db.sql(&format!("DELETE FROM notify_msg WHERE id = {first}")).await;
    db.clock().advance(Duration::from_secs(599));
    assert!(claimed(&db, def_id).await.is_empty());
    db.clock().advance(Duration::from_secs(1));
    let claims = db.outbox.engine().stores().send.claim(&claim(def_id)).await.unwrap().notices;
    assert_eq!(claims[0].id, second);
    // From the claim on it is not blocked any more: its retry is due when its definition says.
    let after = Duration::from_secs(60);
    settle(&db, outcome(&claims[0], Next::Wait { status: Status::Failed, after })).await;
    let retry = db.outbox.find(second).await.unwrap().unwrap().next_call_time.unwrap();
    assert!((retry - db.clock().now()).to_std().unwrap() > after / 2, "{retry:?}");
    db.close().await;
}

async fn many_blocked_notices_do_not_delay_another_key<D: Database>() {
    const MANY: i64 = 5_000;
    let db = TestDb::<D>::with_hand_clock().await;
    let def_id = define(&db).await;
    let first = add(&db, Some("key")).await;
    assert_eq!(claimed(&db, def_id).await, [first]);
    let notices = (0..MANY).map(|n| NewNotice::new("sync", n).unwrap().ordering_key("key"));
    db.add_many(notices.collect()).await.unwrap();
    let other = add(&db, Some("other")).await;
    // Each claim blocks what it meets: a few of them get through to what is behind, and nothing is met twice.
    let mut found = Vec::new();
    for _ in 0..20 {
        found.extend(claimed(&db, def_id).await);
    }
    assert_eq!(found, [other]);
    assert!(!is_due(&db).await, "a look finds nothing of the {MANY}");
    db.close().await;
}
