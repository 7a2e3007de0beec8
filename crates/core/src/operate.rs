//! [`Operate`]: what operators need of a store, beside what the send path needs ([`crate::Store`]): reading notices, and the
//! operator's verbs. A store writes each change by an operator to the audit table, in the same transaction.
//!
//! A store reads one queue slice at a time (a definition and a status), because its indexes begin with these. [`verb::decide`]
//! decides what a verb does to a notice; [`Operator`], the handle for people, combines queue slices and windows.

mod bulk;
mod definitions;
mod edit_preview;
mod explain;
mod filter;
mod listing;
mod operator;
mod rate;
mod retime;
mod send_limits;
mod snapshot;
mod verb;

pub use bulk::{Bulk, Preview};
pub use definitions::DefRef;
pub use edit_preview::{EditPreview, HandlerChange, InFlight, IntervalChange, NextStep, RetryGroup, preview};
pub use explain::{ExplainContext, Explanation};
pub use filter::{Filter, NO_CLASS, Position};
pub use listing::{ClassCount, Counted, Page};
pub use operator::Operator;
pub use rate::Rate;
pub use send_limits::{Paused, SendLimits, Switch};
pub use snapshot::{COUNT_HOLD, COUNT_TIMEOUT, DefinitionCounts, NoticeCounts, RECENT, next_count};
pub use verb::{Change, Verb, VerbResult, decide, detail};

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::ack::{AckResult, Reply};
use crate::definition::{NotifyDef, StoredVersion};
use crate::error::StoreError;
use crate::notice::Status;

/// What operators need of a store. Object safe; may grow in the same way as [`crate::Store`].
#[async_trait]
pub trait Operate: Send + Sync + 'static {
    /// Applies an ack or nack, whatever the state of the notice.
    async fn apply_ack(&self, answer: &Reply) -> Result<AckResult, StoreError>;

    /// Returns the audit, the latest entry first.
    async fn audit(&self, limit: usize) -> Result<Vec<AuditEntry>, StoreError>;

    /// Returns the audit entries of this notice, the latest first. Bulk changes are not included, because they have one entry
    /// per window.
    async fn audit_of(&self, notice_id: i64, limit: usize) -> Result<Vec<AuditEntry>, StoreError>;

    /// Returns notices of a queue slice, in its order.
    async fn list(&self, slice: &QueueSlice, limit: usize) -> Result<Vec<Listed>, StoreError>;

    /// Counts the notices of a queue slice, up to `most`.
    async fn count(&self, slice: &QueueSlice, most: usize) -> Result<usize, StoreError>;

    /// Returns the classes of the dead letters of these definitions: each definition with each of its classes.
    async fn classes(&self, def_ids: &[i64]) -> Result<Vec<(i64, String)>, StoreError>;

    /// Applies [`decide`] to one notice and writes an audit entry, in one transaction.
    async fn change(&self, id: i64, verb: &Verb, who: &str) -> Result<VerbResult, StoreError>;

    /// Applies a verb to a few notices of a queue slice and writes an audit entry, in one transaction. Notices that have
    /// changed since they were read, or are locked, are skipped.
    async fn change_window(&self, window: &Window) -> Result<WindowDone, StoreError>;

    /// Returns what stops sending: the switch, and the limits over all nodes. One statement, run together with the definitions.
    async fn send_limits(&self) -> Result<SendLimits, StoreError>;

    /// Sets the switch that pauses everything and writes an audit entry, in one transaction. Returns false if it was already
    /// set so.
    async fn switch(&self, switch: &Switch, who: &str) -> Result<bool, StoreError>;

    /// Returns the notice that this one waits for: the one before it in its ordering key, or the one of that key that is being
    /// sent.
    async fn ahead(&self, notice: &crate::NoticeRecord) -> Result<Option<i64>, StoreError>;

    /// Returns since when the oldest first send of a definition has been due that is blocked by its ordering key and that
    /// [`crate::Store::due`] does not report. Only stores that exclude such notices from what is due return a time.
    async fn oldest_blocked(&self, _def_id: i64) -> Result<Option<DateTime<Utc>>, StoreError> {
        Ok(None)
    }

    /// Returns the snapshot: the last counts of each definition, sorted by name.
    async fn counts(&self) -> Result<Vec<DefinitionCounts>, StoreError>;

    /// Counts the notices of a definition if that is due and no other node is counting; returns true if it did. The next count
    /// is due after `every`, or later if this one took long ([`next_count`]).
    async fn refresh_counts(&self, def_id: i64, every: Duration) -> Result<bool, StoreError>;
    /// Returns the versions of a definition up to this number, the latest first.
    async fn versions(&self, def_id: i64, up_to: i64, limit: usize) -> Result<Vec<StoredVersion>, StoreError>;

    /// Returns the last version of each definition, also of those whose row is gone. It reads all of them, so call it rarely.
    async fn last_versions(&self) -> Result<Vec<StoredVersion>, StoreError>;

    /// Stores edits by SQL as versions; `rows` are all definitions, as just read. Each edit is stored once, whichever node
    /// notices it. Returns false if another transaction has locked a row: try again later.
    async fn remember(&self, rows: &[NotifyDef], seen_by: &str) -> Result<bool, StoreError>;

    /// Returns the failed notices of a definition that wait for their retry, grouped by what decides about them. Reads at most
    /// `most` notices.
    async fn retries(&self, def_id: i64, most: usize) -> Result<Vec<RetryGroup>, StoreError>;

    /// Returns the nodes that were seen within this time.
    async fn nodes(&self, seen_within: Duration) -> Result<Vec<SeenNode>, StoreError>;
}

