//! Processes that die while they send: one notice kills its process each time, and the notices beside it are delivered all the same.

use std::sync::Arc;
use std::time::Duration;

use solid_notify::testkit::{HandClock, MemoryOutbox, TestSweeper};
use solid_notify::{Notice, NotifyDef, OutboxExt, Status, add_notice};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

/// The parameter of the notice that kills its process.
const KILLER: i64 = 0;
const HARMLESS: usize = 20;

/// Runs a sweeper until it sends the killer, or for two minutes of its clock, in a runtime of its own. Dropping the runtime ends every
/// task at its next await, as a killed process does: no outcome is stored and no lease is handed back. Returns whether the
/// killer was sent.
fn send_until_killed(outbox: &MemoryOutbox) -> bool {
    let runtime = Runtime::new().unwrap();
    let killed = Arc::new(Notify::new());
    let kill = Arc::clone(&killed);
    let builder = outbox.sweeper().handler("sync", move |notice: Notice<i64>| {
        let kill = Arc::clone(&kill);
        async move {
            if *notice.param() == KILLER {
                kill.notify_one();
                std::future::pending::<()>().await;
            }
            // Long enough that the notices claimed together with the killer are still being sent when the process dies.
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(())
        }
    });
    let was_killed = runtime.block_on(async {
        let sweeper = TestSweeper::start(builder).await.unwrap();
        tokio::select! {
            () = killed.notified() => true,
            _ = sweeper.advance(Duration::from_secs(120)) => false,
        }
    });
    runtime.shutdown_background();
    was_killed
}

#[test]
fn a_notice_that_kills_its_process_takes_no_other_with_it() {
    let outbox = MemoryOutbox::builder().clock(HandClock::new("2026-11-21T12:00:00Z".parse().unwrap())).build();
    let caller = Runtime::new().unwrap();
    let ids: Vec<i64> = caller.block_on(async {
        let row = NotifyDef::new("sync").retry_interval("1s").max_retry_times(4).max_concurrency(50);
        outbox.define_if_missing(row).await.unwrap();
        let mut tx = outbox.begin().await.unwrap();
        let mut ids = Vec::new();
        for param in (0..).take(1 + HARMLESS) {
            ids.push(add_notice(&mut tx, "sync", param).await.unwrap().id());
        }
        tx.commit().await.unwrap();
        ids
    });
    let mut deaths = 0;
    for _ in 0..10 {
        deaths += usize::from(send_until_killed(&outbox));
    }
    assert_eq!(deaths, 5, "the killer has five tries");
    let mut delivered = 0;
    for id in ids {
        let record = caller.block_on(outbox.find(id)).unwrap().unwrap();
        delivered += usize::from(record.status == Status::Succeeded);
    }
    assert_eq!(delivered, HARMLESS);
}
