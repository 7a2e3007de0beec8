//! The result of an attempt, as handlers return it.

use std::fmt;
use std::time::Duration;

use solid_notify_core::ErrorClass;
use solid_notify_core::error::BoxError;

use super::classify::{Classed, boxed, chain, error_type};

/// The result of an attempt: `Ok(())` says that the notice is delivered.
///
/// If the definition has `need_confirm`, or the handler called [`crate::Notice::require_ack`], the notice then waits for the ack of its
/// receiver.
pub type HandlerResult = Result<(), Failure>;

/// Why an attempt did not deliver its notice, and what to do with the notice. `?` converts any error into [`Failure::retry`].
///
/// It does not implement `std::error::Error`, because only so can every error be converted into it.
pub struct Failure {
    pub(crate) next: AfterFailure,
    pub(super) error: BoxError,
    /// The name of the error's type, where it has one of its own.
    pub(crate) error_type: Option<&'static str>,
    /// Its text contains nothing of the parameter.
    pub(crate) free_of_values: bool,
}

/// What the sweeper does with a notice whose attempt returned a [`Failure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    Retry,
    RetryIn(Duration),
    GiveUp,
    Pause,
    Skip,
    /// Not a failure: its attempt continues after this time, without counting a try.
    HandBack(Duration),
    /// Not a failure: the notice waits, and this node reports why.
    Wait,
}

impl Failure {
    fn new<E: Into<BoxError> + 'static>(next: AfterFailure, error: E) -> Self {
        let error = boxed(error);
        Self { next, error_type: error_type::<E>(&*error), error, free_of_values: false }
    }

    /// Retries as the definition says, and its `retry_rules` for the class of the error.
    pub fn retry(error: impl Into<BoxError> + 'static) -> Self {
        Self::new(AfterFailure::Retry, error)
    }

    /// Retries after `delay`, at most after `max_retry_interval`, or a day where the definition has none, also where the class of the error is not retried by default. It
    /// counts like any failure.
    pub fn retry_in(delay: Duration, error: impl Into<BoxError> + 'static) -> Self {
        Self::new(AfterFailure::RetryIn(delay), error)
    }

    /// Makes the notice a dead letter at once, because no attempt can succeed.
    pub fn give_up(error: impl Into<BoxError> + 'static) -> Self {
        Self::new(AfterFailure::GiveUp, error)
    }

    /// Pauses the definition, because its receiver wants no more notices: HTTP says so by 410. Of a target only the target is paused.
    ///
    /// The sweeper disables the row, with a version, an entry in the audit and an alert ([`solid_notify_core::AlertReason::Paused`]), all of
    /// them in one transaction. The attempt is recorded as failed and counts no try. The notice waits, and is sent after an operator has
    /// enabled the definition again.
    ///
    /// Nothing is paused if the row was edited since the attempt began: the next attempt shows whether the receiver still wants none. A
    /// built-in definition, a deleted one, and one that this process must not edit is not paused; the attempt then is a failure as of
    /// [`Self::retry`].
    ///
    /// ```
    /// # use solid_notify_sweeper::{Failure, HandlerResult, HttpStatus};
    /// # fn example(status: u16) -> HandlerResult {
    /// match status {
    ///     200..300 => Ok(()),
    ///     410 => Err(Failure::pause(HttpStatus(410))),
    ///     _ => Err(HttpStatus(status).into()),
    /// }
    /// # }
    /// ```
    pub fn pause(error: impl Into<BoxError> + 'static) -> Self {
        Self::new(AfterFailure::Pause, error)
    }

    /// Continues the notice after `delay` by another attempt. It counts no try and is no failure. For handlers of the library.
    #[doc(hidden)]
    pub fn hand_back(delay: Duration) -> Self {
        Self::new(AfterFailure::HandBack(delay), "handed back")
    }

    /// Has the notice wait, because of how this node is set up; it counts no try. The node reports it as the problem of the definition. `problem`
    /// begins with the column that it is about, and has no value of the parameter. For handlers of the library.
    #[doc(hidden)]
    pub fn wait(problem: impl Into<String>) -> Self {
        Self::new(AfterFailure::Wait, problem.into())
    }

    /// As [`Self::hand_back`], while the circuit of the receiver is open.
    pub(super) fn circuit_open(left: Duration) -> Self {
        Self::new(AfterFailure::HandBack(left), "the circuit of its receiver is open")
    }

    /// Ends the notice as cancelled, for this reason, because it must not be sent. It raises no alert.
    pub fn skip(reason: impl Into<String>) -> Self {
        Self::new(AfterFailure::Skip, reason.into())
    }

    /// Sets the class of the failure, which `retry_rules` refer to, instead of the class of the error's type.
    ///
    /// ```
    /// # use solid_notify_core::ErrorClass;
    /// # use solid_notify_sweeper::{Failure, HandlerResult};
    /// # fn example() -> HandlerResult {
    /// Err(Failure::retry("the account is over its quota").class(ErrorClass::Busy))
    /// # }
    /// ```
    #[must_use]
    pub fn class(self, class: ErrorClass) -> Self {
        Self { error: Box::new(Classed { class, error: self.error }), ..self }
    }

    /// Says that its text contains no value of the parameter, and nothing made from one (a part, an address, another spelling). Only such a
    /// text is kept, logged and sent to people where the parameter is encrypted (`encrypt_param`); of any other one remain the class and
    /// the code of the response.
    ///
    /// ```
    /// # use solid_notify_sweeper::{Failure, HandlerResult};
    /// # fn example() -> HandlerResult {
    /// Err(Failure::retry("the terminal is closed").free_of_values())
    /// # }
    /// ```
    #[must_use]
    pub fn free_of_values(self) -> Self {
        Self { free_of_values: true, ..self }
    }

    /// Changes what people see of the error. Its class stays. For handlers of the library.
    #[doc(hidden)]
    #[must_use]
    pub fn shown_as(self, change: impl FnOnce(&str) -> String) -> Self {
        let text = change(&self.text());
        Self { error: Box::new(Shown { text, error: self.error }), ..self }
    }

    /// Returns what people see of the error.
    pub(crate) fn text(&self) -> String {
        with_causes(&self.error)
    }

    /// Returns the error; of [`Failure::skip`] the reason.
    pub fn error(&self) -> &BoxError {
        &self.error
    }
}

