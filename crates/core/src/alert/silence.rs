//! An operator's verbs on alerts: silence, unsilence, acknowledge. [`decide`] is pure, stores apply it to the rows of `notify_alert`.
//!
//! [`super::cooldown`] decides what a silence or an acknowledgement does to alarms and digests.

use chrono::{DateTime, Utc};

use super::AlertReason;
use super::cooldown::AlertRow;
use crate::notice::{millis_from_time, rfc3339};

/// An operator's verb on the alerts of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AlertVerb {
    /// Sends no alert until then. Alarms are counted.
    Silence {
        /// Until when.
        until: DateTime<Utc>,
        /// Why, for people.
        reason: String,
    },
    /// Ends the silence.
    Unsilence,
    /// Sends no digest until the problem is over, because an operator takes care of it.
    Acknowledge,
}

/// A verb, and what it concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertChange {
    /// The definition.
    pub def_id: i64,
    /// The reason of the alerts; `None`: all reasons.
    pub reason: Option<AlertReason>,
    /// The verb.
    pub verb: AlertVerb,
}

impl AlertChange {
    /// Returns the reasons whose rows it concerns, in their order.
    pub fn reasons(&self) -> Vec<AlertReason> {
        self.reason.map_or_else(|| AlertReason::ALL.to_vec(), |reason| vec![reason])
    }

    /// Returns its name in the audit.
    pub fn act(&self) -> &'static str {
        match self.verb {
            AlertVerb::Silence { .. } => "silence",
            AlertVerb::Unsilence => "unsilence",
            AlertVerb::Acknowledge => "acknowledge",
        }
    }

    /// Returns its detail in the audit.
    pub fn detail(&self) -> String {
        let what = self.reason.map_or("all alerts", AlertReason::as_str);
        match &self.verb {
            AlertVerb::Silence { until, reason } => format!("{what} until {}; reason: {reason}", rfc3339(*until)),
            AlertVerb::Unsilence | AlertVerb::Acknowledge => what.to_owned(),
        }
    }
}

