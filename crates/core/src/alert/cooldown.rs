//! When an alert is sent, suppressed, summed up or over: pure functions over the row of `notify_alert` that all nodes share.
//!
//! The first alarm of a definition and reason is sent at once. Alarms within the cool-down are counted, and the first of them
//! adds one delayed notice, the follow-up. When the follow-up is sent it reads the row and becomes a digest, a recovery, or, if
//! there is no news yet, another follow-up later. So while deliveries succeed there is no work.

use std::time::Duration;

use super::AlertReason;
use crate::notice::duration_from_millis;
use crate::store::{Alarm, FollowUpResult};

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
    /// The id of the follow-up, if one was added.
    pub follow_up: Option<i64>,
    /// The notice of the last alarm.
    pub notice_id: Option<i64>,
    /// Its error class.
    pub class: Option<String>,
    /// Its message.
    pub message: Option<String>,
    /// The node that raised it.
    pub node: Option<String>,
}

/// The state of the follow-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowUp {
    /// There is none (it was sent or removed, or none was added).
    None,
    /// It waits until this time.
    Asleep(i64),
    /// It is due, or being sent: it, or the next one, includes the alarms that come now.
    AtWork,
}

/// Effect of alarms on a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raised {
    /// The new row, without the id of a new follow-up.
    pub row: AlertRow,
    /// Whether to send an alert for the first of them at once.
    pub notify: bool,
    /// After how long a follow-up is due: a new one if there is none, or the existing one if it would be due later.
    pub follow_up: Option<Duration>,
}

/// Returns the effect of `count` alarms of the same definition and reason on their row; `last` is the last of them.
pub fn raise(row: &AlertRow, follow_up: FollowUp, count: i64, last: &Alarm, now: i64) -> Raised {
    let cooldown = pause(row, last.reason, last.cooldown);
    // A clock that was ahead and has been set back must not suppress alarms for longer than the cool-down.
    let told = row.last_notified.filter(|told| *told <= now);
    let cool = told.is_none_or(|told| now >= told.saturating_add(cooldown));
    let notify = cool && follow_up != FollowUp::AtWork;
    // A failure long after the last one is a new incident, even if no recovery was sent for the old one.
    let is_new = row.last_notified.is_none() || now.saturating_sub(row.last_seen) >= LONGEST_PAUSE;
    let mut new = row.clone();
    if is_new && follow_up == FollowUp::None {
        new.opened = now;
    }
    if notify {
        new.last_notified = Some(now);
    }
    new.suppressed = row.suppressed.saturating_add(count - i64::from(notify));
    // A time further ahead was stored by a wrong clock. Without the bound the alert could not end before that time.
    new.last_seen = now.max(row.last_seen.min(now.saturating_add(LONGEST_PAUSE)));
    new.notice_id = last.notice_id;
    new.class.clone_from(&last.class);
    new.message = Some(last.message.clone());
    new.node = Some(last.node.clone());
    let ends = new.last_notified.filter(|told| *told <= now).unwrap_or(now).saturating_add(cooldown);
    let wanted = match follow_up {
        FollowUp::None => new.suppressed > 0 || !is_new,
        FollowUp::Asleep(due) => new.suppressed > 0 && due > ends,
        FollowUp::AtWork => false,
    };
    let after = duration_from_millis(ends - now);
    Raised { row: new, notify, follow_up: wanted.then_some(after) }
}

/// Returns for how long alarms are suppressed, in milliseconds: the cool-down, or, for a condition (which each check notices
/// again), the time it had lasted at the last alert, up to a day.
fn pause(row: &AlertRow, reason: AlertReason, cooldown: Duration) -> i64 {
    let cooldown = millis(cooldown);
    let lasted = row.last_notified.map_or(0, |told| told.saturating_sub(row.opened));
    if reason.is_delivery() { cooldown } else { lasted.clamp(cooldown, LONGEST_PAUSE.max(cooldown)) }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The content of a follow-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// It is over.
    Recovered,
    /// More of the same came meanwhile.
    Digest,
    /// No news yet: check again after this time.
    Quiet(Duration),
    /// No alarm came for so long that the alert is closed without a message.
    Stale,
}

