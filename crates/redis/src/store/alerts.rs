//! Alarms. An alarm is stored with the outcome that causes it, in the slot of its definition, and is forwarded from there to the
//! slot of the alerts. It may be forwarded several times, and its number lets it count there once.

use solid_notify_core::StoreError;
use solid_notify_core::alert::cooldown::{AlertRow, FollowUp, FollowUpFacts, raise};
use solid_notify_core::alert::{AlertReason, StoredAlert};
use solid_notify_core::notice::Status;
use solid_notify_core::store::Alarm;

use super::row::score;
use super::{AGAIN, ALERT, CHANGE, LOOK, RedisStore, busy, codec, keys, member, millis, notice_id, pause};

const DOING: &str = "raising an alarm";

/// The row of an alert, as it was read.
pub(super) struct SeenAlert {
    now: i64,
    pub(super) text: String,
    pub(super) row: Option<AlertRow>,
    follow_up: String,
    stands: String,
    /// The number up to which the alarms of a definition have arrived.
    arrived: String,
}

/// An alarm, with its number within its definition.
type Numbered<'a> = (i64, &'a Alarm);

impl SeenAlert {
    /// Returns the state of the alert's follow-up.
    pub(super) fn stands(&self, now: i64) -> FollowUp {
        let Some((status, at)) = self.stands.split_once(' ') else { return FollowUp::None };
        match score(at) {
            Some(due) if status == Status::NotSent.code().to_string() && due > now => FollowUp::Asleep(due),
            _ => FollowUp::AtWork,
        }
    }
}

/// The field of an alert's row in the hash of alerts.
pub(super) fn field(def_id: i64, reason: AlertReason) -> String {
    format!("{def_id}:{}", reason.as_str())
}

impl RedisStore {
    /// The key of the hash with the rows of alerts.
    pub(super) fn alerts_key(&self) -> String {
        format!("{}:{}", self.keys.common(), keys::ALERTS)
    }

    /// Returns a new id for a notice of this definition.
    pub(super) async fn number(&self, def_id: i64) -> Result<i64, StoreError> {
        Ok(notice_id(self.common(&["numbers", "1"], "taking a number for a notice").await?, def_id))
    }

    pub(super) async fn alert_at(&self, alert_def: i64, field: &str, source: &str) -> Result<SeenAlert, StoreError> {
        let common = self.keys.common();
        let mut follow_up = String::new();
        for _ in 0..3 {
            let (now, text, stands, arrived): (i64, String, String, String) =
                self.run(&ALERT, alert_def, &["look", &common, field, &follow_up, source], DOING).await?;
            let row = codec::alert_row(&text);
            // A follow-up of a deleted definition of alerts does not count.
            let own = row.as_ref().and_then(|row| row.follow_up).filter(|id| super::def_of(*id) == alert_def);
            let named = own.map(member).unwrap_or_default();
            if named == follow_up {
                return Ok(SeenAlert { now, text, row, follow_up, stands, arrived });
            }
            follow_up = named;
        }
        Err(busy(DOING))
    }

    /// Raises alarms of one definition and reason. Alarms that a definition has numbered count once, however often they are
    /// forwarded. The number 0 means that an alarm has none.
    pub(super) async fn raise(&self, alarms: &[Numbered<'_>], from: Option<i64>) -> Result<(), StoreError> {
        let Some((upto, last)) = alarms.last() else { return Ok(()) };
        let (field, alert_def) = (field(last.def_id, last.reason), last.alert_def);
        let (source, upto) = (from.map(|def_id| def_id.to_string()).unwrap_or_default(), upto.to_string());
        for round in 0..AGAIN {
            pause(round).await;
            let seen = self.alert_at(alert_def, &field, &source).await?;
            let arrived: i64 = seen.arrived.parse().unwrap_or_default();
            let new = |(number, _): &&Numbered<'_>| from.is_none() || *number > arrived;
            let Some((_, first)) = alarms.iter().find(new) else { return Ok(()) };
            let count = i64::try_from(alarms.iter().filter(new).count()).unwrap_or(i64::MAX);
            let stands = seen.stands(seen.now);
            let mut raised = raise(&seen.row.clone().unwrap_or_default(), stands, count, last, seen.now);
            let mut notices = Vec::new();
            if raised.notify {
                let id = self.number(alert_def).await?;
                notices.extend([member(id), StoredAlert::new(first, false).to_json(), "0".to_owned()]);
            }
            let mut sooner = String::new();
            match (raised.follow_up, stands) {
                (Some(after), FollowUp::Asleep(_)) => sooner = millis(after),
                (Some(after), _) => {
                    let id = self.number(alert_def).await?;
                    raised.row.follow_up = Some(id);
                    notices.extend([member(id), StoredAlert::new(last, true).to_json(), millis(after)]);
                }
                (None, _) => {}
            }
            let (common, new) = (self.keys.common(), codec::alert_text(&raised.row));
            let mut args: Vec<&str> = vec!["raise", &common, &field, &seen.follow_up, &seen.stands, &seen.text, &new];
            args.extend([sooner.as_str(), &source, &seen.arrived, &upto]);
            args.extend(notices.iter().map(String::as_str));
            let answer: String = self.run(&ALERT, alert_def, &args, DOING).await?;
            if answer != "conflict" {
                return Ok(());
            }
        }
        Err(busy(DOING))
    }

    /// Forwards the alarms that are stored in the slot of a definition.
    pub(super) async fn forward(&self, def_id: i64) -> Result<(), StoreError> {
        loop {
            let stored: Vec<String> = self.run(&LOOK, def_id, &["alarms"], "looking for alarms").await?;
            let alarms: Vec<(i64, Option<Alarm>)> = stored.iter().map(|text| codec::alarm(text)).collect();
            let Some(last) = alarms.iter().map(|(number, _)| *number).max() else { return Ok(()) };
            let last = last.to_string();
            let same = |a: &(i64, Option<Alarm>), b: &(i64, Option<Alarm>)| match (&a.1, &b.1) {
                (Some(a), Some(b)) => (a.def_id, a.reason, a.alert_def) == (b.def_id, b.reason, b.alert_def),
                _ => false,
            };
            for run in alarms.chunk_by(same) {
                let alarms: Vec<Numbered<'_>> =
                    run.iter().filter_map(|(number, alarm)| Some((*number, alarm.as_ref()?))).collect();
                self.raise(&alarms, Some(def_id)).await?;
            }
            let _: i64 = self.run(&CHANGE, def_id, &["forwarded", &last], "forwarding alarms").await?;
        }
    }

    pub(super) async fn alert_standing(
        &self,
        def_id: i64,
        reason: AlertReason,
    ) -> Result<Option<(AlertRow, FollowUpFacts)>, StoreError> {
        let text: String = self.common(&["alert", &field(def_id, reason)], "looking at an alert").await?;
        let Some(row) = codec::alert_row(&text) else { return Ok(None) };
        let after = row.last_seen.to_string();
        let (now, succeeded, failing): (i64, String, i64) =
            self.run(&LOOK, def_id, &["facts", &after], "looking at an alert").await?;
        Ok(Some((row, FollowUpFacts { now, succeeded: score(&succeeded), still_failing: failing > 0 })))
    }
}
