//! Definitions that cannot be read at the moment: no notice ends by an old row.

use std::time::Duration;

use solid_notify::{Failure, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use solid_notify_core::dispatch::{FirstAttemptSender, Fresh};
use solid_notify_core::error::FaultKind;
use solid_notify_core::store::ROWS_HOLD;
use test_support::faulty::{Fault, faulty, good};
use test_support::sending::{add, definition, edit_by_hand, eventually, reaches, record};

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

/// A call that creates the first target of a definition relies on it.
#[tokio::test(start_paused = true)]
async fn nothing_is_claimed_by_definitions_that_were_read_long_ago() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let (builder, calls) = good(&outbox);
    let sweeper = builder.start().await.unwrap();
    eventually("the definitions are read", async || store.called("due") > 0).await;
    *store.hangs.lock().unwrap() = Some("definitions");
    let def_id = definition(&b, "sync").await.id;
    let dispatch = async || {
        let id = add(&b, "sync").await;
        let (report, _) = FirstAttemptSender::new();
        outbox.engine().dispatch().hand(vec![Fresh { id, def_id, report }]);
        id
    };
    // The sweep waits for its reading, and the dispatch does not.
    tokio::time::sleep(ROWS_HOLD / 2).await;
    let sent = dispatch().await;
    eventually("it is sent", async || calls.all() == [sent]).await;
    tokio::time::sleep(ROWS_HOLD).await;
    let waits = dispatch().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((calls.all(), record(&b, waits).await.status), (vec![sent], Status::NotSent));
    drop(sweeper);
}
