//! [`ErrorClass`]: the kinds of errors that a definition's `retry_rules` can tell apart.
//!
//! How the class of an error is found is left to the sweeper, and what follows from it to [`crate::definition`] and
//! [`crate::transition`].

use std::error::Error as StdError;

use serde::{Deserialize, Serialize};

use crate::error::{Error, FaultKind, StoreError};

/// The kind of an attempt's error, as stored in `last_class` and in each entry of `errors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorClass {
    /// The receiver could not be reached, or the connection broke.
    Network,
    /// No answer in time: the handler ran longer than the definition's `timeout`, or something within it gave up waiting.
    Timeout,
    /// A database asked for another try (deadlock, serialization failure, lock wait).
    Deadlock,
    /// The receiver says that it is out of service.
    Unavailable,
    /// The receiver says that it has too much to do.
    Busy,
    /// The request or the parameter can never be accepted as it is.
    Invalid,
    /// The receiver does not let us in.
    Auth,
    /// What is asked for does not exist at the receiver.
    NotFound,
    /// The process died (or lost its database) while it was sending.
    Crash,
    /// It was delivered, and not confirmed in time, or refused by its receiver afterwards.
    Unconfirmed,
    /// Everything else.
    Unknown,
}

impl ErrorClass {
    /// The stored name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Timeout => "timeout",
            Self::Deadlock => "deadlock",
            Self::Unavailable => "unavailable",
            Self::Busy => "busy",
            Self::Invalid => "invalid",
            Self::Auth => "auth",
            Self::NotFound => "not_found",
            Self::Crash => "crash",
            Self::Unconfirmed => "unconfirmed",
            Self::Unknown => "unknown",
        }
    }

    /// All of them.
    pub const ALL: [ErrorClass; 11] = [
        Self::Network,
        Self::Timeout,
        Self::Deadlock,
        Self::Unavailable,
        Self::Busy,
        Self::Invalid,
        Self::Auth,
        Self::NotFound,
        Self::Crash,
        Self::Unconfirmed,
        Self::Unknown,
    ];

    /// The class of this stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == name)
    }

    /// Whether a failure of this class is retried where `retry_rules` say nothing of it: not where another try would end
    /// in the same way until somebody has changed something.
    pub fn is_retried_by_default(self) -> bool {
        !matches!(self, Self::Invalid | Self::Auth | Self::NotFound)
    }
}

impl std::fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The class of an error of this crate or of sqlx (of the databases whose features are on), by its type and the
/// server's code; `None` where it does not tell. Its causes are not looked at.
pub fn class_of_database_error(error: &(dyn StdError + 'static)) -> Option<ErrorClass> {
    if let Some(error) = error.downcast_ref::<Error>() {
        return match error {
            Error::InvalidNotice { .. } | Error::InvalidDefinition { .. } | Error::Invalid { .. } => {
                Some(ErrorClass::Invalid)
            }
            Error::TransactionLost { .. } => Some(ErrorClass::Deadlock),
            Error::Store(error) => class_of_fault(error.kind),
            // Somebody may define it yet, or set the keys.
            Error::UnknownDefinition { .. } | Error::Token { .. } => None,
        };
    }
    if let Some(error) = error.downcast_ref::<StoreError>() {
        return class_of_fault(error.kind);
    }
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    return crate::sql::class::class_of(error);
    #[cfg(not(any(feature = "postgres", feature = "mysql", feature = "sqlite")))]
    None
}

/// The class of a fault where no code says anything more exact.
pub(crate) fn class_of_fault(fault: FaultKind) -> Option<ErrorClass> {
    match fault {
        FaultKind::Outage => Some(ErrorClass::Unavailable),
        FaultKind::Conflict => Some(ErrorClass::Deadlock),
        FaultKind::Permanent => Some(ErrorClass::Invalid),
        // A missing table, a full disk: somebody repairs it, and nobody knows what it says of the notice.
        FaultKind::Unusable => None,
    }
}
