//! Sweepers on virtual time: what is done at once, at its time, or within a promised time. The memory store has no input or output, so
//! tokio's clock moves only when nothing is left to do, and a slow machine changes none of these times.

use std::time::Duration;

use chrono::{DateTime, Utc};
use solid_notify::{Failure, FirstAttempt, NewNotice, Notice, NotifyDef, OutboxExt, Status, SweeperBuilder};
use solid_notify_conformance::Backend;
use solid_notify_core::store::{Claim, ClaimWhat};
use test_support::faulty::{faulty, good};
use test_support::memory::MemoryBackend;
use test_support::sending::{Calls, add, definition, edit_by_hand, eventually, reaches, record};
use tokio::time::Instant;

/// The time between two looks of a sweeper that nothing wakes.
const POLL: Duration = Duration::from_secs(2);
/// The pauses between claims and settles are some milliseconds each.
const AT_ONCE: Duration = Duration::from_millis(100);

/// Builds a sweeper whose handler `sync` succeeds.
fn sending(b: &MemoryBackend) -> SweeperBuilder {
    b.outbox().sweeper().poll_interval(POLL).handler("sync", |_: Notice<i64>| async { Ok(()) })
}

async fn backend() -> MemoryBackend {
    let b = MemoryBackend::on_virtual_time();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    b
}

