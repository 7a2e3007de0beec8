//! A dedupe key of a target that an open transaction holds: no call waits for it, and the other outcomes of a batch are settled.

use std::time::Duration;

use solid_notify::{NewNotice, NotifyDef};
use solid_notify_conformance::{Backend, outcome};
use solid_notify_core::Status;
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{Claim, ClaimWhat, NamedTarget, PassOn, PassedOn, QueueSlice, Settle, Settled};
use solid_notify_core::transition::Next;
use test_support::{Database, TestDb};

test_support::on_each_server!(a_key_that_is_held_keeps_no_other_outcome_from_being_settled);

fn order(key: Option<&str>) -> NewNotice {
    let order = NewNotice::new("order", 7).unwrap();
    match key {
        Some(key) => order.unique_until_ended(key),
        None => order,
    }
}

fn passed_on(claimed: &ClaimedNotice, target: i64) -> Settle {
    let next = Next::Finish { status: Status::Succeeded, reason: None, keep: true };
    Settle { pass_to: vec![NamedTarget::new(target, "erp")], ..outcome(claimed, next) }
}

/// Whether a session of this database waits for a lock. PostgreSQL's wait of 20 ms is none.
async fn waits<D: Database>(db: &TestDb<D>) -> bool {
    if <D::Db as sqlx::Database>::NAME == "PostgreSQL" {
        return false;
    }
    let waiting = "SELECT 1 FROM information_schema.innodb_trx t
                   JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
                   WHERE t.trx_state = 'LOCK WAIT' AND p.db = database()";
    !db.shell().run(waiting).well().trim().is_empty()
}

async fn a_key_that_is_held_keeps_no_other_outcome_from_being_settled<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    for def in [NotifyDef::new("order"), NotifyDef::target("order", "erp")] {
        db.outbox.define_if_missing(def).await.unwrap();
    }
    let rows = db.outbox.definitions().await.unwrap();
    let id_of = |name: &str| rows.iter().find(|state| state.row.name == name).unwrap().row.id;
    let (def_id, erp) = (id_of("order"), id_of("order/erp"));
    for key in [Some("held"), None, Some("free"), Some("held too"), None] {
        db.add_new(order(key)).await;
    }
    let claim = Claim {
        def_id,
        what: ClaimWhat::Slice(Status::NotSent),
        limit: 10,
        lease: Duration::from_secs(60),
        worker: "worker".to_owned(),
        quota: None,
    };
    let send = &db.outbox.engine().stores().send;
    let mut claimed = send.claim(&claim).await.unwrap().notices;
    claimed.sort_by_key(|notice| notice.id);
    let batch: Vec<Settle> = claimed.iter().map(|claimed| passed_on(claimed, erp)).collect();
    let mut other = db.outbox.begin().await.unwrap();
    for key in ["held", "held too"] {
        NewNotice::new("order/erp", 1).unwrap().unique_until_ended(key).add(&mut other).await.unwrap();
    }
    let settled = {
        let mut settling = std::pin::pin!(send.settle(&batch));
        loop {
            tokio::select! {
                settled = &mut settling => break settled,
                () = tokio::time::sleep(Duration::from_millis(10)) => {
                    assert!(!waits(&db).await, "the settle waits for a lock");
                }
            }
        }
    };
    assert_eq!(settled.unwrap(), [Settled::Locked, Settled::Stored, Settled::Stored, Settled::Locked, Settled::Stored]);
    let notice = &claimed[0];
    let (targets, known, owed) = (vec![erp], vec![erp.into()], Vec::new());
    let part = PassOn { id: notice.id, def_id, fence: notice.fence, targets, known, owed, most: 1 };
    assert_eq!(send.pass_on(&part).await.unwrap(), PassedOn::Busy);
    other.rollback().await.unwrap();
    assert_eq!(send.settle(&batch[..1]).await.unwrap(), [Settled::Stored]);
    // Where the other transaction commits, the target keeps its own notice, and the record says so.
    let mut other = db.outbox.begin().await.unwrap();
    let own =
        NewNotice::new("order/erp", 1).unwrap().unique_until_ended("held too").add(&mut other).await.unwrap().id();
    assert_eq!(send.settle(&batch[3..4]).await.unwrap(), [Settled::Locked]);
    other.commit().await.unwrap();
    let kept = format!("passed on to no target; `erp` still has notice {own} of this dedupe key");
    assert_eq!(send.settle(&batch[3..4]).await.unwrap(), [Settled::PassedOn(kept)]);
    let listed = db.outbox.engine().stores().browse.list(&QueueSlice::of(erp, Status::NotSent), 100).await.unwrap();
    let mut keys: Vec<Option<&str>> = listed.iter().map(|notice| notice.dedupe_key.as_deref()).collect();
    keys.sort_unstable();
    assert_eq!(keys, [None, None, Some("free"), Some("held"), Some("held too")]);
    db.close().await;
}
