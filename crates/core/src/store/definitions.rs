//! [`DefinitionStore`]: the rows of definitions, their versions, and what stops sending beside them.

use async_trait::async_trait;

use super::{Alarm, SendLimits};
use crate::definition::{CREATED, NotifyDef, PAUSED, StoredVersion};
use crate::error::StoreError;

/// Definitions: reading, editing, versions.
///
/// See [`super`] for the contract of all methods.
#[async_trait]
pub trait DefinitionStore: Send + Sync + 'static {
    /// Returns all definitions, deleted ones included, because their live notices still need them.
    async fn definitions(&self) -> Result<Vec<NotifyDef>, StoreError>;

    /// Creates, replaces or deletes one definition and stores its new version with the author, in one transaction. If it finds
    /// a change without a version (an edit by SQL), it first stores that as a version made by hand.
    async fn edit(&self, edit: &Edit, who: &str) -> Result<Edited, StoreError>;

    /// Returns the versions of a definition up to this number, the latest first.
    async fn versions(&self, def_id: i64, up_to: i64, limit: usize) -> Result<Vec<StoredVersion>, StoreError>;

    /// Returns the last version of each definition, also of those whose row is gone. It reads all of them, so call it rarely.
    async fn last_versions(&self) -> Result<Vec<StoredVersion>, StoreError>;

    /// Stores edits by SQL as versions; `rows` are all definitions, as just read. Each edit is stored once, whichever node
    /// notices it. Returns false if another transaction has locked a row: try again later.
    async fn remember(&self, rows: &[NotifyDef], seen_by: &str) -> Result<bool, StoreError>;

    /// Returns what stops sending: the switch, and the limits over all nodes. One statement, run together with the definitions.
    async fn send_limits(&self) -> Result<SendLimits, StoreError>;

    /// Returns the random number that the store got when it was created, so that tokens of another store are known as such. `None`: it
    /// was deleted.
    async fn store_id(&self) -> Result<Option<i64>, StoreError>;
}

/// A change of one definition.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // Rare, and passed by reference.
pub enum Edit {
    /// Creates the row unless there is one of this name.
    Create(NotifyDef),
    /// Replaces a row if it still is what the editor saw.
    Replace {
        /// The row as the editor saw it.
        seen: NotifyDef,
        /// The new row.
        new: NotifyDef,
    },
    /// As [`Self::Replace`], with the content of an earlier version.
    RollBack {
        /// The row as the editor saw it.
        seen: NotifyDef,
        /// The new row.
        new: NotifyDef,
        /// The version that is restored.
        version: i64,
    },
    /// As [`Self::Replace`]: a sweeper pauses a definition whose receiver wants no more notices.
    Pause {
        /// The row as the sweeper saw it.
        seen: NotifyDef,
        /// The row, paused.
        new: NotifyDef,
        /// What the receiver answered, for the audit.
        reason: String,
        /// The alarm about it, raised in the same transaction.
        alarm: Option<Alarm>,
    },
    /// Marks a row as deleted if it still is what the editor saw, and frees its name.
    Delete {
        /// The row as the editor saw it.
        seen: NotifyDef,
    },
}

impl Edit {
    /// Returns the act of its version.
    pub fn act(&self) -> String {
        match self {
            Self::Create(_) => CREATED.to_owned(),
            Self::Replace { .. } => "edited".to_owned(),
            Self::RollBack { version, .. } => format!("rolled back to {version}"),
            Self::Pause { .. } => PAUSED.to_owned(),
            Self::Delete { .. } => "deleted".to_owned(),
        }
    }

    /// Returns why it was done, for the audit.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Pause { reason, .. } => Some(reason),
            _ => None,
        }
    }

    /// Returns the alarm that it raises.
    pub fn alarm(&self) -> Option<&Alarm> {
        match self {
            Self::Pause { alarm, .. } => alarm.as_ref(),
            _ => None,
        }
    }
}

/// Result of an [`Edit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edited {
    /// It is stored. Contains the row as it is now.
    Stored(NotifyDef),
    /// Nothing was changed, because of a conflict with this row.
    Conflict(NotifyDef),
    /// There is no such row.
    Missing,
}
