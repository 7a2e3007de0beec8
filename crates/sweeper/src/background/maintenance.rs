//! Periodic work: reports that this node lives and which conditions it finds, and forgets producers that stopped waiting.
//!
//! Purging runs by a timetable: [`super::housekeeping`].

use std::sync::Arc;

use chrono::Utc;
use solid_notify_core::notice::millis_from_time;
use solid_notify_core::store::Node;
use solid_notify_core::{ALERT_DEFINITION, StoreError};

use crate::worker::Worker;

pub(crate) async fn maintenance_loop(worker: Arc<Worker>) {
    let mut offset = 0;
    while !worker.signals.is_stopped() {
        // Subscribed before the work, so that a turn of the clock during it is not missed.
        let turned = worker.signals.clock_turned();
        match worker.beat(offset).await {
            Ok(measured) => {
                worker.health.beaten();
                offset = measured;
                worker.series.set_offset(measured);
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

impl Worker {
    /// Reports that this node lives, and its conditions. Returns the offset of its clock from the database's, in
    /// milliseconds.
    async fn beat(&self, clock_offset_ms: i64) -> Result<i64, StoreError> {
        let mut handlers: Vec<String> = self.handlers.keys().cloned().collect();
        handlers.sort_unstable();
        let mut node = Node {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            clock_offset_ms,
            refused: self.definitions().refused().chain(self.undecrypted.lasting(self.moment())).collect(),
            ..Node::new(&self.id, handlers)
        };
        let asked = Utc::now();
        let view = self.stores().send.beat(&node).await?;
        let answered = Utc::now();
        let measured = i64::midpoint(millis_from_time(asked), millis_from_time(answered)) - millis_from_time(view.now);
        // After an outage other nodes may not have reported yet: a node that is listed lives, but one that is not listed
        // may live too.
        let may_miss_nodes = self.known.alerts_elsewhere().is_some() && self.health.grace_left(self.moment()).is_some();
        if !may_miss_nodes || view.handlers.contains(ALERT_DEFINITION) {
            self.learn_handlers(&view.handlers);
        }
        if may_miss_nodes {
            return Ok(measured);
        }
        // Against a clock that a test turns, every real clock is off.
        let off = if self.outbox.engine().hand_clock().is_some() { 0 } else { measured };
        node.alarms = self.conditions(&view.handlers, off).await?;
        if !node.alarms.is_empty() {
            self.stores().send.beat(&node).await?;
            self.signals.sweep_soon();
        }
        Ok(measured)
    }
}
