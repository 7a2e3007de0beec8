//! [`ErrorClass`]: the kinds of errors that a definition's `retry_rules` can distinguish.
//!
//! The sweeper determines the class of an error; [`crate::definition`] and [`crate::transition`] decide its effect.

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
    /// No response in time: the handler ran longer than the definition's `timeout`, or an operation within it timed out.
    Timeout,
    /// A database requires a retry (deadlock, serialization failure, lock wait).
    Deadlock,
    /// The receiver reports that it is out of service.
    Unavailable,
    /// The receiver reports that it is overloaded.
    Busy,
    /// The request or the parameter can never be accepted as it is.
    Invalid,
    /// The receiver rejected the credentials or the access.
    Auth,
    /// The receiver reports that the requested object does not exist.
    NotFound,
    /// The process died (or lost its database) while it was sending.
    Crash,
    /// It was delivered, but not acked in time, or nacked by its receiver.
    Unacked,
    /// Everything else.
    Unknown,
}

impl ErrorClass {
    /// Returns the stored name.
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
            Self::Unacked => "unacked",
            Self::Unknown => "unknown",
        }
    }

    /// All classes.
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
        Self::Unacked,
        Self::Unknown,
    ];

    /// Returns the class with this stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == name)
    }

    /// Returns whether a failure of this class is retried if `retry_rules` has no rule for it. It is not retried if another
    /// attempt would fail in the same way until an operator has changed something.
    pub fn is_retried_by_default(self) -> bool {
        !matches!(self, Self::Invalid | Self::Auth | Self::NotFound)
    }
}

impl std::fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns the class of an error of this crate; `None` for another error, or if the error does not determine it. Its causes are
/// not examined.
pub fn class_of_own_error(error: &(dyn StdError + 'static)) -> Option<ErrorClass> {
    if let Some(error) = error.downcast_ref::<Error>() {
        return match error {
            Error::InvalidNotice { .. } | Error::InvalidDefinition { .. } | Error::Invalid { .. } => {
                Some(ErrorClass::Invalid)
            }
            Error::TransactionLost { .. } => Some(ErrorClass::Deadlock),
            Error::Store(error) => class_of_fault(error.kind),
            // The definition may be created later, or the keys set.
            Error::UnknownDefinition { .. } | Error::Token { .. } | Error::TokenKeys { .. } => None,
        };
    }
    class_of_fault(error.downcast_ref::<StoreError>()?.kind)
}

/// Returns the class of a fault for which no code is more exact.
fn class_of_fault(fault: FaultKind) -> Option<ErrorClass> {
    match fault {
        FaultKind::Outage => Some(ErrorClass::Unavailable),
        FaultKind::Conflict => Some(ErrorClass::Deadlock),
        FaultKind::Slow => Some(ErrorClass::Timeout),
        FaultKind::Busy => Some(ErrorClass::Busy),
        FaultKind::Permanent => Some(ErrorClass::Invalid),
        // A missing table, a full disk: an operator must repair it, and it shows nothing about the notice.
        FaultKind::Unusable => None,
    }
}
