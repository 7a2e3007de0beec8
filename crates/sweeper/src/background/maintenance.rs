//! Periodic work: reports with each beat that this node lives, less often which conditions it finds, and forgets producers that stopped
//! waiting.
//!
//! Purging runs by a timetable: [`super::housekeeping`].

use std::sync::Arc;

use chrono::Utc;
use solid_notify_core::metrics::SENDING;
use solid_notify_core::store::{BEAT, Node};
use solid_notify_core::{ALERT_DEFINITION, StoreError};
use tokio::time::Instant;

use super::conditions::{Problems, conditions, learn_handlers};
use super::series::{LAST_WRITE, offset_between};
use crate::supervise::report;
use crate::worker::Worker;

pub(crate) async fn maintenance_loop(worker: Arc<Worker>) {
    let mut offset = 0;
    // When the conditions and the rights for acks were last looked at.
    let (mut checked, mut acks): (Option<Instant>, Option<Instant>) = (None, None);
    let mut asked = true;
    while !worker.signals.is_stopped() {
        // Subscribed before the work, so that a turn of the clock during it is not missed.
        let turned = worker.signals.clock_turned();
        let all = asked || checked.is_none_or(|at| at.elapsed() >= worker.settings.maintenance_interval);
        let problems = problems(&worker);
        match beat(&worker, offset, problems, all).await {
            Ok(measured) => {
                worker.health.beaten();
                offset = measured;
                if all {
                    checked = Some(Instant::now());
                }
                // The series follows a clock that a test turns by itself.
                if worker.outbox.engine().hand_clock().is_none() {
                    worker.outcomes.series.set_offset(measured);
                }
            }
            Err(error) => worker.health.mention(&error),
        }
        let interval = worker.settings.maintenance_interval;
        if worker.health.no_acks().is_some() || acks.is_none_or(|at| at.elapsed() >= interval) {
            worker.health.checked_acks(worker.stores().operate.can_ack().await);
            acks = Some(Instant::now());
        }
        worker.in_flight.drop_unawaited_reports();
        asked = tokio::select! {
            biased;
            () = worker.signals.pause(BEAT.min(interval)) => false,
            () = turned => true,
            () = worker.signals.beat_requested() => true,
        };
    }
}

/// Returns why this node does not send, and which attempts cannot be cancelled; logs the new ones of these.
fn problems(worker: &Worker) -> Problems {
    let node = worker.health.not_sending(worker.settings.poll_interval);
    metrics::gauge!(SENDING).set(if node.is_none() { 1.0 } else { 0.0 });
    let (stuck, new) = worker.in_flight.find_stuck();
    let definitions = worker.definitions();
    let text = |(def_id, id): (i64, i64)| {
        let definition = definitions.get(def_id).map_or_else(|| def_id.to_string(), |known| known.row.name.clone());
        format!(
            "an attempt of {definition} (notice {id}) goes on beyond its time limit and cannot be cancelled, because its handler blocks \
             its thread; until it ends, this node makes no other attempt of {definition}"
        )
    };
    for stuck in new {
        report(|| tracing::error!("{}", text(stuck)));
    }
    Problems { node, stuck: stuck.into_iter().map(|stuck| (stuck.0, text(stuck))).collect() }
}

/// Reports that this node has stopped, after the last beat of [`maintenance_loop`]. If the store does not answer soon, the node is listed
/// for three more minutes.
pub(crate) async fn report_stop(worker: &Worker) {
    let node = Node { stopped: true, ..described(worker, 0, &Problems::default()) };
    match tokio::time::timeout(LAST_WRITE, worker.stores().send.beat(&node)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => worker.health.mention(&error),
        Err(_) => {
            tracing::warn!("the end of this node is not reported: the database did not answer within {LAST_WRITE:?}")
        }
    }
}

