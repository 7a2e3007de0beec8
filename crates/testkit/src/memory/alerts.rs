//! Alerts and their cool-downs in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use solid_notify_core::alert::cooldown::{AlertRow, FollowUp, FollowUpFacts, raise, tell};
use solid_notify_core::alert::{AlertReason, StoredAlert};
use solid_notify_core::notice::{Status, millis_from_time};
use solid_notify_core::store::{Alarm, FollowUpResult};

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
            let follow_up = self.follow_up(&row, last.alert_def, now);
            let count = i64::try_from(alarms.len()).unwrap_or(i64::MAX);
            let mut raised = raise(&row, follow_up, count, last, millis_from_time(now));
            if raised.notify {
                self.add_alert(first.alert_def, &StoredAlert::new(first, false), Duration::ZERO, now);
            }
            let asleep = row.follow_up.filter(|_| matches!(follow_up, FollowUp::Asleep(_)));
            if let (Some(after), Some(live)) = (raised.follow_up, asleep.and_then(|id| self.live.get_mut(&id))) {
                live.next_call_time = Some(now + after);
            } else if let Some(after) = raised.follow_up {
                let added = self.add_alert(last.alert_def, &StoredAlert::new(last, true), after, now);
                raised.row.follow_up = Some(added);
            }
            self.alerts.insert(key, raised.row);
        }
    }

    pub(super) fn told(&mut self, told: &FollowUpResult, now: DateTime<Utc>) {
        let key = (told.def_id, told.reason);
        let Some(row) = self.alerts.remove(&key) else { return };
        if let Some((mut row, next)) = tell(&row, told, millis_from_time(now)) {
            if self.follow_up(&row, told.alert_def, now) == FollowUp::None {
                let again = StoredAlert::again(told, &row);
                row.follow_up = Some(self.add_alert(told.alert_def, &again, next, now));
            }
            self.alerts.insert(key, row);
        }
    }

    pub(super) fn alert_row(&self, key: (i64, AlertReason), now: DateTime<Utc>) -> Option<(AlertRow, FollowUpFacts)> {
        let row = self.alerts.get(&key)?;
        let ended = self
            .history
            .values()
            .filter(|ended| (ended.live.notice.def_id, ended.live.notice.status) == (key.0, Status::Succeeded));
        let since = ended.map(|ended| millis_from_time(ended.finish_time)).filter(|time| *time > row.last_seen);
        let succeeded = since.min();
        let failing = |live: &Live| (live.notice.def_id, live.notice.status) == (key.0, Status::Failed);
        let still_failing = self.live.values().any(failing);
        Some((row.clone(), FollowUpFacts { now: millis_from_time(now), succeeded, still_failing }))
    }

    fn follow_up(&self, row: &AlertRow, alert_def: i64, now: DateTime<Utc>) -> FollowUp {
        let live = row.follow_up.and_then(|id| self.live.get(&id)).filter(|live| live.notice.def_id == alert_def);
        match live.map(|live| (live.notice.status, live.next_call_time)) {
            None => FollowUp::None,
            Some((Status::NotSent, Some(due))) if due > now => FollowUp::Asleep(millis_from_time(due)),
            Some(_) => FollowUp::AtWork,
        }
    }

    fn add_alert(&mut self, alert_def: i64, alert: &StoredAlert, after: Duration, now: DateTime<Utc>) -> i64 {
        let id = self.next_id();
        self.live.insert(id, Live::of(id, alert_def, alert.to_json(), now, now + after));
        id
    }
}
