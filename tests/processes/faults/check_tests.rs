//! The checker finds violations in small made-up runs: a correct one has none, and each change of it breaks one rule.

use std::collections::HashMap;

use test_support::journal::Event;

use crate::faults::check::check;
use crate::faults::evidence::{Evidence, Recorded, Row};

/// A run in which two notices of a key are sent, the first by a process that is killed before it is stored; one is rolled
/// back.
struct Told {
    journal: Vec<Event>,
    history: Vec<Row>,
    live: Vec<i64>,
}

impl Told {
    fn as_it_should_be() -> Self {
        let journal = vec![
            begun("p1.0.0.0"),
            committed("p1.0.0.0", 1),
            begun("p1.0.1.0"),
            Event::RolledBack { token: "p1.0.1.0".into() },
            begun("p1.0.2.0"),
            committed("p1.0.2.0", 2),
            called("p1.0.0.0", 1, 1, "s1"),
            ended(1, 1, true),
            Event::Killed { node: "s1".into() },
            called("p1.0.0.0", 1, 2, "s2"),
            ended(1, 2, true),
            called("p1.0.2.0", 2, 1, "s2"),
            ended(2, 1, false),
            called("p1.0.2.0", 2, 2, "s3"),
            ended(2, 2, true),
        ];
        let mut first = row(1, "p1.0.0.0", 2);
        first.crashes = 1;
        first.errors.push(Recorded { fence: 1, class: "crash".into(), node: "s1-77-0a".into() });
        let mut second = row(2, "p1.0.2.0", 2);
        second.failures = 1;
        second.errors.push(Recorded { fence: 1, class: "unknown".into(), node: "s2-78-0b".into() });
        Self { journal, history: vec![first, second], live: Vec::new() }
    }

    /// The rules that are broken.
    fn broken(self) -> Vec<&'static str> {
        let limits = HashMap::from([("job".to_owned(), 1..=2)]);
        let complaints = check(&Evidence::new(&self.journal, self.history, self.live, limits));
        complaints.into_iter().filter(|(_, wrong)| !wrong.is_empty()).map(|(rule, _)| rule).collect()
    }
}

fn begun(token: &str) -> Event {
    Event::Begun { token: token.into(), def: "job".into(), key: Some("k".into()) }
}

fn committed(token: &str, id: i64) -> Event {
    Event::Committed { token: token.into(), id }
}

fn called(token: &str, id: i64, fence: i64, node: &str) -> Event {
    Event::Called { token: token.into(), id, fence, node: node.into() }
}

fn ended(id: i64, fence: i64, ok: bool) -> Event {
    Event::Ended { id, fence, ok }
}

fn row(id: i64, token: &str, fence: i64) -> Row {
    Row { id, status: 1, fence, failures: 0, crashes: 0, token: token.into(), errors: Vec::new() }
}

#[track_caller]
fn breaks(rules: &[&str], spoil: impl FnOnce(&mut Told)) {
    let mut told = Told::as_it_should_be();
    spoil(&mut told);
    let broken = told.broken();
    for rule in rules {
        assert!(broken.contains(rule), "{rule:?} should be broken, not {broken:?}");
    }
}

#[test]
fn a_good_run_breaks_no_rule() {
    assert_eq!(Told::as_it_should_be().broken(), [""; 0]);
}

#[test]
fn a_notice_that_has_not_ended_is_missed() {
    let rule = "every committed notice has ended";
    breaks(&[rule], |told| drop(told.history.pop()));
    breaks(&[rule], |told| told.live.push(2));
    breaks(&[rule], |told| told.history[1].status = 3);
    breaks(&[rule], |told| told.history.push(row(3, "p1.0.2.0", 1)));
    // It ended well, but its last call did not.
    breaks(&[rule], |told| told.journal[14] = ended(2, 2, false));
}

#[test]
fn a_rolled_back_notice_must_not_be_seen() {
    let rule = "nothing of rolled-back work was ever seen";
    breaks(&[rule], |told| told.history.push(row(3, "p1.0.1.0", 1)));
    breaks(&[rule], |told| told.journal.push(called("p1.0.1.0", 3, 1, "s2")));
    breaks(&[rule], |told| told.journal.push(called("unknown", 3, 1, "s2")));
}

#[test]
fn a_transaction_is_there_as_a_whole_or_not_at_all() {
    breaks(&["a transaction's notices share its fate"], |told| {
        told.journal.extend([begun("p1.0.9.0"), begun("p1.0.9.1")]);
        told.history.push(row(9, "p1.0.9.0", 1));
    });
}

#[test]
fn an_attempt_must_not_be_made_twice_or_beside_another() {
    breaks(&["no attempt is made twice", "a notice is sent by one at a time"], |told| {
        told.journal[13] = called("p1.0.2.0", 2, 1, "s3");
        told.journal[14] = ended(2, 1, true);
    });
    // The first attempt goes on when the second begins.
    breaks(&["a notice is sent by one at a time"], |told| told.journal.swap(12, 13));
    // Its process was killed only later.
    breaks(&["a notice is sent by one at a time"], |told| {
        told.journal.remove(7);
        told.journal.swap(7, 8);
    });
}

#[test]
fn every_call_must_be_settled_as_what_it_was() {
    let rule = "each call is settled once, as what it was";
    breaks(&[rule], |told| told.history[1].failures = 2);
    breaks(&[rule], |told| told.history[1].errors.clear());
    breaks(&[rule], |told| told.history[1].errors[0].node = "s3-79-0c".into());
    breaks(&[rule], |told| told.journal[12] = ended(2, 1, true));
}

#[test]
fn a_crash_needs_a_process_that_was_killed() {
    let rule = "a crash is counted only for a process that was killed";
    breaks(&[rule], |told| told.journal[8] = Event::Killed { node: "s9".into() });
}

#[test]
fn tries_have_a_lower_and_an_upper_limit() {
    let rule = "the tries are within the limits";
    breaks(&[rule], |told| told.history[1].failures = 3);
    breaks(&[rule], |told| {
        told.history[1].status = 3;
        told.history[1].failures = 1;
    });
}

#[test]
fn the_second_notice_of_a_key_waits_for_the_end_of_the_first() {
    let rule = "the notices of a key are sent one after the other, in their order";
    breaks(&[rule], |told| told.journal.swap(10, 11));
    breaks(&[rule], |told| told.journal[..6].rotate_left(4));
    breaks(&[rule], |told| {
        let early: Vec<_> = told.journal.drain(9..11).collect();
        told.journal.extend(early);
    });
}
