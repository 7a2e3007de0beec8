//! An error with its causes, and what the type of one of them says of its class.

use std::error::Error as StdError;

use solid_notify_core::ErrorClass;

/// An error or one of its causes.
pub(crate) type Cause<'a> = &'a (dyn StdError + 'static);

/// The most causes that are looked at: an error that is its own cause must not block a worker.
const LONGEST_CHAIN: usize = 64;

/// The class that the type of one error determines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TypeClass {
    /// The class is certain.
    Surely(ErrorClass),
    /// A class that one of the causes may determine more exactly.
    Perhaps(ErrorClass),
}

/// Returns an error and its causes, outermost first.
pub(crate) fn chain(error: Cause<'_>) -> impl Iterator<Item = Cause<'_>> {
    std::iter::successors(Some(error), |error| next(*error)).take(LONGEST_CHAIN)
}

fn next(error: Cause<'_>) -> Option<Cause<'_>> {
    // The source of an `io::Error` is the source of the error inside it, so the inner error itself would be skipped.
    let inside = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    match inside {
        Some(inside) => Some(inside),
        None => error.source(),
    }
}
