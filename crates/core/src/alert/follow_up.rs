//! The content of a follow-up when it is sent: a pure function, the same for a sweeper and for a simulation.
//!
//! [`super::cooldown`] decides whether there is news, and which; the caller determines the recipients.

use std::time::Duration;

use super::cooldown::{AlertRow, FollowUpFacts, News, news};
use super::{Alert, AlertKind};
use crate::definition::{KeepHistory, Policy};
use crate::notice::{rfc3339, time_from_millis};
use crate::store::FollowUpResult;

/// The cool-down where there is no valid definition.
pub const DEFAULT_COOLDOWN: Duration = Duration::from_secs(300);

/// Returns the alert of a due follow-up, if there is news, and the effect on its row ([`super::cooldown::tell`]) once it has
/// been sent. `alert` has its reason and definition set; this function fills in the rest. `sightings`: see [`news`].
pub fn follow_up(
    alert_def: i64,
    def_id: i64,
    mut alert: Alert,
    row: AlertRow,
    facts: FollowUpFacts,
    policy: Option<&Policy>,
    sightings: Duration,
) -> (Option<Alert>, FollowUpResult) {
    let cooldown = policy.map_or(DEFAULT_COOLDOWN, |policy| policy.alert_cooldown);
    // Successes that may be purged before the follow-up searches for them count as not kept.
    let keeps = policy.is_none_or(|policy| match policy.keep_history {
        KeepHistory::Never => false,
        KeepHistory::For(time) => time > cooldown.saturating_mul(2),
        KeepHistory::Forever => true,
    });
    let (kind, next) = match news(&row, alert.reason, facts, keeps, sightings, cooldown) {
        News::Recovered => (Some(AlertKind::Recovered), None),
        News::Digest => (Some(AlertKind::Digest), Some(cooldown)),
        News::Quiet(pause) => (None, Some(pause)),
        News::Stale => (None, None),
    };
    let told = FollowUpResult {
        alert_def,
        def_id,
        reason: alert.reason,
        count: row.suppressed,
        seen: row.last_seen,
        closes: next.is_none(),
        notified: kind.is_some(),
        next: next.unwrap_or(cooldown),
        cooldown,
    };
    let alert = kind.map(|kind| {
        alert.kind = kind;
        complete(&mut alert, row, facts.succeeded);
        alert
    });
    (alert, told)
}

/// Fills in the fields that the row of an alert contains.
fn complete(alert: &mut Alert, row: AlertRow, succeeded: Option<i64>) {
    alert.more = row.suppressed;
    alert.since = rfc3339(time_from_millis(row.opened));
    if alert.kind == AlertKind::Recovered {
        // For a condition, the last check that noticed it; for failures, the first success.
        let ended = if alert.reason.is_delivery() { succeeded } else { Some(row.last_seen) };
        alert.lasted_ms = ended.and_then(|ended| u64::try_from(ended - row.opened).ok());
    }
    (alert.notice_id, alert.class) = (row.notice_id, row.class);
    alert.message = row.message.unwrap_or_default();
    alert.node = row.node.unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AlertReason, NotifyDef};

    /// Returns what is sent ten minutes after the last failure, if a notice succeeded a minute after it.
    fn ten_minutes_later(def: NotifyDef, suppressed: i64, succeeded: Option<i64>) -> (Option<Alert>, FollowUpResult) {
        let row = AlertRow { opened: 0, last_notified: Some(0), suppressed, last_seen: 60_000, ..AlertRow::default() };
        let facts = FollowUpFacts { now: 660_000, succeeded, still_failing: false };
        let alert = Alert::new(AlertKind::Raised, AlertReason::FinalFailure, "sync", "");
        follow_up(1, 2, alert, row, facts, Some(&def.policy().unwrap()), Duration::from_secs(60))
    }

    #[test]
    fn a_follow_up_alert_fits_the_change_of_its_row() {
        let sync = || NotifyDef::new("sync");
        let (alert, told) = ten_minutes_later(sync(), 7, None);
        assert_eq!(alert.unwrap().title(), "sync: 7 more failures since 00:00");
        assert_eq!((told.count, told.seen, told.closes, told.notified), (7, 60_000, false, true));
        let (alert, told) = ten_minutes_later(sync(), 0, Some(120_000));
        assert_eq!(alert.unwrap().title(), "sync: recovered after 2 min");
        assert_eq!((told.closes, told.notified), (true, true));
        let (alert, told) = ten_minutes_later(sync(), 0, None);
        assert_eq!((alert, told.closes, told.notified), (None, false, false));
        assert_eq!(told.next, Duration::from_secs(600), "the longer nothing happens, the more seldom it is looked at");
    }

    #[test]
    fn where_history_is_purged_too_soon_no_success_is_waited_for() {
        let (alert, told) = ten_minutes_later(NotifyDef::new("sync").keep_history("10m"), 0, None);
        assert_eq!((alert.unwrap().title().as_str(), told.closes), ("sync: no more failures", true));
    }
}
