//! The store's clock is set ahead or back under running sweepers: nothing is sent twice, and no timetable stands still.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use solid_notify::{Notice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use solid_notify_core::store::{Claim, ClaimWhat};
use test_support::sending::{Calls, add, definition, eventually, gated, reaches, record};
use tokio::sync::Semaphore;

const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(365 * 86_400);
/// Longer than a sweeper takes no expired lease of others.
const GRACE: Duration = Duration::from_secs(11);

/// Forty attempts are running on one of two nodes when `set` sets the clock, which must extend their leases; all of them end well.
async fn attempts_survive(b: &dyn Backend, set: impl AsyncFn()) {
    b.outbox().define_if_missing(NotifyDef::new("sync").max_concurrency(40)).await.unwrap();
    let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
    let one = b.outbox().sweeper().handler("sync", gated(&calls, &gate)).start().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..40 {
        ids.push(add(b, "sync").await);
    }
    eventually("they are being sent", async || calls.count() == 40).await;
    let two = b.outbox().sweeper().handler("sync", gated(&calls, &gate)).start().await.unwrap();
    two.idle().await;
    b.clock().advance(GRACE);
    two.idle().await;
    set().await;
    two.idle().await;
    eventually("their leases are extended", async || {
        let leases = futures_util::future::join_all(ids.iter().map(|id| record(b, *id))).await;
        let ends = |lease: &solid_notify::NoticeRecord| lease.next_call_time.unwrap();
        leases
            .iter()
            .all(|lease| ends(lease) > b.clock().now() + 30 * SECOND && ends(lease) < b.clock().now() + YEAR / 2)
    })
    .await;
    b.clock().advance(GRACE);
    two.idle().await;
    gate.add_permits(1000);
    for id in ids {
        let record = reaches(b, id, Status::Succeeded).await;
        assert_eq!((record.fence, record.crashes), (1, 0));
    }
    assert_eq!(calls.count(), 40);
    one.shutdown().await;
    two.shutdown().await;
}

pub async fn attempts_survive_a_store_clock_that_is_set_ahead_two_minutes(b: &dyn Backend) {
    attempts_survive(b, async || b.clock().set(b.clock().now() + 120 * SECOND)).await;
}

pub async fn attempts_survive_a_store_clock_that_is_set_back_a_year(b: &dyn Backend) {
    attempts_survive(b, async || b.clock().set(b.clock().now() - YEAR)).await;
}

pub async fn expired_leases_of_others_wait_after_the_store_clock_was_set(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let def_id = definition(b, "sync").await.id;
    let id = add(b, "sync").await;
    let (what, lease) = (ClaimWhat::Slice(Status::NotSent), 60 * SECOND);
    let claim = Claim { def_id, what, limit: 1, lease, worker: "another".to_owned(), quota: None };
    b.outbox().engine().stores().send.claim(&claim).await.unwrap();
    let sweeper = b.outbox().sweeper().handler("sync", |_: Notice<i64>| async { Ok(()) }).start().await.unwrap();
    b.clock().advance(GRACE);
    sweeper.idle().await;
    b.clock().set(b.clock().now() + 120 * SECOND);
    // Its looks find the lease expired, and it changes nothing.
    for _ in 0..20 {
        b.outbox().wake();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(record(b, id).await.status, Status::Sending);
    }
    // It may have seen the new time only now, and begins its grace then.
    eventually("it is rescued", async || {
        b.clock().advance(GRACE);
        record(b, id).await.status == Status::Succeeded
    })
    .await;
    assert_eq!(record(b, id).await.crashes, 1, "its holder had indeed died");
    sweeper.shutdown().await;
}

pub async fn timetable_ticks_again_after_a_clock_was_a_year_ahead(b: &dyn Backend) {
    let right = b.clock().now();
    b.outbox().define_if_missing(NotifyDef::new("report").schedule("0 0 * * * *")).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("report", move |notice: Notice<Value>| {
            noted.note(notice.param()["tick"].as_str().unwrap().to_owned());
            async { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    let def_id = definition(b, "report").await.id;
    let ticked =
        async || b.outbox().engine().stores().send.due(true).await.unwrap().ticks.get(&def_id).and_then(|last| last.at);
    eventually("the timetable begins", async || ticked().await.is_some()).await;
    b.clock().set(right + YEAR);
    eventually("it ticks", async || calls.count() == 1).await;
    b.clock().set(right);
    eventually("the timetable begins anew", async || ticked().await.is_some_and(|last| last <= right)).await;
    for hour in 1..=3 {
        sweeper.idle().await;
        b.clock().advance(3600 * SECOND);
        eventually("it ticks", async || calls.count() == 1 + hour).await;
    }
    sweeper.shutdown().await;
}