/// The data beside the row that a follow-up needs when it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowUpFacts {
    /// The time.
    pub now: i64,
    /// When the first notice of the definition succeeded after the last alarm.
    pub succeeded: Option<i64>,
    /// Notices of the definition wait for a retry.
    pub still_failing: bool,
}

/// After this time without an alarm the alert is closed without a message.
const STALE: i64 = 7 * 86_400_000;
/// The longest pause between two follow-ups.
const LONGEST_PAUSE: i64 = 86_400_000;

/// Returns the content of a follow-up of `row`. `keeps_history`: successes stay in history for long enough. `sightings`: the
/// interval between two checks of a condition; a condition that three checks did not notice is over.
pub fn news(
    row: &AlertRow,
    reason: AlertReason,
    facts: FollowUpFacts,
    keeps_history: bool,
    sightings: Duration,
    cooldown: Duration,
) -> News {
    let quiet = facts.now.saturating_sub(row.last_seen);
    let over = match reason.is_delivery() {
        // One success among failures is no recovery.
        true if keeps_history => facts.succeeded.is_some() && quiet >= millis(cooldown),
        // Successes are not stored. The problem is over if nothing has failed for a cool-down and no notice waits for a retry.
        true => quiet >= millis(cooldown) && !facts.still_failing,
        false => quiet >= millis(sightings).saturating_mul(3),
    };
    if over {
        News::Recovered
    } else if row.suppressed > 0 {
        let told = row.last_notified.unwrap_or(row.opened);
        let due = facts.now >= told.saturating_add(pause(row, reason, cooldown));
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

/// Returns the row after the content of a follow-up was sent, and after how long the next one is due; `None`: the row is
/// deleted.
///
/// Alarms that came while the follow-up was being sent are reported at the end of the cool-down, not only at the next check.
pub fn tell(row: &AlertRow, told: &FollowUpResult, now: i64) -> Option<(AlertRow, Duration)> {
    if told.closes && row.last_seen <= told.seen && row.suppressed <= told.count {
        return None;
    }
    let mut new = row.clone();
    if told.notified {
        new.suppressed = row.suppressed.saturating_sub(told.count).max(0);
        new.last_notified = Some(now);
    }
    if row.suppressed <= told.count {
        return Some((new, told.next));
    }
    let since = new.last_notified.unwrap_or(new.opened).min(now);
    let ends = since.saturating_add(pause(&new, told.reason, told.cooldown));
    Some((new, told.next.min(duration_from_millis(ends - now))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MINUTE: i64 = 60_000;
    const COOLDOWN: Duration = Duration::from_secs(300);

    fn alarm() -> Alarm {
        Alarm {
            alert_def: 1,
            def_id: 2,
            definition: "sync".to_owned(),
            reason: AlertReason::FinalFailure,
            cooldown: COOLDOWN,
            notice_id: Some(7),
            class: Some("network".to_owned()),
            message: "refused".to_owned(),
            node: "n".to_owned(),
        }
    }

    fn opened_at(now: i64) -> AlertRow {
        raise(&AlertRow::default(), FollowUp::None, 1, &alarm(), now).row
    }

    #[test]
    fn the_first_alarm_is_sent_at_once_without_a_follow_up() {
        let raised = raise(&AlertRow::default(), FollowUp::None, 1, &alarm(), 5 * MINUTE);
        assert!(raised.notify);
        assert_eq!((raised.follow_up, raised.row.suppressed, raised.row.opened), (None, 0, 5 * MINUTE));
    }

    #[test]
    fn alarms_within_the_cool_down_are_suppressed_until_its_end() {
        let row = opened_at(0);
        let raised = raise(&row, FollowUp::None, 1, &alarm(), 2 * MINUTE);
        assert!(!raised.notify);
        assert_eq!((raised.row.suppressed, raised.follow_up), (1, Some(Duration::from_secs(180))));
        let again = raise(&raised.row, FollowUp::Asleep(5 * MINUTE), 3, &alarm(), 3 * MINUTE);
        assert_eq!((again.notify, again.row.suppressed, again.follow_up), (false, 4, None));
        let far = raise(&raised.row, FollowUp::Asleep(60 * MINUTE), 3, &alarm(), 3 * MINUTE);
        assert_eq!(far.follow_up, Some(Duration::from_secs(120)), "one that sleeps for longer is woken earlier");
    }

    #[test]
    fn the_next_follow_up_reports_the_alerts_of_a_removed_one() {
        let held = AlertRow { suppressed: 799, ..opened_at(0) };
        let raised = raise(&held, FollowUp::None, 1, &alarm(), 6 * MINUTE);
        assert_eq!((raised.notify, raised.row.suppressed, raised.follow_up), (true, 799, Some(COOLDOWN)));
    }

    #[test]
    fn a_clock_that_is_set_back_suppresses_no_alert() {
        let row = opened_at(365 * 86_400_000);
        let raised = raise(&row, FollowUp::None, 2, &alarm(), 0);
        assert!(raised.notify);
        assert_eq!((raised.row.suppressed, raised.follow_up), (1, Some(COOLDOWN)));
        assert_eq!(raised.row.last_seen, LONGEST_PAUSE, "the recovery is reported on the next day");
    }

    #[test]
    fn of_a_first_batch_one_alert_is_sent_and_the_others_suppressed() {
        let raised = raise(&AlertRow::default(), FollowUp::None, 40, &alarm(), 0);
        assert_eq!((raised.notify, raised.row.suppressed, raised.follow_up), (true, 39, Some(COOLDOWN)));
    }

    #[test]
    fn after_the_cool_down_an_alarm_is_sent_unless_a_follow_up_is_due() {
        let row = opened_at(0);
        let later = raise(&row, FollowUp::None, 1, &alarm(), 5 * MINUTE);
        assert_eq!((later.notify, later.row.opened, later.follow_up), (true, 0, Some(COOLDOWN)), "it goes on");
        let next_day = raise(&row, FollowUp::None, 1, &alarm(), LONGEST_PAUSE);
        assert_eq!(
            (next_day.notify, next_day.row.opened, next_day.follow_up),
            (true, LONGEST_PAUSE, None),
            "another one"
        );
        let asleep = raise(&row, FollowUp::Asleep(60 * MINUTE), 1, &alarm(), 6 * MINUTE);
        assert_eq!((asleep.notify, asleep.row.opened, asleep.follow_up), (true, 0, None));
        let at_work = raise(&row, FollowUp::AtWork, 1, &alarm(), 6 * MINUTE);
        assert_eq!((at_work.notify, at_work.row.suppressed), (false, 1));
    }

    #[test]
    fn a_follow_up_tells_of_more_of_recovery_or_waits_longer_and_longer() {
        let row = AlertRow { suppressed: 812, last_seen: 0, ..opened_at(0) };
        let look = |row: &AlertRow, now, succeeded: bool| {
            let facts = FollowUpFacts { now, succeeded: succeeded.then_some(1), still_failing: false };
            news(row, AlertReason::FinalFailure, facts, true, Duration::from_secs(60), COOLDOWN)
        };
        assert_eq!(look(&row, 5 * MINUTE, false), News::Digest);
        assert_eq!(look(&row, 5 * MINUTE, true), News::Recovered);
        assert_eq!(look(&row, 4 * MINUTE, true), News::Digest, "one success among failures is no recovery");
        let told = AlertRow { suppressed: 0, ..row };
        assert_eq!(look(&told, MINUTE, false), News::Quiet(COOLDOWN));
        assert_eq!(look(&told, 60 * MINUTE, false), News::Quiet(Duration::from_secs(3600)));
        assert_eq!(look(&told, 3 * 86_400_000, false), News::Quiet(Duration::from_secs(86_400)));
        assert_eq!(look(&told, 8 * 86_400_000, false), News::Stale);
    }

    #[test]
    fn without_history_it_is_over_when_nothing_fails_any_more() {
        let row = opened_at(0);
        let look = |now, still_failing| {
            let facts = FollowUpFacts { now, succeeded: None, still_failing };
            news(&row, AlertReason::Failure, facts, false, Duration::from_secs(60), COOLDOWN)
        };
        assert_eq!(look(5 * MINUTE, false), News::Recovered);
        assert!(matches!(look(5 * MINUTE, true), News::Quiet(_)));
        assert!(matches!(look(4 * MINUTE, false), News::Quiet(_)));
    }

    #[test]
    fn a_condition_is_over_when_it_was_not_seen_for_three_looks() {
        let row = AlertRow { suppressed: 3, ..opened_at(0) };
        let look = |now| {
            let facts = FollowUpFacts { now, succeeded: Some(1), still_failing: false };
            news(&row, AlertReason::Backlog, facts, true, Duration::from_secs(60), COOLDOWN)
        };
        assert_eq!(look(2 * MINUTE), News::Quiet(COOLDOWN));
        assert_eq!(look(3 * MINUTE), News::Recovered);
    }

    #[test]
    fn a_lasting_condition_is_reported_at_growing_intervals() {
        let seen = |row: &AlertRow, now| {
            raise(row, FollowUp::Asleep(now + MINUTE), 1, &Alarm { reason: AlertReason::Backlog, ..alarm() }, now)
        };
        let (mut row, mut told) = (opened_at(0), Vec::new());
        for minute in 1..=200 {
            let raised = seen(&row, minute * MINUTE);
            row = raised.row;
            if raised.notify {
                told.push(minute);
            }
        }
        assert_eq!(told, [5, 10, 20, 40, 80, 160]);
        let news_at = |minute| {
            let facts = FollowUpFacts { now: minute * MINUTE, succeeded: None, still_failing: false };
            news(&row, AlertReason::Backlog, facts, true, Duration::from_secs(60), COOLDOWN)
        };
        assert_eq!(news_at(201), News::Quiet(COOLDOWN));
        assert_eq!(news_at(203), News::Recovered);
    }

    #[test]
    fn alarms_during_a_digest_are_reported_by_the_next_one() {
        let row = AlertRow { suppressed: 5, last_seen: 9, ..opened_at(0) };
        let told = FollowUpResult {
            alert_def: 1,
            def_id: 2,
            reason: AlertReason::FinalFailure,
            count: 3,
            seen: 8,
            closes: true,
            notified: true,
            next: COOLDOWN,
            cooldown: COOLDOWN,
        };
        let (left, next) = tell(&row, &told, 20).unwrap();
        assert_eq!((left.suppressed, left.last_notified, next), (2, Some(20), COOLDOWN));
        let quiet = FollowUpResult { notified: false, closes: false, next: 100 * COOLDOWN, ..told.clone() };
        let (left, next) = tell(&row, &quiet, 20).unwrap();
        assert_eq!((left.suppressed, next), (5, COOLDOWN - Duration::from_millis(20)), "no alert was sent");
        let (_, next) = tell(&row, &quiet, 9 * MINUTE).unwrap();
        assert_eq!(next, Duration::ZERO, "the cool-down is over");
        let (_, next) = tell(&AlertRow { suppressed: 3, ..row.clone() }, &quiet, 20).unwrap();
        assert_eq!(next, 100 * COOLDOWN, "nothing came");
        assert!(tell(&AlertRow { last_seen: 8, ..row.clone() }, &told, 20).is_some(), "of the same millisecond");
        assert_eq!(tell(&AlertRow { last_seen: 8, suppressed: 3, ..row }, &told, 20), None);
    }

    proptest! {
        #[test]
        fn no_alarm_is_lost(
            steps in proptest::collection::vec((1_i64..50, 0_i64..10 * MINUTE, 0..3_u8), 1..60)
        ) {
            // Every alarm is reported by its own alert, is suppressed, or was reported by a digest.
            let (mut row, mut now, mut raised, mut told) = (AlertRow::default(), 0, 0, 0);
            let mut follow_up_at: Option<i64> = None;
            for (count, pause, what) in steps {
                now += pause;
                if what < 2 {
                    let stands = match follow_up_at {
                        None => FollowUp::None,
                        Some(at) if at > now => FollowUp::Asleep(at),
                        Some(_) => FollowUp::AtWork,
                    };
                    let done = raise(&row, stands, count, &alarm(), now);
                    raised += count;
                    told += i64::from(done.notify);
                    if let Some(after) = done.follow_up {
                        follow_up_at = Some(now + i64::try_from(after.as_millis()).unwrap());
                    }
                    row = done.row;
                    prop_assert!(row.suppressed == 0 || follow_up_at.is_some(), "what is held back will be told");
                } else if follow_up_at.is_some_and(|at| at <= now) {
                    told += row.suppressed;
                    row.suppressed = 0;
                    row.last_notified = Some(now);
                    follow_up_at = None;
                }
            }
            prop_assert_eq!(told + row.suppressed, raised);
        }
    }
}
