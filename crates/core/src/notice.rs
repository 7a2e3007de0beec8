//! What a notice is: its states, the record of its attempts, and the views that a store hands out.
//!
//! What happens next to a notice is decided in [`crate::transition`]; nothing here decides.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

pub use crate::class::ErrorClass;

/// The state of a notice, as stored in the column `status`.
///
/// Live states (`0`, `2`, `4`, `5`) are rows of `notify_msg`; final ones (`1`, `3`, `6`) rows of
/// `notify_msg_history`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Status {
    /// 0: never attempted; due at `next_call_time`.
    NotSent = 0,
    /// 1: delivered, and confirmed where asked. Final.
    Succeeded = 1,
    /// 2: the last attempt failed; `next_call_time` is the time of the retry.
    Failed = 2,
    /// 3: given up; a dead letter. Final.
    DeadLetter = 3,
    /// 4: delivered, waits for its confirmation; `next_call_time` is the deadline, the end of all times for none.
    AwaitingConfirm = 4,
    /// 5: a worker is sending it; `next_call_time` is the end of its lease.
    Sending = 5,
    /// 6: not to be sent (any more). Final.
    Cancelled = 6,
}

impl Status {
    /// The states of live notices, in the order in which their lanes are swept.
    pub const LIVE: [Status; 4] = [Status::NotSent, Status::Failed, Status::Sending, Status::AwaitingConfirm];

    /// The number that the tables hold.
    pub fn code(self) -> i64 {
        self as i64
    }

    /// The state with this number, if there is one.
    pub fn from_code(code: i64) -> Option<Self> {
        [
            Self::NotSent,
            Self::Succeeded,
            Self::Failed,
            Self::DeadLetter,
            Self::AwaitingConfirm,
            Self::Sending,
            Self::Cancelled,
        ]
        .into_iter()
        .find(|status| status.code() == code)
    }

    /// True for the states that no sweeper looks at any more.
    pub fn is_final(self) -> bool {
        !Self::LIVE.contains(&self)
    }
}

/// One entry of the column `errors`: an attempt that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AttemptRecord {
    /// The number of the attempt (the fence).
    pub attempt: i64,
    /// When it began, RFC 3339 in UTC, by the database's clock.
    pub time: String,
    /// The worker that made it.
    pub node: String,
    /// How long it took, in milliseconds; 0 where nobody could measure it (a crash).
    pub duration_ms: u64,
    /// The kind of the error.
    pub class: String,
    /// The error and its causes, cut at 2 KiB.
    pub message: String,
}

/// How many attempts the column `errors` remembers.
pub const REMEMBERED_ATTEMPTS: usize = 20;
/// The longest message of one attempt, in bytes.
pub const MESSAGE_LIMIT: usize = 2048;

impl AttemptRecord {
    /// The record of one attempt of `claimed`; the message is cleaned of NUL and cut at [`MESSAGE_LIMIT`].
    pub fn new(claimed: &Claimed, duration: Duration, class: ErrorClass, message: &str) -> Self {
        Self {
            attempt: claimed.attempt,
            time: humantime::format_rfc3339_millis(claimed.last_call_time).to_string(),
            node: claimed.worker.clone(),
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            class: class.as_str().to_owned(),
            message: clean_text(message, MESSAGE_LIMIT),
        }
    }
}

/// Appends `record` to the stored list and forgets all but the last [`REMEMBERED_ATTEMPTS`]. Of an attempt that is
/// recorded already (its receiver refused it, say) the first record stays.
///
/// A list that does not parse (edited by hand, say) is started anew: the record of an attempt must never
/// keep its outcome from being stored.
pub fn append_attempt(stored: Option<&str>, record: AttemptRecord) -> String {
    let mut list: Vec<AttemptRecord> = stored.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    if list.last().is_none_or(|last| last.attempt != record.attempt) {
        list.push(record);
    }
    let skip = list.len().saturating_sub(REMEMBERED_ATTEMPTS);
    serde_json::to_string(&list[skip..]).unwrap_or_else(|_| "[]".to_owned())
}

/// A text that every database stores: without NUL, at most `limit` bytes, cut between characters.
pub fn clean_text(text: &str, limit: usize) -> String {
    let mut clean: String = text.replace('\0', "\u{FFFD}");
    if clean.len() > limit {
        const MARK: &str = " […]";
        let mut end = limit.saturating_sub(MARK.len());
        while !clean.is_char_boundary(end) {
            end -= 1;
        }
        clean.truncate(end);
        clean.push_str(MARK);
    }
    clean
}

/// A notice that a worker holds, or one whose time is over and that must be judged.
#[derive(Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The id: stable over all attempts, the one to deduplicate by.
    pub id: i64,
    /// The id of its definition.
    pub def_id: i64,
    /// The parameter, JSON as it was added, byte for byte.
    pub param: String,
    /// A text for people, if there is one.
    pub description: Option<String>,
    /// The JSON list of failed attempts, as stored.
    pub errors: Option<String>,
    /// The status in which it was found; [`Status::Sending`] for a notice that was just claimed.
    pub status: Status,
    /// The number of this claim: the fence.
    pub attempt: i64,
    /// Failed attempts so far.
    pub failures: i64,
    /// Attempts so far during which the process died.
    pub crashes: i64,
    /// The worker that made the attempt.
    pub worker: String,
    /// When the attempt began, by the database's clock.
    pub last_call_time: SystemTime,
    /// When the notice was added, by the database's clock.
    pub create_time: SystemTime,
    /// W3C trace context, or whatever the producer stored.
    pub trace_context: Option<String>,
    /// The key by which notices of its definition keep their order, if it has one.
    pub ordering_key: Option<String>,
}

