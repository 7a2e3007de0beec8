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

/// By kind and code, never by message.
fn fault(error: &RedisError) -> FaultKind {
    let lost = error.is_io_error() || error.kind() == ErrorKind::ClusterConnectionNotFound;
    match lost || does_not_serve_now(error) {
        true => FaultKind::Outage,
        // OOM (the memory is full), MISCONF (the disk is), NOPERM, a key of another type: a person must see to it.
        false => FaultKind::Unusable,
    }
}

/// Whether a server has answered that it does not serve now, which passes by itself. A failover shows as a node that is
/// read-only, that is loading, that misses its master or its replicas, or that does not know its cluster.
pub(crate) fn does_not_serve_now(error: &RedisError) -> bool {
    use ServerErrorKind as S;
    match error.kind() {
        ErrorKind::Server(
            S::BusyLoading | S::ClusterDown | S::MasterDown | S::ReadOnly | S::TryAgain | S::Moved | S::Ask,
        ) => true,
        // `min-replicas-to-write`: too few of them are there.
        ErrorKind::Extension => error.code() == Some("NOREPLICAS"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use redis::Value;

    use super::*;

    /// As the client reads it from the wire.
    fn answer(line: &str) -> RedisError {
        match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).and_then(Value::extract_error) {
            Err(error) => error,
            Ok(value) => panic!("{line}: {value:?}"),
        }
    }

    #[test]
    fn what_a_failover_answers_passes_by_itself() {
        for line in [
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "READONLY You can't write against a read only replica. script: 0, on @user_script:1.",
            "CLUSTERDOWN The cluster is down",
            "CLUSTERDOWN Hash slot not served",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 127.0.0.1:6381",
            "NOREPLICAS Not enough good replicas to write.",
        ] {
            assert_eq!(fault(&answer(line)), FaultKind::Outage, "{line}");
            assert!(does_not_serve_now(&answer(line)), "{line}");
        }
    }

    #[test]
    fn what_a_person_must_see_to_does_not_pass() {
        for line in [
            "OOM command not allowed when used memory > 'maxmemory'.",
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            "NOPERM this user has no permissions to run the 'evalsha' command",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "ERR unknown command",
        ] {
            assert_eq!(fault(&answer(line)), FaultKind::Unusable, "{line}");
            assert!(!does_not_serve_now(&answer(line)), "{line}");
        }
    }

    #[test]
    fn a_connection_that_is_lost_refused_or_silent_is_an_outage() {
        use io::ErrorKind as K;
        for kind in [K::ConnectionRefused, K::ConnectionReset, K::BrokenPipe, K::UnexpectedEof, K::TimedOut] {
            assert_eq!(fault(&io::Error::from(kind).into()), FaultKind::Outage, "{kind}");
        }
    }
}
