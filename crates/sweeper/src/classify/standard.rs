//! What the errors of the standard library, of tokio and of serde_json tell.

use std::io;

use solid_notify_core::ErrorClass;

use super::{Cause, Told};

pub(super) fn told(error: Cause<'_>) -> Option<Told> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return class_of_kind(error.kind()).map(Told::Surely);
    }
    if error.is::<tokio::time::error::Elapsed>() {
        return Some(Told::Surely(ErrorClass::Timeout));
    }
    match error.downcast_ref::<serde_json::Error>()?.io_error_kind() {
        // It passes over the error of its reader in its chain of causes.
        Some(kind) => class_of_kind(kind).map(Told::Surely),
        None => Some(Told::Surely(ErrorClass::Invalid)),
    }
}

/// By the kind; those that are not here say nothing certain (bad data may be a broken connection as well).
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
        // The operating system says `WouldBlock` where a time-out of a blocking socket is over.
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
