//! Tests of what becomes of outcomes without a store: the decision ([`super::decide`]), batches that fail ([`super::pending`]), and
//! outcomes that are refused ([`super::refused`]).

use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::NamedTarget;
use solid_notify_core::transition::{Event, Next};
use solid_notify_core::{ErrorClass, NotifyDef, Status, StoreError};
use solid_notify_testkit::MemoryOutbox;

use super::decide::decide;
use super::pending::{Batch, Decided, Outcome, Pending};
use super::refused::split;
use crate::worker::Worker;
use crate::{Notice, OutboxExt};

/// A node with the handler of the definition `sync`.
async fn node() -> (MemoryOutbox, Arc<Worker>) {
    let outbox = MemoryOutbox::new();
    outbox.define_if_missing(NotifyDef::new("sync").retry_interval("[5s]")).await.unwrap();
    let worker = Worker::new(outbox.sweeper().handler("sync", |_: Notice<i64>| async { Ok(()) }).setup);
    worker.reload_definitions().await.unwrap();
    (outbox, worker)
}

/// The outcome of a failed attempt of a notice.
fn failure(worker: &Worker, id: i64) -> Outcome {
    let definitions = worker.definitions();
    let definition = definitions.named("sync").unwrap();
    let now = DateTime::UNIX_EPOCH;
    let claimed = ClaimedNotice::new(id, definition.row.id, Status::Sending, "1".to_owned(), now);
    let outcome =
        Outcome::new(claimed, Arc::clone(definition.ready().unwrap()), Event::Failed(ErrorClass::Unavailable));
    Outcome { trouble: Some((ErrorClass::Unavailable, "for ever".to_owned())), ..outcome }
}

fn decided(worker: &Worker, ids: impl Iterator<Item = i64>) -> Vec<Decided> {
    ids.map(|id| decide(worker, failure(worker, id)).unwrap()).collect()
}

fn ids(decided: &[Decided]) -> Vec<i64> {
    decided.iter().map(|decided| decided.settle.id).collect()
}

#[tokio::test]
async fn outcome_is_decided_by_the_definition_as_it_is_now() {
    let (outbox, worker) = node().await;
    let outcome = failure(&worker, 1);
    let of = |outcome| decide(&worker, outcome).unwrap().settle.transition.next;
    assert!(matches!(of(failure(&worker, 1)), Next::Wait { status: Status::Failed, .. }));
    let seen = outbox.definitions().await.unwrap().into_iter().find(|state| state.row.name == "sync").unwrap().row;
    outbox.update(&seen, seen.clone().max_retry_times(0)).await.unwrap();
    worker.reload_definitions().await.unwrap();
    assert!(matches!(of(outcome), Next::Finish { status: Status::DeadLetter, .. }));
}

#[tokio::test(start_paused = true)]
async fn batch_that_keeps_failing_is_halved() {
    let (_outbox, worker) = node().await;
    let mut pending = Pending::default();
    let mut batch = Batch::new(decided(&worker, 0..4));
    for failures in 1..=3 {
        pending.put_back(batch.again());
        tokio::time::advance(Duration::from_secs(60)).await;
        batch = pending.next().unwrap();
        assert_eq!(batch.decided.len(), if failures < 3 { 4 } else { 2 }, "after {failures} failures");
    }
    assert_eq!((ids(&batch.decided), ids(&pending.next().unwrap().decided)), (vec![2, 3], vec![0, 1]));
    assert!(pending.is_empty());
}