/// Notices of one definition and status, sorted by time: for ended ones when they ended, for live ones when they are due next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSlice {
    /// The definition.
    pub def_id: i64,
    /// The status.
    pub status: Status,
    /// Only dead letters of this class ([`NO_CLASS`]: those without a class).
    pub class: Option<String>,
    /// Only from this time on.
    pub from: Option<DateTime<Utc>>,
    /// Only up to this time.
    pub until: Option<DateTime<Utc>>,
    /// Only notices after this position.
    pub after: Option<Position>,
    /// Whether the latest come first; only for ended notices.
    pub newest_first: bool,
}

impl QueueSlice {
    /// Returns the whole queue slice of a definition and status.
    pub fn of(def_id: i64, status: Status) -> Self {
        Self { def_id, status, class: None, from: None, until: None, after: None, newest_first: false }
    }
}

/// A notice in a list; long texts are cut. It has no parameter, because parameters may be large and personal, and bulk verbs read
/// lists of thousands: [`Operator::show`] returns the whole notice.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The id.
    pub id: i64,
    /// The id of its definition.
    pub def_id: i64,
    /// The name of the definition; empty if its row is gone.
    pub definition: String,
    /// Its state.
    pub status: Status,
    /// The fence of its last claim: how often it was claimed.
    pub fence: i64,
    /// How many attempts failed.
    pub failures: i64,
    /// How many attempts ended because the process died.
    pub crashes: i64,
    /// The class of the last error.
    pub last_class: Option<String>,
    /// The description, its first 200 characters.
    pub description: Option<String>,
    /// When it was added.
    pub create_time: DateTime<Utc>,
    /// When it ended or, for a live one, when it is due next; [`NEVER`](crate::notice::NEVER) if it is never due.
    pub time: DateTime<Utc>,
    /// When its last attempt began.
    pub last_call_time: Option<DateTime<Utc>>,
    /// Why it ended, the first 500 characters.
    pub end_reason: Option<String>,
    /// The ordering key.
    pub ordering_key: Option<String>,
    /// The key that no other live notice of its definition has.
    pub dedupe_key: Option<String>,
    /// Its position in the list.
    pub position: Position,
}

impl Listed {
    /// Creates an entry with the required parts; stores fill in the rest.
    pub fn new(
        id: i64,
        def_id: i64,
        status: Status,
        create_time: DateTime<Utc>,
        time: DateTime<Utc>,
        position: Position,
    ) -> Self {
        Self {
            id,
            def_id,
            definition: String::new(),
            status,
            fence: 0,
            failures: 0,
            crashes: 0,
            last_class: None,
            description: None,
            create_time,
            time,
            last_call_time: None,
            end_reason: None,
            ordering_key: None,
            dedupe_key: None,
            position,
        }
    }
}

/// A change of a few notices of one queue slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Their definition.
    pub def_id: i64,
    /// The status that they were read with, and must still have.
    pub status: Status,
    /// The notices, as they were read.
    pub notices: Vec<Target>,
    /// [`Verb::Retry`] for ended notices, [`Verb::Cancel`] for live ones, [`Verb::Reschedule`] for waiting ones, each to its
    /// own time. The other verbs are for single notices.
    pub verb: Verb,
    /// The operator.
    pub who: String,
    /// The filter that selected them, for the audit.
    pub filter: String,
}

/// One notice of a [`Window`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Its id.
    pub id: i64,
    /// The fence that it was read with, and must still have.
    pub fence: i64,
    /// When it becomes due; a past time means at once.
    pub due: DateTime<Utc>,
}

/// Result of a [`Window`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WindowDone {
    /// The ids that were changed.
    pub changed: Vec<i64>,
    /// The ids that were not changed, because a live notice has their dedupe key.
    pub dedupe_key_taken: Vec<i64>,
}

impl WindowDone {
    /// Returns the detail for the audit: the filter, how many, and the smallest and largest id.
    pub fn detail(&self, window: &Window) -> String {
        let id = |id: Option<&i64>| id.copied().unwrap_or_default();
        let (first, last) = (id(self.changed.iter().min()), id(self.changed.iter().max()));
        let mut text = format!("{}: {} notices, ids {first} to {last}", window.filter, self.changed.len());
        if let Verb::Cancel { reason } = &window.verb {
            text = format!("{text}; reason: {reason}");
        }
        match self.dedupe_key_taken.len() {
            0 => text,
            taken => format!("{text}; {taken} passed over, since live notices have their dedupe keys"),
        }
    }
}

/// A sweeper process, as it was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenNode {
    /// Its id.
    pub id: String,
    /// The handlers it has.
    pub handlers: Vec<String>,
    /// When it was last seen.
    pub last_seen: DateTime<Utc>,
}

/// An operator's action: a row of `notify_audit`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditEntry {
    /// When, by the database's clock.
    pub time: DateTime<Utc>,
    /// The operator.
    pub who: String,
    /// What was done: a verb, such as `retry`.
    pub act: String,
    /// The definition, if the action concerned one.
    pub def_id: Option<i64>,
    /// The notice, if the action concerned one.
    pub notice_id: Option<i64>,
    /// The details, for people.
    pub detail: Option<String>,
}

impl AuditEntry {
    /// Creates an entry without definition, notice and detail.
    pub fn new(time: DateTime<Utc>, who: impl Into<String>, act: impl Into<String>) -> Self {
        Self { time, who: who.into(), act: act.into(), def_id: None, notice_id: None, detail: None }
    }
}
