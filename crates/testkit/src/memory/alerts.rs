//! Alerts and their cool-downs in memory.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use solid_notify_core::alert::AlertReason;
use solid_notify_core::alert::cooldown::{AlertFacts, AlertRow, raise};
use solid_notify_core::alert::silence::{AlertChange, decide};
use solid_notify_core::notice::{Status, millis_from_time};
use solid_notify_core::store::{Advanced, Alarm, AlertStep, AuditEntry, Authority};

use super::{Live, State};

impl State {
    pub(super) fn raise_all<'a>(&mut self, alarms: impl Iterator<Item = &'a Alarm>, now: DateTime<Utc>) {
        let mut groups: BTreeMap<(i64, AlertReason), Vec<&Alarm>> = BTreeMap::new();
        for alarm in alarms {
            groups.entry((alarm.def_id, alarm.reason)).or_default().push(alarm);
        }
        for (key, alarms) in groups {
            let (Some(first), Some(last)) = (alarms.first(), alarms.last()) else { continue };
            let row = self.alerts.get(&key).cloned().unwrap_or_default();
            let count = i64::try_from(alarms.len()).unwrap_or(i64::MAX);
            let raised = raise(&row, count, last, millis_from_time(now));
            if raised.notify {
                let alert = first.to_alert(millis_from_time(now)).to_json();
                self.add_with_authority(first.alert_def, alert, &Authority::of_alert(), now);
            }
            self.alerts.insert(key, raised.row);
        }
    }

    /// Returns when each row of an alert is due that ever is, the first one first.
    pub(super) fn alerts_by_due_time(&self) -> Vec<(i64, (i64, AlertReason))> {
        let mut due: Vec<_> = self.alerts.iter().filter_map(|(key, row)| Some((row.due?, *key))).collect();
        due.sort_unstable();
        due
    }

    pub(super) fn alert(&self, key: (i64, AlertReason), now: DateTime<Utc>) -> Option<(AlertRow, AlertFacts)> {
        let row = self.alerts.get(&key)?;
        let ended = self
            .history
            .values()
            .filter(|ended| (ended.live.notice.def_id, ended.live.notice.status) == (key.0, Status::Succeeded));
        let since = ended.map(|ended| millis_from_time(ended.finish_time)).filter(|time| *time >= row.last_seen);
        let succeeded = since.min();
        let failing = |live: &Live| (live.notice.def_id, live.notice.status) == (key.0, Status::Failed);
        let still_failing = self.live.values().any(failing);
        Some((row.clone(), AlertFacts { now: millis_from_time(now), succeeded, still_failing }))
    }

    pub(super) fn advance_alert(&mut self, step: &AlertStep, now: DateTime<Utc>) -> Advanced {
        let key = (step.def_id, step.reason);
        if self.alerts.get(&key) != Some(&step.seen) {
            return Advanced::Changed;
        }
        match &step.new {
            Some(row) => drop(self.alerts.insert(key, row.clone())),
            None => drop(self.alerts.remove(&key)),
        }
        if let Some((alert_def, param)) = &step.notice {
            self.add_with_authority(*alert_def, param.clone(), &Authority::of_alert(), now);
        }
        Advanced::Stored
    }

    pub(super) fn alert_rows(&self, limit: usize) -> Vec<(i64, AlertReason, AlertRow)> {
        let mut rows: Vec<_> =
            self.alerts.iter().map(|((def_id, reason), row)| (*def_id, *reason, row.clone())).collect();
        rows.sort_unstable_by_key(|(def_id, reason, _)| (*def_id, reason.as_str()));
        rows.truncate(limit);
        rows
    }

    pub(super) fn change_alerts(&mut self, change: &AlertChange, who: &str, now: DateTime<Utc>) -> bool {
        let mut changed = false;
        for reason in change.reasons() {
            let key = (change.def_id, reason);
            match decide(self.alerts.get(&key), &change.verb, who, millis_from_time(now)) {
                None => continue,
                Some(Some(row)) => drop(self.alerts.insert(key, row)),
                Some(None) => drop(self.alerts.remove(&key)),
            }
            changed = true;
        }
        if changed {
            let mut entry = AuditEntry::new(now, who, change.act());
            (entry.def_id, entry.detail) = (Some(change.def_id), Some(change.detail()));
            self.audit.push(entry);
        }
        changed
    }
}
