//! The errors of calls to Redis, and which kind of fault each is to a sweeper.
//!
//! Expected races (another consumer claimed the task meanwhile) are values, not errors.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;

/// Error of a call to Redis.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Redis could not be reached, or refused the command.
    #[error("{doing}: {source}")]
    Redis {
        /// What was being done.
        doing: &'static str,
        /// The client's error.
        source: RedisError,
    },
    /// Redis deletes keys when its memory is full, among them tasks that were never claimed.
    #[error(
        "this Redis has maxmemory-policy {policy}: it would delete tasks when its memory is full. Set it to noeviction, or say \
         `allow_eviction(true)` if tasks may be lost"
    )]
    Evicts {
        /// The policy of the server.
        policy: String,
    },
    /// The prefix has characters that are not allowed in it.
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
        /// The error of the JSON encoder.
        source: serde_json::Error,
    },
    /// The reply is not one of this crate's scripts, perhaps because the keys were changed by hand.
    #[error("{doing}: {problem}")]
    VerbResult {
        /// What was being done.
        doing: &'static str,
        /// What is wrong with the reply.
        problem: String,
    },
}

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn redis(doing: &'static str) -> impl FnOnce(RedisError) -> Self {
        move |source| Self::Redis { doing, source }
    }

    /// Returns the kind of fault, which says whether a retry helps or an operator must act.
    pub fn fault(&self) -> FaultKind {
        match self {
            Self::Redis { source, .. } => fault(source),
            Self::Evicts { .. } | Self::Prefix { .. } | Self::VerbResult { .. } => FaultKind::Unusable,
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

/// By the error's kind and code, never by its message.
fn fault(error: &RedisError) -> FaultKind {
    let lost = error.is_io_error() || error.kind() == ErrorKind::ClusterConnectionNotFound;
    match lost || does_not_serve_now(error) {
        true => FaultKind::Outage,
        // OOM (the memory is full), MISCONF (the disk is full), NOPERM, a key of another type: an operator must act.
        false => FaultKind::Unusable,
    }
}

/// True where a server refuses to serve for now, which passes by itself. During a failover a node is read-only, is loading,
/// misses its master or its replicas, or does not know its cluster.
pub(crate) fn does_not_serve_now(error: &RedisError) -> bool {
    use ServerErrorKind as S;
    match error.kind() {
        ErrorKind::Server(
            S::BusyLoading | S::ClusterDown | S::MasterDown | S::ReadOnly | S::TryAgain | S::Moved | S::Ask,
        ) => true,
        // `min-replicas-to-write`: too few replicas are connected.
        ErrorKind::Extension => error.code() == Some("NOREPLICAS"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use redis::Value;

    use super::*;

    /// Parses an error reply as the client reads it from the wire.
    fn answer(line: &str) -> RedisError {
        match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).and_then(Value::extract_error) {
            Err(error) => error,
            Ok(value) => panic!("{line}: {value:?}"),
        }
    }

    #[test]
    fn a_reply_during_a_failover_is_a_temporary_error() {
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
    fn errors_that_need_an_operator_are_permanent() {
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
