//! The record of attempts, its texts, and the units of times.

use super::*;

fn claimed() -> ClaimedNotice {
    let new = ClaimedNotice::new(1, 1, Status::Sending, "null".into(), DateTime::UNIX_EPOCH);
    ClaimedNotice { fence: 3, failures: 1, crashes: 1, ..new }
}

#[test]
fn the_list_of_attempts_keeps_the_last_twenty_in_order() {
    let mut stored = None;
    for fence in 1..=25 {
        let mut notice = claimed();
        notice.fence = fence;
        let record = AttemptRecord::new(&notice, Duration::ZERO, ErrorClass::Unknown, "no");
        stored = Some(append_attempt(stored.as_deref(), record));
    }
    let list: Vec<AttemptRecord> = serde_json::from_str(&stored.unwrap()).unwrap();
    let numbers: Vec<i64> = list.iter().map(|record| record.fence).collect();
    assert_eq!(numbers, (6..=25).collect::<Vec<_>>());
}

#[test]
fn a_list_that_was_spoiled_by_hand_is_started_anew() {
    let record = AttemptRecord::new(&claimed(), Duration::ZERO, ErrorClass::Timeout, "late");
    let list = append_attempt(Some("not json"), record);
    assert!(list.contains("late"), "{list}");
}

#[test]
fn a_message_loses_its_nul_and_is_cut_between_characters() {
    let long = format!("a\0b{}", "ä".repeat(2000));
    let clean = clean_text(&long, MESSAGE_LIMIT);
    assert!(!clean.contains('\0'));
    assert!(clean.len() <= MESSAGE_LIMIT, "{}", clean.len());
    assert!(clean.ends_with(" […]"));
}

#[test]
fn every_status_has_its_number() {
    assert!((0..=6).all(|code| Status::from_code(code).unwrap().code() == code));
    assert_eq!(Status::from_code(7), None);
}

#[test]
fn a_part_of_a_millisecond_counts_as_one() {
    assert_eq!(duration_millis(Duration::from_nanos(1)), 1);
    assert_eq!(duration_millis(Duration::from_millis(7)), 7);
}

#[test]
fn whole_numbers_are_exact() {
    let mut notice =
        NoticeRecord::new(i64::MAX, 1, Status::Failed, "9007199254740993".to_owned(), DateTime::UNIX_EPOCH);
    notice.fence = i64::MIN;
    let json = serde_json::to_string(&notice).unwrap();
    for exact in ["\"id\":9223372036854775807", "\"fence\":-9223372036854775808", "\"param\":9007199254740993"] {
        assert!(json.contains(exact), "{json}");
    }
}

#[test]
fn param_that_is_no_json_is_a_string() {
    let notice = NoticeRecord::new(1, 1, Status::Failed, "{oops".to_owned(), DateTime::UNIX_EPOCH);
    assert_eq!(serde_json::to_value(&notice).unwrap()["param"], "{oops");
}
