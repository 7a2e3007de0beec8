//! The series on Redis: what its scripts read and write, and how many of them run at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use solid_notify::NotifyDef;
use solid_notify::operate::SeriesCounts;
use solid_notify_core::store::{Purge, SeriesRow, minute_of};
use solid_notify_redis::RedisOutbox;
use test_support::redis::OwnPrefix;
use test_support::{RedisServer, on_each_redis};

on_each_redis!(
    only_the_hours_asked_for_are_read_and_in_parts,
    a_purge_of_several_definitions_takes_no_more_than_its_limit,
    a_long_series_goes_with_its_definition_in_parts,
);

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// An outbox, and how many scripts it has run.
async fn counted(own: &OwnPrefix) -> (RedisOutbox, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let outbox = own.outbox_with_calls(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    (outbox.await, calls)
}

async fn define(outbox: &RedisOutbox, name: &str) -> i64 {
    outbox.define_if_missing(NotifyDef::new(name)).await.unwrap();
    outbox.definitions().await.unwrap().into_iter().find(|state| state.row.name == name).unwrap().row.id
}

async fn write(outbox: &RedisOutbox, node: &str, rows: &[SeriesRow]) {
    outbox.engine().stores().send.write_series(node, rows).await.unwrap();
}

fn row(def_id: i64, minute: DateTime<Utc>) -> SeriesRow {
    SeriesRow { def_id, minute, counts: SeriesCounts::from_values([1]) }
}

async fn only_the_hours_asked_for_are_read_and_in_parts<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let (outbox, calls) = counted(&own).await;
    let def_id = define(&outbox, "sync").await;
    let from: DateTime<Utc> = "2026-11-24T00:00:00Z".parse().unwrap();
    let rows: Vec<SeriesRow> = (0..26 * 60).map(|minute| row(def_id, from + minute * MINUTE)).collect();
    for node in ["a", "b"] {
        write(&outbox, node, &rows).await;
    }
    let read = async |from: DateTime<Utc>, until: DateTime<Utc>| {
        let before = calls.load(Ordering::SeqCst);
        let points = outbox.operator("alice").series(Some("sync"), from, until, HOUR).await.unwrap();
        let counted: u64 = points.iter().map(|point| point.counts.succeeded).sum();
        // One call looks for the definition.
        (counted, calls.load(Ordering::SeqCst) - before - 1)
    };
    // A script stops after 9 hours of 120 rows each.
    assert_eq!(read(from, from + 26 * HOUR).await, (26 * 120, 3));
    // A script that reads another hour fails.
    for hour in ["2026-11-24T02", "2026-11-24T05"] {
        let key = format!("{{{}#{def_id}}}:series:{hour}", own.prefix);
        own.by_hand(&["SET", &key, "x"]);
    }
    assert_eq!(read(from + 3 * HOUR, from + 5 * HOUR).await, (2 * 120, 1));
    own.close();
}

async fn a_purge_of_several_definitions_takes_no_more_than_its_limit<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let outbox = own.outbox().await;
    let now = minute_of(own.clock.now());
    for name in ["one", "two"] {
        let def_id = define(&outbox, name).await;
        let rows: Vec<SeriesRow> = (2..5).map(|hours| row(def_id, now - hours * HOUR)).collect();
        write(&outbox, "a", &rows).await;
    }
    let purge = Purge::Series { older_than: HOUR, limit: 4 };
    for purged in [4, 2, 0] {
        assert_eq!(outbox.engine().stores().send.purge(&purge).await.unwrap().len(), purged);
    }
    assert!(own.keys(&format!("{{{}#*series*", own.prefix)).is_empty());
    own.close();
}

async fn a_long_series_goes_with_its_definition_in_parts<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let (outbox, calls) = counted(&own).await;
    let def_id = define(&outbox, "sync").await;
    let now = minute_of(own.clock.now());
    let rows: Vec<SeriesRow> = (0..600).map(|hours| row(def_id, now - hours * HOUR)).collect();
    write(&outbox, "a", &rows).await;
    let seen = outbox.definitions().await.unwrap().into_iter().find(|state| state.row.id == def_id).unwrap().row;
    outbox.delete(&seen).await.unwrap();
    let before = calls.load(Ordering::SeqCst);
    let purge = Purge::Definition { def_id, older_than: Duration::ZERO };
    assert_eq!(outbox.engine().stores().send.purge(&purge).await.unwrap().len(), 1);
    // One reads the definitions, two delete 500 hours each, and one forgets the definition.
    assert_eq!(calls.load(Ordering::SeqCst) - before, 4);
    assert!(own.keys(&format!("{{{}#*series*", own.prefix)).is_empty());
    own.close();
}

/// Returns how many scripts run at the same time once `work` has begun, and what it returns. On one thread nothing happens between the begin
/// of the scripts and the look at how many there are. `first`: so many scripts run before, one after the other.
async fn at_the_same_time<T>(calls: &AtomicUsize, first: usize, work: impl Future<Output = T>) -> (T, usize) {
    let before = calls.load(Ordering::SeqCst) + first;
    let begun = async {
        while calls.load(Ordering::SeqCst) <= before {
            tokio::task::yield_now().await;
        }
        calls.load(Ordering::SeqCst) - before
    };
    tokio::join!(work, begun)
}

mod on_redis {
    use super::*;

    #[tokio::test]
    async fn redis_writes_and_reads_some_definitions_at_a_time() {
        let own = OwnPrefix::of::<test_support::redis::SingleRedis>();
        let (outbox, calls) = counted(&own).await;
        let mut rows = Vec::new();
        for n in 0..40 {
            rows.push(row(define(&outbox, &format!("sync {n}")).await, minute_of(own.clock.now())));
        }
        let ((), begun) = at_the_same_time(&calls, 0, write(&outbox, "a", &rows)).await;
        assert_eq!(begun, 16);
        let (alice, from) = (outbox.operator("alice"), own.clock.now());
        let read = alice.series(None, from, from + MINUTE, MINUTE);
        // The first call asks for the definitions.
        let (points, begun) = at_the_same_time(&calls, 1, read).await;
        let counted: u64 = points.unwrap().iter().map(|point| point.counts.succeeded).sum();
        assert_eq!((counted, begun), (40, 16));
        own.close();
    }
}
