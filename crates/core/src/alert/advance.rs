//! What becomes of a due alert: a pure function, the same for a sweeper and for a simulation.
//!
//! [`super::cooldown`] decides whether there is news, and which; the sweeper determines the recipients when it sends the notice.

use std::time::Duration;

use super::cooldown::{AlertFacts, AlertRow, Checks, News, advanced, news};
use super::{Alert, AlertKind, AlertReason};
use crate::definition::{KeepHistory, Policy};
use crate::notice::{duration_millis, rfc3339, time_from_millis};

/// The cool-down where there is no valid definition.
pub const DEFAULT_COOLDOWN: Duration = Duration::from_secs(300);

/// Returns the alert to send for a due row, if there is news, and the row after it (`None`: the row is deleted). `alert` has its
/// reason and definition set; this function fills in the rest.
pub fn advance(
    mut alert: Alert,
    row: &AlertRow,
    facts: AlertFacts,
    policy: Option<&Policy>,
    checks: Checks,
) -> (Option<Alert>, Option<AlertRow>) {
    let cooldown = policy.map_or(DEFAULT_COOLDOWN, |policy| policy.alert_cooldown);
    // Successes that may be purged before the next look searches for them count as not kept.
    let keeps = policy.is_none_or(|policy| match policy.keep_history {
        KeepHistory::Never => false,
        KeepHistory::For(time) => time > cooldown.saturating_mul(2),
        KeepHistory::Forever => true,
    });
    let news = news(row, alert.reason, facts, keeps, checks, cooldown);
    let kind = match news {
        News::Recovered => Some(AlertKind::Recovered),
        News::Digest => Some(AlertKind::Digest),
        News::Quiet(_) | News::Stale => None,
    };
    let alert = kind.map(|kind| {
        alert.kind = kind;
        complete(&mut alert, row);
        let ended = match alert.reason {
            reason if reason.is_delivery() => facts.succeeded,
            // Since then this node sees it enabled.
            AlertReason::Paused => Some(facts.now - duration_millis(checks.lasted.unwrap_or_default())),
            // The last check that found it.
            _ => Some(row.last_seen),
        };
        if kind == AlertKind::Recovered {
            alert.lasted_ms = ended.and_then(|ended| u64::try_from(ended - row.opened).ok());
        }
        alert
    });
    (alert, advanced(row, news, facts.now, cooldown))
}

/// Fills in the fields that the row of an alert contains.
fn complete(alert: &mut Alert, row: &AlertRow) {
    alert.more = row.suppressed;
    alert.since = rfc3339(time_from_millis(row.opened));
    (alert.notice_id, alert.class, alert.description) = (row.notice_id, row.class.clone(), row.description.clone());
    alert.message = row.message.clone().unwrap_or_default();
    alert.node = row.node.clone().unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AlertReason, NotifyDef};

    /// Returns what is sent ten minutes after the last failure, if a notice succeeded a minute after it, and the row after that.
    fn ten_minutes_later(
        def: NotifyDef,
        suppressed: i64,
        succeeded: Option<i64>,
    ) -> (Option<String>, Option<AlertRow>) {
        let row = AlertRow { opened: 0, last_notified: Some(0), suppressed, last_seen: 60_000, ..AlertRow::default() };
        let checks = Checks { interval: Duration::from_secs(60), lasted: None };
        let facts = AlertFacts { now: 660_000, succeeded, still_failing: false };
        let alert = Alert::new(AlertKind::Raised, AlertReason::FinalFailure, "sync", "");
        let (alert, row) = advance(alert, &row, facts, Some(&def.policy().unwrap()), checks);
        (alert.map(|alert| alert.title()), row)
    }

    #[test]
    fn the_notice_of_a_due_alert_fits_the_change_of_its_row() {
        let sync = || NotifyDef::new("sync");
        let (title, row) = ten_minutes_later(sync(), 7, None);
        assert_eq!(title.unwrap(), "sync: 7 more failures since 1970-01-01 00:00 UTC");
        let row = row.unwrap();
        assert_eq!((row.suppressed, row.last_notified, row.due), (0, Some(660_000), Some(960_000)));
        let (title, row) = ten_minutes_later(sync(), 0, Some(120_000));
        assert_eq!((title.unwrap().as_str(), row), ("sync: recovered after 2 min", None));
        let (title, row) = ten_minutes_later(sync(), 0, None);
        assert_eq!(title, None);
        let next = 660_000 + 600_000;
        assert_eq!(row.unwrap().due, Some(next), "the longer nothing happens, the less often it is checked");
    }

    #[test]
    fn a_pause_lasted_until_the_definition_was_enabled() {
        let row = AlertRow { opened: 0, last_notified: Some(0), last_seen: 0, ..AlertRow::default() };
        let checks = Checks { interval: Duration::from_secs(60), lasted: Some(Duration::from_secs(240)) };
        let facts = AlertFacts { now: 86_640_000, succeeded: None, still_failing: true };
        let alert = Alert::new(AlertKind::Raised, AlertReason::Paused, "sync", "");
        let (alert, row) = advance(alert, &row, facts, NotifyDef::new("sync").policy().ok().as_ref(), checks);
        assert_eq!((alert.unwrap().title().as_str(), row), ("sync: recovered after 24 h 0 min", None));
    }

    #[test]
    fn where_history_is_purged_too_soon_no_success_is_waited_for() {
        let (title, row) = ten_minutes_later(NotifyDef::new("sync").keep_history("10m"), 0, None);
        assert_eq!((title.unwrap().as_str(), row), ("sync: no more failures", None));
    }
}
