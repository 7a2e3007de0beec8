//! [`Desk`]: the alerts of a simulation. The code of the real system decides what a cool-down does with an alert and what a
//! due alert reports; this file simulates only the store and the sweeper around it.
//!
//! Alerts themselves are delivered at once.

use std::collections::BTreeMap;
use std::time::Duration;

use solid_notify_core::alert::advance::advance;
use solid_notify_core::alert::cooldown::{AlertFacts, AlertRow, Checks, raise};
use solid_notify_core::definition::KeepHistory;
use solid_notify_core::notice::{duration_from_millis, rfc3339, time_from_millis};
use solid_notify_core::store::{Alarm, Cause};
use solid_notify_core::{Alert, AlertKind, AlertReason, ErrorClass, Policy};

use super::report::SimulatedAlert;

/// The most alerts that are kept; all of them are counted.
const MOST: usize = 10_000;
/// How often sweepers check their conditions; it has no effect on the simulation.
const SIGHTINGS: Checks = Checks { interval: Duration::from_secs(60), lasted: Some(Duration::MAX) };

/// The alerts of one definition.
pub(super) struct Desk {
    incidents: BTreeMap<AlertReason, Incident>,
    pub(super) sent: Vec<SimulatedAlert>,
    pub(super) alerts: u64,
    pub(super) suppressed: u64,
}

/// A row of `notify_alert`, and the state that a store derives from other rows.
#[derive(Default)]
struct Incident {
    row: AlertRow,
    /// When the first notice succeeded after the last alarm.
    succeeded: Option<i64>,
}

impl Desk {
    pub(super) fn new() -> Self {
        Self { incidents: BTreeMap::new(), sent: Vec::new(), alerts: 0, suppressed: 0 }
    }

    /// Raises an alert for an outcome. Returns when its row is due, if this changes that.
    pub(super) fn raise(
        &mut self,
        policy: &Policy,
        reason: AlertReason,
        notice: i64,
        class: Option<ErrorClass>,
        now: i64,
    ) -> Option<i64> {
        let alarm = Alarm {
            alert_def: 0,
            def_id: policy.def_id,
            definition: policy.name.clone(),
            reason,
            cooldown: policy.alert_cooldown,
            notice_id: Some(notice),
            description: None,
            class: class.map(|class| class.as_str().to_owned()),
            message: class.map_or("the process died while sending".to_owned(), |class| format!("simulated: {class}")),
            cause: Cause::default(),
            node: "simulation".to_owned(),
        };
        let incident = self.incidents.entry(reason).or_default();
        let was_due = incident.row.due;
        let raised = raise(&incident.row, 1, &alarm, now);
        (incident.row, incident.succeeded) = (raised.row, None);
        let due = incident.row.due.filter(|_| incident.row.due != was_due);
        if raised.notify {
            let mut alert = Alert::new(AlertKind::Raised, reason, alarm.definition, alarm.message);
            (alert.notice_id, alert.class, alert.node) = (alarm.notice_id, alarm.class, alarm.node);
            alert.since = rfc3339(time_from_millis(now));
            self.tell(alert, now);
        } else {
            self.suppressed += 1;
        }
        due
    }

    /// Records that a notice has succeeded. Without history the store could not tell that.
    pub(super) fn succeeded(&mut self, policy: &Policy, now: i64) {
        if policy.keep_history != KeepHistory::Never {
            for incident in self.incidents.values_mut().filter(|incident| now > incident.row.last_seen) {
                incident.succeeded.get_or_insert(now);
            }
        }
    }

    /// Moves the alert of a reason on, unless its row is due at another time by now. Returns when it is due next.
    pub(super) fn advance(
        &mut self,
        policy: &Policy,
        reason: AlertReason,
        still_failing: bool,
        now: i64,
    ) -> Option<i64> {
        let incident = self.incidents.get_mut(&reason).filter(|incident| incident.row.due == Some(now))?;
        let facts = AlertFacts { now, succeeded: incident.succeeded, still_failing };
        let alert = Alert::new(AlertKind::Digest, reason, policy.name.clone(), "");
        let (news, row) = advance(alert, &incident.row, facts, Some(policy), SIGHTINGS);
        let next = row.as_ref().and_then(|row| row.due);
        match row {
            Some(row) => incident.row = row,
            None => drop(self.incidents.remove(&reason)),
        }
        if let Some(alert) = news {
            self.tell(alert, now);
        }
        next
    }

    fn tell(&mut self, alert: Alert, now: i64) {
        self.alerts += 1;
        if self.sent.len() < MOST {
            let at = duration_from_millis(now);
            self.sent.push(SimulatedAlert { at, alert });
        }
    }
}
