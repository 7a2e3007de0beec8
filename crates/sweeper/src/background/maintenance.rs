//! Periodic work: reports that this node lives and which conditions it finds, and forgets producers that stopped waiting.
//!
//! Purging runs by a timetable: [`super::housekeeping`].

use std::sync::Arc;

use chrono::Utc;
use solid_notify_core::store::Node;
use solid_notify_core::{ALERT_DEFINITION, StoreError};

use super::conditions::{conditions, learn_handlers};
use super::series::{LAST_WRITE, offset_between};
use crate::worker::Worker;

pub(crate) async fn maintenance_loop(worker: Arc<Worker>) {
    let mut offset = 0;
    while !worker.signals.is_stopped() {
        // Subscribed before the work, so that a turn of the clock during it is not missed.
        let turned = worker.signals.clock_turned();
        match beat(&worker, offset).await {
            Ok(measured) => {
                worker.health.beaten();
                offset = measured;
                // The series follows a clock that a test turns by itself.
                if worker.outbox.engine().hand_clock().is_none() {
                    worker.outcomes.series.set_offset(measured);
                }
            }
            Err(error) => worker.health.mention(&error),
        }
        worker.in_flight.drop_unawaited_reports();
        let pause = worker.settings.maintenance_interval;
        tokio::select! {
            biased;
            () = worker.signals.pause(pause) => {}
            () = turned => {}
            () = worker.signals.beat_requested() => {}
        }
    }
}

/// Reports that this node has stopped, after the last beat of [`maintenance_loop`]. If the store does not answer soon, the node is listed
/// for three more minutes.
pub(crate) async fn report_stop(worker: &Worker) {
    let node = Node { stopped: true, ..described(worker, 0) };
    match tokio::time::timeout(LAST_WRITE, worker.stores().send.beat(&node)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => worker.health.mention(&error),
        Err(_) => {
            tracing::warn!("the end of this node is not reported: the database did not answer within {LAST_WRITE:?}")
        }
    }
}

/// Describes this node.
fn described(worker: &Worker, clock_offset_ms: i64) -> Node {
    let mut handlers: Vec<String> = worker.known.registered.handlers.keys().cloned().collect();
    handlers.sort_unstable();
    Node {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clock_offset_ms,
        refused: worker.definitions().refused().chain(worker.undecrypted.lasting(worker.moment())).collect(),
        ..Node::new(&worker.id, handlers)
    }
}

/// Reports that this node lives, and its conditions. Returns the offset of its clock from the database's, in
/// milliseconds.
async fn beat(worker: &Worker, clock_offset_ms: i64) -> Result<i64, StoreError> {
    let mut node = described(worker, clock_offset_ms);
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
    if may_miss_nodes {
        return Ok(measured);
    }
    // Against a clock that a test turns, every real clock is off.
    let off = if worker.outbox.engine().hand_clock().is_some() { 0 } else { measured };
    node.alarms = conditions(worker, &view.handlers, off).await?;
    if !node.alarms.is_empty() {
        worker.stores().send.beat(&node).await?;
        worker.signals.sweep_soon();
    }
    Ok(measured)
}
