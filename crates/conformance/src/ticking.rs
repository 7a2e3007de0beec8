//! Timetables: a tick is recorded and its notices are added once, and a tick is no edit.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use chrono::DateTime;
use futures_util::future::join_all;
use solid_notify_core::store::{Advanced, DueTimes, LastTick, Tick};
use solid_notify_core::{NotifyDef, Status, Updated};

use super::Backend;

const HOURLY: &str = "0 0 * * * * Europe/Berlin";

async fn due(b: &dyn Backend) -> DueTimes {
    b.stores().send.due(true).await.unwrap()
}

/// Returns a tick at this moment, as a node would see it after a fresh look.
async fn tick(b: &dyn Backend, def_id: i64, params: &[&str]) -> Tick {
    let seen = due(b).await.ticks.get(&def_id).cloned().unwrap_or_default();
    let params = params.iter().map(|param| (*param).to_owned()).collect();
    Tick { def_id, schedule: Some(HOURLY.to_owned()), seen, last: b.clock().now(), params, authority: None }
}

async fn waiting(b: &dyn Backend, def_id: i64) -> usize {
    b.claim_slice(def_id, Status::NotSent, 1000).await.len()
}

pub async fn of_many_nodes_that_see_a_tick_one_adds_its_notices(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync").schedule(HOURLY)).await;
    assert_eq!(due(b).await.ticks.get(&def_id), None, "it has not begun");
    for round in 1..=3 {
        b.clock().advance(Duration::from_millis(3_600_001));
        let seen = tick(b, def_id, &[r#"{"tick":1}"#, r#"{"tick":2}"#]).await;
        let done = join_all((0..8).map(|_| b.stores().send.tick(&seen))).await;
        assert_eq!(
            done.into_iter().filter(|done| *done.as_ref().unwrap() == Advanced::Stored).count(),
            1,
            "round {round}"
        );
        let last = LastTick { at: Some(b.clock().now()), schedule: Some(HOURLY.to_owned()) };
        assert_eq!(due(b).await.ticks[&def_id], last);
        let added = b.claim_slice(def_id, Status::NotSent, 10).await;
        let params: Vec<&str> = added.iter().map(|notice| notice.param.as_str()).collect();
        assert_eq!(params, [r#"{"tick":1}"#, r#"{"tick":2}"#]);
        assert!(added.iter().all(|notice| notice.create_time == b.clock().now() && notice.fence == 1));
    }
}

pub async fn a_tick_of_a_row_that_has_changed_adds_nothing(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync").schedule(HOURLY)).await;
    let seen = tick(b, def_id, &["1"]).await;
    let edits: [fn(NotifyDef) -> NotifyDef; 3] = [
        |def| def.schedule("0 30 * * * *"),
        |mut def| {
            def.schedule = None;
            def
        },
        |def| def.enabled(false),
    ];
    for edit in edits {
        let row = b.definition("sync").await;
        let Updated::Stored(edited) = b.outbox().update(&row, edit(row.clone())).await.unwrap() else {
            panic!("edited")
        };
        assert_eq!(b.stores().send.tick(&seen).await.unwrap(), Advanced::Changed, "{edited:?}");
        let back = b.outbox().update(&edited, row).await.unwrap();
        assert!(matches!(back, Updated::Stored(_)), "{back:?}");
    }
    let other = LastTick { at: Some(DateTime::UNIX_EPOCH), schedule: None };
    assert_eq!(
        b.stores().send.tick(&Tick { seen: other, ..seen.clone() }).await.unwrap(),
        Advanced::Changed,
        "another time was seen"
    );
    let other = LastTick { at: None, schedule: Some(HOURLY.to_owned()) };
    assert_eq!(
        b.stores().send.tick(&Tick { seen: other, ..seen.clone() }).await.unwrap(),
        Advanced::Changed,
        "another timetable was seen"
    );
    assert_eq!((due(b).await.ticks.len(), waiting(b, def_id).await), (0, 0));
    assert_eq!(b.stores().send.tick(&seen).await.unwrap(), Advanced::Stored, "now it is as it was seen");
    b.outbox().delete(&b.definition("sync").await).await.unwrap();
    let seen = tick(b, def_id, &["1"]).await;
    assert_eq!(b.stores().send.tick(&seen).await.unwrap(), Advanced::Changed, "it was deleted");
    assert_eq!(waiting(b, def_id).await, 1);
}

pub async fn a_tick_is_no_edit(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync").schedule(HOURLY)).await;
    let seen = b.definition("sync").await;
    b.clock().advance(Duration::from_secs(1));
    assert_eq!(b.stores().send.tick(&tick(b, def_id, &[]).await).await.unwrap(), Advanced::Stored);
    assert_eq!(b.definition("sync").await, seen, "its update_time stays");
    let ticked = due(b).await.ticks[&def_id].clone();
    let done = b.outbox().update(&seen, seen.clone().timeout("9s")).await.unwrap();
    assert!(
        matches!(done, Updated::Stored(_)),
        "an editor that saw the row before the tick can still edit it: {done:?}"
    );
    assert_eq!(due(b).await.ticks[&def_id], ticked, "and an edit does not touch the last tick");
}

pub async fn many_ticks_are_added_at_once_in_their_order(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync").schedule(HOURLY)).await;
    let params: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    let all = tick(b, def_id, &params.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(b.stores().send.tick(&all).await.unwrap(), Advanced::Stored);
    let added = b.claim_slice(def_id, Status::NotSent, 1000).await;
    assert_eq!(added.into_iter().map(|notice| notice.param).collect::<Vec<_>>(), params);
}

pub async fn time_of_the_store_follows_its_clock(b: &dyn Backend) {
    assert_eq!(b.stores().send.now().await.unwrap(), b.clock().now());
    b.clock().advance(Duration::from_millis(1234));
    assert_eq!(b.stores().send.now().await.unwrap(), b.clock().now());
    b.clock().set(b.clock().now() - Duration::from_secs(3600));
    assert_eq!(b.stores().send.now().await.unwrap(), b.clock().now(), "a clock that was set back");
}

pub async fn the_time_of_the_store_comes_with_the_due_slices(b: &dyn Backend) {
    assert_eq!(due(b).await.now, b.clock().now(), "also where nothing is defined");
    b.define(NotifyDef::new("sync")).await;
    b.clock().advance(Duration::from_millis(1234));
    assert_eq!(due(b).await.now, b.clock().now());
    assert!(due(b).await.ticks.is_empty());
}
