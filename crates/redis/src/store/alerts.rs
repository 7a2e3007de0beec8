//! Alarms. An alarm is stored with the outcome that causes it, and `forward.rs` forwards it to the slot of the alerts. It may be forwarded
//! several times, and its number lets it count there once.

use std::collections::HashMap;

use async_trait::async_trait;
use solid_notify_core::StoreError;
use solid_notify_core::alert::AlertReason;
use solid_notify_core::alert::cooldown::{AlertFacts, AlertRow, raise};
use solid_notify_core::alert::silence::{AlertChange, decide};
use solid_notify_core::notice::time_from_millis;
use solid_notify_core::store::{Advanced, Alarm, AlertStep, AlertStore, AuditEntry, Authority};

use super::given::{self, AlertWhat, ChangedAlert, Plain, Text};
use super::keys::FIRST_ALERTS;
use super::row::score;
use super::{AGAIN, ALERT, LOOK, RedisStore, busy, codec, member, notice_id, pause};

const DOING: &str = "raising an alarm";

/// The row of an alert, as it was read.
struct SeenAlert {
    now: i64,
    text: String,
    /// The number up to which the alarms of a definition have arrived.
    arrived: String,
}

/// An alarm, with its number within its definition.
type Numbered<'a> = (i64, &'a Alarm);

/// The field of an alert's row in the hash of alerts.
fn field(def_id: i64, reason: AlertReason) -> String {
    format!("{def_id}:{}", reason.as_str())
}

/// Reads a field. One whose reason a newer release has written is left to that release.
fn key(field: &str) -> Option<(i64, AlertReason)> {
    let (def_id, reason) = field.split_once(':')?;
    Some((def_id.parse().ok()?, AlertReason::from_name(reason)?))
}

impl RedisStore {
    /// Returns a notice of an alert.
    async fn notice(&self, alert_def: i64, param: String) -> Result<Plain, StoreError> {
        let number = self.common(&given::Common::Numbers { wanted: 1 }, "taking a number for a notice").await?;
        let authority = Some(codec::authority_text(&Authority::of_alert()));
        Ok(Plain { member: member(notice_id(number, alert_def)), param, authority })
    }

