//! [`Operate`]: what people ask of a store, beside what the send path asks ([`crate::Store`]): looking at notices, and the
//! operator's verbs. Whatever is changed for a person is written to the audit table, in the same transaction.
//!
//! A store looks at one lane at a time (a definition and a status), since that is what its indexes know. What a verb does to
//! a notice is decided by [`verb::decide`]; [`Operator`], the handle for people, puts lanes and windows together.

mod brakes;
mod bulk;
mod definitions;
mod edit_preview;
mod explain;
mod filter;
mod listing;
mod operator;
mod rate;
mod retime;
mod snapshot;
mod verb;

pub use brakes::{Brakes, Paused, Switch};
pub use bulk::{Bulk, Preview};
pub use definitions::DefRef;
pub use edit_preview::{EditPreview, HandlerChange, InFlight, IntervalChange, NextStep, RetryGroup, preview};
pub use explain::{Explanation, Surroundings};
pub use filter::{Filter, NO_CLASS, Position};
pub use listing::{ClassCount, Counted, Page};
pub use operator::Operator;
pub use rate::Rate;
pub use snapshot::{COUNT_HOLD, COUNT_TIMEOUT, Counts, DefinitionCounts, RECENT, next_count};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) use verb::rfc3339;
pub use verb::{Answer, Change, Verb, decide, detail};

use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use crate::alert::AlertReason;
use crate::alert::cooldown::{AlertRow, Standing};
use crate::confirm::{Confirmation, Confirmed};
use crate::definition::{NotifyDef, StoredVersion};
use crate::error::StoreError;
use crate::notice::Status;

/// What people ask of a store. Object safe, and as free to grow as [`crate::Store`].
#[async_trait]
pub trait Operate: Send + Sync + 'static {
    /// Carries out what a receiver says of a notice, whatever has become of that.
    async fn confirm(&self, answer: &Confirmation) -> Result<Confirmed, StoreError>;

    /// How an alert stands: its row, and what is known beside it.
    async fn alert_row(&self, def_id: i64, reason: AlertReason) -> Result<Option<(AlertRow, Standing)>, StoreError>;

    /// What people did, the latest first.
    async fn audit(&self, limit: usize) -> Result<Vec<AuditEntry>, StoreError>;

    /// What people did to this notice, the latest first. Bulk changes are not among it: they are told of by window.
    async fn audit_of(&self, notice_id: i64, limit: usize) -> Result<Vec<AuditEntry>, StoreError>;

    /// Notices of a lane, in its order.
    async fn list(&self, lane: &Lane, limit: usize) -> Result<Vec<Listed>, StoreError>;

    /// How many notices a lane has, counted up to `most`.
    async fn count(&self, lane: &Lane, most: usize) -> Result<usize, StoreError>;

    /// The classes that the dead letters of these definitions have: each definition with each of its classes.
    async fn classes(&self, def_ids: &[i64]) -> Result<Vec<(i64, String)>, StoreError>;

    /// Does to one notice what [`decide`] says of it, and writes that down, in one transaction.
    async fn change(&self, id: i64, verb: &Verb, who: &str) -> Result<Answer, StoreError>;

    /// Does to a few notices of a lane what a verb says of it, and writes that down, in one transaction. What is no longer
    /// as it was seen, or is locked, is passed over.
    async fn change_window(&self, window: &Window) -> Result<WindowDone, StoreError>;

    /// What holds sending back: the switch, and the limits over all nodes. One statement, asked with the definitions.
    async fn brakes(&self) -> Result<Brakes, StoreError>;

    /// Turns the switch that pauses everything, and writes that down, in one transaction; false where it stood so already.
    async fn switch(&self, switch: &Switch, who: &str) -> Result<bool, StoreError>;

    /// The notice that stands before this one in its ordering key, or is under way: the one that it waits for.
    async fn ahead(&self, notice: &crate::NoticeRecord) -> Result<Option<i64>, StoreError>;

    /// The snapshot: the counts of each definition, in the order of the names, as they were last taken.
    async fn counts(&self) -> Result<Vec<DefinitionCounts>, StoreError>;

    /// Counts the notices of a definition anew, where it is time for it and nobody else does; true where it did. They are
    /// wanted anew after `every`, or later where that took long ([`next_count`]).
    async fn refresh_counts(&self, def_id: i64, every: Duration) -> Result<bool, StoreError>;
    /// The versions of a definition up to this number, the latest first.
    async fn versions(&self, def_id: i64, up_to: i64, limit: usize) -> Result<Vec<StoredVersion>, StoreError>;

    /// Keeps, as versions, what people made of the definitions by SQL; `rows` are all of them, as just read. Each is kept once,
    /// whoever sees it. False where somebody has a row locked: look again later.
    async fn remember(&self, rows: &[NotifyDef], seen_by: &str) -> Result<bool, StoreError>;

    /// The failed notices of a definition that wait for their retry, grouped by what decides about them; `most` of them are
    /// looked at.
    async fn retries(&self, def_id: i64, most: usize) -> Result<Vec<RetryGroup>, StoreError>;

    /// The store's time, and the nodes that told within this time that they live.
    async fn nodes(&self, seen_within: Duration) -> Result<Nodes, StoreError>;
}

