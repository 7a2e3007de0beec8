//! The errors of this crate. A message says what was being done, with what value, and what would be right.
//!
//! Expected races (a lost lease, a definition that another editor changed) are values, not errors.

use crate::definition::{FileProblem, Problem};

/// The type of a cause.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call was rejected or failed. A failed call affects no other notice or definition.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call names a definition that does not exist (or was deleted).
    #[error("unknown notice definition {name:?}{}; define it first (`outbox.define_if_missing`) or add a row to notify_def", did_you_mean(nearest.as_deref()))]
    UnknownDefinition {
        /// The name that was asked for.
        name: String,
        /// The known name that is most like it.
        nearest: Option<String>,
    },
    /// A transaction at REPEATABLE READ or SERIALIZABLE names a definition that its snapshot does not have, on PostgreSQL. It may be newer than
    /// the snapshot. A transaction of `outbox.begin()` finds it nevertheless.
    #[error(
        "the snapshot of this transaction does not have the notice definition {name:?}; if it was created after the transaction began, run the transaction again, else define it first"
    )]
    NotInSnapshot {
        /// The name that was asked for.
        name: String,
    },
    /// A part of the notice that not every database can store unchanged.
    #[error("notice {name:?}: {problem}")]
    InvalidNotice {
        /// The definition's name.
        name: String,
        /// What is wrong, where, and what would be right.
        problem: String,
    },
    /// `define_if_missing` or `update` got a definition that cannot work.
    #[error("definition {name:?} is invalid: {}", join(problems))]
    InvalidDefinition {
        /// The definition's name.
        name: String,
        /// Every column that is wrong.
        problems: Vec<Problem>,
    },
    /// A file of definitions that cannot be used (`Definitions::from_toml`).
    #[error("the definitions have {}", listed(problems))]
    InvalidFile {
        /// Every problem, in the order of the file.
        problems: Vec<FileProblem>,
    },
    /// The transaction that should have contained the notice is no longer open: the server ended it, after a deadlock for
    /// instance, or a ROLLBACK was sent. Roll back and do the business work again.
    ///
    /// Later statements on the connection are committed one by one. If the transaction ended with a raw COMMIT, or with the
    /// implicit commit of DDL on MySQL, its earlier statements are committed.
    #[error(
        "{doing}: the transaction is no longer open, so nothing done in it since then is safe; roll back and retry it"
    )]
    TransactionLost {
        /// What was being done.
        doing: &'static str,
    },
    /// An ack token that cannot be used: garbage, expired, or signed with a secret that is not accepted. Its sender is at fault.
    #[error("the ack token cannot be used: {problem}")]
    Token {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The secrets of ack tokens are missing or cannot be used. The application is at fault.
    #[error("ack tokens cannot be signed or verified: {problem}")]
    TokenKeys {
        /// What is wrong, and what would be right.
        problem: &'static str,
    },
    /// The definition has `encrypt_param`, and the parameter cannot be encrypted. Nothing was stored.
    #[error(
        "the definition {name:?} stores only encrypted parameters (encrypt_param), and this one cannot be encrypted: {problem}"
    )]
    Encryption {
        /// The definition's name, or the number of the notice.
        name: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// Keys of parameters that cannot be used. The application is at fault.
    #[error("the keys of parameters cannot be used: {problem}")]
    ParamKeys {
        /// What is wrong, and what would be right. It contains nothing of a key.
        problem: String,
    },
    /// A request of an operator or of a receiver that cannot be done as stated.
    #[error("{what}: {problem}")]
    Invalid {
        /// The part of the request: a filter, a rate, a position, an idempotency key.
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

fn listed(problems: &[FileProblem]) -> String {
    let count = if problems.len() == 1 { "1 problem".to_owned() } else { format!("{} problems", problems.len()) };
    let lines = problems.iter().map(|problem| format!("\n  {problem}"));
    format!("{count}:{}", lines.collect::<String>())
}

/// A call of a store failed.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {source}{hint}")]
#[non_exhaustive]
pub struct StoreError {
    /// What was being done.
    pub doing: &'static str,
    /// The kind of failure, which decides what to do about it.
    pub kind: FaultKind,
    /// The cause.
    pub source: BoxError,
    /// What an operator may have forgotten; often empty.
    hint: &'static str,
    /// The hint says what is wrong.
    is_explained: bool,
}

/// The kind of a [`StoreError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// The store could not be reached, or not in time. Every caller is affected. It passes by itself.
    Outage,
    /// A conflict with another transaction (deadlock, serialization, lock wait). It passes when the call is retried.
    Conflict,
    /// The statement took longer than its time-out, or an administrator cancelled it; the store executes other statements.
    Slow,
    /// The call timed out while it waited for one of this process's own few connections. It means nothing about the store, and
    /// passes when fewer calls run at the same time.
    Busy,
    /// The store responds but cannot execute the call: a missing table or right, a full disk, a database that rejects
    /// connections. It passes when an operator repairs it.
    Unusable,
    /// The call fails each time with these values, and only with these. Other calls are not affected.
    Permanent,
}

impl StoreError {
    /// Creates an error of `kind` that happened while `doing`.
    pub fn new(doing: &'static str, kind: FaultKind, source: impl Into<BoxError>) -> Self {
        Self { doing, kind, source: source.into(), hint: "", is_explained: false }
    }

    /// Adds a hint to the end of the message.
    #[must_use]
    pub fn hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    /// Adds what is wrong to the end of the message, and what an operator can do.
    #[must_use]
    pub fn explained(self, reason: &'static str) -> Self {
        Self { hint: reason, is_explained: true, ..self }
    }

    /// Returns whether the message says what is wrong. Otherwise a table or a right may be missing, where the kind is [`FaultKind::Unusable`].
    pub fn is_explained(&self) -> bool {
        self.is_explained
    }

    /// Returns true if a retry may succeed: at once, when the store is back, or when an operator has repaired it.
    pub fn is_transient(&self) -> bool {
        self.kind != FaultKind::Permanent
    }
}
