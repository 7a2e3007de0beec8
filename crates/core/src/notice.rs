//! The data of a notice: its states, the record of its attempts, and the views that a store returns.
//!
//! Decisions about a notice are left to [`crate::transition`].

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

pub use crate::class::ErrorClass;
pub use crate::clean::clean_text;
pub use crate::own_limits::OwnLimits;
pub use crate::response::{LastResponse, Response};

/// The state of a notice, as stored in the column `status`.
///
/// Live states (`0`, `2`, `4`, `5`) are rows of `notify_msg`; final ones (`1`, `3`, `6`) rows of
/// `notify_msg_history`. Exhaustive: the numbers are the contract with plain SQL, and a further state would change what every
/// reader of the tables must handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// 0: never attempted; due at `next_call_time`.
    NotSent = 0,
    /// 1: delivered, and acked if required. Final.
    Succeeded = 1,
    /// 2: the last attempt failed; `next_call_time` is the time of the retry.
    Failed = 2,
    /// 3: finally failed; a dead letter. Final.
    DeadLetter = 3,
    /// 4: delivered, waits for its ack; `next_call_time` is the deadline, or [`NEVER`] for none.
    AwaitingAck = 4,
    /// 5: a worker is sending it; `next_call_time` is the end of its lease.
    Sending = 5,
    /// 6: cancelled, by an operator or by its handler. Final.
    Cancelled = 6,
}

impl Status {
    /// The states of live notices, in the order in which their queue slices are swept.
    pub const LIVE: [Status; 4] = [Status::NotSent, Status::Failed, Status::Sending, Status::AwaitingAck];

    /// Returns the number that the tables store.
    pub fn code(self) -> i64 {
        self as i64
    }

    /// Returns the state with this number, if there is one.
    pub fn from_code(code: i64) -> Option<Self> {
        [
            Self::NotSent,
            Self::Succeeded,
            Self::Failed,
            Self::DeadLetter,
            Self::AwaitingAck,
            Self::Sending,
            Self::Cancelled,
        ]
        .into_iter()
        .find(|status| status.code() == code)
    }

    /// Returns true for the states of ended notices.
    pub fn is_final(self) -> bool {
        !Self::LIVE.contains(&self)
    }
}

/// One entry of the column `errors`: an attempt that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AttemptRecord {
    /// The number of the attempt: 1 for the first, 2 for the first retry.
    pub attempt: i64,
    /// The fence of its claim.
    pub fence: i64,
    /// When it began, RFC 3339 in UTC, by the database's clock.
    pub time: String,
    /// The worker that made it.
    pub node: String,
    /// How long it took, in milliseconds; 0 if it could not be measured (a crash).
    pub duration_ms: u64,
    /// The error class.
    pub class: String,
    /// The Rust type of the error, such as `reqwest::error::Error`; `None` for a text, a box, a time-out, a crash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// The error and its causes, cut at 2 KiB.
    pub message: String,
    /// What the receiver answered, if the handler reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Response>,
    /// True if an operator retried the notice while it waited after this attempt. The next one is then a new message for a broker that
    /// drops copies by an id ([`crate::message_id`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retried: bool,
}

/// How many attempts the column `errors` keeps.
pub const REMEMBERED_ATTEMPTS: usize = 20;
/// The longest message of one attempt, in bytes.
pub const MESSAGE_LIMIT: usize = 2048;

impl AttemptRecord {
    /// Creates the record of an attempt of `claimed`; the message is cleaned of NUL and cut at [`MESSAGE_LIMIT`].
    pub fn new(claimed: &ClaimedNotice, duration: Duration, class: ErrorClass, message: &str) -> Self {
        Self {
            attempt: claimed.attempt(),
            fence: claimed.fence,
            time: rfc3339(claimed.last_call_time),
            node: claimed.worker.clone(),
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            class: class.as_str().to_owned(),
            error_type: None,
            message: clean_text(message, MESSAGE_LIMIT),
            response: None,
            retried: false,
        }
    }
}

/// Appends `record` to the stored list and keeps only the last [`REMEMBERED_ATTEMPTS`]. If the attempt already has a record (of
/// a nack, for example), that record stays.
///
/// A list that does not parse (edited by hand, for example) is replaced by a new one, because the record of an attempt must
/// never prevent its outcome from being stored.
pub fn append_attempt(stored: Option<&str>, record: AttemptRecord) -> String {
    let mut list: Vec<AttemptRecord> = stored.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    if list.last().is_none_or(|last| last.fence != record.fence) {
        list.push(record);
    }
    let skip = list.len().saturating_sub(REMEMBERED_ATTEMPTS);
    serde_json::to_string(&list[skip..]).unwrap_or_else(|_| "[]".to_owned())
}