impl<E: Into<BoxError> + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::retry(error)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure").field("next", &self.next).field("error", &self.error).finish()
    }
}

/// Returns the texts of an error and its causes, outermost first. A cause is left out if
/// the text so far already contains it.
fn with_causes(error: &BoxError) -> String {
    let mut text = error.to_string();
    if error.is::<Shown>() {
        return text;
    }
    for cause in chain(&**error).skip(1) {
        let own = cause.to_string();
        if !text.contains(&own) {
            text.push_str(": ");
            text.push_str(&own);
        }
        if cause.is::<Shown>() {
            break;
        }
    }
    text
}

/// An error of which people see another text than its own and those of its causes.
#[derive(Debug)]
struct Shown {
    text: String,
    error: BoxError,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Shown {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_reported_once_each() {
        #[derive(Debug)]
        struct Outer(std::io::Error);
        impl std::fmt::Display for Outer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("sending failed")
            }
        }
        impl std::error::Error for Outer {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let error: BoxError = Box::new(Outer(std::io::Error::other("connection refused")));
        assert_eq!(with_causes(&error), "sending failed: connection refused");
        let plain: BoxError = "busy".into();
        assert_eq!(with_causes(&plain), "busy");
        let hidden =
            Failure::retry(Outer(std::io::Error::other("no t0ken"))).shown_as(|text| text.replace("t0ken", "…"));
        assert_eq!(hidden.text(), "sending failed: no …");
        assert_eq!(hidden.class(solid_notify_core::ErrorClass::Auth).text(), "sending failed: no …");
    }
}
