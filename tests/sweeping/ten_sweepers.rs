//! The retry times do not depend on the number of sweepers: with ten over one database, which share nothing else, a
//! notice is tried exactly when one sweeper alone would try it, also while other columns are edited.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::join_all;
use solid_notify::definition::Updated;
use solid_notify::spi::engine::Engine;
use solid_notify::{
    AnyOutbox, Failure, HandClock, HandlerResult, Notice, NotifyDef, Outbox, OutboxExt, Status, Sweeper,
};
use solid_notify_conformance::Backend;
use test_support::memory::MemoryBackend;
use test_support::sending::{Calls, add, definition, eventually, record, update};
use test_support::{Database, TestDb};

macro_rules! on_each_store {
    ($($case:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(&super::MemoryBackend::default()).await;
            })+
        }
        on_each_store! { @on sqlite, Sqlite, $($case)+ }
        on_each_store! { @on postgres, Postgres, $($case)+ }
        on_each_store! { @on mariadb, MariaDb, $($case)+ }
        on_each_store! { @on mysql, MySql, $($case)+ }
    };
    (@on $module:ident, $database:ident, $($case:ident)+) => {
        mod $module {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let db = super::TestDb::<test_support::$database>::with_hand_clock().await;
                super::$case(&db).await;
                db.close().await;
            })+
        }
    };
}

on_each_store!(
    ten_sweepers_follow_the_retry_times_of_an_edited_definition,
    one_sweeper_tries_a_notice_at_the_same_times_as_ten,
    a_retry_time_already_set_stays_and_the_next_one_uses_the_edited_row,
);

/// When a notice of `[5s,10s,20s]` that always fails is tried, in milliseconds from its insert.
const CADENCE: [u128; 4] = [0, 5_000, 15_000, 35_000];

async fn ten_sweepers_follow_the_retry_times_of_an_edited_definition(b: &dyn Several) {
    assert_eq!(attempts_of_notices_that_fail(b, 10, true).await, [CADENCE; 3]);
}

async fn one_sweeper_tries_a_notice_at_the_same_times_as_ten(b: &dyn Several) {
    assert_eq!(attempts_of_notices_that_fail(b, 1, false).await, [CADENCE; 3]);
}

/// The times of the attempts of three notices.
async fn attempts_of_notices_that_fail(b: &dyn Several, sweepers: usize, edited: bool) -> Vec<Vec<u128>> {
    b.outbox().define_if_missing(NotifyDef::new("job").retry_interval("[5s,10s,20s]")).await.unwrap();
    let bench = Bench::start(b, sweepers).await;
    let ids = [add(b, "job").await, add(b, "job").await, add(b, "job").await];

    let edits = Arc::new(AtomicUsize::new(0));
    let editor = edited.then(|| tokio::spawn(edit_for_ever(b.another(), Arc::clone(&edits))));
    let steps = [0, 1_000, 1_000, 2_999, 1, 999, 4_000, 4_000, 1_000, 1, 2_999, 7_000, 9_999, 1, 1, 5_000, 60_000];
    for step in steps {
        b.clock().advance(Duration::from_millis(step));
        let now = bench.since_start(b.clock().now());
        let expected = CADENCE.iter().filter(|time| **time <= now).count();
        for id in ids {
            eventually(&format!("the attempts due after {now} ms are made and stored"), async || {
                let record = record(b, id).await;
                let status = if expected == CADENCE.len() { Status::DeadLetter } else { Status::Failed };
                (record.status, record.failures) == (status, i64::try_from(expected).unwrap())
            })
            .await;
        }
        let before = edits.load(Ordering::Relaxed);
        bench.all_have_looked().await;
        if edited {
            eventually("an edit", async || edits.load(Ordering::Relaxed) > before).await;
        }
    }
    if let Some(editor) = editor {
        assert!(!editor.is_finished(), "an edit failed");
        editor.abort();
    }
    for id in ids {
        let record = record(b, id).await;
        assert_eq!((record.status, record.fence, record.crashes), (Status::DeadLetter, 4, 0));
    }
    bench.stop().await
}

