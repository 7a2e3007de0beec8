//! The responses: which status and words each result has. A program reads JSON, a person a page.

use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::Response;
use solid_notify_core::AckResult;

use crate::headers::with_headers;
use crate::page;

/// Ack or nack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Ack,
    Nack,
}

/// A response: constant, but for the time after which a request may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// For programs.
    pub(crate) result: &'static str,
    /// For people.
    pub(crate) text: &'static str,
    retry_after: Option<Duration>,
}

const fn answer(status: StatusCode, result: &'static str, text: &'static str) -> Answer {
    Answer { status, result, text, retry_after: None }
}

/// For garbage, expired and forged tokens, and for those of another database: a guessed token reveals nothing.
pub(crate) const REFUSED_TOKEN: Answer = answer(
    StatusCode::FORBIDDEN,
    "refused_token",
    "The token is not valid here: it is incomplete or altered, it has expired, or it is of another system.",
);
pub(crate) const NO_TOKEN: Answer = answer(
    StatusCode::BAD_REQUEST,
    "no_token",
    "There is no token: put it into the path, the header ack-token, the header authorization as a Bearer token, or the field token of a JSON body.",
);
pub(crate) const SEVERAL_TOKENS: Answer = answer(
    StatusCode::BAD_REQUEST,
    "several_tokens",
    "There are several tokens: put one into the path, the header ack-token or the body.",
);
pub(crate) const UNREADABLE: Answer = answer(
    StatusCode::BAD_REQUEST,
    "unreadable_body",
    "The body cannot be read: send none, or a JSON object or form that has only the fields token, reason and description, each once.",
);
pub(crate) const METHOD_NOT_ALLOWED: Answer =
    answer(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "An ack or nack is a POST.");
pub(crate) const TOO_SLOW: Answer = answer(StatusCode::REQUEST_TIMEOUT, "too_slow", "The body did not arrive in time.");
pub(crate) const TOO_LARGE: Answer = answer(StatusCode::PAYLOAD_TOO_LARGE, "too_large", "The body is too large.");
pub(crate) const CONTENT_TYPE: Answer = answer(
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "unsupported_content_type",
    "The content type of a body is application/json or application/x-www-form-urlencoded.",
);
pub(crate) const FAILED: Answer =
    answer(StatusCode::INTERNAL_SERVER_ERROR, "failed", "The reply could not be stored because of an error here.");

/// The store is away, busy or in conflict.
pub(crate) const UNAVAILABLE: Answer = Answer {
    retry_after: Some(Duration::from_secs(5)),
    ..answer(
        StatusCode::SERVICE_UNAVAILABLE,
        "unavailable",
        "The reply may not have been stored. Repeat the request later.",
    )
};

/// A limit of requests is exhausted for `wait`.
pub(crate) fn limited(wait: Duration) -> Answer {
    let text = "There are too many requests. Repeat this one later.";
    Answer { retry_after: Some(wait), ..answer(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", text) }
}

/// Returns 2xx if the reply counts, and 4xx if it can never count. A repeated reply counts: a receiver whose connection broke repeats it.
pub(crate) fn replied(verb: Verb, result: AckResult) -> Answer {
    let (status, text) = match (result, verb) {
        (AckResult::Applied, Verb::Ack) => (StatusCode::OK, "The confirmation is stored."),
        (AckResult::Applied, Verb::Nack) => (StatusCode::OK, "The refusal is stored."),
        (AckResult::DeadLetterAcked, _) => (StatusCode::OK, "The confirmation is stored, although it came late."),
        (AckResult::AlreadySucceeded, Verb::Ack) => (StatusCode::OK, "It had been confirmed before."),
        (AckResult::AlreadySucceeded, Verb::Nack) => {
            (StatusCode::CONFLICT, "It had succeeded before, so it cannot be refused.")
        }
        (AckResult::NotAwaitingAck, _) => (StatusCode::OK, "That delivery had failed or been refused before."),
        (AckResult::Cancelled, _) => (StatusCode::GONE, "It had been cancelled."),
        (AckResult::Purged, _) => (StatusCode::GONE, "It has ended, and its record was deleted."),
        (AckResult::Unknown | AckResult::OtherNotice, _) => return REFUSED_TOKEN,
        _ => return FAILED,
    };
    answer(status, result.as_str(), text)
}

impl Answer {
    /// Returns the response: a page where `for_people`, else JSON.
    pub(crate) fn response(self, for_people: bool) -> Response {
        let mut response = if for_people {
            page::of_result(self.status.is_success(), self.text)
        } else {
            let json = serde_json::json!({ "result": self.result, "text": self.text }).to_string();
            with_headers("application/json", json.into())
        };
        *response.status_mut() = self.status;
        if let Some(wait) = self.retry_after {
            let seconds = (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1);
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_result_has_its_status() {
        use AckResult::{
            AlreadySucceeded, Applied, Cancelled, DeadLetterAcked, NotAwaitingAck, OtherNotice, Purged, Unknown,
        };
        for (result, ack, nack) in [
            (Applied, 200, 200),
            (DeadLetterAcked, 200, 200),
            (AlreadySucceeded, 200, 409),
            (NotAwaitingAck, 200, 200),
            (Cancelled, 410, 410),
            (Purged, 410, 410),
            (Unknown, 403, 403),
            (OtherNotice, 403, 403),
        ] {
            let statuses = [Verb::Ack, Verb::Nack].map(|verb| replied(verb, result).status.as_u16());
            assert_eq!(statuses, [ack, nack], "{result:?}");
        }
        assert_eq!(replied(Verb::Ack, Unknown), REFUSED_TOKEN);
        assert_eq!(replied(Verb::Nack, OtherNotice), REFUSED_TOKEN);
    }

    #[test]
    fn wait_is_rounded_up_to_seconds() {
        for (millis, header) in [(0, "1"), (1, "1"), (1000, "1"), (1001, "2")] {
            let response = limited(Duration::from_millis(millis)).response(false);
            assert_eq!(response.headers()["retry-after"], header);
        }
        assert_eq!(UNAVAILABLE.response(true).headers()["retry-after"], "5");
        assert!(!FAILED.response(false).headers().contains_key("retry-after"));
    }
}
