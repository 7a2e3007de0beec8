//! Finds the class of an error: first the class that the handler set, then the application's own classifiers, then the
//! types of the error and its causes, and last its text.
//!
//! The definition's `retry_rules` decide what follows from a class.

mod brokers;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod database;
mod guess;
mod http;
mod mail;
mod standard;

#[cfg(test)]
mod tests;

use std::error::Error as StdError;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use solid_notify_core::error::BoxError;
use solid_notify_core::{ErrorClass, class_of_own_error};

pub use http::HttpStatus;

/// An error or one of its causes.
pub(crate) type Cause<'a> = &'a (dyn StdError + 'static);

/// A classifier of the application.
pub(crate) type ClassifyFn = Arc<dyn Fn(Cause<'_>) -> Option<ErrorClass> + Send + Sync>;

/// The most causes that are looked at: an error that is its own cause must not block a worker.
const LONGEST_CHAIN: usize = 64;

/// The class that the type of one error determines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guess {
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

/// Finds the class of a failed attempt.
#[derive(Clone)]
pub(crate) struct Classifier {
    pub(crate) own: Vec<ClassifyFn>,
    pub(crate) guess: bool,
}

impl Default for Classifier {
    fn default() -> Self {
        Self { own: Vec::new(), guess: true }
    }
}

impl Classifier {
    /// Returns the class of `error`; `message` holds its text and the texts of its causes.
    pub(crate) fn class_of(&self, error: Cause<'_>, message: &str) -> ErrorClass {
        let said = chain(error).find_map(|cause| cause.downcast_ref::<Classed>().map(|classed| classed.class));
        said.or_else(|| self.own_class(error))
            .or_else(|| class_by_type(error))
            .or_else(|| guess::class(message).filter(|_| self.guess))
            .unwrap_or(ErrorClass::Unknown)
    }

    /// Returns the class from the application's classifiers. If one panics, the class is unknown and nothing else fails.
    fn own_class(&self, error: Cause<'_>) -> Option<ErrorClass> {
        let ask = || chain(error).find_map(|cause| self.own.iter().find_map(|classify| classify(cause)));
        catch_unwind(AssertUnwindSafe(ask)).unwrap_or_else(|panic| {
            tracing::error!(panic = crate::supervise::panic_text(&*panic), "a classifier of errors panicked");
            // The panic's payload may panic again when it is dropped.
            std::mem::forget(panic);
            Some(ErrorClass::Unknown)
        })
    }
}

/// Returns the first certain class that the types of an error and its causes determine, from the outermost error inwards, or else
/// the first possible one.
#[doc(hidden)]
pub fn class_by_type(error: Cause<'_>) -> Option<ErrorClass> {
    let mut perhaps = None;
    for cause in chain(error) {
        match class_of_type(cause) {
            Some(Guess::Surely(class)) => return Some(class),
            Some(Guess::Perhaps(class)) => perhaps = perhaps.or(Some(class)),
            None => {}
        }
    }
    perhaps
}

/// Returns the class that the type of this one error determines.
fn class_of_type(error: Cause<'_>) -> Option<Guess> {
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    if let Some(guess) = database::class(error) {
        return Some(guess);
    }
    standard::class(error)
        .or_else(|| class_of_own_error(error).map(Guess::Perhaps))
        .or_else(|| http::class(error))
        .or_else(|| mail::class(error))
        .or_else(|| brokers::class(error))
}

/// An error with the class that the handler set. Its text is the text of the error.
#[derive(Debug)]
pub(crate) struct Classed {
    pub(crate) class: ErrorClass,
    pub(crate) error: BoxError,
}

impl fmt::Display for Classed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl StdError for Classed {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.error)
    }
}

/// Boxes any error so that its type can be found again.
pub(crate) fn boxed<E: Into<BoxError> + 'static>(error: E) -> BoxError {
    // The box that `anyhow::Error` converts into by itself hides the type of the outermost error.
    #[cfg(feature = "anyhow")]
    {
        let mut slot = Some(error);
        if let Some(error) = (&mut slot as &mut dyn std::any::Any).downcast_mut::<Option<anyhow::Error>>()
            && let Some(error) = error.take()
        {
            return error.reallocate_into_boxed_dyn_error_without_backtrace();
        }
        match slot {
            Some(error) => error.into(),
            None => "an error that is gone".into(),
        }
    }
    #[cfg(not(feature = "anyhow"))]
    error.into()
}