/// Returns a stored list of failed attempts with another message of the last one.
pub fn with_last_message(stored: &str, message: &str) -> String {
    let mut list: Vec<AttemptRecord> = serde_json::from_str(stored).unwrap_or_default();
    let Some(last) = list.last_mut() else { return stored.to_owned() };
    message.clone_into(&mut last.message);
    serde_json::to_string(&list).unwrap_or_else(|_| "[]".to_owned())
}

/// Returns the last record of a stored list of failed attempts.
pub fn last_record(stored: Option<&str>) -> Option<AttemptRecord> {
    serde_json::from_str::<Vec<AttemptRecord>>(stored?).ok()?.pop()
}

/// A claimed notice, or an overdue one that must be settled.
#[derive(Clone, PartialEq, Eq)]
pub struct ClaimedNotice {
    /// The id: the same in all attempts. Receivers deduplicate by it.
    pub id: i64,
    /// The id of its definition.
    pub def_id: i64,
    /// The parameter, JSON as it was added, byte for byte.
    pub param: String,
    /// The parameter is larger than [`LARGE_PARAM`](crate::store::LARGE_PARAM), so it stays in the store until
    /// [`SendStore::param`](crate::store::SendStore::param) reads it; `param` is empty.
    pub param_is_left: bool,
    /// A description for people, if there is one.
    pub description: Option<String>,
    /// The JSON list of failed attempts, as stored.
    pub errors: Option<String>,
    /// The status in which it was found; [`Status::Sending`] for a notice that was just claimed.
    pub status: Status,
    /// The fence: the number of this claim. It grows with each claim and is never reset.
    pub fence: i64,
    /// Failed attempts so far.
    pub failures: i64,
    /// Attempts so far during which the process died.
    pub crashes: i64,
    /// The worker that made the attempt.
    pub worker: String,
    /// When the attempt began, by the database's clock.
    pub last_call_time: DateTime<Utc>,
    /// When the notice was added, by the database's clock.
    pub create_time: DateTime<Utc>,
    /// The trace context that the producer stored, usually W3C.
    pub trace_context: Option<String>,
    /// The ordering key, if it has one.
    pub ordering_key: Option<String>,
    /// The tag, if it has one.
    pub tag: Option<String>,
    /// Its own limits.
    pub own: OwnLimits,
}

impl ClaimedNotice {
    /// Creates a notice with the required parts, which was not attempted yet.
    pub fn new(id: i64, def_id: i64, status: Status, param: String, create_time: DateTime<Utc>) -> Self {
        Self {
            id,
            def_id,
            param,
            param_is_left: false,
            description: None,
            errors: None,
            status,
            fence: 0,
            failures: 0,
            crashes: 0,
            worker: String::new(),
            last_call_time: create_time,
            create_time,
            trace_context: None,
            ordering_key: None,
            tag: None,
            own: OwnLimits::default(),
        }
    }

    /// Returns the tries used so far: failed attempts and crashes.
    pub fn tries(&self) -> i64 {
        self.failures.saturating_add(self.crashes)
    }

    /// Returns whether it was claimed at its expiry or later: it ends without an attempt.
    pub fn is_expired(&self) -> bool {
        self.own.is_expired(self.last_call_time)
    }

    /// Returns the number of the attempt of this claim: one more than the tries used.
    pub fn attempt(&self) -> i64 {
        self.tries().saturating_add(1)
    }

    /// Returns the record of the current attempt if it exists already: the receiver nacked it, and it is not settled yet.
    pub fn refused(&self) -> Option<AttemptRecord> {
        self.last_record().filter(|last| last.fence == self.fence)
    }

    /// Returns the record of the last attempt that failed.
    pub fn last_record(&self) -> Option<AttemptRecord> {
        last_record(self.errors.as_deref())
    }
}

