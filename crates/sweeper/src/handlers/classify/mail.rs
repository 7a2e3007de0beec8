//! The classes of a mail server's replies and of lettre's other errors.

use super::cause::{Cause, TypeClass};

#[cfg(not(feature = "lettre"))]
pub(super) fn class(_: Cause<'_>) -> Option<TypeClass> {
    None
}

#[cfg(feature = "lettre")]
pub(super) fn class(error: Cause<'_>) -> Option<TypeClass> {
    use solid_notify_core::ErrorClass;

    let error = error.downcast_ref::<lettre::transport::smtp::Error>()?;
    if let Some(code) = error.status() {
        return Some(TypeClass::Surely(class_of_code(u16::from(code))));
    }
    if error.is_timeout() {
        return Some(TypeClass::Surely(ErrorClass::Timeout));
    }
    if error.is_transport_shutdown() {
        return Some(TypeClass::Surely(ErrorClass::Unavailable));
    }
    // What is left: errors of the connection, of TLS, and of unreadable replies; or a mistake of the caller (`is_client`).
    (!error.is_client()).then_some(TypeClass::Perhaps(ErrorClass::Network))
}

/// Classifies by the reply code (RFC 5321, section 4.2, and RFC 4954, section 6).
#[cfg(feature = "lettre")]
fn class_of_code(code: u16) -> solid_notify_core::ErrorClass {
    use solid_notify_core::ErrorClass;

    match code {
        // A mailbox that is busy (also greylisting), or storage that is temporarily full.
        450 | 452 => ErrorClass::Busy,
        400..500 => ErrorClass::Unavailable,
        530 | 534 | 535 | 538 => ErrorClass::Auth,
        // Most servers use it for an unknown mailbox.
        550 => ErrorClass::NotFound,
        500..600 => ErrorClass::Invalid,
        _ => ErrorClass::Unknown,
    }
}
