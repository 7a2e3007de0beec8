//! When an alert is sent, held back, summed up or over: pure functions over the row of `notify_alert` that all nodes share.
//!
//! The first alarm of a definition and reason is told at once. What follows within the cool-down is counted, and the first of
//! it adds one delayed notice, the follow-up. When that is sent it reads the row: a digest, the news that it is over, or, where
//! there is nothing to tell yet, another follow-up later. So nothing is done where deliveries succeed.

use std::time::Duration;

use super::AlertReason;
use crate::notice::duration_from_millis;
use crate::store::{Alarm, Told};

/// A row of `notify_alert`, and what is known of its follow-up. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AlertRow {
    /// When it began.
    pub opened: i64,
    /// When a person was last told; `None` for a row that was just made.
    pub last_notified: Option<i64>,
    /// How many alarms were held back since then.
    pub held_back: i64,
    /// When the last alarm came.
    pub last_seen: i64,
    /// The id of the follow-up, where one was added.
    pub follow_up: Option<i64>,
    /// The notice of the last alarm.
    pub notice_id: Option<i64>,
    /// Its error class.
    pub class: Option<String>,
    /// What it said.
    pub message: Option<String>,
    /// The node that it came from.
    pub node: Option<String>,
}

/// How the follow-up stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowUp {
    /// There is none (any more: it was sent, or somebody removed it).
    None,
    /// It waits until this time.
    Asleep(i64),
    /// It is due, or being sent: what comes now will be in it, or in the next.
    AtWork,
}

/// What alarms make of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raised {
    /// The row as it shall be, but for the id of a new follow-up.
    pub row: AlertRow,
    /// Whether a notice tells of the first of them at once.
    pub notify: bool,
    /// After how long a follow-up is due: a new one where there is none, else the one that sleeps longer than that.
    pub follow_up: Option<Duration>,
}

/// What `count` alarms of the same definition and reason make of their row; `last` is the last of them.
pub fn raise(row: &AlertRow, follow_up: FollowUp, count: i64, last: &Alarm, now: i64) -> Raised {
    let cooldown = pause(row, last.reason, last.cooldown);
    // A clock that was ahead and has been set back must not hold back for longer than the cool-down.
    let told = row.last_notified.filter(|told| *told <= now);
    let cool = told.is_none_or(|told| now >= told.saturating_add(cooldown));
    let notify = cool && follow_up != FollowUp::AtWork;
    // A failure long after the last one is an incident of its own; until then nobody was told that it is over.
    let is_new = row.last_notified.is_none() || now.saturating_sub(row.last_seen) >= LONGEST_PAUSE;
    let mut new = row.clone();
    if is_new && follow_up == FollowUp::None {
        new.opened = now;
    }
    if notify {
        new.last_notified = Some(now);
    }
    new.held_back = row.held_back.saturating_add(count - i64::from(notify));
    new.last_seen = now.max(row.last_seen);
    new.notice_id = last.notice_id;
    new.class.clone_from(&last.class);
    new.message = Some(last.message.clone());
    new.node = Some(last.node.clone());
    let ends = new.last_notified.filter(|told| *told <= now).unwrap_or(now).saturating_add(cooldown);
    let wanted = match follow_up {
        FollowUp::None => new.held_back > 0 || !is_new,
        FollowUp::Asleep(due) => new.held_back > 0 && due > ends,
        FollowUp::AtWork => false,
    };
    let after = duration_from_millis(ends - now);
    Raised { row: new, notify, follow_up: wanted.then_some(after) }
}

/// How long nobody is told again, in milliseconds: the cool-down, and of a condition, which is seen again with each look, as
/// long as it had lasted when it was last told of, up to a day.
fn pause(row: &AlertRow, reason: AlertReason, cooldown: Duration) -> i64 {
    let cooldown = millis(cooldown);
    let lasted = row.last_notified.map_or(0, |told| told.saturating_sub(row.opened));
    if reason.is_delivery() { cooldown } else { lasted.clamp(cooldown, LONGEST_PAUSE.max(cooldown)) }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// What a follow-up has to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// It is over.
    Recovered,
    /// More of the same came meanwhile.
    Digest,
    /// Nothing yet: look again after this time.
    Quiet(Duration),
    /// Nothing has come for so long that nobody waits for news.
    Stale,
}

/// What is known beside the row when a follow-up is about to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The time.
    pub now: i64,
    /// When the first notice of the definition succeeded after the last alarm.
    pub succeeded: Option<i64>,
    /// Notices of the definition wait for a retry.
    pub still_failing: bool,
}

/// After this time without an alarm nobody is told any more.
const STALE: i64 = 7 * 86_400_000;
/// The longest pause between two follow-ups.
const LONGEST_PAUSE: i64 = 86_400_000;

