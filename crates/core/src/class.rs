//! [`ErrorClass`]: the kinds of errors that a definition's `retry_rules` can distinguish.
//!
//! The sweeper determines the class of an error; [`crate::definition`] and [`crate::transition`] decide its effect.

use std::collections::BTreeSet;
use std::error::Error as StdError;

use parking_lot::Mutex;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, FaultKind, StoreError};

/// The kind of an attempt's error, as stored in `last_class` and in each entry of `errors`.
///
/// An application has classes of its own, [`ErrorClass::own`]: their names contain a dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// A class of the application; see [`ErrorClass::own`].
    Own(OwnClass),
    /// Everything else.
    Unknown,
}

/// The name of a class of the application. [`ErrorClass::own`] creates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnClass(&'static str);

/// The longest name of a class in bytes: what the column `last_class` holds.
const NAME_LIMIT: usize = 30;

impl ErrorClass {
    /// Creates a class of the application. Handlers set it with `Failure::class`, and `retry_rules` name it, such as
    /// `{"payment.declined": "never"}`. Without a rule it is retried.
    ///
    /// The name has 3 to 30 characters: lower-case letters, digits, `_`, and at least one `.` between others. The dot tells it
    /// from the classes of this crate, so a misspelt class in `retry_rules` is still an error.
    ///
    /// ```
    /// use solid_notify_core::ErrorClass;
    /// const DECLINED: ErrorClass = ErrorClass::own("payment.declined");
    /// assert_eq!(DECLINED.to_string(), "payment.declined");
    /// ```
    ///
    /// # Panics
    /// For another name. As the value of a `const` it does not compile:
    ///
    /// ```compile_fail,E0080
    /// # use solid_notify_core::ErrorClass;
    /// const DECLINED: ErrorClass = ErrorClass::own("declined");
    /// ```
    pub const fn own(name: &'static str) -> Self {
        assert!(is_own_name(name), "the class of an application needs a dot in its name, such as payment.declined");
        Self::Own(OwnClass(name))
    }

    /// Returns the stored name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Own(OwnClass(name)) => name,
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

    /// All classes but those of the application.
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

    /// Returns the class with this stored name; a name with a dot is a class of the application.
    pub fn from_name(name: &str) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|class| class.as_str() == name);
        known.or_else(|| is_own_name(name).then(|| Self::Own(OwnClass(interned(name)))))
    }

    /// Returns whether a failure of this class is retried if `retry_rules` has no rule for it. It is not retried if another
    /// attempt would fail in the same way until an operator has changed something.
    pub fn is_retried_by_default(self) -> bool {
        !matches!(self, Self::Invalid | Self::Auth | Self::NotFound)
    }
}

/// Returns whether an application can give a class this name.
const fn is_own_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let (mut at, mut dots) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'a'..=b'z' | b'0'..=b'9' | b'_' => {}
            b'.' if at > 0 && at + 1 < bytes.len() => dots += 1,
            _ => return false,
        }
        at += 1;
    }
    dots > 0 && bytes.len() <= NAME_LIMIT
}

/// Returns the name as a text that lives as long as the process. Each name is kept once. Names come from `const`s of applications
/// and from rows of definitions, so there are few.
fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock();
    if let Some(known) = names.get(name) {
        return known;
    }
    let name: &'static str = Box::leak(name.into());
    names.insert(name);
    name
}

impl Serialize for ErrorClass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorClass {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::from_name(&name).ok_or_else(|| D::Error::custom(format!("there is no error class {name:?}")))
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
            Error::InvalidNotice { .. }
            | Error::InvalidDefinition { .. }
            | Error::InvalidFile { .. }
            | Error::Invalid { .. } => Some(ErrorClass::Invalid),
            Error::TransactionLost { .. } => Some(ErrorClass::Deadlock),
            Error::Store(error) => class_of_fault(error.kind),
            // The definition may be created later, or the keys set.
            Error::UnknownDefinition { .. }
            | Error::NotInSnapshot { .. }
            | Error::Token { .. }
            | Error::TokenKeys { .. }
            | Error::Encryption { .. }
            | Error::ParamKeys { .. } => None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_of_the_application_has_a_dot_inside_its_name() {
        for name in ["payment.declined", "a.b", "a.b.c", "shop_1.stock"] {
            assert_eq!(ErrorClass::from_name(name).unwrap().as_str(), name);
        }
        for name in
            ["declined", ".a", "a.", "Payment.declined", "a b.c", "", ".", "é.a", &format!("a.{}", "b".repeat(29))]
        {
            assert_eq!(ErrorClass::from_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_name_that_was_read_is_the_class_of_the_constant() {
        const DECLINED: ErrorClass = ErrorClass::own("payment.declined");
        assert_eq!(ErrorClass::from_name("payment.declined"), Some(DECLINED));
        assert!(DECLINED.is_retried_by_default());
        let json = serde_json::to_string(&DECLINED).unwrap();
        assert_eq!(serde_json::from_str::<ErrorClass>(&json).unwrap(), DECLINED);
        assert!(serde_json::from_str::<ErrorClass>("\"declined\"").is_err());
    }
}
