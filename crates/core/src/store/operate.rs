//! [`OperateStore`]: changes of notices by people and receivers. A store writes each change by an operator to the audit table, in the
//! same transaction.
//!
//! [`super::verb::decide`] decides what a verb does to a notice.

use std::collections::HashSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::verb::{Verb, VerbResult};
use super::{AuditEntry, Authority, Purged, Switch};
use crate::ack::{AckResult, Reply};
use crate::error::StoreError;
use crate::notice::Status;

/// An id that no notice has.
pub const NO_NOTICE: i64 = -1;

/// Changes by people and receivers.
///
/// See [`super`] for the contract of all methods.
#[async_trait]
pub trait OperateStore: Send + Sync + 'static {
    /// Applies an ack or nack, whatever the state of the notice.
    async fn apply_ack(&self, reply: &Reply) -> Result<AckResult, StoreError>;

    /// Finds out whether [`Self::apply_ack`] has the rights and tables that it needs, without changing anything.
    async fn can_ack(&self) -> Result<(), StoreError> {
        self.apply_ack(&Reply::ack(NO_NOTICE)).await.map(drop)
    }

    /// Applies [`super::verb::decide`] to one notice and writes an audit entry, in one transaction.
    async fn change(&self, id: i64, verb: &Verb, who: &str) -> Result<VerbResult, StoreError>;

    /// Applies a verb to a few notices of some queue slices and writes an audit entry for each slice, in one transaction. Notices that have
    /// changed since they were read, or are locked, are skipped. A store whose definitions do not share transactions has one for each slice, in
    /// their order.
    async fn change_step(&self, step: &BulkStep) -> Result<BulkStepDone, StoreError>;

    /// Adds a notice of a built-in definition, due at once, with its authority, in one transaction. Returns its id.
    async fn add(&self, def_id: i64, param: &str, authority: &Authority) -> Result<i64, StoreError>;

    /// Adds a notice of a definition that is due at once and has the tag [`TEST_TAG`](crate::test_mark::TEST_TAG), and writes an audit
    /// entry ([`AuditEntry::of_test`]), in one transaction. Returns its id.
    async fn add_test(&self, def_id: i64, param: &str, who: &str) -> Result<i64, StoreError>;

    /// Replaces the parameter of a notice that is being sent under this fence. Returns false, and changes nothing, if it is no longer.
    async fn note_progress(&self, id: i64, fence: i64, param: &str) -> Result<bool, StoreError>;

    /// Sets the switch, which pauses everything or all retries, and writes an audit entry, in one transaction. Returns false if it was already
    /// set so.
    async fn switch(&self, switch: &Switch, who: &str) -> Result<bool, StoreError>;

    /// Applies [`crate::limit::close`] to the row of a definition and writes an audit entry, in one transaction. Returns false,
    /// without an entry, if the circuit was not open.
    async fn close_circuit(&self, def_id: i64, who: &str) -> Result<bool, StoreError>;
}

/// A change of a few notices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkStep {
    /// The notices by queue slice, ordered by the ids of their definitions, so that two steps lock in the same order.
    pub slices: Vec<SliceOfStep>,
    /// What to do with each notice.
    pub verb: BulkVerb,
    /// The operator.
    pub who: String,
    /// The filter that selected them, for the audit.
    pub filter: String,
    /// The claim of the bulk act that it belongs to. A step of a claim that was lost changes nothing: another node goes on with the act.
    pub act: Option<ActFence>,
}

/// The notices of a [`BulkStep`] that are in one queue slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceOfStep {
    /// Their definition.
    pub def_id: i64,
    /// The status that they were read with, and must still have.
    pub status: Status,
    /// The notices, as they were read.
    pub notices: Vec<Target>,
}