/// What a follow-up of `row` has to tell. `keeps_history`: successes leave a trace for long enough. `sightings`: how far apart the looks for a
/// condition are that is no outcome of an attempt; one that was not seen for three of them is over.
pub fn news(
    row: &AlertRow,
    reason: AlertReason,
    standing: Standing,
    keeps_history: bool,
    sightings: Duration,
    cooldown: Duration,
) -> News {
    let quiet = standing.now.saturating_sub(row.last_seen);
    let over = match reason.is_delivery() {
        // One success among failures is no recovery.
        true if keeps_history => standing.succeeded.is_some() && quiet >= millis(cooldown),
        // Successes leave no trace: it is over where nothing has failed for a cool-down and nothing waits for a retry.
        true => quiet >= millis(cooldown) && !standing.still_failing,
        false => quiet >= millis(sightings).saturating_mul(3),
    };
    if over {
        News::Recovered
    } else if row.held_back > 0 {
        let told = row.last_notified.unwrap_or(row.opened);
        let due = standing.now >= told.saturating_add(pause(row, reason, cooldown));
        // That a condition is over is told soon, that it goes on more and more seldom.
        if due || reason.is_delivery() { News::Digest } else { News::Quiet(cooldown) }
    } else if quiet >= STALE {
        News::Stale
    } else {
        // The longer nothing happens, the more seldom it is looked at.
        let pause = quiet.clamp(millis(cooldown), LONGEST_PAUSE.max(millis(cooldown)));
        News::Quiet(duration_from_millis(pause))
    }
}