impl Claimed {
    /// The tries used so far: failed attempts and crashes.
    pub fn tries(&self) -> i64 {
        self.failures.saturating_add(self.crashes)
    }

    /// The record of this very attempt, where there is one although nobody has judged it: its receiver refused it.
    pub fn refused(&self) -> Option<AttemptRecord> {
        let list: Vec<AttemptRecord> = serde_json::from_str(self.errors.as_deref()?).ok()?;
        list.into_iter().next_back().filter(|last| last.attempt == self.attempt)
    }
}

/// One notice as it stands in the database, live or in history.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoticeRecord {
    /// The id.
    pub id: i64,
    /// The id of its definition.
    pub def_id: i64,
    /// Its state.
    pub status: Status,
    /// The parameter, JSON.
    pub param: String,
    /// A text for people.
    pub description: Option<String>,
    /// The last attempts that failed, oldest first.
    pub errors: Vec<AttemptRecord>,
    /// How often it was claimed.
    pub attempt: i64,
    /// How many attempts failed.
    pub failures: i64,
    /// How many attempts ended with the process.
    pub crashes: i64,
    /// The last worker.
    pub worker: Option<String>,
    /// When its last attempt began.
    pub last_call_time: Option<SystemTime>,
    /// The kind of the last error.
    pub last_class: Option<String>,
    /// When somebody must look at it next; see [`Status`].
    pub next_call_time: Option<SystemTime>,
    /// When it was added.
    pub create_time: SystemTime,
    /// When it ended.
    pub finish_time: Option<SystemTime>,
    /// Why it ended.
    pub end_reason: Option<String>,
    /// What the producer stored as trace context.
    pub trace_context: Option<String>,
    /// The key by which notices of its definition keep their order.
    pub ordering_key: Option<String>,
    /// The key that no other live notice of its definition has.
    pub dedupe_key: Option<String>,
}

impl NoticeRecord {
    /// A record with the required parts; stores fill in the rest.
    pub fn new(id: i64, def_id: i64, status: Status, param: String, create_time: SystemTime) -> Self {
        Self {
            id,
            def_id,
            status,
            param,
            description: None,
            errors: Vec::new(),
            attempt: 0,
            failures: 0,
            crashes: 0,
            worker: None,
            last_call_time: None,
            last_class: None,
            next_call_time: None,
            create_time,
            finish_time: None,
            end_reason: None,
            trace_context: None,
            ordering_key: None,
            dedupe_key: None,
        }
    }
}

impl NoticeRecord {
    /// What its receivers deduplicate by; see [`idempotency_id`].
    pub fn idempotency_id(&self) -> String {
        idempotency_id(self.id, self.create_time)
    }
}

/// What receivers can deduplicate by: the same in every attempt of a notice, and, since it has the time of the insert
/// beside the id, another one in another database.
pub fn idempotency_id(id: i64, create_time: SystemTime) -> String {
    format!("{id}-{}", millis_from_time(create_time))
}

/// Milliseconds since 1970 as a time; stores speak in milliseconds.
pub fn time_from_millis(ms: i64) -> SystemTime {
    let distance = Duration::from_millis(ms.unsigned_abs());
    let time = if ms >= 0 { UNIX_EPOCH.checked_add(distance) } else { UNIX_EPOCH.checked_sub(distance) };
    time.unwrap_or(UNIX_EPOCH)
}

/// A time as milliseconds since 1970.
pub fn millis_from_time(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => duration_millis(after),
        Err(before) => -duration_millis(before.duration()),
    }
}

/// A duration in whole milliseconds, a part of one counted as one: a retry is never too early.
pub fn duration_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// Milliseconds as a duration; what is less than none is none.
pub fn duration_from_millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed() -> Claimed {
        Claimed {
            id: 1,
            def_id: 1,
            param: "null".into(),
            description: None,
            errors: None,
            status: Status::Sending,
            attempt: 3,
            failures: 1,
            crashes: 1,
            worker: "w".into(),
            last_call_time: UNIX_EPOCH,
            create_time: UNIX_EPOCH,
            trace_context: None,
            ordering_key: None,
        }
    }

    #[test]
    fn the_list_of_attempts_keeps_the_last_twenty_in_order() {
        let mut stored = None;
        for attempt in 1..=25 {
            let mut notice = claimed();
            notice.attempt = attempt;
            let record = AttemptRecord::new(&notice, Duration::ZERO, ErrorClass::Unknown, "no");
            stored = Some(append_attempt(stored.as_deref(), record));
        }
        let list: Vec<AttemptRecord> = serde_json::from_str(&stored.unwrap()).unwrap();
        let numbers: Vec<i64> = list.iter().map(|record| record.attempt).collect();
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
        for code in 0..=6 {
            assert_eq!(Status::from_code(code).unwrap().code(), code);
        }
        assert_eq!(Status::from_code(7), None);
    }

    #[test]
    fn a_part_of_a_millisecond_counts_as_one() {
        assert_eq!(duration_millis(Duration::from_nanos(1)), 1);
        assert_eq!(duration_millis(Duration::from_millis(7)), 7);
    }
}