/// Notices of one definition and status, by the time that they are sorted by: when they ended, or, of live ones, when
/// somebody must look at them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// The definition.
    pub def_id: i64,
    /// The status.
    pub status: Status,
    /// Only dead letters of this class ([`NO_CLASS`]: without one).
    pub class: Option<String>,
    /// Only from this time on.
    pub from: Option<SystemTime>,
    /// Only up to this time.
    pub until: Option<SystemTime>,
    /// Only what comes behind this one.
    pub after: Option<Position>,
    /// Whether the latest come first, which only ended notices can.
    pub newest_first: bool,
}

impl Lane {
    /// All of a definition and status, in its order.
    pub fn of(def_id: i64, status: Status) -> Self {
        Self { def_id, status, class: None, from: None, until: None, after: None, newest_first: false }
    }
}

/// A notice in a list: all but its parameter and its attempts, long texts cut.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The id.
    pub id: i64,
    /// The id of its definition.
    pub def_id: i64,
    /// Its state.
    pub status: Status,
    /// How often it was claimed.
    pub attempt: i64,
    /// How many attempts failed.
    pub failures: i64,
    /// How many attempts ended with the process.
    pub crashes: i64,
    /// The kind of the last error.
    pub last_class: Option<String>,
    /// A text for people, its first 200 characters.
    pub description: Option<String>,
    /// When it was added.
    pub create_time: SystemTime,
    /// When it ended or, of a live one, when somebody must look at it next.
    pub time: SystemTime,
    /// When its last attempt began.
    pub last_call_time: Option<SystemTime>,
    /// Why it ended, the first 500 characters.
    pub end_reason: Option<String>,
    /// The key by which notices of its definition keep their order.
    pub ordering_key: Option<String>,
    /// The key that no other live notice of its definition has.
    pub dedupe_key: Option<String>,
    /// Where it stands in its list.
    pub position: Position,
}

impl Listed {
    /// One of which nothing more is said than this; stores fill in the rest.
    pub fn new(
        id: i64,
        def_id: i64,
        status: Status,
        create_time: SystemTime,
        time: SystemTime,
        position: Position,
    ) -> Self {
        Self {
            id,
            def_id,
            status,
            attempt: 0,
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

/// A change of a few notices of one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Their definition.
    pub def_id: i64,
    /// The status that they were seen in, and must still have.
    pub status: Status,
    /// Which, and how they were seen.
    pub notices: Vec<Target>,
    /// [`Verb::Retry`] for ended notices, [`Verb::Cancel`] for live ones, [`Verb::Reschedule`] for those that wait, each to the
    /// time of its own; the others are for single notices.
    pub verb: Verb,
    /// Who does it.
    pub who: String,
    /// Of what it is a part, for the audit: the filter.
    pub filter: String,
}

/// One notice of a [`Window`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Its id.
    pub id: i64,
    /// The attempt that it was seen with, and must still have.
    pub attempt: i64,
    /// When it is to be due again; a time that is over means at once.
    pub due: SystemTime,
}

/// What became of a [`Window`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WindowDone {
    /// Those that were changed.
    pub changed: Vec<i64>,
    /// Those that stay, because a live notice has their dedupe key.
    pub dedupe_key_taken: Vec<i64>,
}

impl WindowDone {
    /// What the audit says of it: the filter, how many, and from which id to which.
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

/// The answer of [`Operate::nodes`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    /// The store's time.
    pub now: SystemTime,
    /// The nodes.
    pub seen: Vec<SeenNode>,
}

/// A process that sends, as it was last heard of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenNode {
    /// Its id.
    pub id: String,
    /// The handlers it has.
    pub handlers: Vec<String>,
    /// When it was heard of.
    pub last_seen: SystemTime,
}

/// Who did what, and when: a row of `notify_audit`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditEntry {
    /// When, by the database's clock.
    pub time: SystemTime,
    /// Who.
    pub who: String,
    /// What was done: a verb, such as `retry`.
    pub act: String,
    /// The definition that it was done to.
    pub def_id: Option<i64>,
    /// The notice that it was done to.
    pub notice_id: Option<i64>,
    /// What exactly, for people.
    pub detail: Option<String>,
}

impl AuditEntry {
    /// An entry of which nothing more is said than this.
    pub fn new(time: SystemTime, who: impl Into<String>, act: impl Into<String>) -> Self {
        Self { time, who: who.into(), act: act.into(), def_id: None, notice_id: None, detail: None }
    }
}
