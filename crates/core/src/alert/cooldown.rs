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

/// Returns for how long alarms are suppressed, in milliseconds: the cool-down, or, for a condition (which each check finds
/// again), the time it had lasted at the last alert, up to a day.
fn pause(row: &AlertRow, reason: AlertReason, cooldown: Duration) -> i64 {
    let cooldown = millis(cooldown);
    let lasted = row.last_notified.map_or(0, |notified| notified.saturating_sub(row.opened));
    if reason.is_delivery() { cooldown } else { lasted.clamp(cooldown, LONGEST_PAUSE.max(cooldown)) }
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
    /// disabled; then it does not learn that the condition is over.
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
    if !reason.is_delivery() && checks.lasted.is_none() {
        return if quiet >= STALE { News::Stale } else { News::Quiet(cooldown) };
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
    } else if row.suppressed > 0 && row.acknowledged_by.is_none() {
        let notified = row.last_notified.unwrap_or(row.opened);
        let silence_ended = row.silenced_until.is_some();
        let due = silence_ended || facts.now >= notified.saturating_add(pause(row, reason, cooldown));
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
mod tests {
    use super::*;
    use crate::alarm::Cause;
    use proptest::prelude::*;

    const MINUTE: i64 = 60_000;
    const COOLDOWN: Duration = Duration::from_secs(300);
    const CHECKS: Checks = Checks { interval: Duration::from_secs(60), lasted: Some(Duration::MAX) };

    fn alarm() -> Alarm {
        Alarm {
            alert_def: 1,
            def_id: 2,
            definition: "sync".to_owned(),
            reason: AlertReason::FinalFailure,
            cooldown: COOLDOWN,
            notice_id: Some(7),
            description: Some("order 7".to_owned()),
            class: Some("network".to_owned()),
            message: "refused".to_owned(),
            cause: Cause::default(),
            node: "n".to_owned(),
        }
    }

    fn opened_at(now: i64) -> AlertRow {
        raise(&AlertRow::default(), 1, &alarm(), now).row
    }

    #[test]
    fn the_first_alarm_is_sent_at_once_and_looked_at_after_the_cool_down() {
        let raised = raise(&AlertRow::default(), 1, &alarm(), 5 * MINUTE);
        assert!(raised.notify);
        assert_eq!((raised.row.due, raised.row.suppressed, raised.row.opened), (Some(10 * MINUTE), 0, 5 * MINUTE));
    }

    #[test]
    fn alarms_within_the_cool_down_are_suppressed_until_its_end() {
        let row = opened_at(0);
        let raised = raise(&row, 1, &alarm(), 2 * MINUTE);
        assert!(!raised.notify);
        assert_eq!((raised.row.suppressed, raised.row.due), (1, Some(5 * MINUTE)));
        let again = raise(&raised.row, 3, &alarm(), 3 * MINUTE);
        assert_eq!((again.notify, again.row.suppressed, again.row.due), (false, 4, Some(5 * MINUTE)));
        let quiet = AlertRow { suppressed: 0, due: Some(60 * MINUTE), ..raised.row };
        let sooner = raise(&quiet, 3, &alarm(), 3 * MINUTE);
        assert_eq!(sooner.row.due, Some(5 * MINUTE), "the end of the cool-down comes before the next look");
    }

    #[test]
    fn a_clock_that_is_set_back_suppresses_no_alert() {
        let row = opened_at(365 * 86_400_000);
        let raised = raise(&row, 2, &alarm(), 0);
        assert!(raised.notify);
        assert_eq!((raised.row.suppressed, raised.row.due), (1, Some(5 * MINUTE)));
        assert_eq!(raised.row.last_seen, LONGEST_PAUSE, "the recovery is reported on the next day");
    }

    #[test]
    fn of_a_first_batch_one_alert_is_sent_and_the_others_suppressed() {
        let raised = raise(&AlertRow::default(), 40, &alarm(), 0);
        assert_eq!((raised.notify, raised.row.suppressed, raised.row.due), (true, 39, Some(5 * MINUTE)));
    }

    #[test]
    fn after_the_cool_down_an_alarm_is_sent_unless_a_digest_is_due() {
        let row = opened_at(0);
        let later = raise(&row, 1, &alarm(), 5 * MINUTE);
        assert_eq!((later.notify, later.row.opened, later.row.due), (true, 0, Some(5 * MINUTE)), "the look is due");
        let looked_at = AlertRow { due: Some(60 * MINUTE), ..row.clone() };
        let again = raise(&looked_at, 1, &alarm(), 6 * MINUTE);
        assert_eq!((again.notify, again.row.opened, again.row.due), (true, 0, Some(60 * MINUTE)));
        let digest_is_due = AlertRow { suppressed: 7, due: Some(5 * MINUTE), ..row };
        let with_it = raise(&digest_is_due, 1, &alarm(), 6 * MINUTE);
        assert_eq!((with_it.notify, with_it.row.suppressed, with_it.row.due), (false, 8, Some(5 * MINUTE)));
    }

    #[test]
    fn alarm_after_the_cool_down_does_not_wait_for_a_look_or_a_later_digest() {
        let row = opened_at(0);
        let due_look = AlertRow { suppressed: 0, due: Some(5 * MINUTE), ..row.clone() };
        assert!(raise(&due_look, 1, &alarm(), 6 * MINUTE).notify);
        let later_digest = AlertRow { suppressed: 2, due: Some(9 * MINUTE), ..row };
        assert!(raise(&later_digest, 1, &alarm(), 6 * MINUTE).notify);
    }

    #[test]
    fn a_due_alert_becomes_a_digest_a_recovery_or_a_later_look() {
        let row = AlertRow { suppressed: 812, last_seen: 0, ..opened_at(0) };
        let look = |row: &AlertRow, now, succeeded: bool| {
            let facts = AlertFacts { now, succeeded: succeeded.then_some(1), still_failing: false };
            news(row, AlertReason::FinalFailure, facts, true, CHECKS, COOLDOWN)
        };
        assert_eq!(look(&row, 5 * MINUTE, false), News::Digest);
        assert_eq!(look(&row, 5 * MINUTE, true), News::Recovered);
        assert_eq!(look(&row, 4 * MINUTE, true), News::Digest, "one success among failures is no recovery");
        let reported = AlertRow { suppressed: 0, ..row };
        assert_eq!(look(&reported, MINUTE, false), News::Quiet(COOLDOWN));
        assert_eq!(look(&reported, 60 * MINUTE, false), News::Quiet(Duration::from_secs(3600)));
        assert_eq!(look(&reported, 3 * 86_400_000, false), News::Quiet(Duration::from_secs(86_400)));
        assert_eq!(look(&reported, 8 * 86_400_000, false), News::Stale);
    }

    #[test]
    fn without_history_it_is_over_when_nothing_fails_any_more() {
        let row = opened_at(0);
        let look = |now, still_failing| {
            let facts = AlertFacts { now, succeeded: None, still_failing };
            news(&row, AlertReason::Failure, facts, false, CHECKS, COOLDOWN)
        };
        assert_eq!(look(5 * MINUTE, false), News::Recovered);
        assert!(matches!(look(5 * MINUTE, true), News::Quiet(_)));
        assert!(matches!(look(4 * MINUTE, false), News::Quiet(_)));
    }

    #[test]
    fn a_condition_is_over_when_it_was_not_seen_for_three_looks() {
        let row = AlertRow { suppressed: 3, ..opened_at(0) };
        let look = |now| {
            let facts = AlertFacts { now, succeeded: Some(1), still_failing: false };
            news(&row, AlertReason::Backlog, facts, true, CHECKS, COOLDOWN)
        };
        assert_eq!(look(2 * MINUTE), News::Quiet(COOLDOWN));
        assert_eq!(look(3 * MINUTE), News::Recovered);
    }

    #[test]
    fn a_condition_that_is_not_checked_is_not_over() {
        let row = AlertRow { suppressed: 3, ..opened_at(0) };
        let look = |now, reason, lasted| {
            let facts = AlertFacts { now, succeeded: Some(1), still_failing: false };
            news(&row, reason, facts, true, Checks { lasted, ..CHECKS }, COOLDOWN)
        };
        let (hour, day, pile) = (60 * MINUTE, 86_400_000, AlertReason::DeadLetters);
        assert_eq!(look(hour, pile, None), News::Quiet(COOLDOWN));
        assert_eq!(look(8 * day, pile, None), News::Stale);
        // Checked again since a moment ago: it may still be there.
        assert!(!matches!(look(hour, pile, Some(Duration::from_secs(179))), News::Recovered | News::Stale));
        assert_eq!(look(hour, pile, Some(Duration::from_secs(180))), News::Recovered);
        assert_eq!(look(hour, AlertReason::FinalFailure, None), News::Recovered, "a success shows that it is over");
    }

    #[test]
    fn a_lasting_condition_is_reported_at_growing_intervals() {
        let seen = |row: &AlertRow, now| raise(row, 1, &Alarm { reason: AlertReason::Backlog, ..alarm() }, now);
        let news_at = |row: &AlertRow, now| {
            let facts = AlertFacts { now, succeeded: None, still_failing: false };
            news(row, AlertReason::Backlog, facts, true, CHECKS, COOLDOWN)
        };
        let (mut row, mut notified) = (opened_at(0), Vec::new());
        for minute in 1..=200 {
            let now = minute * MINUTE;
            // The sweeper sees the condition before it looks at what is due.
            let raised = seen(&row, now);
            row = raised.row;
            let mut sent = raised.notify;
            if row.due.is_some_and(|due| due <= now) {
                let news = news_at(&row, now);
                sent |= news == News::Digest;
                row = advanced(&row, news, now, COOLDOWN).unwrap();
            }
            if sent {
                notified.push(minute);
            }
        }
        assert_eq!(notified, [5, 10, 20, 40, 80, 160]);
        assert!(matches!(news_at(&row, 201 * MINUTE), News::Quiet(_)));
        assert_eq!(news_at(&row, 203 * MINUTE), News::Recovered);
    }

    #[test]
    fn a_digest_resets_the_count_and_an_end_deletes_the_row() {
        let row = AlertRow { suppressed: 5, last_seen: 9, due: Some(10), ..opened_at(0) };
        let digest = advanced(&row, News::Digest, 20, COOLDOWN).unwrap();
        assert_eq!((digest.suppressed, digest.last_notified, digest.due), (0, Some(20), Some(20 + 5 * MINUTE)));
        let quiet = advanced(&row, News::Quiet(COOLDOWN), 20, COOLDOWN).unwrap();
        assert_eq!((quiet.suppressed, quiet.last_notified, quiet.due), (5, Some(0), Some(20 + 5 * MINUTE)));
        assert_eq!(advanced(&row, News::Recovered, 20, COOLDOWN), None);
        assert_eq!(advanced(&row, News::Stale, 20, COOLDOWN), None);
    }

    proptest! {
        #[test]
        fn no_alarm_is_lost(
            steps in proptest::collection::vec((1_i64..50, 0_i64..10 * MINUTE, 0..3_u8), 1..60)
        ) {
            // Every alarm is reported by its own alert, is suppressed, or was reported by a digest.
            let (mut row, mut now, mut raised, mut reported) = (AlertRow::default(), 0, 0, 0);
            for (count, pause, what) in steps {
                now += pause;
                if what < 2 {
                    let done = raise(&row, count, &alarm(), now);
                    raised += count;
                    reported += i64::from(done.notify);
                    row = done.row;
                    prop_assert!(row.suppressed == 0 || row.due.is_some(), "what is suppressed will be reported");
                } else if row.due.is_some_and(|due| due <= now) {
                    let facts = AlertFacts { now, succeeded: None, still_failing: true };
                    let news = news(&row, AlertReason::FinalFailure, facts, true, CHECKS, COOLDOWN);
                    reported += if news == News::Digest { row.suppressed } else { 0 };
                    row = advanced(&row, news, now, COOLDOWN).unwrap();
                }
            }
            prop_assert_eq!(reported + row.suppressed, raised);
        }
    }
}
