//! [`Called`]: how a call of a handler ended, and the texts of it without what people must not see.

use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::ErrorClass;
use solid_notify_core::cipher::NOT_KEPT;
use solid_notify_core::definition::{Budget, Mask, Masking};
use solid_notify_core::notice::Response;
use solid_notify_core::transition::Event;

use crate::definitions::Ready;
use crate::handlers::handler::{Facts, Failure};
use crate::hiding::{Texts, hidden};
use crate::worker::Worker;

/// Result of a call of a handler. Its message is not in the event yet, because people may not see all of it.
pub(super) struct Called {
    pub(super) event: Event,
    /// The class of a failed attempt.
    pub(super) class: Option<ErrorClass>,
    pub(super) message: Option<Message>,
    /// The name of the error's type.
    pub(super) error_type: Option<&'static str>,
}

/// Why an attempt failed, or a notice ends.
pub(super) enum Message {
    /// A text of the sweeper, which contains no value of the parameter.
    Own(String),
    /// The text of a handler.
    OfHandler(String),
    /// The text of a handler that may be kept where the parameter is encrypted, without all values of the parameter.
    FreeOfValues(String),
}

impl Called {
    pub(super) fn well(event: Event) -> Self {
        Self { event, class: None, message: None, error_type: None }
    }

    pub(super) fn failed(class: ErrorClass, message: Message) -> Self {
        Self { event: Event::Failed(class), class: Some(class), message: Some(message), error_type: None }
    }

    /// Returns the event with its message, and what is recorded of a failed attempt.
    pub(super) fn texts_filled_in(self) -> (Event, Option<(ErrorClass, String)>) {
        let message = match self.message {
            Some(Message::Own(text) | Message::OfHandler(text) | Message::FreeOfValues(text)) => text,
            None => String::new(),
        };
        let event = match self.event {
            Event::Skipped(_) => Event::Skipped(message.clone()),
            Event::GaveUp(by) => Event::GaveUp(format!("{by}{message}")),
            event => event,
        };
        (event, self.class.map(|class| (class, message)))
    }
}

/// Returns the text of a failure. Where the parameter is encrypted, a text that may contain anything made from it is not kept at all.
pub(super) fn kept(facts: &Facts, failure: &Failure, text: String) -> Message {
    if !facts.encrypted {
        return Message::OfHandler(text);
    }
    if failure.free_of_values {
        return Message::FreeOfValues(text);
    }
    Message::Own(match facts.response().and_then(|response| response.code()) {
        Some(code) => format!("the receiver answered {code}; {NOT_KEPT}"),
        None => NOT_KEPT.to_owned(),
    })
}

/// Hides what people must not see: from the message, the description and the response of an attempt. All of them pass here before they are stored,
/// logged, or part of an alert. Returns the response.
pub(super) async fn hide(
    worker: &Worker,
    ready: &Arc<Ready>,
    facts: &Arc<Facts>,
    called: &mut Called,
    description: &mut Option<String>,
    response: Option<Response>,
) -> Option<Response> {
    let has_mask = ready.policy.mask.is_some();
    let mut texts = Texts { message: None, description: description.take(), response: None };
    let mut code = None;
    match facts.encrypted {
        true => code = response.map(Response::code_only),
        false => texts.response = response,
    }
    let is_whole = matches!(called.message, Some(Message::FreeOfValues(_)));
    if let Some(Message::OfHandler(text) | Message::FreeOfValues(text)) = &mut called.message {
        texts.message = Some(std::mem::take(text));
    }
    if (has_mask || is_whole) && !texts.is_empty() {
        let (ready, facts) = (Arc::clone(ready), Arc::clone(facts));
        let name = ready.policy.name.clone();
        let hide = move |texts: &Texts, budget: &mut Budget| {
            let mut whole = None;
            if is_whole {
                let mask = Mask::whole();
                let mut masking = Masking::new(Some(&mask), facts.param(), budget);
                whole = texts.message.as_deref().map(|text| masking.text(text));
            }
            let mut shown = match &ready.policy.mask {
                Some(mask) => texts.masked(&mut Masking::new(Some(mask), facts.param(), budget)),
                None => texts.clone(),
            };
            shown.message = whole.or(shown.message);
            shown
        };
        texts = hidden(worker, &name, texts, hide).await;
    }
    *description = texts.description;
    if let Some(Message::OfHandler(text) | Message::FreeOfValues(text)) = &mut called.message {
        *text = texts.message.unwrap_or_default();
    }
    code.or(texts.response)
}

pub(super) fn timed_out(limit: Duration) -> String {
    format!("the handler did not return within its timeout of {}", humantime::format_duration(limit))
}
