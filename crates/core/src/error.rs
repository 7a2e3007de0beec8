//! The errors of this crate: what was being done, to what, and what would be right.
//!
//! Races that are expected (a lost lease, a definition that somebody else changed) are values, not errors.

use crate::definition::Problem;

/// What a library error carries as its cause.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something was refused or failed. Nothing else is affected by it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `add_notice` named a definition that does not exist (or was deleted).
    #[error("unknown notice definition {name:?}{}; define it first (`notify.define`) or add a row to notify_def", did_you_mean(nearest.as_deref()))]
    UnknownDefinition {
        /// The name that was asked for.
        name: String,
        /// The known name that is most like it.
        nearest: Option<String>,
    },
    /// A part of the notice cannot be stored in the same way by every database.
    #[error("notice {name:?}: {problem}")]
    InvalidNotice {
        /// The definition's name.
        name: String,
        /// What is wrong, where, and what would be right.
        problem: String,
    },
    /// A definition that cannot work was given to `define` or `update`.
    #[error("definition {name:?} is invalid: {}", join(problems))]
    InvalidDefinition {
        /// The definition's name.
        name: String,
        /// Every column that is wrong.
        problems: Vec<Problem>,
    },
    /// The transaction that was to hold the notice is no longer open: the server ended it, after a deadlock
    /// for instance, or somebody sent ROLLBACK. Roll back and do the business work again.
    ///
    /// Statements that are run through the connection afterwards are committed one by one, whatever becomes of the
    /// rest. Where it ended with a raw COMMIT, or with the implicit commit of DDL on MySQL, what was done before stays.
    #[error(
        "{doing}: the transaction is no longer open, so nothing done in it since then is safe; roll back and retry it"
    )]
    TransactionLost {
        /// What was being done.
        doing: &'static str,
    },
    /// A confirmation token, or a secret to sign such with, that cannot be used.
    #[error("the confirmation token cannot be used: {problem}")]
    Token {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Something that an operator asked for cannot be done as it was said.
    #[error("{what}: {problem}")]
    Invalid {
        /// What: a filter, a rate, a position.
        what: &'static str,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// The database (or another store) failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(", did you mean {name:?}?")).unwrap_or_default()
}

fn join(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

/// A store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {source}")]
#[non_exhaustive]
pub struct StoreError {
    /// What was being done.
    pub doing: &'static str,
    /// How it failed, which tells what to do about it.
    pub kind: FaultKind,
    /// The cause.
    pub source: BoxError,
}

/// What sort of fault a [`StoreError`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// The store could not be reached, or not in time: every caller is affected, and it passes.
    Outage,
    /// A conflict with others (deadlock, serialization, lock wait): passes when tried again.
    Conflict,
    /// The store answers but cannot do it: a missing table or right, a full disk, a database that refuses
    /// connections. It passes when somebody repairs it.
    Unusable,
    /// It fails each time with these values, and only with these: others are not affected.
    Permanent,
}

impl StoreError {
    /// An error of `kind` that happened while `doing`.
    pub fn new(doing: &'static str, kind: FaultKind, source: impl Into<BoxError>) -> Self {
        Self { doing, kind, source: source.into() }
    }

    /// True where trying again may help: at once, when the store is back, or when somebody has repaired it.
    pub fn is_transient(&self) -> bool {
        self.kind != FaultKind::Permanent
    }
}
