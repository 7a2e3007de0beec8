//! Definitions that cannot be read at the moment: no notice ends by an old row.

use std::time::Duration;

use solid_notify::{Failure, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use solid_notify_core::error::FaultKind;
use test_support::faulty::{Fault, faulty};
use test_support::sending::{add, edit_by_hand, eventually, reaches, record};

#[tokio::test]
async fn no_notice_ends_without_a_try_while_definitions_cannot_be_read() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("1h").max_retry_times(3)).await.unwrap();
    let handler = |notice: Notice<i64>| async move {
        if notice.attempt() == 1 { Err(Failure::retry("not yet")) } else { Ok(()) }
    };
    let sweeper = outbox.sweeper().handler("sync", handler).start().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(add(&b, "sync").await);
    }
    outbox.wake();
    for id in &ids {
        reaches(&b, *id, Status::Failed).await;
    }
    edit_by_hand(&b, "sync", |def| def.max_retry_times(0)).await;
    sweeper.idle().await;
    edit_by_hand(&b, "sync", |def| def.max_retry_times(3)).await;
    store.plan("definitions", [Fault::Refused(FaultKind::Outage), Fault::Refused(FaultKind::Permanent)]);
    b.clock().advance(Duration::from_secs(3600));
    for id in ids {
        // Where the definitions could not be read, the notice is handed back for a moment.
        eventually("it is sent", async || {
            b.clock().advance(Duration::from_secs(1));
            let found = record(&b, id).await;
            assert!(found.status != Status::DeadLetter, "{found:?}");
            found.status == Status::Succeeded
        })
        .await;
    }
    sweeper.shutdown().await;
}
