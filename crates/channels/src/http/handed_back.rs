//! [`HandedBack`]: the notices whose receiver closed a connection over HTTP/2 with an error.

use std::collections::HashSet;
use std::error::Error;
use std::time::Duration;

use parking_lot::Mutex;
use solid_notify_sweeper::{Failure, HandlerResult};

#[cfg(feature = "tls")]
use super::client::chain;
use crate::channel::AnyNotice;

/// The notices that were handed back, by idempotency key, because their receiver closed a connection over HTTP/2 with an error. It does so because of
/// one of the requests on it, and does not say which. Each is sent on connections of its own until it has succeeded, so that it can only hurt itself, and
/// is not handed back again.
#[derive(Debug, Default)]
pub(crate) struct HandedBack(Mutex<HashSet<String>>);

/// How many of them are remembered. Of more, some are handed back once more.
const HANDED_BACK: usize = 10_000;

impl HandedBack {
    /// Returns whether the notice needs a connection of its own.
    pub(crate) fn has(&self, notice: &AnyNotice) -> bool {
        let keys = self.0.lock();
        !keys.is_empty() && keys.contains(&notice.idempotency_key())
    }

    /// Returns the result of an attempt: handed back, where it failed with the connection for the first time. Each later time counts.
    pub(crate) fn once(&self, notice: &AnyNotice, result: HandlerResult) -> HandlerResult {
        let is_closed = result.as_ref().is_err_and(|failure| is_go_away(&**failure.error()));
        let mut keys = self.0.lock();
        if !is_closed && (keys.is_empty() || result.is_err()) {
            return result;
        }
        let key = notice.idempotency_key();
        if result.is_ok() {
            keys.remove(&key);
        }
        if !is_closed || keys.contains(&key) {
            return result;
        }
        if keys.len() >= HANDED_BACK {
            keys.clear();
        }
        keys.insert(key);
        Err(Failure::hand_back(Duration::ZERO))
    }
}

/// Returns whether the receiver has closed the connection with an error (GOAWAY).
#[cfg(feature = "tls")]
fn is_go_away(error: &(dyn Error + 'static)) -> bool {
    let closed = |error: &h2::Error| error.is_go_away() && error.is_remote();
    chain(error).any(|cause| cause.downcast_ref().is_some_and(closed))
}

/// HTTP/1 has one request at a time on a connection.
#[cfg(not(feature = "tls"))]
fn is_go_away(_: &(dyn Error + 'static)) -> bool {
    false
}
