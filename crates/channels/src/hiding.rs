//! Removes the secrets of an attempt from what its receiver says: from the response that the notice keeps, and from the text of the failure.
//!
//! Each secret that an attempt reads or makes is noted here. How a text may spell it, [`Hidden`] knows.

use std::sync::Arc;

use parking_lot::Mutex;
use solid_notify_core::definition::SecretString;
use solid_notify_core::secret::Hidden;
use solid_notify_sweeper::HandlerResult;

tokio::task_local! {
    /// The secrets of the present attempt.
    static USED: Mutex<Used>;
}

#[derive(Default)]
struct Used {
    secrets: Vec<SecretString>,
    /// All of them, once a text was cleaned.
    hidden: Option<Arc<Hidden>>,
}

/// Runs an attempt, and removes its secrets from the text of its failure.
pub(crate) async fn of_attempt(attempt: impl Future<Output = HandlerResult>) -> HandlerResult {
    let clean = async { attempt.await.map_err(|failure| failure.shown_as(|text| hidden().clean(text))) };
    USED.scope(Mutex::default(), clean).await
}

/// Notes secrets of the present attempt.
pub(crate) fn note<'s>(secrets: impl IntoIterator<Item = &'s SecretString>) {
    // Outside of an attempt nothing is kept of what a server says.
    let _ = USED.try_with(|used| {
        let mut used = used.lock();
        used.secrets.extend(secrets.into_iter().cloned());
        used.hidden = None;
    });
}

/// Returns the secrets of the present attempt.
pub(crate) fn hidden() -> Arc<Hidden> {
    let all = |used: &Mutex<Used>| {
        let Used { secrets, hidden } = &mut *used.lock();
        Arc::clone(hidden.get_or_insert_with(|| Arc::new(Hidden::of(&*secrets))))
    };
    USED.try_with(all).unwrap_or_default()
}

/// Returns a response without the secrets of the present attempt. They are removed before the body is cut to what a notice keeps.
#[cfg(any(feature = "amqp", feature = "mail", feature = "nats", feature = "redis-streams"))]
pub(crate) fn response(status: impl std::fmt::Display, body: &str) -> solid_notify_core::Response {
    let hidden = hidden();
    solid_notify_core::Response::new(hidden.clean(&status.to_string())).body(hidden.clean(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_texts_of_an_attempt_are_cleaned_with_one_list_of_secrets() {
        let attempt = async {
            note(&[SecretString::from("t0ken-one")]);
            let first = hidden();
            assert!(Arc::ptr_eq(&first, &hidden()));
            note(&[SecretString::from("t0ken-two")]);
            assert_eq!(hidden().clean("t0ken-one, t0ken-two"), "…, …");
            Ok(())
        };
        of_attempt(attempt).await.unwrap();
        assert_eq!(hidden().clean("t0ken-one"), "t0ken-one", "outside of an attempt");
    }
}
