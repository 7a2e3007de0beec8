//! The errors of calls to Redis, and which of them pass by themselves.
//!
//! Expected races (another consumer claimed the task meanwhile) are values, not errors.

use redis::{ErrorKind, RedisError, ServerErrorKind};

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
    /// The reply is not one of this crate's scripts, perhaps because the keys were changed by hand.
    #[error("{doing}: {problem}")]
    Reply {
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

    /// The error of a reply that cannot be read. It is without the text of the parser, which quotes the reply, and so a parameter or a value.
    #[doc(hidden)]
    pub fn unreadable(doing: &'static str) -> Self {
        Self::Reply { doing, problem: "cannot read the script's reply, because it has another type".to_owned() }
    }

    /// True where Redis cannot be reached or does not serve for now, which passes by itself. With every other error an operator
    /// must act: the memory or the disk is full, a permission is missing, a key was changed by hand.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Redis { source, .. } => is_outage(source),
            Self::Evicts { .. } | Self::Prefix { .. } | Self::Reply { .. } => false,
        }
    }
}

/// Returns whether an error is an outage, by its kind and code, never by its message.
fn is_outage(error: &RedisError) -> bool {
    let lost = error.is_io_error() || error.kind() == ErrorKind::ClusterConnectionNotFound;
    lost || does_not_serve_now(error)
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
    fn error_of(line: &str) -> RedisError {
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
            assert!(is_outage(&error_of(line)), "{line}");
            assert!(does_not_serve_now(&error_of(line)), "{line}");
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
            assert!(!is_outage(&error_of(line)), "{line}");
            assert!(!does_not_serve_now(&error_of(line)), "{line}");
        }
    }

    #[test]
    fn a_connection_that_is_lost_refused_or_silent_is_an_outage() {
        use io::ErrorKind as K;
        for kind in [K::ConnectionRefused, K::ConnectionReset, K::BrokenPipe, K::UnexpectedEof, K::TimedOut] {
            assert!(is_outage(&io::Error::from(kind).into()), "{kind}");
        }
    }
}
