//! The beats of a node: at least one each five seconds, and not more, whatever the node does beside them.

use std::time::Duration;

use solid_notify::{Handler, HandlerResult, Notice, NotifyDef};
use solid_notify_conformance::Backend;
use solid_notify_core::error::FaultKind;
use solid_notify_core::store::BEAT;
use test_support::faulty::{Fault, faulty, good};
use test_support::sending::edit_by_hand;

/// Refuses each configuration.
struct Refuses;

impl Handler for Refuses {
    type Param = i64;

    async fn handle(&self, _: Notice<i64>) -> HandlerResult {
        Ok(())
    }

    fn check(&self, handler_config: Option<&str>) -> Result<(), String> {
        handler_config.map_or(Ok(()), |config| Err(format!("not {config}")))
    }
}

/// Returns the beats of ten minutes. Every four seconds another refusal of a definition begins.
async fn beats(definitions: usize) -> usize {
    let (b, store, outbox) = faulty();
    for n in 0..definitions {
        let row = NotifyDef::new(format!("refused_{n}")).handler("refuses").backlog_alert_age("10m");
        b.outbox().define_if_missing(row).await.unwrap();
    }
    let builder = good(&outbox).0.poll_interval(Duration::from_secs(5)).handler_type("refuses", Refuses);
    let builder = builder.outage_grace(Duration::ZERO);
    let sweeper = builder.start().await.unwrap();
    for nth in 0..150 {
        let name = format!("refused_{}", nth % definitions);
        edit_by_hand(&b, &name, |row| row.handler_config(format!("{nth}"))).await;
        outbox.wake();
        tokio::time::sleep(Duration::from_secs(4)).await;
    }
    let count = store.called("beat");
    sweeper.shutdown().await;
    count
}

#[tokio::test(start_paused = true)]
async fn node_beats_once_in_five_seconds_whatever_its_definitions() {
    for definitions in [1, 1000] {
        let beats = beats(definitions).await;
        assert!((119..=121).contains(&beats), "{definitions} definitions: {beats} beats in ten minutes");
    }
}

#[tokio::test(start_paused = true)]
async fn beat_waits_for_no_check_of_conditions() {
    let (_b, store, outbox) = faulty();
    let sweeper = good(&outbox).0.outage_grace(Duration::ZERO).start().await.unwrap();
    tokio::time::sleep(BEAT).await;
    *store.look_takes.lock().unwrap() = Duration::from_secs(100_000);
    let before = store.called("beat");
    tokio::time::sleep(20 * BEAT).await;
    let beats = store.called("beat") - before;
    assert!((19..=21).contains(&beats), "{beats} beats");
    drop(sweeper);
}

#[tokio::test(start_paused = true)]
async fn beat_that_failed_is_repeated_with_what_it_reported() {
    let (b, store, outbox) = faulty();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    edit_by_hand(&b, "sync", |row| row.retry_interval("[5x]")).await;
    let sweeper = good(&outbox).0.start().await.unwrap();
    // The first beat reports nothing yet.
    tokio::time::sleep(BEAT / 2).await;
    store.plan("beat", [Fault::Refused(FaultKind::Slow), Fault::Refused(FaultKind::Slow)]);
    tokio::time::sleep(2 * BEAT).await;
    let alerts = async || b.outbox().engine().stores().alerts.alerts(100).await.unwrap().len();
    assert_eq!((store.called("fault"), alerts().await), (2, 0));
    tokio::time::sleep(BEAT).await;
    assert_eq!(alerts().await, 1);
    sweeper.shutdown().await;
}