#[tokio::test(start_paused = true)]
async fn outcomes_of_a_blocked_definition_wait_apart() {
    let (_outbox, worker) = node().await;
    let mut pending = Pending::default();
    pending.put_back_apart(Batch::new(decided(&worker, 0..2)).again());
    assert!(pending.next().is_none() && pending.count() == 2);
    pending.add(decided(&worker, 2..3).into_iter());
    assert_eq!(ids(&pending.next().unwrap().decided), [2], "what has not failed is tried at once");
    tokio::time::sleep_until(pending.next_at().unwrap()).await;
    let batch = pending.next().unwrap();
    let def_id = batch.of.unwrap();
    assert_eq!((ids(&batch.decided), batch.decided[0].def_id()), (vec![0, 1], def_id));
    // A second batch of the definition waits for the pause that the first one has.
    pending.put_back(batch.again());
    pending.put_back_apart(Batch::new(decided(&worker, 3..4)).again());
    assert!(pending.next().is_none());
    pending.goes_on(def_id);
    assert_eq!(ids(&pending.next().unwrap().decided), [0, 1]);
    assert_eq!(ids(&pending.next().unwrap().decided), [3]);
    assert!(pending.is_empty() && pending.next_at().is_none());
}

#[tokio::test]
async fn batches_are_cut_by_their_number_and_size() {
    let (_outbox, worker) = node().await;
    let mut pending = Pending::default();
    pending.add(decided(&worker, 0..501).into_iter());
    let sizes = |pending: &mut Pending| std::iter::from_fn(|| Some(pending.next()?.decided.len())).collect::<Vec<_>>();
    assert_eq!(sizes(&mut pending), [500, 1]);
    let mut large = decided(&worker, 0..3);
    for decided in &mut large {
        decided.settle.errors = Some("x".repeat(900_000));
    }
    pending.add(large.into_iter());
    assert_eq!(sizes(&mut pending), [2, 1]);
    // What they insert for targets counts, too.
    let mut passed_on = decided(&worker, 0..9);
    for decided in &mut passed_on {
        let targets = (0..5).map(|id| NamedTarget::new(id, "erp")).collect();
        (decided.settle.pass_to, decided.outcome.passed) = (targets, 100_000);
    }
    pending.add(passed_on.into_iter());
    assert_eq!(sizes(&mut pending), [4, 4, 1]);
}

#[tokio::test]
async fn refused_batch_is_split_down_to_its_culprit() {
    let (_outbox, worker) = node().await;
    let (mut pending, error) = (Pending::default(), StoreError::new("settling", FaultKind::Permanent, "wrong text"));
    assert!(split(decided(&worker, 0..3), &error, &mut pending).is_none());
    assert_eq!(ids(&pending.next().unwrap().decided), [0]);
    assert_eq!(ids(&pending.next().unwrap().decided), [1, 2]);
}

#[tokio::test]
async fn refused_outcome_is_written_in_simpler_forms_until_none_is_left() {
    let (_outbox, worker) = node().await;
    let (mut pending, error) = (Pending::default(), StoreError::new("settling", FaultKind::Permanent, "wrong text"));
    let mut culprit = decided(&worker, 0..1);
    culprit[0].settle.errors = Some("[\"ü\"]".to_owned());
    // Its texts in ASCII.
    assert!(split(culprit, &error, &mut pending).is_none());
    let culprit = pending.next().unwrap().decided;
    assert_eq!(culprit[0].settle.errors.as_deref(), Some("[\"?\"]"));
    assert!(matches!(culprit[0].settle.transition.next, Next::Wait { .. }));
    // A dead letter without a text of its own.
    assert!(split(culprit, &error, &mut pending).is_none());
    let mut culprit = pending.next().unwrap().decided;
    let settle = &mut culprit[0].settle;
    assert!(matches!(&settle.transition.next, Next::Finish { status: Status::DeadLetter, keep: true, .. }));
    assert_eq!((&settle.errors, &settle.description, settle.last_class.as_deref()), (&None, &None, Some("invalid")));
    let def_id = settle.def_id;
    settle.alarm = worker
        .alarms
        .alarm(def_id, "sync", solid_notify_core::AlertReason::Failure, Duration::ZERO, String::new())
        .map(Box::new);
    assert!(settle.alarm.is_some());
    // The same without its alarm.
    assert!(split(culprit, &error, &mut pending).is_none());
    let culprit = pending.next().unwrap().decided;
    assert!(culprit[0].settle.alarm.is_none());
    // Nothing is left: its lease expires.
    assert_eq!(split(culprit, &error, &mut pending).unwrap().settle.id, 0);
    assert!(pending.is_empty());
}
