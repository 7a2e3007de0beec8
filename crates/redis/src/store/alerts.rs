//! Alarms. An alarm is stored with the outcome that causes it, in the slot of its definition, and is forwarded from there to the
//! slot of the alerts. It may be forwarded several times, and its number lets it count there once.

use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::alert::cooldown::{AlertRow, FollowUp, FollowUpFacts, raise};
use solid_notify_core::alert::{AlertReason, StoredAlert};
use solid_notify_core::notice::Status;
use solid_notify_core::store::Alarm;

use super::given::{self, AlertWhat, Millis, Plain, Text};
use super::row::score;
use super::{AGAIN, ALERT, CHANGE, LOOK, RedisStore, busy, codec, keys, member, notice_id, pause};

const DOING: &str = "raising an alarm";

/// The row of an alert, as it was read.
pub(super) struct SeenAlert {
    now: i64,
    pub(super) text: String,
    pub(super) row: Option<AlertRow>,
    follow_up: Option<String>,
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

/// The notice of an alert that is due after this delay.
fn notice(id: i64, alert: &StoredAlert, delay: Duration) -> Plain {
    Plain { member: member(id), param: alert.to_json(), delay: Some(Millis(delay)) }
}

impl RedisStore {
    /// The key of the hash with the rows of alerts.
    pub(super) fn alerts_key(&self) -> String {
        format!("{}:{}", self.keys.common(), keys::ALERTS)
    }

    /// Returns a new id for a notice of this definition.
    pub(super) async fn number(&self, def_id: i64) -> Result<i64, StoreError> {
        let number = self.common(&given::Common::Numbers { wanted: 1 }, "taking a number for a notice").await?;
        Ok(notice_id(number, def_id))
    }

    pub(super) async fn alert_at(
        &self,
        alert_def: i64,
        field: &str,
        source: Option<i64>,
    ) -> Result<SeenAlert, StoreError> {
        let common = self.keys.common();
        let mut follow_up: Option<String> = None;
        for _ in 0..3 {
            let what = AlertWhat::Look;
            let source = source.map(Text);
            let look = given::Alert { common: &common, field, follow_up: follow_up.as_deref(), source, what };
            let (now, text, stands, arrived): (i64, String, String, String) =
                self.run(&ALERT, alert_def, &look, DOING).await?;
            let row = codec::alert_row(&text);
            // A follow-up of a deleted definition of alerts does not count.
            let own = row.as_ref().and_then(|row| row.follow_up).filter(|id| super::def_of(*id) == alert_def);
            let named = own.map(member);
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
        for round in 0..AGAIN {
            pause(round).await;
            let seen = self.alert_at(alert_def, &field, from).await?;
            let arrived: i64 = seen.arrived.parse().unwrap_or_default();
            let new = |(number, _): &&Numbered<'_>| from.is_none() || *number > arrived;
            let Some((_, first)) = alarms.iter().find(new) else { return Ok(()) };
            let count = i64::try_from(alarms.iter().filter(new).count()).unwrap_or(i64::MAX);
            let stands = seen.stands(seen.now);
            let mut raised = raise(&seen.row.clone().unwrap_or_default(), stands, count, last, seen.now);
            let mut notices = Vec::new();
            if raised.notify {
                let id = self.number(alert_def).await?;
                notices.push(notice(id, &StoredAlert::new(first, false), Duration::ZERO));
            }
            let mut sooner = None;
            match (raised.follow_up, stands) {
                (Some(after), FollowUp::Asleep(_)) => sooner = Some(Millis(after)),
                (Some(after), _) => {
                    let id = self.number(alert_def).await?;
                    raised.row.follow_up = Some(id);
                    notices.push(notice(id, &StoredAlert::new(last, true), after));
                }
                (None, _) => {}
            }
            let what = AlertWhat::Raise {
                seen_state: &seen.stands,
                seen_row: &seen.text,
                new_row: codec::alert_text(&raised.row),
                sooner,
                seen_arrived: &seen.arrived,
                new_arrived: Text(*upto),
                notices,
            };
            let (common, follow_up) = (self.keys.common(), seen.follow_up.as_deref());
            let raise = given::Alert { common: &common, field: &field, follow_up, source: from.map(Text), what };
            let answer: String = self.run(&ALERT, alert_def, &raise, DOING).await?;
            if answer != "conflict" {
                return Ok(());
            }
        }
        Err(busy(DOING))
    }

    /// Forwards the alarms that are stored in the slot of a definition.
    pub(super) async fn forward(&self, def_id: i64) -> Result<(), StoreError> {
        loop {
            let stored: Vec<String> = self.run(&LOOK, def_id, &given::Look::Alarms, "looking for alarms").await?;
            let alarms: Vec<(i64, Option<Alarm>)> = stored.iter().map(|text| codec::alarm(text)).collect();
            let Some(last) = alarms.iter().map(|(number, _)| *number).max() else { return Ok(()) };
            let same = |a: &(i64, Option<Alarm>), b: &(i64, Option<Alarm>)| match (&a.1, &b.1) {
                (Some(a), Some(b)) => (a.def_id, a.reason, a.alert_def) == (b.def_id, b.reason, b.alert_def),
                _ => false,
            };
            for run in alarms.chunk_by(same) {
                let alarms: Vec<Numbered<'_>> =
                    run.iter().filter_map(|(number, alarm)| Some((*number, alarm.as_ref()?))).collect();
                self.raise(&alarms, Some(def_id)).await?;
            }
            let arrived = given::Change::Forwarded { arrived: last };
            let _: i64 = self.run(&CHANGE, def_id, &arrived, "forwarding alarms").await?;
        }
    }

    pub(super) async fn alert_standing(
        &self,
        def_id: i64,
        reason: AlertReason,
    ) -> Result<Option<(AlertRow, FollowUpFacts)>, StoreError> {
        let field = field(def_id, reason);
        let text: String = self.common(&given::Common::Alert { field: &field }, "looking at an alert").await?;
        let Some(row) = codec::alert_row(&text) else { return Ok(None) };
        let facts = given::Look::Facts { after: Text(row.last_seen) };
        let (now, succeeded, failing): (i64, String, i64) =
            self.run(&LOOK, def_id, &facts, "looking at an alert").await?;
        Ok(Some((row, FollowUpFacts { now, succeeded: score(&succeeded), still_failing: failing > 0 })))
    }
}
