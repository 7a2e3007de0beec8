//! The classes of the errors of the standard library, of tokio and of serde_json.

use std::io;

use solid_notify_core::ErrorClass;

use super::cause::{Cause, TypeClass};

pub(super) fn class(error: Cause<'_>) -> Option<TypeClass> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return class_of_kind(error.kind()).map(TypeClass::Surely);
    }
    if error.is::<tokio::time::error::Elapsed>() {
        return Some(TypeClass::Surely(ErrorClass::Timeout));
    }
    match error.downcast_ref::<serde_json::Error>()?.io_error_kind() {
        // serde_json leaves the reader's error out of its chain of causes.
        Some(kind) => class_of_kind(kind).map(TypeClass::Surely),
        None => Some(TypeClass::Surely(ErrorClass::Invalid)),
    }
}

/// Classifies by the kind. Kinds that are not listed are ambiguous (bad data may also be a broken connection).
fn class_of_kind(kind: io::ErrorKind) -> Option<ErrorClass> {
    use io::ErrorKind as Kind;
    Some(match kind {
        Kind::ConnectionRefused
        | Kind::ConnectionReset
        | Kind::ConnectionAborted
        | Kind::NotConnected
        | Kind::BrokenPipe
        | Kind::HostUnreachable
        | Kind::NetworkUnreachable
        | Kind::NetworkDown
        | Kind::AddrNotAvailable
        | Kind::UnexpectedEof => ErrorClass::Network,
        // The operating system returns `WouldBlock` when the time-out of a blocking socket expires.
        Kind::TimedOut | Kind::WouldBlock => ErrorClass::Timeout,
        Kind::Deadlock => ErrorClass::Deadlock,
        Kind::ResourceBusy => ErrorClass::Busy,
        Kind::StorageFull | Kind::QuotaExceeded => ErrorClass::Unavailable,
        Kind::InvalidInput => ErrorClass::Invalid,
        Kind::PermissionDenied => ErrorClass::Auth,
        Kind::NotFound => ErrorClass::NotFound,
        _ => return None,
    })
}
