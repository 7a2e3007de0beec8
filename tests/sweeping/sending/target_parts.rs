//! Notices that are too large for their targets in one transaction: each target gets them once, whatever happens between the parts.

use serde_json::json;
use solid_notify::{NewNotice, NotifyDef, Status};
use solid_notify_conformance::Backend;
use solid_notify_core::store::{ClaimWhat, PassOn, PassedOn};
use test_support::sending::{Calls, definition, eventually, reaches};

use super::delivery::claim_and_die;
use super::targets::{MINUTE, define, got, off, order, sending, target};

pub async fn a_large_notice_is_passed_on_in_parts_once_to_each(b: &dyn Backend) {
    goes_on_after_the_first_part(b, &[]).await;
}

/// So few targets are left that a settle would have place for them.
pub async fn begun_parts_go_on_with_their_targets_when_some_are_deleted(b: &dyn Backend) {
    goes_on_after_the_first_part(b, &["t2", "t3", "t4"]).await;
}

async fn goes_on_after_the_first_part(b: &dyn Backend, deleted: &[&str]) {
    let names: Vec<String> = (0..6).map(|n| format!("t{n}")).collect();
    let targets: Vec<NotifyDef> = names.iter().map(|name| target(name)).collect();
    define(b, order(), &targets).await;
    let param = json!({ "amount": 1, "text": "x".repeat(300_000) });
    let id = b.add_new(NewNotice::new("order", param).unwrap()).await.id();
    // A sender that dies after the first part.
    let claimed = claim_and_die(b, "order", ClaimWhat::Slice(Status::NotSent)).await;
    let mut ids = Vec::new();
    for name in &names {
        ids.push(definition(b, &format!("order/{name}")).await.id);
    }
    let (def_id, fence) = (claimed.def_id, claimed.fence);
    let known = ids.iter().map(|id| (*id).into()).collect();
    let part = PassOn { id, def_id, fence, targets: ids.clone(), known, owed: Vec::new(), most: 2 };
    let passed = b.outbox().engine().stores().send.pass_on(&part).await.unwrap();
    assert_eq!(passed, PassedOn::Part { targets: ids, done: 2, kept: Vec::new() });
    for name in deleted {
        b.outbox().delete(&definition(b, &format!("order/{name}")).await).await.unwrap();
    }
    let calls = Calls::default();
    let sweeper = sending(b, &calls, &off()).start().await.unwrap();
    sweeper.idle().await;
    b.clock().advance(MINUTE);
    let parent = reaches(b, id, Status::Succeeded).await;
    assert_eq!(parent.end_reason.as_deref(), Some("passed on to 6 targets: t0, t1, t2, t3, t4, t5"));
    assert_eq!((parent.crashes, parent.failures), (1, 0), "passing on is no try");
    eventually("all get it", async || calls.count() == 6).await;
    sweeper.idle().await;
    assert_eq!(got(&calls, 1), names);
    sweeper.shutdown().await;
}
