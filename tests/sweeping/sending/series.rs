//! The series: counts and durations of attempts, stored by each sweeper and read as a sum.

use std::time::Duration;

use solid_notify::operate::SeriesCounts;
use solid_notify::{AnyOutbox, Failure, NewNotice, Notice, NotifyDef, OutboxExt, Status, Sweeper};
use solid_notify_conformance::Backend;
use solid_notify_core::store::{SeriesRow, minute_of};
use test_support::sending::{add, definition, eventually, reaches};

use super::timetables::begun;

const MINUTE: Duration = Duration::from_secs(60);

async fn start(outbox: &AnyOutbox) -> Sweeper {
    let sweeper = outbox.sweeper().handler("sync", |notice: Notice<i64>| async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        match (notice.param(), notice.attempt()) {
            (0, _) => Err(Failure::skip("a test")),
            (1, _) => Ok(()),
            (2, 1) => Err(Failure::retry("refused")),
            (2, _) => Ok(()),
            (3, _) => {
                notice.require_ack(Duration::ZERO);
                Ok(())
            }
            _ => Err(Failure::give_up("refused")),
        }
    });
    sweeper.handler("notify.alert", |_: Notice<serde_json::Value>| async { Ok(()) }).start().await.unwrap()
}

/// Stores a minute of each of these hours before now, for two nodes.
async fn write_hours(b: &dyn Backend, def_id: i64, hours: std::ops::Range<u32>) {
    let mut counts = SeriesCounts::default();
    counts.succeeded = 1;
    let minute = |hour| SeriesRow { def_id, minute: minute_of(b.clock().now()) - hour * 60 * MINUTE, counts };
    let rows: Vec<SeriesRow> = hours.map(minute).collect();
    for (node, rows) in ["one", "two"].into_iter().flat_map(|node| rows.chunks(500).map(move |rows| (node, rows))) {
        b.outbox().engine().stores().send.write_series(node, rows).await.unwrap();
    }
}

pub async fn housekeeping_purges_the_series_until_nothing_old_is_left(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    // More rows than one step deletes, also where a store deletes whole hours.
    let (day, old) = (24, 14 * 24 + 2);
    write_hours(b, definition(b, "sync").await.id, 0..old + 600).await;
    let sweeper = start(b.outbox()).await;
    begun(b, "notify.purge").await;
    b.clock().advance(day * 60 * MINUTE);
    let from = b.clock().now() - (old + 700) * 60 * MINUTE;
    let counted = async |from, until| {
        let points = b.outbox().operator("alice").series(Some("sync"), from, until, 60 * MINUTE).await.unwrap();
        points.iter().map(|point| point.counts.succeeded).sum::<u64>()
    };
    let until = b.clock().now() - old * 60 * MINUTE;
    eventually("old minutes are purged", async || counted(from, until).await == 0).await;
    sweeper.idle().await;
    // The last fourteen days, of which one had no attempt.
    let young = counted(b.clock().now() - (14 * day - 1) * 60 * MINUTE, b.clock().now()).await;
    assert_eq!(young, u64::from(2 * 13 * day));
    sweeper.shutdown().await;
}

async fn minutes(b: &dyn Backend, definition: Option<&str>, minutes: u32) -> Vec<SeriesCounts> {
    let from = b.clock().now() - (minutes - 1) * MINUTE;
    let points = b.outbox().operator("alice").series(definition, from, b.clock().now() + MINUTE, MINUTE).await.unwrap();
    points.into_iter().take(minutes as usize).map(|point| point.counts).collect()
}

pub async fn attempts_are_counted_once_over_two_sweepers(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("1s")).await.unwrap();
    let (one, two) = (start(b.outbox()).await, start(b.outbox()).await);
    let mut ids = Vec::new();
    for param in [0, 1, 1, 2, 3, 4] {
        ids.push(b.add_new(NewNotice::new("sync", param).unwrap()).await.id());
    }
    reaches(b, ids[3], Status::Failed).await;
    b.clock().advance(Duration::from_secs(1));
    let ended = [
        Status::Cancelled,
        Status::Succeeded,
        Status::Succeeded,
        Status::Succeeded,
        Status::AwaitingAck,
        Status::DeadLetter,
    ];
    for (id, status) in ids.iter().zip(ended) {
        reaches(b, *id, status).await;
    }
    // Two sweepers may judge the same nack, and each counts it.
    two.shutdown().await;
    b.outbox().nack(ids[4], "no").await.unwrap();
    reaches(b, ids[4], Status::Failed).await;
    one.shutdown().await;
    for definition in [Some("sync"), None] {
        let counts = minutes(b, definition, 1).await[0];
        assert_eq!((counts.succeeded, counts.skipped, counts.awaiting_ack), (3, 1, 1), "{counts:?}");
        assert_eq!((counts.failed, counts.unacked, counts.dead_letters), (2, 1, 1), "{counts:?}");
        // The nack has no duration.
        assert_eq!(counts.timed, 7, "{counts:?}");
        assert!(counts.duration_ms >= 140 && counts.duration_max_ms >= 20, "{counts:?}");
        assert!(counts.duration_max_ms <= counts.duration_ms, "{counts:?}");
        assert!(counts.delivery_ms >= 1000 + 4 * 20 && counts.delivery_max_ms >= 1020, "{counts:?}");
    }
}

pub async fn the_minutes_of_a_running_sweeper_are_stored_apart(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = start(b.outbox()).await;
    for _ in 0..2 {
        let id = add(b, "sync").await;
        reaches(b, id, Status::Succeeded).await;
        sweeper.idle().await;
        b.clock().advance(MINUTE);
    }
    let none = minutes(b, Some("sync"), 3).await;
    assert!(none.iter().all(|counts| counts.succeeded == 0), "stored once a minute: {none:?}");
    sweeper.shutdown().await;
    eventually("both minutes are stored", async || {
        let counts = minutes(b, Some("sync"), 3).await;
        [0, 1, 2].map(|n| counts[n].succeeded) == [1, 1, 0]
    })
    .await;
}
