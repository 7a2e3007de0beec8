//! Finds the class of an error: first the class that the handler set, then the application's own classifiers, and then
//! the types of the error and its causes.
//!
//! The definition's `retry_rules` decide what follows from a class.

mod brokers;
mod cause;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod database;
mod http;
mod mail;
mod named;
mod standard;

#[cfg(test)]
mod tests;

use std::error::Error as StdError;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use solid_notify_core::error::BoxError;
use solid_notify_core::{ErrorClass, class_of_own_error};

pub(crate) use cause::{Cause, chain};
pub use http::HttpStatus;
pub(crate) use http::status as http_status;
pub(crate) use named::error_type;

use cause::TypeClass;

/// A classifier of the application.
pub(crate) type ClassifyFn = Arc<dyn Fn(Cause<'_>) -> Option<ErrorClass> + Send + Sync>;

/// Finds the class of a failed attempt.
#[derive(Clone, Default)]
pub(crate) struct Classifier {
    pub(crate) own: Vec<ClassifyFn>,
}

impl Classifier {
    /// Returns the class of `error`.
    pub(crate) fn class_of(&self, error: Cause<'_>) -> ErrorClass {
        let said = chain(error).find_map(|cause| cause.downcast_ref::<Classed>().map(|classed| classed.class));
        said.or_else(|| self.own_class(error)).or_else(|| class_by_type(error)).unwrap_or(ErrorClass::Unknown)
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
            Some(TypeClass::Surely(class)) => return Some(class),
            Some(TypeClass::Perhaps(class)) => perhaps = perhaps.or(Some(class)),
            None => {}
        }
    }
    perhaps
}

/// Returns the class that the type of this one error determines.
fn class_of_type(error: Cause<'_>) -> Option<TypeClass> {
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    if let Some(class) = database::class(error) {
        return Some(class);
    }
    standard::class(error)
        .or_else(|| class_of_own_error(error).map(TypeClass::Perhaps))
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
