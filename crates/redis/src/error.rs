//! What can go wrong on the way to Redis, and what kind of fault it is to a sweeper.
//!
//! Expected races (a task that somebody else holds by now) are values, not errors.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;

/// Why something on Redis failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Redis could not be reached, or could not do it.
    #[error("{doing}: {source}")]
    Redis {
        /// What was being done.
        doing: &'static str,
        /// What the client says.
        source: RedisError,
    },
    /// Redis deletes keys where its memory is full, tasks that nobody has seen among them.
    #[error(
        "this Redis has maxmemory-policy {policy}: it would delete tasks when its memory is full. Set it to noeviction, or say \
         `allow_eviction(true)` if tasks may be lost"
    )]
    Evicts {
        /// The policy that it has.
        policy: String,
    },
    /// A prefix that keys cannot begin with.
    #[error("the prefix {prefix:?} cannot be used: expected one or more letters, digits, '_', '-' or '.'")]
    Prefix {
        /// The prefix.
        prefix: String,
    },
    /// A value could not be written as JSON.
    #[error("a value of the kind {kind:?} cannot be written as JSON: {source}")]
    Encode {
        /// The kind of the task.
        kind: String,
        /// Why.
        source: serde_json::Error,
    },
    /// Redis answered what no script of ours answers: somebody changed the keys by hand, perhaps.
    #[error("{doing}: {problem}")]
    Answer {
        /// What was being done.
        doing: &'static str,
        /// What was wrong with the answer.
        problem: String,
    },
}

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn redis(doing: &'static str) -> impl FnOnce(RedisError) -> Self {
        move |source| Self::Redis { doing, source }
    }

    /// What sort of fault it is: whether, and by whom, it passes.
    pub fn fault(&self) -> FaultKind {
        match self {
            Self::Redis { source, .. } => fault(source),
            Self::Evicts { .. } | Self::Prefix { .. } | Self::Answer { .. } => FaultKind::Unusable,
            Self::Encode { .. } => FaultKind::Permanent,
        }
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        let kind = error.fault();
        match error {
            Error::Redis { doing, source } => Self::new(doing, kind, source),
            other => Self::new("asking Redis", kind, other),
        }
    }
}

impl From<Error> for solid_notify_core::Error {
    fn from(error: Error) -> Self {
        Self::Store(error.into())
    }
}

/// By kind and code, never by message. A failover shows as a node that is read-only, that is loading, or that does not know its
/// cluster; all of that passes by itself.
fn fault(error: &RedisError) -> FaultKind {
    use ServerErrorKind as S;
    if error.is_io_error() || error.is_timeout() || error.is_connection_dropped() || error.is_connection_refusal() {
        return FaultKind::Outage;
    }
    match error.kind() {
        ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => FaultKind::Outage,
        ErrorKind::Server(
            S::BusyLoading | S::ClusterDown | S::MasterDown | S::ReadOnly | S::TryAgain | S::Moved | S::Ask,
        ) => FaultKind::Outage,
        // OOM (the memory is full), MISCONF (the disk is), NOPERM, a key of another type: a person must see to it.
        _ => FaultKind::Unusable,
    }
}
