//! Neighbours that are code of an application: its handlers, and its timed tasks.

use std::time::Duration;

use serde_json::Value;
use solid_notify::{NotifyDef, Status};
use test_support::sending::eventually;

use super::AtWork;
use crate::settings::{BLOCKS, HANGING_TASKS, POISON, STEADY_TASKS};
use crate::site::Site;
use crate::store::Store;

/// The notices of a batch handler, of which one is the poison.
const BATCHED: u32 = 100;
const POISONED: u32 = 10;
/// Timed tasks of each kind.
const TASKS: u32 = 50;

/// A definition with a handler of the application.
pub async fn handled_by<S: Store>(site: &Site<S>, handler: &str) {
    let def = NotifyDef::new("bad").handler(handler).timeout("1s");
    // Each attempt that blocks takes a thread, until it is seen that the first one does.
    let def = def.max_concurrency(if handler == BLOCKS { 1 } else { 1000 });
    site.define(def).await;
}

pub async fn block<S: Store>(site: &Site<S>, at: &mut AtWork) {
    at.ids = site.feed("bad", 20, Duration::ZERO, |number| number.into()).await;
    site.one_is(&at.ids, "an attempt begins", |notice| notice.fence > 0).await;
}

/// Checks that one attempt has not ended, and no other one has begun.
pub async fn one_blocks<S: Store>(site: &Site<S>, at: &AtWork) {
    let all = site.all(&at.ids).await;
    let begun: Vec<_> = all.iter().filter(|notice| notice.fence > 0).collect();
    assert!(begun.len() == 1 && begun[0].status == Status::Sending, "{begun:#?}");
}

pub async fn poison<S: Store>(site: &Site<S>, time: Duration, at: &mut AtWork) {
    let param = |number| if number == POISONED { POISON.into() } else { Value::from(number) };
    at.ids = site.feed("bad", BATCHED, time, param).await;
}

/// Checks that the poison fails again and again, and cost the others no try.
pub async fn one_is_poison<S: Store>(site: &Site<S>, at: &AtWork) {
    let poison = usize::try_from(POISONED).unwrap();
    let others = [&at.ids[..poison], &at.ids[poison + 1..]].concat();
    let are_sent = async || site.all(&others).await.iter().all(|notice| notice.status.is_final());
    eventually("the others are sent", are_sent).await;
    let others = site.all(&others).await;
    let other = others.iter().find(|notice| notice.status != Status::Succeeded || notice.failures > 0);
    assert!(other.is_none(), "{other:#?}");
    let poison = site.find(at.ids[poison]).await;
    assert!(poison.failures > 1 && !poison.status.is_final(), "{poison:#?}");
}

/// Adds tasks that hang, and others that are due one after the other.
pub async fn add_tasks<S: Store>(site: &Site<S>, time: Duration) {
    let tasks = &site.brokers.tasks;
    tasks.add_batch(HANGING_TASKS, (0..TASKS).map(|number| (Duration::ZERO, number))).await.unwrap();
    tasks.add_batch(STEADY_TASKS, (0..TASKS).map(|number| (time * number / TASKS, number))).await.unwrap();
}

/// Checks that the others are done, while some hang.
pub async fn tasks_hang<S: Store>(site: &Site<S>) {
    let tasks = &site.brokers.tasks;
    let steady = async || tasks.count(STEADY_TASKS).await.unwrap();
    eventually(
        "steady tasks are done",
        async || matches!(steady().await, counts if counts.waiting + counts.claimed == 0),
    )
    .await;
    assert_eq!(steady().await.dead, 0);
    let hanging = tasks.count(HANGING_TASKS).await.unwrap();
    assert!(hanging.claimed > 0 && hanging.waiting > 0, "{hanging:?}");
}
