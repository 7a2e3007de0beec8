//! [`BrowseStore`]: what people read: notices, lists, counts, the audit.
//!
//! A store reads one queue slice at a time (a definition and a status), because its indexes begin with these.
//! [`crate::operate::Operator`], the handle for people, combines queue slices and steps.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{AuditEntry, AuditQuery, DefinitionCounts, Node, Only, Position, RefusedConfig, SeriesCounts, SeriesQuery};
use crate::error::StoreError;
use crate::finding::Finding;
use crate::notice::{NoticeRecord, OwnLimits, Status};
use crate::notice_progress::{retry_times, update_time};

/// Reading for people.
///
/// See [`super`] for the contract of all methods.
#[async_trait]
pub trait BrowseStore: Send + Sync + 'static {
    /// Returns one notice, live or in history.
    async fn find(&self, id: i64) -> Result<Option<NoticeRecord>, StoreError>;

    /// Returns notices of a queue slice, in its order.
    async fn list(&self, slice: &QueueSlice, limit: usize) -> Result<Vec<Listed>, StoreError>;

    /// Counts the notices of a queue slice, up to `most`.
    async fn count(&self, slice: &QueueSlice, most: usize) -> Result<usize, StoreError>;

    /// Returns the classes of the dead letters of these definitions: each definition with each of its classes.
    async fn classes(&self, def_ids: &[i64]) -> Result<Vec<(i64, String)>, StoreError>;

    /// Returns the largest groups of the dead letters of a definition that ended between these times, the largest first.
    async fn groups(&self, slice: &QueueSlice, limit: usize) -> Result<Vec<StoredGroup>, StoreError>;

    /// Returns the notice that this one waits for: the one before it in its ordering key, or the one of that key that is being
    /// sent.
    async fn ahead(&self, notice: &NoticeRecord) -> Result<Option<i64>, StoreError>;

    /// Returns since when the oldest first send of a definition has been due that is blocked by its ordering key and that
    /// [`super::SendStore::due`] does not report. Only stores that exclude such notices from what is due return a time.
    async fn oldest_blocked(&self, _def_id: i64) -> Result<Option<DateTime<Utc>>, StoreError> {
        Ok(None)
    }

    /// Returns the snapshot: the last counts of each definition, sorted by name.
    async fn counts(&self) -> Result<Vec<DefinitionCounts>, StoreError>;

    /// Counts the notices of a definition if that is due and no other node is counting; returns true if it did. The next count
    /// is due after `every`, or later if this one took long ([`super::next_count`]). An `every` of zero counts also where none is due, for a
    /// process that ends.
    async fn refresh_counts(&self, def_id: i64, every: Duration) -> Result<bool, StoreError>;

    /// Returns the failed notices of a definition that wait for their retry, grouped by what decides about them. Reads at most
    /// `most` notices.
    async fn retries(&self, def_id: i64, most: usize) -> Result<Vec<RetryGroup>, StoreError>;

    /// Returns what was counted in each step ([`SeriesQuery::step_of`]) over all nodes; a step may occur several times, and one
    /// without counters may be missing.
    async fn series(&self, query: &SeriesQuery) -> Result<Vec<(i64, SeriesCounts)>, StoreError>;

    /// Returns the nodes that were seen within this time and have not stopped since ([`Node::stopped`]).
    async fn nodes(&self, seen_within: Duration) -> Result<Vec<SeenNode>, StoreError>;

    /// Returns entries of the audit and their positions, the latest first.
    async fn audit(&self, query: &AuditQuery, limit: usize) -> Result<Vec<(Position, AuditEntry)>, StoreError>;

    /// Examines the server: its version and settings, the schema, rights, old transactions. A check that fails is a finding.
    async fn examine(&self) -> Result<Vec<Finding>, StoreError>;
}

/// Notices of one definition and status, sorted by time: for ended ones when they ended, for live ones when they are due next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSlice {
    /// The definition.
    pub def_id: i64,
    /// The status.
    pub status: Status,
    /// Only dead letters of this class ([`crate::operate::NO_CLASS`]: those without a class).
    pub class: Option<String>,
    /// Only dead letters of this group ([`crate::error_group`]).
    pub group: Option<i64>,
    /// Only from this time on.
    pub from: Option<DateTime<Utc>>,
    /// Only up to this time.
    pub until: Option<DateTime<Utc>>,
    /// Only those that all of these conditions select.
    pub only: Only,
    /// Only notices after this position.
    pub after: Option<Position>,
    /// Whether the latest come first; only for ended notices.
    pub newest_first: bool,
}

impl QueueSlice {
    /// Returns the whole queue slice of a definition and status.
    pub fn of(def_id: i64, status: Status) -> Self {
        let (class, group, from, until, after, only) = (None, None, None, None, None, Only::default());
        Self { def_id, status, class, group, from, until, only, after, newest_first: false }
    }
}

