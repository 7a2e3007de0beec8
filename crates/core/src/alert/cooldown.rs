//! When an alert is sent, suppressed, summed up or over: pure functions over the row of `notify_alert` that all nodes share.
//!
//! The first alarm of a definition and reason is sent at once and makes the row due at the end of the cool-down. Alarms until then
//! are counted. The node that finds the row due moves it on: it inserts a digest or the notice of the recovery, or looks again later.
//! While an operator silences the alert ([`super::silence`]), nothing is sent, and the row is due at the end of the silence.
//! Only the recovery of an acknowledged alert is sent.

use std::time::Duration;

use crate::alarm::{Alarm, AlertReason};
use crate::notice::duration_from_millis;

/// A row of `notify_alert`. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AlertRow {
    /// When it began.
    pub opened: i64,
    /// When an alert was last sent; `None` for a new row.
    pub last_notified: Option<i64>,
    /// How many alarms were suppressed since then.
    pub suppressed: i64,
    /// When the last alarm came.
    pub last_seen: i64,
    /// When a node has to look at it again.
    pub due: Option<i64>,
    /// The notice of the last alarm.
    pub notice_id: Option<i64>,
    /// The description of that notice.
    pub description: Option<String>,
    /// Its error class.
    pub class: Option<String>,
    /// Its message.
    pub message: Option<String>,
    /// The node that raised it.
    pub node: Option<String>,
    /// Until when an operator silences it. A time that has passed: the look at the end of the silence is still due.
    pub silenced_until: Option<i64>,
    /// When an operator acknowledged it.
    pub acknowledged_at: Option<i64>,
    /// The operator.
    pub acknowledged_by: Option<String>,
}

impl AlertRow {
    /// Returns true if alarms were raised, and false for a bare silence.
    pub fn is_open(&self) -> bool {
        self.last_notified.is_some() || self.suppressed > 0
    }

    /// Returns true while an operator silences it.
    pub fn is_silenced(&self, now: i64) -> bool {
        self.silenced_until.is_some_and(|until| until > now)
    }
}

/// Effect of alarms on a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raised {
    /// The new row.
    pub row: AlertRow,
    /// Whether to send an alert for the first of them at once.
    pub notify: bool,
}

/// Returns the effect of `count` alarms of the same definition and reason on their row; `last` is the last of them.
pub fn raise(row: &AlertRow, count: i64, last: &Alarm, now: i64) -> Raised {
    let cooldown = pause(row, last.reason, last.cooldown);
    // A clock that was ahead and has been set back must not suppress alarms for longer than the cool-down.
    let notified = row.last_notified.filter(|notified| *notified <= now);
    let is_over = notified.is_none_or(|notified| now >= notified.saturating_add(cooldown));
    // A digest that is due reports these alarms, too.
    let digest_is_due = row.suppressed > 0 && row.due.is_some_and(|due| due <= now);
    let (silenced, acknowledged) = (row.is_silenced(now), row.acknowledged_by.is_some());
    let notify = is_over && !digest_is_due && !silenced && !acknowledged;
    let mut new = row.clone();
    if !row.is_open() {
        new.opened = now;
    }
    if notify {
        new.last_notified = Some(now);
    }
    new.suppressed = row.suppressed.saturating_add(count - i64::from(notify));
    // A time further ahead was stored by a wrong clock. Without the bound the alert could not end before that time.
    new.last_seen = now.max(row.last_seen.min(now.saturating_add(LONGEST_PAUSE)));
    new.notice_id = last.notice_id;
    new.description.clone_from(&last.description);
    new.class.clone_from(&last.class);
    new.message = Some(last.message.clone());
    new.node = Some(last.node.clone());
    let ends = new.last_notified.filter(|notified| *notified <= now).unwrap_or(now).saturating_add(cooldown);
    new.due = Some(match row.due {
        Some(due) if new.suppressed == 0 || acknowledged => due,
        due => due.map_or(ends, |due| due.min(ends)),
    });
    if silenced {
        new.due = row.silenced_until;
    }
    Raised { row: new, notify }
}