/// What telling the news of a follow-up makes of its row, and after how long the next one is due; `None`: it is deleted.
///
/// What came while the news were on their way does not wait until the next look, but to the end of the cool-down.
pub fn tell(row: &AlertRow, told: &Told, now: i64) -> Option<(AlertRow, Duration)> {
    if told.closes && row.last_seen <= told.seen && row.held_back <= told.count {
        return None;
    }
    let mut new = row.clone();
    if told.notified {
        new.held_back = row.held_back.saturating_sub(told.count).max(0);
        new.last_notified = Some(now);
    }
    if row.held_back <= told.count {
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
    fn the_first_alarm_is_told_at_once_and_needs_no_follow_up() {
        let raised = raise(&AlertRow::default(), FollowUp::None, 1, &alarm(), 5 * MINUTE);
        assert!(raised.notify);
        assert_eq!((raised.follow_up, raised.row.held_back, raised.row.opened), (None, 0, 5 * MINUTE));
    }

    #[test]
    fn what_follows_within_the_cool_down_is_held_back_and_has_one_follow_up_at_its_end() {
        let row = opened_at(0);
        let raised = raise(&row, FollowUp::None, 1, &alarm(), 2 * MINUTE);
        assert!(!raised.notify);
        assert_eq!((raised.row.held_back, raised.follow_up), (1, Some(Duration::from_secs(180))));
        let again = raise(&raised.row, FollowUp::Asleep(5 * MINUTE), 3, &alarm(), 3 * MINUTE);
        assert_eq!((again.notify, again.row.held_back, again.follow_up), (false, 4, None));
        let far = raise(&raised.row, FollowUp::Asleep(60 * MINUTE), 3, &alarm(), 3 * MINUTE);
        assert_eq!(far.follow_up, Some(Duration::from_secs(120)), "one that sleeps for longer is woken earlier");
    }

    #[test]
    fn what_a_removed_follow_up_would_have_told_is_told_by_the_next() {
        let held = AlertRow { held_back: 799, ..opened_at(0) };
        let raised = raise(&held, FollowUp::None, 1, &alarm(), 6 * MINUTE);
        assert_eq!((raised.notify, raised.row.held_back, raised.follow_up), (true, 799, Some(COOLDOWN)));
    }

    #[test]
    fn a_clock_that_is_set_back_mutes_nobody() {
        let row = opened_at(365 * 86_400_000);
        let raised = raise(&row, FollowUp::None, 2, &alarm(), 0);
        assert!(raised.notify);
        assert_eq!((raised.row.held_back, raised.follow_up), (1, Some(COOLDOWN)));
    }

    #[test]
    fn of_a_first_batch_one_is_told_and_the_others_are_held_back() {
        let raised = raise(&AlertRow::default(), FollowUp::None, 40, &alarm(), 0);
        assert_eq!((raised.notify, raised.row.held_back, raised.follow_up), (true, 39, Some(COOLDOWN)));
    }

    #[test]
    fn after_the_cool_down_an_alarm_is_told_at_once_unless_a_follow_up_is_about_to() {
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
        assert_eq!((at_work.notify, at_work.row.held_back), (false, 1));
    }

    #[test]
    fn a_follow_up_tells_of_more_of_recovery_or_waits_longer_and_longer() {
        let row = AlertRow { held_back: 812, last_seen: 0, ..opened_at(0) };
        let look = |row: &AlertRow, now, succeeded: bool| {
            let standing = Standing { now, succeeded: succeeded.then_some(1), still_failing: false };
            news(row, AlertReason::FinalFailure, standing, true, Duration::from_secs(60), COOLDOWN)
        };
        assert_eq!(look(&row, 5 * MINUTE, false), News::Digest);
        assert_eq!(look(&row, 5 * MINUTE, true), News::Recovered);
        assert_eq!(look(&row, 4 * MINUTE, true), News::Digest, "one success among failures is no recovery");
        let told = AlertRow { held_back: 0, ..row };
        assert_eq!(look(&told, MINUTE, false), News::Quiet(COOLDOWN));
        assert_eq!(look(&told, 60 * MINUTE, false), News::Quiet(Duration::from_secs(3600)));
        assert_eq!(look(&told, 3 * 86_400_000, false), News::Quiet(Duration::from_secs(86_400)));
        assert_eq!(look(&told, 8 * 86_400_000, false), News::Stale);
    }

    #[test]
    fn without_history_it_is_over_when_nothing_fails_any_more() {
        let row = opened_at(0);
        let look = |now, still_failing| {
            let standing = Standing { now, succeeded: None, still_failing };
            news(&row, AlertReason::Failure, standing, false, Duration::from_secs(60), COOLDOWN)
        };
        assert_eq!(look(5 * MINUTE, false), News::Recovered);
        assert!(matches!(look(5 * MINUTE, true), News::Quiet(_)));
        assert!(matches!(look(4 * MINUTE, false), News::Quiet(_)));
    }

    #[test]
    fn a_condition_is_over_when_it_was_not_seen_for_three_looks() {
        let row = AlertRow { held_back: 3, ..opened_at(0) };
        let look = |now| {
            let standing = Standing { now, succeeded: Some(1), still_failing: false };
            news(&row, AlertReason::Backlog, standing, true, Duration::from_secs(60), COOLDOWN)
        };
        assert_eq!(look(2 * MINUTE), News::Quiet(COOLDOWN));
        assert_eq!(look(3 * MINUTE), News::Recovered);
    }

    #[test]
    fn a_condition_that_goes_on_is_told_of_more_and_more_seldom() {
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
            let standing = Standing { now: minute * MINUTE, succeeded: None, still_failing: false };
            news(&row, AlertReason::Backlog, standing, true, Duration::from_secs(60), COOLDOWN)
        };
        assert_eq!(news_at(201), News::Quiet(COOLDOWN));
        assert_eq!(news_at(203), News::Recovered);
    }

    #[test]
    fn what_came_while_the_news_were_on_their_way_is_told_next() {
        let row = AlertRow { held_back: 5, last_seen: 9, ..opened_at(0) };
        let told = Told {
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
        assert_eq!((left.held_back, left.last_notified, next), (2, Some(20), COOLDOWN));
        let quiet = Told { notified: false, closes: false, next: 100 * COOLDOWN, ..told.clone() };
        let (left, next) = tell(&row, &quiet, 20).unwrap();
        assert_eq!((left.held_back, next), (5, COOLDOWN - Duration::from_millis(20)), "nobody was told");
        let (_, next) = tell(&row, &quiet, 9 * MINUTE).unwrap();
        assert_eq!(next, Duration::ZERO, "the cool-down is over");
        let (_, next) = tell(&AlertRow { held_back: 3, ..row.clone() }, &quiet, 20).unwrap();
        assert_eq!(next, 100 * COOLDOWN, "nothing came");
        assert!(tell(&AlertRow { last_seen: 8, ..row.clone() }, &told, 20).is_some(), "of the same millisecond");
        assert_eq!(tell(&AlertRow { last_seen: 8, held_back: 3, ..row }, &told, 20), None);
    }

    proptest! {
        #[test]
        fn no_alarm_is_lost(
            steps in proptest::collection::vec((1_i64..50, 0_i64..10 * MINUTE, 0..3_u8), 1..60)
        ) {
            // Every alarm is told by itself, is held back, or was told by a digest.
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
                    prop_assert!(row.held_back == 0 || follow_up_at.is_some(), "what is held back will be told");
                } else if follow_up_at.is_some_and(|at| at <= now) {
                    told += row.held_back;
                    row.held_back = 0;
                    row.last_notified = Some(now);
                    follow_up_at = None;
                }
            }
            prop_assert_eq!(told + row.held_back, raised);
        }
    }
}