/// A notice in a list; long texts are cut. It has no parameter, because parameters may be large and personal, and bulk verbs read
/// lists of thousands: [`crate::operate::Operator::show`] returns the whole notice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
    /// How many retries it had, with the one that runs or that it waits for.
    pub retry_times: i64,
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
    /// When it ended, else when its last attempt began, else when it was added.
    pub update_time: DateTime<Utc>,
    /// Why it ended, the first 500 characters.
    pub end_reason: Option<String>,
    /// The ordering key.
    pub ordering_key: Option<String>,
    /// The key that no other live notice of its definition has.
    pub dedupe_key: Option<String>,
    /// Its tag.
    pub tag: Option<String>,
    /// Its own limits.
    pub own: OwnLimits,
    /// Its position in the list.
    pub position: Position,
}

impl Listed {
    /// Creates an entry with the required parts; stores fill in the rest, and end with [`Self::with_progress`].
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
            retry_times: 0,
            last_class: None,
            description: None,
            create_time,
            time,
            last_call_time: None,
            update_time: create_time,
            end_reason: None,
            ordering_key: None,
            dedupe_key: None,
            tag: None,
            own: OwnLimits::default(),
            position,
        }
    }

    /// Returns the entry with what follows from its other parts.
    #[must_use]
    pub fn with_progress(mut self) -> Self {
        let finish_time = self.status.is_final().then_some(self.time);
        self.retry_times = retry_times(self.status, self.failures, self.crashes);
        self.update_time = update_time(finish_time, self.last_call_time, self.create_time);
        self
    }
}

/// Dead letters of one definition and group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredGroup {
    /// The number of the group.
    pub group: i64,
    /// The number of dead letters.
    pub count: u64,
    /// When the first of them ended.
    pub first: DateTime<Utc>,
    /// When the last of them ended.
    pub last: DateTime<Utc>,
    /// The id of the one that was added last.
    pub example: i64,
    /// The class of that one's last error.
    pub class: Option<String>,
    /// The stored list of that one's failed attempts.
    pub errors: Option<String>,
    /// Why that one ended.
    pub end_reason: Option<String>,
}

/// A sweeper process, as it was last seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SeenNode {
    /// Its id.
    pub id: String,
    /// The handlers it has, by name.
    pub handlers: Vec<String>,
    /// The version of the library that it runs.
    pub version: String,
    /// Its clock minus the store's, in milliseconds.
    pub clock_offset_ms: i64,
    /// The definitions whose `handler_config` its handlers refuse.
    pub refused: Vec<RefusedConfig>,
    /// Why it does not send, and which of its attempts cannot be cancelled; empty: all is well.
    pub problems: Vec<String>,
    /// The ids of the keys by which it decrypts parameters.
    pub param_keys: Vec<String>,
    /// When it was first seen.
    pub start_time: DateTime<Utc>,
    /// When it was last seen.
    pub last_seen: DateTime<Utc>,
}

impl SeenNode {
    /// Creates the record of a node from its report.
    pub fn new(node: Node, start_time: DateTime<Utc>, last_seen: DateTime<Utc>) -> Self {
        let Node { id, handlers, version, clock_offset_ms, refused, problems, param_keys, alarms: _, stopped: _ } =
            node;
        Self { id, handlers, version, clock_offset_ms, refused, problems, param_keys, start_time, last_seen }
    }

    /// Returns why its handler refuses the `handler_config` of a definition, if it does.
    pub fn refuses(&self, def_id: i64) -> Option<&str> {
        self.refused.iter().find(|refused| refused.def_id == def_id).map(|refused| refused.problem.as_str())
    }
}

/// Failed notices that wait for their retry and for which the decision is the same. Exhaustive, because
/// stores construct it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct RetryGroup {
    /// The failed attempts of each.
    pub failures: i64,
    /// The crashes of each.
    pub crashes: i64,
    /// The class of their last error.
    pub class: Option<String>,
    /// Their own limit of tries.
    pub max_tries: Option<i64>,
    /// From the beginning of their last attempt to their retry, in whole seconds.
    #[serde(serialize_with = "crate::json::optional_duration")]
    pub wait: Option<Duration>,
    /// From the beginning of their last attempt to their own expiry, in whole seconds, rounded up.
    #[serde(serialize_with = "crate::json::optional_duration")]
    pub expires_after: Option<Duration>,
    /// True if they are due.
    pub due: bool,
    /// The number of notices.
    pub count: u64,
}

impl RetryGroup {
    /// Returns the groups of single retries, each given with a count of 1.
    pub fn grouped(retries: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut counts: HashMap<Self, u64> = HashMap::new();
        for retry in retries {
            *counts.entry(retry).or_default() += 1;
        }
        counts.into_iter().map(|(group, count)| Self { count, ..group }).collect()
    }
}
