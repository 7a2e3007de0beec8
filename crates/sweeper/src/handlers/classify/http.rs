//! The classes of HTTP statuses and of reqwest's errors.

use std::fmt;

use solid_notify_core::ErrorClass;

use super::cause::{Cause, TypeClass, chain};

/// An HTTP status as an error, for handlers whose HTTP client has no error type that the sweeper can classify.
///
/// ```
/// use solid_notify_sweeper::{HandlerResult, HttpStatus};
///
/// fn result_of(status: u16) -> HandlerResult {
///     match status {
///         200..300 => Ok(()),
///         // 401 is of the class `auth` and not retried by default, 503 is `unavailable`.
///         other => Err(HttpStatus(other).into()),
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HttpStatus(pub u16);

impl HttpStatus {
    /// Returns the class of a response with this status.
    pub fn class(self) -> ErrorClass {
        match self.0 {
            401 | 403 | 407 | 511 => ErrorClass::Auth,
            404 | 410 => ErrorClass::NotFound,
            408 | 504 => ErrorClass::Timeout,
            // Locked, too early, too many requests.
            423 | 425 | 429 => ErrorClass::Busy,
            // A conflict or a misdirected request may succeed at the next try.
            409 | 421 => ErrorClass::Unknown,
            400..500 => ErrorClass::Invalid,
            500..600 => ErrorClass::Unavailable,
            _ => ErrorClass::Unknown,
        }
    }
}

impl fmt::Display for HttpStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP status {}", self.0)
    }
}

impl std::error::Error for HttpStatus {}

/// Returns the HTTP status that an error or one of its causes has.
pub(crate) fn status(error: Cause<'_>) -> Option<u16> {
    chain(error).find_map(|cause| {
        #[cfg(feature = "reqwest")]
        if let Some(error) = cause.downcast_ref::<reqwest::Error>() {
            return error.status().map(|status| status.as_u16());
        }
        cause.downcast_ref::<HttpStatus>().map(|status| status.0)
    })
}

pub(super) fn class(error: Cause<'_>) -> Option<TypeClass> {
    #[cfg(feature = "reqwest")]
    if let Some(error) = error.downcast_ref::<reqwest::Error>() {
        return told_by_reqwest(error);
    }
    error.downcast_ref::<HttpStatus>().map(|status| TypeClass::Surely(status.class()))
}

#[cfg(feature = "reqwest")]
fn told_by_reqwest(error: &reqwest::Error) -> Option<TypeClass> {
    if let Some(status) = error.status() {
        return Some(TypeClass::Surely(HttpStatus(status.as_u16()).class()));
    }
    if error.is_timeout() {
        return Some(TypeClass::Surely(ErrorClass::Timeout));
    }
    if error.is_builder() {
        return Some(TypeClass::Surely(ErrorClass::Invalid));
    }
    if error.is_decode() && chain(error).any(|cause| cause.is::<serde_json::Error>()) {
        // A response that is not JSON, for instance from a proxy, says nothing about the request. The cause would be
        // classed as `invalid`.
        return Some(TypeClass::Surely(ErrorClass::Unknown));
    }
    // A connection that breaks while the response is read fails with a decoding error.
    let on_the_way = error.is_connect() || error.is_request() || error.is_body() || error.is_decode();
    on_the_way.then_some(TypeClass::Perhaps(ErrorClass::Network))
}