/// Edits all columns except those of the retry times, and counts the edits.
async fn edit_for_ever(outbox: AnyOutbox, edits: Arc<AtomicUsize>) {
    loop {
        let n = edits.load(Ordering::Relaxed);
        let all = outbox.definitions().await.unwrap();
        let seen = all.into_iter().find(|state| state.row.name == "job").unwrap().row;
        let mut new = seen.clone().description(format!("edit {n}")).timeout(format!("{}s", 20 + n % 20));
        new.max_concurrency = 1 + i64::try_from(n % 7).unwrap();
        new.email = n.is_multiple_of(2).then(|| "operator@example.com".to_owned());
        let updated = outbox.update(&seen, new).await.unwrap();
        assert!(matches!(updated, Updated::Stored(_)), "{updated:?}");
        edits.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn a_retry_time_already_set_stays_and_the_next_one_uses_the_edited_row(b: &dyn Several) {
    b.outbox().define_if_missing(NotifyDef::new("job").retry_interval("[5s,10s,20s]")).await.unwrap();
    let bench = Bench::start(b, 10).await;
    let id = add(b, "job").await;
    let mut now = 0;
    for (time, failures) in
        [(0, 1), (1_000, 1), (4_999, 1), (5_000, 2), (7_999, 2), (8_000, 3), (67_999, 3), (68_000, 4)]
    {
        b.clock().advance(Duration::from_millis(time - now));
        now = time;
        if time == 1_000 {
            // The first retry is set to 5 s. Of the new row, the second and the third interval count.
            update(b, "job", |def| def.retry_interval("[2s,3s,1m]")).await;
        }
        eventually(&format!("{failures} attempts at {time} ms"), async || record(b, id).await.failures == failures)
            .await;
        bench.all_have_looked().await;
    }
    assert_eq!(definition(b, "job").await.retry_interval, "[2s,3s,1m]");
    assert_eq!(bench.stop().await, [[0, 5_000, 8_000, 68_000]]);
}

/// Sweepers that share nothing but the store and the clock, with a handler that notes the time and fails.
struct Bench {
    sweepers: Vec<Sweeper>,
    calls: Calls<(i64, DateTime<Utc>)>,
    start: DateTime<Utc>,
}

impl Bench {
    async fn start(b: &dyn Several, count: usize) -> Self {
        let (calls, clock): (Calls<(i64, DateTime<Utc>)>, HandClock) = (Calls::default(), b.clock().clone());
        let mut sweepers = Vec::new();
        for _ in 0..count {
            let (calls, clock) = (calls.clone(), clock.clone());
            let handler = move |notice: Notice<i64>| {
                calls.note((notice.id(), clock.now()));
                async { HandlerResult::Err(Failure::retry("always")) }
            };
            sweepers.push(b.another().sweeper().handler("job", handler).start().await.unwrap());
        }
        Self { sweepers, calls, start: clock.now() }
    }

    fn since_start(&self, time: DateTime<Utc>) -> u128 {
        (time - self.start).to_std().unwrap().as_millis()
    }

    /// Waits until each sweeper has looked, with the definitions read again, and found nothing due.
    async fn all_have_looked(&self) {
        join_all(self.sweepers.iter().map(Sweeper::idle)).await;
    }

    /// Stops the sweepers; returns the times of the attempts per notice.
    async fn stop(self) -> Vec<Vec<u128>> {
        let mut times: BTreeMap<i64, Vec<u128>> = BTreeMap::new();
        for (id, time) in self.calls.all() {
            times.entry(id).or_default().push(self.since_start(time));
        }
        join_all(self.sweepers.into_iter().map(Sweeper::shutdown)).await;
        times.into_values().collect()
    }
}

/// A backend that can be opened again.
trait Several: Backend {
    /// Another outbox over the same data, with the same clock and nothing else in common.
    fn another(&self) -> AnyOutbox;
}

impl Several for MemoryBackend {
    fn another(&self) -> AnyOutbox {
        let engine = self.outbox().engine();
        let clock = Some(self.clock().clone());
        AnyOutbox::over(Engine::new(engine.stores().clone(), clock))
    }
}

impl<D: Database> Several for TestDb<D> {
    fn another(&self) -> AnyOutbox {
        AnyOutbox::clone(&Outbox::builder(self.pool.clone()).clock(self.clock().clone()).build())
    }
}
