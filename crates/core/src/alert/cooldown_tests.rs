//! The row of an alert: one step at a time, and in long rows.

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
fn each_pause_of_a_definition_is_reported_and_over_once_it_is_enabled() {
    let paused = |row: &AlertRow, now| raise(row, 1, &Alarm { reason: AlertReason::Paused, ..alarm() }, now);
    let look = |row: &AlertRow, now, lasted| {
        let facts = AlertFacts { now, succeeded: None, still_failing: true };
        news(row, AlertReason::Paused, facts, true, Checks { lasted, ..CHECKS }, COOLDOWN)
    };
    let first = paused(&AlertRow::default(), 0);
    assert!(first.notify);
    assert_eq!(look(&first.row, 60 * MINUTE, None), News::Quiet(COOLDOWN), "one alert, however long it stays paused");
    assert_eq!(look(&first.row, 8 * 86_400_000, None), News::Stale);
    let again = paused(&first.row, 2 * MINUTE);
    assert!(!again.notify);
    assert_eq!(look(&again.row, 4 * MINUTE, None), News::Quiet(COOLDOWN));
    assert_eq!(look(&again.row, 5 * MINUTE, None), News::Digest);
    let known = AlertRow { acknowledged_by: Some("alice".to_owned()), ..again.row };
    assert_eq!(look(&known, 5 * MINUTE, None), News::Quiet(COOLDOWN));
    let later = paused(&first.row, 120 * MINUTE);
    assert!(later.notify && paused(&later.row, 130 * MINUTE).notify, "each is an event of its own");
    let enabled_for = |minutes: u64| Some(Duration::from_secs(60 * minutes));
    assert_eq!(look(&later.row, 130 * MINUTE, enabled_for(3)), News::Recovered);
    assert_ne!(look(&later.row, 130 * MINUTE, enabled_for(2)), News::Recovered);
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