    async fn alert_at(&self, alert_def: i64, field: &str, source: Option<i64>) -> Result<SeenAlert, StoreError> {
        let common = self.keys.common();
        let look = given::Alert { common: &common, field, source: source.map(Text), what: AlertWhat::Look };
        let (now, text, arrived) = self.run(&ALERT, alert_def, &look, DOING).await?;
        Ok(SeenAlert { now, text, arrived })
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
            let raised = raise(&codec::alert_row(&seen.text).unwrap_or_default(), count, last, seen.now);
            let notice = match raised.notify {
                true => Some(self.notice(alert_def, first.to_alert(seen.now).to_json()).await?),
                false => None,
            };
            let what = AlertWhat::Write {
                seen_row: &seen.text,
                new_row: Some(codec::alert_text(&raised.row)),
                due: raised.row.due,
                seen_arrived: &seen.arrived,
                new_arrived: Text(*upto),
                notice,
                edit: None,
            };
            let common = self.keys.common();
            let write = given::Alert { common: &common, field: &field, source: from.map(Text), what };
            let reply: String = self.run(&ALERT, alert_def, &write, DOING).await?;
            if reply != "conflict" {
                return Ok(());
            }
        }
        Err(busy(DOING))
    }

    /// Writes the edit of a definition, and raises the alarm that it causes in the same script. Returns the reply to the edit, or
    /// `conflict` where another alarm came meanwhile.
    pub(super) async fn edit_and_raise(&self, edit: given::Edit<'_>, alarm: &Alarm) -> Result<String, StoreError> {
        let (common, field) = (self.keys.common(), field(alarm.def_id, alarm.reason));
        let seen = self.alert_at(alarm.alert_def, &field, None).await?;
        let raised = raise(&codec::alert_row(&seen.text).unwrap_or_default(), 1, alarm, seen.now);
        let notice = match raised.notify {
            true => Some(self.notice(alarm.alert_def, alarm.to_alert(seen.now).to_json()).await?),
            false => None,
        };
        let what = AlertWhat::Write {
            seen_row: &seen.text,
            new_row: Some(codec::alert_text(&raised.row)),
            due: raised.row.due,
            seen_arrived: "",
            new_arrived: Text(0),
            notice,
            edit: Some(Box::new(edit)),
        };
        let write = given::Alert { common: &common, field: &field, source: None, what };
        self.run(&ALERT, alarm.alert_def, &write, DOING).await
    }

    /// Raises the alarms that a definition has numbered, in the order of their numbers.
    pub(super) async fn raise_all(&self, alarms: &[(i64, Alarm)], from: i64) -> Result<(), StoreError> {
        let of = |(_, alarm): &(i64, Alarm)| (alarm.def_id, alarm.reason, alarm.alert_def);
        for run in alarms.chunk_by(|a, b| of(a) == of(b)) {
            let run: Vec<Numbered<'_>> = run.iter().map(|(number, alarm)| (*number, alarm)).collect();
            self.raise(&run, Some(from)).await?;
        }
        Ok(())
    }

    pub(super) async fn due_alert_keys(&self, limit: usize) -> Result<Vec<(i64, AlertReason)>, StoreError> {
        let fields: Vec<String> =
            self.common(&given::Common::DueAlerts { most: limit }, "looking for due alerts").await?;
        Ok(fields.iter().filter_map(|field| key(field)).collect())
    }

    pub(super) async fn alert_and_facts(
        &self,
        def_id: i64,
        reason: AlertReason,
    ) -> Result<Option<(AlertRow, AlertFacts)>, StoreError> {
        let field = field(def_id, reason);
        let text: String = self.common(&given::Common::Alert { field: &field }, "looking at an alert").await?;
        let Some(row) = codec::alert_row(&text) else { return Ok(None) };
        let facts = given::Look::Facts { since: Text(row.last_seen) };
        let (now, succeeded, failing): (i64, String, i64) =
            self.run(&LOOK, def_id, &facts, "looking at an alert").await?;
        Ok(Some((row, AlertFacts { now, succeeded: score(&succeeded), still_failing: failing > 0 })))
    }

    /// The texts of rows are compared, because each row has one text.
    pub(super) async fn store_alert_step(&self, step: &AlertStep) -> Result<Advanced, StoreError> {
        let (common, field) = (self.keys.common(), field(step.def_id, step.reason));
        let (alert_def, notice) = match &step.notice {
            Some((alert_def, param)) => (*alert_def, Some(self.notice(*alert_def, param.clone()).await?)),
            // Each definition of alerts names the slot of the rows.
            None => (FIRST_ALERTS, None),
        };
        let what = AlertWhat::Write {
            seen_row: &codec::alert_text(&step.seen),
            new_row: step.new.as_ref().map(codec::alert_text),
            due: step.new.as_ref().and_then(|row| row.due),
            seen_arrived: "",
            new_arrived: Text(0),
            notice,
            edit: None,
        };
        let write = given::Alert { common: &common, field: &field, source: None, what };
        let reply: String = self.run(&ALERT, alert_def, &write, "storing what becomes of an alert").await?;
        Ok(if reply == "conflict" { Advanced::Changed } else { Advanced::Stored })
    }

    /// Returns the time, and all rows of alerts by their fields.
    async fn alert_texts(&self) -> Result<(i64, HashMap<String, String>), StoreError> {
        self.common(&given::Common::Alerts, "listing alerts").await
    }

    async fn change_rows(&self, change: &AlertChange, who: &str) -> Result<bool, StoreError> {
        const DOING: &str = "changing alerts for an operator";
        for round in 0..AGAIN {
            pause(round).await;
            let (now, texts) = self.alert_texts().await?;
            let changed = |reason: AlertReason| {
                let field = field(change.def_id, reason);
                let seen_row = texts.get(&field).cloned().unwrap_or_default();
                let new = decide(codec::alert_row(&seen_row).as_ref(), &change.verb, who, now)?;
                let (new_row, due) = (new.as_ref().map(codec::alert_text), new.and_then(|row| row.due));
                Some(ChangedAlert { field, seen_row, new_row, due })
            };
            let rows: Vec<ChangedAlert> = change.reasons().into_iter().filter_map(changed).collect();
            if rows.is_empty() {
                return Ok(false);
            }
            let mut entry = AuditEntry::new(time_from_millis(now), who, change.act());
            (entry.def_id, entry.detail) = (Some(change.def_id), Some(change.detail()));
            let audit = codec::audit_text(&entry);
            let reply: String = self.common(&given::Common::ChangeAlerts { rows: &rows, audit }, DOING).await?;
            if reply != "conflict" {
                return Ok(true);
            }
        }
        Err(busy(DOING))
    }
}

#[async_trait]
impl AlertStore for RedisStore {
    async fn due_alerts(&self, limit: usize) -> Result<Vec<(i64, AlertReason)>, StoreError> {
        self.due_alert_keys(limit).await
    }

    async fn alert(&self, def_id: i64, reason: AlertReason) -> Result<Option<(AlertRow, AlertFacts)>, StoreError> {
        self.alert_and_facts(def_id, reason).await
    }

    async fn advance_alert(&self, step: &AlertStep) -> Result<Advanced, StoreError> {
        self.store_alert_step(step).await
    }

    async fn alerts(&self, limit: usize) -> Result<Vec<(i64, AlertReason, AlertRow)>, StoreError> {
        let (_, texts) = self.alert_texts().await?;
        let row = |(field, text): (&String, &String)| {
            let (def_id, reason) = key(field)?;
            Some((def_id, reason, codec::alert_row(text)?))
        };
        let mut alerts: Vec<_> = texts.iter().filter_map(row).collect();
        alerts.sort_unstable_by_key(|(def_id, reason, _)| (*def_id, reason.as_str()));
        alerts.truncate(limit);
        Ok(alerts)
    }

    async fn change_alerts(&self, change: &AlertChange, who: &str) -> Result<bool, StoreError> {
        self.change_rows(change, who).await
    }
}
