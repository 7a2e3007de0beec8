//! Which class an error is of: what the handler says, what the application's own classifiers say, what the types of the
//! error and its causes tell, and last what its text looks like.
//!
//! What follows from a class is left to the definition's `retry_rules`.

mod brokers;
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
use solid_notify_core::{ErrorClass, class_of_database_error};

pub use http::HttpStatus;

/// An error or one of its causes.
pub(crate) type Cause<'a> = &'a (dyn StdError + 'static);

/// A classifier of the application.
pub(crate) type ClassifyFn = Arc<dyn Fn(Cause<'_>) -> Option<ErrorClass> + Send + Sync>;

/// So many causes are looked at: an error that is its own cause must not stop a worker.
const LONGEST_CHAIN: usize = 64;

/// What the type of one error tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Its class.
    Surely(ErrorClass),
    /// A class that one of its causes may tell more exactly.
    Perhaps(ErrorClass),
}

/// An error and its causes, outermost first.
pub(crate) fn chain(error: Cause<'_>) -> impl Iterator<Item = Cause<'_>> {
    std::iter::successors(Some(error), |error| next(*error)).take(LONGEST_CHAIN)
}

fn next(error: Cause<'_>) -> Option<Cause<'_>> {
    // The source of an `io::Error` is that of the error in it, which would be passed over.
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
    /// The class of `error`, whose text and causes are `message`.
    pub(crate) fn class_of(&self, error: Cause<'_>, message: &str) -> ErrorClass {
        let said = chain(error).find_map(|cause| cause.downcast_ref::<Classed>().map(|classed| classed.class));
        said.or_else(|| self.own_class(error))
            .or_else(|| class_by_type(error))
            .or_else(|| guess::class(message).filter(|_| self.guess))
            .unwrap_or(ErrorClass::Unknown)
    }

    /// What the application's classifiers say; one that panics must not fail more than its answer.
    fn own_class(&self, error: Cause<'_>) -> Option<ErrorClass> {
        let ask = || chain(error).find_map(|cause| self.own.iter().find_map(|classify| classify(cause)));
        catch_unwind(AssertUnwindSafe(ask)).unwrap_or_else(|panic| {
            tracing::error!(panic = crate::run::panic_text(&*panic), "a classifier of errors panicked");
            // What was thrown may panic again when it is dropped.
            std::mem::forget(panic);
            Some(ErrorClass::Unknown)
        })
    }
}

/// The first class that is told surely, from the outermost error inwards; else the first that is told at all.
fn class_by_type(error: Cause<'_>) -> Option<ErrorClass> {
    let mut perhaps = None;
    for cause in chain(error) {
        match told_by(cause) {
            Some(Told::Surely(class)) => return Some(class),
            Some(Told::Perhaps(class)) => perhaps = perhaps.or(Some(class)),
            None => {}
        }
    }
    perhaps
}

/// What the type of this one error tells.
fn told_by(error: Cause<'_>) -> Option<Told> {
    standard::told(error)
        .or_else(|| class_of_database_error(error).map(Told::Perhaps))
        .or_else(|| http::told(error))
        .or_else(|| mail::told(error))
        .or_else(|| brokers::told(error))
}

/// An error of which the handler has said the class; it reads like the error itself.
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

/// Any error in a box in which its type can be found again.
pub(crate) fn boxed<E: Into<BoxError> + 'static>(error: E) -> BoxError {
    // In the box that `anyhow::Error` becomes by itself, the type of the outermost error is hidden.
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
