//! Authorities of built-in notices against another notice that has got the same id, as a session of MySQL can choose it.

use std::time::Duration;

use solid_notify::operate::Rate;
use solid_notify::{Filter, NotifyDef};
use solid_notify_core::Status;
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{Claim, ClaimWhat};
use test_support::{Database, TestDb, on_each_database};

on_each_database!(each_claim_of_its_own_notice_uses_an_authority_once);

async fn each_claim_of_its_own_notice_uses_an_authority_once<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let filter = Filter::cancelled().definition("sync");
    let act = db.outbox.operator("alice").start_purge_all(&filter, "old", Rate::AT_ONCE).await.unwrap();
    let notice = db.outbox.find(act.id()).await.unwrap().unwrap();
    let send = &db.outbox.engine().stores().send;
    let (lease, worker) = (Duration::from_secs(60), "worker".to_owned());
    let what = ClaimWhat::Slice(Status::NotSent);
    let claim = Claim { def_id: notice.def_id, what, limit: 1, lease, worker, quota: None };
    let claimed = send.claim(&claim).await.unwrap().notices.remove(0);
    let is_used = async |claimed: ClaimedNotice| send.use_authority(&claimed).await.unwrap().is_some();
    let other = ClaimedNotice { def_id: claimed.def_id + 1, ..claimed.clone() };
    assert!(!is_used(other).await, "a notice of another definition");
    assert!(is_used(claimed.clone()).await);
    assert!(!is_used(claimed.clone()).await, "the first claim of another notice has this fence, too");
    let next = ClaimedNotice { fence: claimed.fence + 1, ..claimed.clone() };
    assert!(is_used(next).await);
    db.close().await;
}
