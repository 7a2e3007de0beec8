//! How many steps a bulk act takes at its rate, in memory with a hand-turned clock.

use std::time::Duration;

use solid_notify::testkit::{HandClock, MemoryOutbox, TestSweeper};
use solid_notify::{Filter, NewNotice, NotifyDef, OutboxExt, Status, add_notices};

/// Executes an act over so many notices of one definition, beside so many others that have `each`. Returns its steps and the seconds that it
/// took.
async fn steps(count: u32, rate: &str, others: usize, each: u32) -> (u64, u64) {
    let clock = HandClock::new("2026-11-27T12:00:00Z".parse().unwrap());
    let outbox = MemoryOutbox::builder().clock(clock.clone()).build();
    outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    for other in 0..others {
        outbox.define_if_missing(NotifyDef::new(format!("other_{other}"))).await.unwrap();
    }
    let mut tx = outbox.begin().await.unwrap();
    add_notices(&mut tx, (0..count).map(|number| NewNotice::new("sync", number).unwrap())).await.unwrap();
    tx.commit().await.unwrap();
    for other in 0..others {
        let mut tx = outbox.begin().await.unwrap();
        let notices = (0..each).map(|number| NewNotice::new(format!("other_{other}"), number).unwrap());
        add_notices(&mut tx, notices).await.unwrap();
        tx.commit().await.unwrap();
    }
    let count = u64::from(count) + u64::from(each) * others as u64;
    let alice = outbox.operator("alice");
    alice.cancel_all(&Filter::waiting(), "not now").await.unwrap();
    let filter = if others == 0 { Filter::cancelled().definition("sync") } else { Filter::cancelled() };
    let started = alice.start_purge_all(&filter, "old", rate.parse().unwrap()).await.unwrap();
    let sweeper = TestSweeper::start(outbox.sweeper()).await.unwrap();
    sweeper.drain().await;
    let mut seconds = 0;
    loop {
        let progress = started.progress().await.unwrap().unwrap();
        if progress.status == Status::Succeeded {
            let act = progress.act.unwrap();
            assert_eq!(act.done.changed, count);
            return (act.done.steps, seconds);
        }
        sweeper.advance(Duration::from_secs(1)).await;
        seconds += 1;
        assert!(seconds < 3600, "{progress:?}");
    }
}

#[tokio::test]
async fn bulk_act_takes_full_steps_or_one_for_ten_seconds() {
    // Notices, rate, steps (those of 500 notices, or of 10 s, and a tenth more), seconds (less the ten that it may be ahead).
    for (count, rate, most, least) in [(2_900, "200/1s", 6, 4), (300, "10/1s", 3, 9), (12, "1/5s", 6, 44)] {
        let (steps, seconds) = steps(count, rate, 0, 0).await;
        assert!(steps <= most, "{count} at {rate}: {steps} steps");
        assert!(seconds >= least, "{count} at {rate}: {seconds} s");
    }
}

#[tokio::test]
async fn bulk_act_takes_no_step_for_a_definition_without_its_notices() {
    let (steps, _) = steps(1_200, "at once", 600, 0).await;
    assert!(steps <= 4, "{steps} steps");
}

/// Full steps, however many definitions have few such notices.
#[tokio::test]
async fn bulk_act_takes_full_steps_over_many_definitions() {
    for (count, rate, others, each, most) in
        [(0, "at once", 300, 1, 1), (10, "at once", 300, 9, 6), (0, "10/1s", 300, 1, 3), (700, "at once", 700, 1, 3)]
    {
        let (steps, _) = steps(count, rate, others, each).await;
        assert!(steps <= most, "{count} and {others} times {each} at {rate}: {steps} steps");
    }
}
