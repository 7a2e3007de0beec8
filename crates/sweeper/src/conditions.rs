//! What no outcome of an attempt shows: a backlog, an invalid definition, a handler that no node has, dead letters that pile up,
//! a clock that is far off. Looked for by every node with each round of maintenance; the cool-down makes one alert of it.

use std::collections::BTreeSet;
use std::time::Duration;

use solid_notify_core::operate::Lane;
use solid_notify_core::store::{Alarm, DueLane};
use solid_notify_core::{ALERT_DEFINITION, AlertReason, Status, StoreError};

use crate::alerts::{DEFAULT_COOLDOWN, circuit_open};
use crate::definitions::{Definition, Standing};
use crate::worker::Worker;

/// How long notices may be due whose handler no node has: nodes start one after the other.
const HANDLER_GRACE: Duration = Duration::from_secs(60);
/// How far a node's clock may be off.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(30);

impl Worker {
    /// What is wrong at this moment. `handlers`: those of all living nodes.
    pub(crate) async fn conditions(
        &self,
        handlers: &BTreeSet<String>,
        clock_offset_ms: i64,
    ) -> Result<Vec<Alarm>, StoreError> {
        let definitions = self.definitions();
        let due = self.store().due(true).await?;
        // What waited because everything was paused is late from its end on.
        let resumed = definitions.resumed().map(|since| self.moment().saturating_sub(since));
        let late = |def_id: i64| {
            let waits = |lane: &&DueLane| matches!(lane.status, Status::NotSent | Status::Failed);
            let lanes = due.lanes.iter().filter(|lane| lane.def_id == def_id).filter(waits);
            let late = lanes.map(|lane| lane.late).max().unwrap_or_default().min(resumed.unwrap_or(Duration::MAX));
            // While their window is closed, notices wait for nothing else.
            definitions.get(def_id).map_or(late, |definition| late.min(definition.open_for(due.now)))
        };
        let mut alarms = Vec::new();
        let told_of = |definition: &&std::sync::Arc<Definition>| {
            definition.row.alert_trigger_type != "never" && definition.row.delete_time.is_none()
        };
        if let Some(alerts) =
            definitions.alerts().and_then(|id| definitions.get(id)).filter(|_| !definitions.is_paused())
        {
            self.mention_stuck(alerts, handlers, late(alerts.row.id));
        }
        for definition in definitions.all().filter(told_of) {
            let def_id = definition.row.id;
            let cooldown = definition.policy().map_or(DEFAULT_COOLDOWN, |policy| policy.alert_cooldown);
            let mut alarm = |reason, message| {
                alarms.extend(self.alarm(def_id, &definition.row.name, reason, cooldown, message));
            };
            if let Standing::Invalid(problems) = &definition.standing {
                alarm(AlertReason::InvalidDefinition, problems.clone());
            }
            let Some(policy) = definition.policy().filter(|policy| policy.enabled && !definitions.is_paused()) else {
                continue;
            };
            if let Some(breaker) = policy.quota.and_then(|quota| quota.breaker).filter(|_| definitions.is_open(def_id))
            {
                alarm(AlertReason::CircuitOpen, circuit_open(breaker, ""));
            }
            let late = late(def_id);
            let waits = humantime::format_duration(Duration::from_secs(late.as_secs()));
            if !handlers.contains(&policy.handler) && late >= HANDLER_GRACE {
                let message =
                    format!("notices have been due for {waits}, and no node has the handler {:?}", policy.handler);
                alarm(AlertReason::NoHandler, message);
            }
            if policy.backlog_alert_age.is_some_and(|limit| late > limit) {
                alarm(AlertReason::Backlog, format!("the oldest due notice has been due for {waits}"));
            }
            if let Some(limit) = policy.dead_alert_count {
                let lane = Lane::of(def_id, Status::DeadLetter);
                if self.outbox.operate().count(&lane, limit).await? >= limit {
                    alarm(AlertReason::DeadLetters, format!("there are {limit} dead letters or more"));
                }
            }
        }
        let off = Duration::from_millis(clock_offset_ms.unsigned_abs());
        if off > CLOCK_TOLERANCE
            && let Some(alerts) = definitions.alerts()
        {
            let direction = if clock_offset_ms > 0 { "ahead of" } else { "behind" };
            let message = format!(
                "the clock of the node {} is {} {direction} the database's",
                self.id,
                humantime::format_duration(Duration::from_secs(off.as_secs()))
            );
            alarms.extend(self.alarm(alerts, ALERT_DEFINITION, AlertReason::Clock, DEFAULT_COOLDOWN, message));
        }
        Ok(alarms)
    }

    /// Alerts that nobody takes cannot be told of by an alert.
    fn mention_stuck(&self, alerts: &Definition, handlers: &BTreeSet<String>, late: Duration) {
        let waits = match &alerts.standing {
            _ if late < HANDLER_GRACE => return,
            Standing::Paused(_) => "it is not enabled",
            Standing::Invalid(_) => "its row is invalid",
            Standing::NotHere(policy, _) if !handlers.contains(&policy.handler) => "no living node has its handler",
            Standing::NotHere(..) | Standing::Ready(_) => return,
        };
        tracing::error!(definition = ALERT_DEFINITION, waits, "alerts are not sent");
    }

    /// Learns what other nodes can do: where one of them takes alerts, this one leaves them to it.
    pub(crate) fn learn_handlers(&self, handlers: &BTreeSet<String>) {
        let elsewhere = handlers.contains(ALERT_DEFINITION);
        if self.alerts_elsewhere.lock().unwrap_or_else(std::sync::PoisonError::into_inner).replace(elsewhere)
            != Some(elsewhere)
        {
            self.outbox.wake();
        }
    }
}

impl Definition {
    /// True for the built-in definition, and for one that was it: renamed, or deleted with alerts in flight.
    pub(crate) fn is_alerts(&self) -> bool {
        self.row.name == ALERT_DEFINITION || self.row.handler_name() == ALERT_DEFINITION
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sweeper, worker::Worker};
    use solid_notify_testkit::MemoryNotify;

    #[tokio::test]
    async fn a_clock_that_is_far_off_is_told_and_one_that_is_a_little_off_is_not() {
        let notify = MemoryNotify::new();
        let worker = Worker::new(Sweeper::builder(&notify));
        worker.reload_definitions().await.unwrap();
        for (offset, told) in [(45_000, true), (-45_000, true), (29_000, false), (-29_000, false)] {
            let alarms = worker.conditions(&BTreeSet::new(), offset).await.unwrap();
            let clock = alarms.iter().find(|alarm| alarm.reason == AlertReason::Clock);
            assert_eq!(clock.is_some(), told, "{offset}");
            assert!(clock.is_none_or(|alarm| alarm.message.contains("45s")), "{clock:?}");
        }
    }
}
