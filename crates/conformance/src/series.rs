//! The series: counters of nodes, by definition and minute.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use chrono::{DateTime, Utc};
use solid_notify_core::NotifyDef;
use solid_notify_core::error::Error;
use solid_notify_core::operate::SeriesPoint;
use solid_notify_core::store::{Purge, SeriesCounts, SeriesRow, minute_of};

use super::Backend;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

fn counts(succeeded: u64, duration_max_ms: u64) -> SeriesCounts {
    let mut counts = SeriesCounts::default();
    (counts.succeeded, counts.duration_max_ms) = (succeeded, duration_max_ms);
    counts
}

#[allow(clippy::unwrap_used)]
impl dyn Backend + '_ {
    async fn write(&self, node: &str, def_id: i64, minute: DateTime<Utc>, counts: SeriesCounts) {
        self.stores().send.write_series(node, &[SeriesRow { def_id, minute, counts }]).await.unwrap();
    }

    async fn read(&self, name: Option<&str>, from: DateTime<Utc>, steps: u32, step: Duration) -> Vec<(u64, u64)> {
        let points = self.alice().series(name, from, minute_of(from) + steps * step, step).await.unwrap();
        let begins = |(n, point): (u32, &SeriesPoint)| point.time == minute_of(from) + n * step;
        assert!((0..).zip(&points).all(begins), "{points:?}");
        points.iter().map(|point| (point.counts.succeeded, point.counts.duration_max_ms)).collect()
    }
}

pub async fn counters_are_summed_over_nodes_and_steps(b: &dyn Backend) {
    let (one, two) = (b.define(NotifyDef::new("one")).await, b.define(NotifyDef::new("two")).await);
    let from = minute_of(b.clock().now()) - DAY;
    b.stores().send.write_series("a", &[]).await.unwrap();
    for (node, def_id, minute, counted) in [
        ("a", one, 0, counts(1, 5)),
        ("b", one, 0, counts(2, 3)),
        ("a", one, 1, counts(4, 9)),
        ("a", one, 5, counts(8, 1)),
        ("ü😀 '", two, 1, counts(16, 40)),
        ("a", two, 1439, counts(32, 2)),
        ("a", two, 1440, counts(64, 7)),
    ] {
        b.write(node, def_id, from + minute * MINUTE, counted).await;
    }
    assert_eq!(b.read(Some("one"), from, 3, MINUTE).await, [(3, 5), (4, 9), (0, 0)]);
    assert_eq!(b.read(Some("one"), from, 2, 5 * MINUTE).await, [(7, 9), (8, 1)]);
    assert_eq!(
        b.read(Some("two"), from + Duration::from_secs(59), 2, MINUTE).await,
        [(0, 0), (16, 40)],
        "from is rounded down"
    );
    assert_eq!(b.read(None, from, 2, MINUTE).await, [(3, 5), (20, 40)]);
    assert_eq!(b.read(None, from, 1, DAY).await, [(63, 40)], "the end is not part of it");
    let every = SeriesCounts::from_values(1..);
    b.write("c", one, from + 10 * MINUTE, every).await;
    let point = b.alice().series(Some("one"), from + 10 * MINUTE, from + 11 * MINUTE, MINUTE).await.unwrap();
    assert_eq!(point[0].counts, every, "every counter");
}

pub async fn a_write_that_is_repeated_or_late_counts_nothing_twice(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let minute = minute_of(b.clock().now());
    for counted in [counts(2, 5), counts(2, 5), counts(3, 7), counts(2, 5)] {
        b.write("a", def_id, minute, counted).await;
    }
    assert_eq!(b.read(Some("sync"), minute, 1, MINUTE).await, [(3, 7)]);
}

pub async fn old_minutes_are_purged(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let now = minute_of(b.clock().now());
    for days in 0..5 {
        b.write("a", def_id, now - days * DAY, counts(1, 1)).await;
    }
    let all = || b.read(Some("sync"), now - 4 * DAY, 5, DAY);
    assert_eq!(all().await, [(1, 1); 5]);
    // A store may delete whole hours.
    let purge = Purge::Series { older_than: Duration::from_secs(3 * 86_400 - 3600), limit: 1 };
    let mut steps = 0;
    while b.stores().send.purge(&purge).await.unwrap().len() == 1 {
        steps += 1;
    }
    assert_eq!(steps, 2);
    let left: Vec<u64> = all().await.into_iter().map(|(succeeded, _)| succeeded).collect();
    assert_eq!(left, [0, 0, 1, 1, 1]);
}

pub async fn a_series_that_cannot_be_read_is_refused(b: &dyn Backend) {
    b.define(NotifyDef::new("sync")).await;
    let now = b.clock().now();
    for step in [Duration::ZERO, Duration::from_secs(59), Duration::from_millis(60_001)] {
        let refused = b.alice().series(None, now - DAY, now, step).await;
        assert!(matches!(refused, Err(Error::Invalid { what: "series", .. })), "{refused:?}");
    }
    let refused = b.alice().series(None, now - 7 * DAY, now, MINUTE).await;
    assert!(matches!(refused, Err(Error::Invalid { what: "series", .. })), "{refused:?}");
    let unknown = b.alice().series(Some("synk"), now - DAY, now, DAY).await;
    assert!(matches!(unknown, Err(Error::UnknownDefinition { .. })), "{unknown:?}");
    assert!(b.alice().series(None, now, now - DAY, DAY).await.unwrap().is_empty());
}