/// Decides what a verb of the operator `who` does to the row of an alert: the new row (`Some(None)`: it is deleted), or `None`
/// where it changes nothing. `row`: `None` where there is none.
pub fn decide(row: Option<&AlertRow>, verb: &AlertVerb, who: &str, now: i64) -> Option<Option<AlertRow>> {
    match verb {
        AlertVerb::Silence { until, .. } => {
            let until = millis_from_time(*until);
            let new = || AlertRow { opened: now, last_seen: now, ..AlertRow::default() };
            let row = || AlertRow { silenced_until: Some(until), due: Some(until), ..row.cloned().unwrap_or_else(new) };
            (until > now).then(|| Some(row()))
        }
        AlertVerb::Unsilence => {
            let row = row.filter(|row| row.is_silenced(now))?;
            // The end of the silence is now, which the next look sees.
            let ended = || AlertRow { silenced_until: Some(now), due: Some(now), ..row.clone() };
            Some(row.is_open().then(ended))
        }
        AlertVerb::Acknowledge => {
            let row = row.filter(|row| row.is_open() && row.acknowledged_by.is_none())?;
            let (acknowledged_at, acknowledged_by) = (Some(now), Some(who.to_owned()));
            Some(Some(AlertRow { acknowledged_at, acknowledged_by, ..row.clone() }))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::cooldown::{AlertFacts, Checks, News, advanced, news, raise};
    use super::*;
    use crate::alarm::{Alarm, Cause};
    use crate::notice::time_from_millis;

    fn silence(until: i64) -> AlertVerb {
        AlertVerb::Silence { until: time_from_millis(until), reason: "maintenance".to_owned() }
    }

    fn open() -> AlertRow {
        AlertRow { opened: 1, last_notified: Some(1), suppressed: 2, due: Some(9), ..AlertRow::default() }
    }

    #[test]
    fn silence_makes_a_row_that_is_due_at_its_end() {
        let row = decide(None, &silence(50), "alice", 10).unwrap().unwrap();
        assert_eq!((row.silenced_until, row.due, row.is_open()), (Some(50), Some(50), false));
        let row = decide(Some(&open()), &silence(50), "alice", 10).unwrap().unwrap();
        assert_eq!((row.silenced_until, row.due, row.suppressed), (Some(50), Some(50), 2));
        assert_eq!(decide(Some(&open()), &silence(10), "alice", 10), None, "it is over already");
    }

    #[test]
    fn end_of_a_silence_makes_an_open_alert_due_and_deletes_a_bare_silence() {
        let silenced = decide(Some(&open()), &silence(50), "alice", 10).unwrap().unwrap();
        let ended = decide(Some(&silenced), &AlertVerb::Unsilence, "bob", 20).unwrap().unwrap();
        assert_eq!((ended.silenced_until, ended.due, ended.suppressed), (Some(20), Some(20), 2));
        assert_eq!(decide(Some(&ended), &AlertVerb::Unsilence, "bob", 20), None, "it has ended");
        let bare = decide(None, &silence(50), "alice", 10).unwrap();
        assert_eq!(decide(bare.as_ref(), &AlertVerb::Unsilence, "bob", 20), Some(None));
        assert_eq!(decide(None, &AlertVerb::Unsilence, "bob", 20), None);
    }

    #[test]
    fn open_alert_is_acknowledged_once() {
        let row = decide(Some(&open()), &AlertVerb::Acknowledge, "alice", 10).unwrap().unwrap();
        assert_eq!((row.acknowledged_by.as_deref(), row.acknowledged_at, row.due), (Some("alice"), Some(10), Some(9)));
        assert_eq!(decide(Some(&row), &AlertVerb::Acknowledge, "bob", 20), None);
        let bare = decide(None, &silence(50), "alice", 10).unwrap();
        assert_eq!(decide(bare.as_ref(), &AlertVerb::Acknowledge, "bob", 20), None, "nothing has happened");
    }

    const COOLDOWN: Duration = Duration::from_secs(300);
    const MINUTE: i64 = 60_000;

    fn alarm(reason: AlertReason) -> Alarm {
        Alarm {
            alert_def: 1,
            def_id: 2,
            definition: "sync".to_owned(),
            reason,
            cooldown: COOLDOWN,
            notice_id: None,
            description: None,
            class: None,
            message: "refused".to_owned(),
            cause: Cause::default(),
            node: "n".to_owned(),
        }
    }

    fn looked_at(row: &AlertRow, reason: AlertReason, now: i64, succeeded: bool) -> News {
        let facts = AlertFacts { now, succeeded: succeeded.then_some(now), still_failing: false };
        let checks = Checks { interval: Duration::from_secs(60), lasted: Some(Duration::MAX) };
        news(row, reason, facts, true, checks, COOLDOWN)
    }

    #[test]
    fn silenced_alarms_are_counted_and_reported_at_the_end() {
        for reason in [AlertReason::FinalFailure, AlertReason::Backlog] {
            let bare = decide(None, &silence(60 * MINUTE), "alice", 0).unwrap().unwrap();
            let first = raise(&bare, 2, &alarm(reason), 10 * MINUTE);
            let last = raise(&first.row, 1, &alarm(reason), 59 * MINUTE);
            assert!(!first.notify && !last.notify, "{reason:?}");
            let row = last.row;
            assert_eq!((row.suppressed, row.opened, row.due), (3, 10 * MINUTE, Some(60 * MINUTE)), "{reason:?}");
            let rest = Duration::from_secs(60);
            assert_eq!(looked_at(&row, reason, 59 * MINUTE, true), News::Quiet(rest), "{reason:?}");
            assert_eq!(looked_at(&row, reason, 60 * MINUTE, false), News::Digest, "{reason:?}");
            assert!(!raise(&row, 1, &alarm(reason), 60 * MINUTE).notify, "the digest reports it, too");
            let after = advanced(&row, News::Digest, 60 * MINUTE, COOLDOWN).unwrap();
            assert_eq!((after.silenced_until, after.suppressed), (None, 0), "{reason:?}");
            assert_eq!(looked_at(&row, reason, 70 * MINUTE, true), News::Recovered, "{reason:?}");
        }
    }

    #[test]
    fn silence_without_alarms_ends_without_a_message() {
        let bare = decide(None, &silence(60 * MINUTE), "alice", 0).unwrap().unwrap();
        assert_eq!(looked_at(&bare, AlertReason::Backlog, 60 * MINUTE, true), News::Stale);
        let alarm = raise(&bare, 1, &alarm(AlertReason::Backlog), 61 * MINUTE);
        assert!(alarm.notify && alarm.row.opened == 61 * MINUTE, "the silence is over");
        let quiet = advanced(&alarm.row, News::Quiet(COOLDOWN), 61 * MINUTE, COOLDOWN).unwrap();
        assert_eq!(quiet.silenced_until, None);
        let still = advanced(&bare, News::Quiet(COOLDOWN), 59 * MINUTE, COOLDOWN).unwrap();
        assert_eq!(still.silenced_until, Some(60 * MINUTE));
    }

    #[test]
    fn acknowledged_alert_is_reported_only_when_it_is_over() {
        let reason = AlertReason::FinalFailure;
        let opened = raise(&AlertRow::default(), 1, &alarm(reason), 0).row;
        let row = decide(Some(&opened), &AlertVerb::Acknowledge, "alice", MINUTE).unwrap().unwrap();
        let more = raise(&row, 2, &alarm(reason), 20 * MINUTE);
        assert_eq!((more.notify, more.row.suppressed, more.row.due), (false, 2, row.due), "no look for each alarm");
        assert_eq!(looked_at(&more.row, reason, 20 * MINUTE, false), News::Quiet(COOLDOWN));
        assert_eq!(looked_at(&more.row, reason, 25 * MINUTE, true), News::Recovered);
        assert_eq!(looked_at(&more.row, reason, 20 * MINUTE + 7 * 86_400_000, false), News::Stale);
    }

    #[test]
    fn audit_has_reason_and_time() {
        let change = AlertChange { def_id: 1, reason: None, verb: silence(50) };
        assert_eq!(change.detail(), "all alerts until 1970-01-01T00:00:00.050Z; reason: maintenance");
        let change = AlertChange { reason: Some(AlertReason::Backlog), verb: AlertVerb::Acknowledge, ..change };
        assert_eq!((change.act(), change.detail().as_str(), change.reasons().len()), ("acknowledge", "backlog", 1));
    }
}
