//! Removes the secrets of an attempt from what its receiver says: from the response that the notice keeps, and from the text of the failure.
//!
//! Each secret that an attempt reads or makes is noted here. How a text may spell it, [`Hidden`] knows.

use parking_lot::Mutex;
use solid_notify_core::definition::SecretString;
use solid_notify_core::secret::Hidden;
use solid_notify_sweeper::HandlerResult;

tokio::task_local! {
    /// The secrets of the present attempt.
    static USED: Mutex<Vec<SecretString>>;
}

/// Runs an attempt, and removes its secrets from the text of its failure.
pub(crate) async fn of_attempt(attempt: impl Future<Output = HandlerResult>) -> HandlerResult {
    let clean = async { attempt.await.map_err(|failure| failure.shown_as(|text| hidden().clean(text))) };
    USED.scope(Mutex::default(), clean).await
}

/// Notes secrets of the present attempt.
pub(crate) fn note<'s>(secrets: impl IntoIterator<Item = &'s SecretString>) {
    // Outside of an attempt nothing is kept of what a server says.
    let _ = USED.try_with(|used| used.lock().extend(secrets.into_iter().cloned()));
}

/// Returns the secrets of the present attempt.
pub(crate) fn hidden() -> Hidden {
    USED.try_with(|used| Hidden::of(&*used.lock())).unwrap_or_default()
}

/// Returns a response without the secrets of the present attempt. They are removed before the body is cut.
#[cfg(any(feature = "amqp", feature = "mail", feature = "nats", feature = "redis-streams"))]
pub(crate) fn response(status: impl std::fmt::Display, body: &str) -> solid_notify_core::Response {
    solid_notify_core::Response::new(hidden().clean(&status.to_string())).body(hidden().clean(body))
}
