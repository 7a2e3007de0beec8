//! What a mail server's answer tells, and what else happens to lettre on the way to it.

use super::{Cause, Told};

#[cfg(not(feature = "lettre"))]
pub(super) fn told(_: Cause<'_>) -> Option<Told> {
    None
}

#[cfg(feature = "lettre")]
pub(super) fn told(error: Cause<'_>) -> Option<Told> {
    use solid_notify_core::ErrorClass;

    let error = error.downcast_ref::<lettre::transport::smtp::Error>()?;
    if let Some(code) = error.status() {
        return Some(Told::Surely(class_of_code(u16::from(code))));
    }
    if error.is_timeout() {
        return Some(Told::Surely(ErrorClass::Timeout));
    }
    if error.is_transport_shutdown() {
        return Some(Told::Surely(ErrorClass::Unavailable));
    }
    // What is left are the connection, TLS, and answers that cannot be read; or our own mistake (`is_client`).
    (!error.is_client()).then_some(Told::Perhaps(ErrorClass::Network))
}

/// By the reply code (RFC 5321, section 4.2, and RFC 4954, section 6).
#[cfg(feature = "lettre")]
fn class_of_code(code: u16) -> solid_notify_core::ErrorClass {
    use solid_notify_core::ErrorClass;

    match code {
        // A mailbox that is busy (greylisting, too), storage that is used up for the moment.
        450 | 452 => ErrorClass::Busy,
        400..500 => ErrorClass::Unavailable,
        530 | 534 | 535 | 538 => ErrorClass::Auth,
        // No such mailbox, in the words of most servers.
        550 => ErrorClass::NotFound,
        500..600 => ErrorClass::Invalid,
        _ => ErrorClass::Unknown,
    }
}