/// The claim of a bulk act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActFence {
    /// The id of its notice.
    pub id: i64,
    /// The fence of the claim. A store that has the notice at hand compares it in the transaction of the step.
    pub fence: i64,
    /// When the lease ends, by the store's clock, if nothing extends it. A store whose transactions do not reach the act's notice compares it.
    pub lease_end: DateTime<Utc>,
}

/// What a [`BulkStep`] does with each of its notices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BulkVerb {
    /// Makes ended notices live again, each due at its own time.
    Retry,
    /// Ends live notices as cancelled, for this reason.
    Cancel {
        /// Why, for people.
        reason: String,
    },
    /// Makes waiting notices due, each at its own time.
    Reschedule,
    /// Deletes ended notices, for this reason.
    Purge {
        /// Why, for people.
        reason: String,
    },
}

impl BulkVerb {
    /// Returns its name in the audit.
    pub fn act(&self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Cancel { .. } => "cancel",
            Self::Reschedule => "reschedule",
            Self::Purge { .. } => "purge",
        }
    }

    /// Returns whether it changes notices of this status.
    pub fn applies_to(&self, status: Status) -> bool {
        match self {
            Self::Retry | Self::Purge { .. } => status.is_final(),
            Self::Cancel { .. } => !status.is_final(),
            Self::Reschedule => matches!(status, Status::NotSent | Status::Failed),
        }
    }
}

/// One notice of a [`BulkStep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Its id.
    pub id: i64,
    /// The fence that it was read with, and must still have.
    pub fence: i64,
    /// When it becomes due; a past time means at once.
    pub due: DateTime<Utc>,
}

/// Result of a [`BulkStep`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BulkStepDone {
    /// The ids that were changed.
    pub changed: Vec<i64>,
    /// The ids that were not changed, because a live notice has their dedupe key.
    pub dedupe_key_taken: Vec<i64>,
    /// Of a purge, what the log needs of each deleted notice.
    pub purged: Vec<Purged>,
    /// The claim of its act was lost, and nothing was changed.
    pub is_late: bool,
}

impl BulkStepDone {
    /// Adds the result of a further slice.
    pub fn add(&mut self, other: Self) {
        self.changed.extend(other.changed);
        self.dedupe_key_taken.extend(other.dedupe_key_taken);
        self.purged.extend(other.purged);
        self.is_late |= other.is_late;
    }

    /// Returns the entries of the step for the audit, with the ids that were changed: one for each slice with such notices.
    pub fn entries(&self, step: &BulkStep, time: DateTime<Utc>) -> Vec<AuditEntry> {
        let changed: HashSet<i64> = self.changed.iter().copied().collect();
        let taken: HashSet<i64> = self.dedupe_key_taken.iter().copied().collect();
        let mut entries = Vec::new();
        for slice in &step.slices {
            let of = |ids: &HashSet<i64>| {
                slice.notices.iter().map(|notice| notice.id).filter(|id| ids.contains(id)).collect()
            };
            let (mut ids, taken): (Vec<i64>, Vec<i64>) = (of(&changed), of(&taken));
            ids.sort_unstable();
            let (Some(first), Some(last)) = (ids.first(), ids.last()) else { continue };
            let mut entry = AuditEntry::new(time, step.who.as_str(), step.verb.act());
            (entry.def_id, entry.detail) =
                (Some(slice.def_id), Some(step.detail(ids.len(), (*first, *last), taken.len())));
            entry.notice_ids = ids;
            entries.push(entry);
        }
        entries
    }
}

impl BulkStep {
    /// Returns the filter, how many notices of a slice were changed, and their smallest and largest id.
    fn detail(&self, count: usize, (first, last): (i64, i64), taken: usize) -> String {
        let mut text = format!("{}: {count} notices, ids {first} to {last}", self.filter);
        if let BulkVerb::Cancel { reason } | BulkVerb::Purge { reason } = &self.verb {
            text = format!("{text}; reason: {reason}");
        }
        match taken {
            0 => text,
            taken => format!("{text}; {taken} skipped, because live notices have their dedupe keys"),
        }
    }
}
