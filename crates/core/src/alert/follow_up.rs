//! What a follow-up tells when it is sent: a pure function, the same for a sweeper and for a simulation.
//!
//! Whether there is news, and which, is decided in [`super::cooldown`]; who gets it is left to whoever sends it.

use std::time::Duration;

use super::cooldown::{AlertRow, News, Standing, news};
use super::{Alert, AlertKind};
use crate::definition::{KeepHistory, Policy};
use crate::notice::time_from_millis;
use crate::store::Told;

/// The cool-down of what is about no valid definition.
pub const DEFAULT_COOLDOWN: Duration = Duration::from_secs(300);

/// What a follow-up that is due tells, if anything, and what that makes of its row ([`super::cooldown::tell`]) once it has been
/// told. `alert` is completed: it says the reason and the definition already. `sightings`: see [`news`].
pub fn follow_up(
    alert_def: i64,
    def_id: i64,
    mut alert: Alert,
    row: AlertRow,
    standing: Standing,
    policy: Option<&Policy>,
    sightings: Duration,
) -> (Option<Alert>, Told) {
    let cooldown = policy.map_or(DEFAULT_COOLDOWN, |policy| policy.alert_cooldown);
    // What is purged before it is looked for leaves no trace.
    let keeps = policy.is_none_or(|policy| match policy.keep_history {
        KeepHistory::Never => false,
        KeepHistory::For(time) => time > cooldown.saturating_mul(2),
        KeepHistory::Forever => true,
    });
    let (kind, next) = match news(&row, alert.reason, standing, keeps, sightings, cooldown) {
        News::Recovered => (Some(AlertKind::Recovered), None),
        News::Digest => (Some(AlertKind::Digest), Some(cooldown)),
        News::Quiet(pause) => (None, Some(pause)),
        News::Stale => (None, None),
    };
    let told = Told {
        alert_def,
        def_id,
        reason: alert.reason,
        count: row.held_back,
        seen: row.last_seen,
        closes: next.is_none(),
        notified: kind.is_some(),
        next: next.unwrap_or(cooldown),
        cooldown,
    };
    let alert = kind.map(|kind| {
        alert.kind = kind;
        complete(&mut alert, row, standing.succeeded);
        alert
    });
    (alert, told)
}

/// Says what the row of an alert knows.
fn complete(alert: &mut Alert, row: AlertRow, succeeded: Option<i64>) {
    alert.more = row.held_back;
    alert.since = humantime::format_rfc3339_millis(time_from_millis(row.opened)).to_string();
    if alert.kind == AlertKind::Recovered {
        // Of a condition the last look that saw it, of failures the first success.
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

    /// What is told ten minutes after the last failure, where something succeeded a minute after it.
    fn ten_minutes_later(def: NotifyDef, held_back: i64, succeeded: Option<i64>) -> (Option<Alert>, Told) {
        let row = AlertRow { opened: 0, last_notified: Some(0), held_back, last_seen: 60_000, ..AlertRow::default() };
        let standing = Standing { now: 660_000, succeeded, still_failing: false };
        let alert = Alert::new(AlertKind::Raised, AlertReason::FinalFailure, "sync", "");
        follow_up(1, 2, alert, row, standing, Some(&def.policy().unwrap()), Duration::from_secs(60))
    }

    #[test]
    fn the_news_and_what_they_make_of_the_row_go_together() {
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