/// Returns for how long alarms are suppressed, in milliseconds: the cool-down, or, for a condition that each check finds
/// again, the time it had lasted at the last alert, up to a day.
fn pause(row: &AlertRow, reason: AlertReason, cooldown: Duration) -> i64 {
    let cooldown = millis(cooldown);
    let lasted = row.last_notified.map_or(0, |notified| notified.saturating_sub(row.opened));
    let is_found_again = !reason.is_delivery() && reason != AlertReason::Paused;
    if is_found_again { lasted.clamp(cooldown, LONGEST_PAUSE.max(cooldown)) } else { cooldown }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The content of a due alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// It is over.
    Recovered,
    /// More of the same came meanwhile.
    Digest,
    /// No news yet: check again after this time.
    Quiet(Duration),
    /// No alarm came for so long, or during a silence, that the alert is closed without a message.
    Stale,
}

/// The data beside the row that decides about a due alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlertFacts {
    /// The time.
    pub now: i64,
    /// When the first notice of the definition succeeded, at or after the time of the last alarm: a success in the same
    /// millisecond counts, which a test with a hand-turned clock meets.
    pub succeeded: Option<i64>,
    /// Notices of the definition wait for a retry.
    pub still_failing: bool,
}

/// How nodes check a condition, which no outcome of an attempt shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checks {
    /// The time between two checks.
    pub interval: Duration,
    /// For how long this node has made them without a break. `None`: it makes none now, for instance because the definition is
    /// paused; then it does not learn that the condition is over.
    pub lasted: Option<Duration>,
}

/// After this time without an alarm the alert is closed without a message.
const STALE: i64 = 7 * 86_400_000;
/// The longest pause between two looks at an alert.
const LONGEST_PAUSE: i64 = 86_400_000;

/// Returns the content of a due alert. `keeps_history`: successes stay in history for long enough. A condition that three checks in
/// a row did not find is over.
pub fn news(
    row: &AlertRow,
    reason: AlertReason,
    facts: AlertFacts,
    keeps_history: bool,
    checks: Checks,
    cooldown: Duration,
) -> News {
    if let Some(until) = row.silenced_until.filter(|_| row.is_silenced(facts.now)) {
        return News::Quiet(duration_from_millis(until - facts.now));
    }
    if !row.is_open() {
        return News::Stale;
    }
    let quiet = facts.now.saturating_sub(row.last_seen);
    let notified = row.last_notified.unwrap_or(row.opened);
    let silence_ended = row.silenced_until.is_some();
    let due = silence_ended || facts.now >= notified.saturating_add(pause(row, reason, cooldown));
    let more = row.suppressed > 0 && row.acknowledged_by.is_none();
    if !reason.is_delivery() && checks.lasted.is_none() {
        // No node checks a definition that is paused. That it was paused again is news.
        return match () {
            () if more && due && reason == AlertReason::Paused => News::Digest,
            () if quiet >= STALE => News::Stale,
            () => News::Quiet(cooldown),
        };
    }
    let over = match reason.is_delivery() {
        // One success among failures is no recovery.
        true if keeps_history => facts.succeeded.is_some() && quiet >= millis(cooldown),
        // Successes are not stored. The problem is over if nothing has failed for a cool-down and no notice waits for a retry.
        true => quiet >= millis(cooldown) && !facts.still_failing,
        false => quiet.min(millis(checks.lasted.unwrap_or_default())) >= millis(checks.interval).saturating_mul(3),
    };
    if over {
        News::Recovered
    } else if more {
        // The end of a condition is reported soon; that it continues is reported less and less often.
        if due || reason.is_delivery() { News::Digest } else { News::Quiet(cooldown) }
    } else if quiet >= STALE {
        News::Stale
    } else {
        // The longer nothing happens, the less often it is checked.
        let pause = quiet.clamp(millis(cooldown), LONGEST_PAUSE.max(millis(cooldown)));
        News::Quiet(duration_from_millis(pause))
    }
}

/// Returns the row after this content of a due alert; `None`: the row is deleted.
pub fn advanced(row: &AlertRow, news: News, now: i64, cooldown: Duration) -> Option<AlertRow> {
    let after = |pause: Duration| Some(now.saturating_add(millis(pause)));
    match news {
        News::Recovered | News::Stale => None,
        News::Quiet(pause) => {
            let silenced_until = row.silenced_until.filter(|_| row.is_silenced(now));
            Some(AlertRow { due: after(pause), silenced_until, ..row.clone() })
        }
        News::Digest => {
            let (last_notified, due) = (Some(now), after(cooldown));
            Some(AlertRow { suppressed: 0, last_notified, due, silenced_until: None, ..row.clone() })
        }
    }
}

#[cfg(test)]
#[path = "cooldown_tests.rs"]
mod tests;
