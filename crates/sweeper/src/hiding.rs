//! Hides what people must not see from the texts of a notice, before they are stored, logged, or part of an alert.

use std::time::Duration;

use solid_notify_core::definition::{Budget, MASKED, Masking, quickly};
use solid_notify_core::notice::Response;

use crate::worker::Worker;

/// How long texts wait until they are searched, and are searched.
const LONGEST: Duration = Duration::from_secs(5);

/// The texts of a notice that may repeat its parameter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Texts {
    /// The message of a failure, or the reason of a receiver.
    pub(crate) message: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) response: Option<Response>,
}

impl Texts {
    /// Returns them without masked values.
    pub(crate) fn masked(&self, masking: &mut Masking<'_>) -> Self {
        Self {
            message: self.message.as_deref().map(|text| masking.text(text)),
            description: self.description.as_deref().map(|text| masking.text(text)),
            response: self.response.as_ref().map(|response| masking.response(response)),
        }
    }

    /// Returns them without any of their words.
    pub(crate) fn hidden_as_a_whole(&self) -> Self {
        self.masked(&mut Masking::new(None, MASKED, &mut Budget::default()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.message.is_none() && self.description.is_none() && self.response.is_none()
    }
}

/// Returns what `hide` makes of these texts. Texts that take long are searched on a thread that may block. If none is free soon, they are hidden as
/// a whole, because the outcome of the attempt does not wait.
pub(crate) async fn hidden(
    worker: &Worker,
    definition: &str,
    texts: Texts,
    hide: impl Fn(&Texts, &mut Budget) -> Texts + Send + 'static,
) -> Texts {
    if let Some(hidden) = quickly(|budget| hide(&texts, budget)) {
        // Many notices in a row leave the thread to others between them.
        tokio::task::yield_now().await;
        return hidden;
    }
    let whole = texts.clone();
    let work = move || Ok(hide(&texts, &mut Budget::default()));
    let search = worker.outbox.engine().computing().run_soon(definition, work);
    let hidden = tokio::select! {
        biased;
        hidden = tokio::time::timeout(LONGEST, search) => hidden.ok().flatten(),
        () = worker.signals.handlers_cancelled() => None,
    };
    let hidden = hidden.and_then(|hidden| hidden.ok());
    hidden.unwrap_or_else(|| whole.hidden_as_a_whole())
}