/// One notice as stored, live or in history.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NoticeRecord {
    /// The id.
    pub id: i64,
    /// The id of its definition.
    pub def_id: i64,
    /// Its state.
    pub status: Status,
    /// The parameter, JSON.
    #[serde(serialize_with = "crate::json::param")]
    pub param: String,
    /// A description for people.
    pub description: Option<String>,
    /// The last attempts that failed, oldest first.
    pub errors: Vec<AttemptRecord>,
    /// The fence of its last claim: how often it was claimed.
    pub fence: i64,
    /// How many attempts failed.
    pub failures: i64,
    /// How many attempts ended because the process died.
    pub crashes: i64,
    /// How many retries it had, with the one that runs or that it waits for.
    pub retry_times: i64,
    /// The last worker.
    pub worker: Option<String>,
    /// When its last attempt began.
    pub last_call_time: Option<DateTime<Utc>>,
    /// The class of the last error.
    pub last_class: Option<String>,
    /// When it is due next; see [`Status`].
    pub next_call_time: Option<DateTime<Utc>>,
    /// When it was added.
    pub create_time: DateTime<Utc>,
    /// When it ended.
    pub finish_time: Option<DateTime<Utc>>,
    /// When it ended, else when its last attempt began, else when it was added.
    pub update_time: DateTime<Utc>,
    /// Why it ended.
    pub end_reason: Option<String>,
    /// The trace context that the producer stored.
    pub trace_context: Option<String>,
    /// The ordering key.
    pub ordering_key: Option<String>,
    /// Its dedupe key; see [`Self::unique_key`].
    pub dedupe_key: Option<String>,
    /// True if the dedupe key lasts until it has ended, false if it lasts until the first claim.
    pub unique_until_ended: bool,
    /// Its tag.
    pub tag: Option<String>,
    /// Its own limits.
    pub own: OwnLimits,
    /// The notice that was passed on to a target as this one.
    pub parent_id: Option<i64>,
    /// What its receiver answered last, as far as its handler reported it.
    pub response: Option<LastResponse>,
}

impl NoticeRecord {
    /// Creates a record with the required parts; stores fill in the rest, and end with [`Self::with_progress`].
    pub fn new(id: i64, def_id: i64, status: Status, param: String, create_time: DateTime<Utc>) -> Self {
        Self {
            id,
            def_id,
            status,
            param,
            description: None,
            errors: Vec::new(),
            fence: 0,
            failures: 0,
            crashes: 0,
            retry_times: 0,
            worker: None,
            last_call_time: None,
            last_class: None,
            next_call_time: None,
            create_time,
            finish_time: None,
            update_time: create_time,
            end_reason: None,
            trace_context: None,
            ordering_key: None,
            dedupe_key: None,
            unique_until_ended: false,
            tag: None,
            own: OwnLimits::default(),
            parent_id: None,
            response: None,
        }
    }

    /// Returns the dedupe key that no other live notice of its definition may have while this one is live; `None` once the
    /// first claim has released it.
    pub fn unique_key(&self) -> Option<&str> {
        self.dedupe_key.as_deref().filter(|_| self.fence == 0 || self.unique_until_ended)
    }

    /// Returns the value by which its receivers deduplicate; see [`idempotency_key`].
    pub fn idempotency_key(&self) -> String {
        idempotency_key(self.id, self.create_time)
    }
}

/// Returns the value by which receivers can deduplicate. It is the same in every attempt of a notice. It contains the time of
/// the insert beside the id, so it differs between databases.
pub fn idempotency_key(id: i64, create_time: DateTime<Utc>) -> String {
    format!("{id}-{}", millis_from_time(create_time))
}

/// The latest time that a caller may set, 9999-01-01, in milliseconds since 1970. Every database can store it. It is earlier than
/// [`NEVER`], so a time that a caller sets is always a time.
pub const LATEST_TIME: i64 = 253_370_764_800_000;

/// The due time of a notice that is never due, 9999-12-31, in milliseconds since 1970: it waits for its ack without a
/// deadline. Postgres stores `infinity` instead, and Redis the score `inf`. A record that has this time or a later one has no
/// [`NoticeRecord::next_call_time`].
pub const NEVER: i64 = 253_402_214_400_000;

/// Converts milliseconds since 1970, the stores' unit, to a time.
pub fn time_from_millis(ms: i64) -> DateTime<Utc> {
    let limit = if ms < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
    DateTime::from_timestamp_millis(ms).unwrap_or(limit)
}

/// Converts a time to milliseconds since 1970, rounded up so that no notice is sent too early.
pub fn millis_from_time(time: DateTime<Utc>) -> i64 {
    time.timestamp_millis() + i64::from(!time.timestamp_subsec_nanos().is_multiple_of(1_000_000))
}

/// Returns the time that is `by` after `time`, if it can be represented.
pub fn later(time: DateTime<Utc>, by: Duration) -> Option<DateTime<Utc>> {
    time.checked_add_signed(TimeDelta::from_std(by).ok()?)
}

/// Formats a time in RFC 3339, in UTC with milliseconds. A time beyond [`NEVER`] is shown as that one, because a year has four
/// digits.
pub fn rfc3339(time: DateTime<Utc>) -> String {
    let time = time.clamp(DateTime::UNIX_EPOCH, time_from_millis(NEVER));
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Converts a duration to milliseconds, rounded up so that a retry is never too early.
pub fn duration_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// Converts milliseconds to a duration; negative values become zero.
pub fn duration_from_millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
#[path = "notice_tests.rs"]
mod tests;