#[tokio::test(start_paused = true)]
async fn first_look_is_at_the_start_and_not_at_the_first_poll() {
    let b = backend().await;
    let id = add(&b, "sync").await;
    let began = Instant::now();
    let sweeper = sending(&b).start().await.unwrap();
    reaches(&b, id, Status::Succeeded).await;
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn committed_notice_is_sent_before_the_next_poll() {
    let b = backend().await;
    let sweeper = sending(&b).start().await.unwrap();
    for n in 0..20 {
        sweeper.idle().await;
        let began = Instant::now();
        let added = b.add_new(NewNotice::new("sync", n).unwrap()).await;
        assert_eq!(added.first_attempt(10 * POLL).await, FirstAttempt::Succeeded);
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    }
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn wake_is_obeyed_before_the_next_poll() {
    let b = backend().await;
    let sweeper = sending(&b).first_send(false).start().await.unwrap();
    for _ in 0..20 {
        sweeper.idle().await;
        let id = add(&b, "sync").await;
        let began = Instant::now();
        b.outbox().wake();
        reaches(&b, id, Status::Succeeded).await;
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    }
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn notice_that_nothing_wakes_for_is_found_at_the_next_poll() {
    let b = backend().await;
    let sweeper = sending(&b).first_send(false).start().await.unwrap();
    for _ in 0..5 {
        sweeper.idle().await;
        let id = add(&b, "sync").await;
        let began = Instant::now();
        reaches(&b, id, Status::Succeeded).await;
        assert!(began.elapsed() < POLL + AT_ONCE, "{:?}", began.elapsed());
    }
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn retries_between_two_polls_are_met() {
    let b = MemoryBackend::on_virtual_time();
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("50ms").max_retry_times(8)).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let builder = b.outbox().sweeper().poll_interval(POLL).handler("sync", move |_: Notice<i64>| {
        noted.note(Instant::now());
        async { Err(Failure::retry("again")) }
    });
    let sweeper = builder.start().await.unwrap();
    let id = add(&b, "sync").await;
    reaches(&b, id, Status::DeadLetter).await;
    let pauses: Vec<Duration> = calls.all().windows(2).map(|two| two[1] - two[0]).collect();
    let interval = Duration::from_millis(50);
    assert_eq!(pauses.len(), 8);
    assert!(pauses.iter().all(|pause| (interval..interval + AT_ONCE).contains(pause)), "{pauses:?}");
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn short_delays_between_two_polls_are_met() {
    let b = backend().await;
    let calls = Calls::default();
    let noted = calls.clone();
    let builder = b.outbox().sweeper().poll_interval(POLL).handler("sync", move |notice: Notice<i64>| {
        noted.note(notice.age());
        async { Ok(()) }
    });
    let sweeper = builder.start().await.unwrap();
    let delay = Duration::from_millis(200);
    for n in 1..=10 {
        b.add_new(NewNotice::new("sync", n).unwrap().delay(delay)).await;
        eventually("it is sent", async || calls.count() == usize::try_from(n).unwrap()).await;
    }
    let ages = calls.all();
    assert!(ages.iter().all(|age| (delay..delay + AT_ONCE).contains(age)), "{ages:?}");
    sweeper.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn timetable_ticks_on_the_second() {
    let b = MemoryBackend::on_virtual_time();
    b.outbox().define_if_missing(NotifyDef::new("report").schedule("* * * * * *")).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let builder =
        b.outbox().sweeper().poll_interval(POLL).handler("report", move |notice: Notice<serde_json::Value>| {
            let tick: DateTime<Utc> = notice.param()["tick"].as_str().unwrap().parse().unwrap();
            noted.note((tick, notice.created()));
            async { Ok(()) }
        });
    let sweeper = builder.start().await.unwrap();
    eventually("it ticks", async || calls.count() >= 10).await;
    sweeper.shutdown().await;
    let calls = calls.all();
    // Half of the polls would come a second late.
    assert!(calls.iter().all(|(tick, created)| (*created - *tick).to_std().unwrap() < AT_ONCE), "{calls:?}");
    assert!(calls.windows(2).all(|two| two[1].0 == two[0].0 + Duration::from_secs(1)), "{calls:?}");
}

/// Each is sent alone on its node, without a wait for the next poll between them, also while others are being sent.
#[tokio::test(start_paused = true)]
async fn crash_looping_notices_follow_without_a_pause() {
    let b = MemoryBackend::on_virtual_time();
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("1s").max_concurrency(50)).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("long").timeout("1d")).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(add(&b, "sync").await);
    }
    // The one slot of this node is taken: it judges, and cannot send.
    let judges = sending(&b).handler("long", |_: Notice<i64>| std::future::pending());
    let judges = judges.max_running(1).shutdown_grace(Duration::ZERO).start().await.unwrap();
    let long = add(&b, "long").await;
    reaches(&b, long, Status::Sending).await;
    let def_id = definition(&b, "sync").await.id;
    for (crashes, status) in [(1, Status::NotSent), (2, Status::Failed)] {
        let (what, worker) = (ClaimWhat::Slice(status), "dead-worker".to_owned());
        let claim = Claim { def_id, what, limit: 20, lease: Duration::from_secs(1), worker, quota: None };
        eventually("all are claimed", async || {
            let _ = b.outbox().engine().stores().send.claim(&claim).await.unwrap();
            let mut judged = 0;
            for id in &ids {
                judged += usize::from(record(&b, *id).await.crashes == crashes);
            }
            judged == ids.len()
        })
        .await;
    }
    judges.shutdown().await;
    // The last failures are due again.
    tokio::time::sleep(Duration::from_secs(10)).await;

    let began = Instant::now();
    let sweeper = sending(&b).handler("long", |_: Notice<i64>| std::future::pending());
    let sweeper = sweeper.shutdown_grace(Duration::ZERO).start().await.unwrap();
    for id in ids {
        assert_eq!(reaches(&b, id, Status::Succeeded).await.crashes, 2);
    }
    // Twenty polls would take forty seconds.
    assert!(began.elapsed() < 20 * AT_ONCE, "{:?}", began.elapsed());
    sweeper.shutdown().await;
}

/// An edit by SQL wakes no sweeper. Reading thousands of definitions takes long, so the readings are further apart.
#[tokio::test(start_paused = true)]
async fn edit_by_hand_is_in_force_within_five_seconds() {
    for reading in [Duration::ZERO, Duration::from_millis(300)] {
        let (b, store, outbox) = faulty();
        b.outbox().define_if_missing(NotifyDef::new("sync").enabled(false)).await.unwrap();
        *store.look_takes.lock().unwrap() = reading;
        let (builder, calls) = good(&outbox);
        let sweeper = builder.start().await.unwrap();
        for n in 1..=10 {
            let id = add(&b, "sync").await;
            // At any moment between two readings.
            tokio::time::sleep(Duration::from_secs(5) + n * Duration::from_millis(430)).await;
            assert_eq!(record(&b, id).await.fence, 0);
            edit_by_hand(&b, "sync", |def| def.enabled(true)).await;
            let began = Instant::now();
            eventually("it is sent", async || calls.count() == usize::try_from(n).unwrap()).await;
            assert!(began.elapsed() <= Duration::from_secs(5), "{:?}, a reading takes {reading:?}", began.elapsed());
            reaches(&b, id, Status::Succeeded).await;
            edit_by_hand(&b, "sync", |def| def.enabled(false)).await;
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        sweeper.shutdown().await;
    }
}