/// Describes this node.
fn described(worker: &Worker, clock_offset_ms: i64, problems: &Problems) -> Node {
    let mut handlers: Vec<String> = worker.known.registered.handlers.keys().cloned().collect();
    handlers.sort_unstable();
    Node {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clock_offset_ms,
        problems: problems.node.iter().chain(problems.stuck.values()).cloned().collect(),
        refused: worker.definitions().refused().chain(worker.waiting.lasting(worker.moment())).collect(),
        ..Node::new(&worker.id, handlers)
    }
}

/// Reports that this node lives and, with `all`, its conditions. Returns the offset of its clock from the database's, in
/// milliseconds.
async fn beat(worker: &Worker, clock_offset_ms: i64, problems: Problems, all: bool) -> Result<i64, StoreError> {
    let mut node = described(worker, clock_offset_ms, &problems);
    let asked = Utc::now();
    let view = worker.stores().send.beat(&node).await?;
    let measured = offset_between(asked, view.now, Utc::now());
    // After an outage other nodes may not have reported yet: a node that is listed lives, but one that is not listed
    // may live too.
    let may_miss_nodes =
        worker.known.alerts_elsewhere().is_some() && worker.health.grace_left(worker.moment()).is_some();
    if !may_miss_nodes || view.handlers.contains(ALERT_DEFINITION) {
        learn_handlers(worker, &view.handlers);
    }
    if may_miss_nodes || !all {
        return Ok(measured);
    }
    // Against a clock that a test turns, every real clock is off.
    let off = if worker.outbox.engine().hand_clock().is_some() { 0 } else { measured };
    node.alarms = conditions(worker, &view.handlers, off, problems).await?;
    if !node.alarms.is_empty() {
        worker.stores().send.beat(&node).await?;
        worker.signals.sweep_soon();
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use solid_notify_core::store::{Claim, ClaimWhat};
    use solid_notify_core::{NotifyDef, Status, add_notice};
    use solid_notify_testkit::MemoryOutbox;

    use super::*;
    use crate::OutboxExt;
    use crate::claiming::claim::claim_and_start;

    #[tokio::test(start_paused = true)]
    async fn attempt_that_cannot_be_cancelled_is_the_last_of_its_definition() {
        let outbox = MemoryOutbox::new();
        outbox.define_if_missing(NotifyDef::new("sync").timeout("10s")).await.unwrap();
        let mut tx = outbox.begin().await.unwrap();
        for k in 0..2 {
            add_notice(&mut tx, "sync", k).await.unwrap();
        }
        tx.commit().await.unwrap();
        let worker = Worker::new(outbox.sweeper().handler("sync", |_: crate::Notice<i64>| async { Ok(()) }).setup);
        worker.reload_definitions().await.unwrap();
        let definition = worker.definitions().all().find(|known| known.row.name == "sync").cloned().unwrap();
        let ready = definition.ready().unwrap();
        let what = || ClaimWhat::Slice(Status::NotSent);
        let claim = Claim::new(&ready.policy, &worker.id, what(), 1);
        let blocked = outbox.engine().stores().send.claim(&claim).await.unwrap().notices.remove(0);
        worker.in_flight.register(&blocked, &ready.policy, worker.moment());
        let claims = async || {
            let slots = worker.admission.take_slots(&ready.policy, 1);
            claim_and_start(&worker, &definition, ready, what(), slots, None).await.unwrap().len()
        };

        tokio::time::advance(Duration::from_secs(19)).await;
        assert!(problems(&worker).stuck.is_empty());
        tokio::time::advance(Duration::from_secs(1)).await;
        let found = problems(&worker).stuck;
        assert!(found[&ready.policy.def_id].contains(&format!("sync (notice {})", blocked.id)), "{found:?}");
        assert_eq!(claims().await, 0);
        worker.in_flight.ended(blocked.id, blocked.fence);
        assert!(problems(&worker).stuck.is_empty());
        assert_eq!(claims().await, 1);
    }
}
