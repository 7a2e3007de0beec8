//! Reads the response of a receiver, and decides what it means.

use std::io;

use hyper::header::HeaderMap;
use solid_notify_core::Response;
use solid_notify_core::secret::{Hidden, SEARCHED};
use solid_notify_sweeper::{Failure, HandlerResult, HttpStatus};

use crate::http::{Body, retry_after};

/// Returns the failure of an attempt without a response.
pub(super) fn unanswered(whom: &str, source: io::Error) -> Failure {
    Failure::retry(Unanswered { whom: whom.to_owned(), source })
}

#[derive(Debug, thiserror::Error)]
#[error("{whom} did not answer")]
struct Unanswered {
    whom: String,
    source: io::Error,
}

/// Returns what is kept of a response, without the secrets of the attempt: some receivers repeat them.
pub(super) fn kept(status: u16, body: &Body, hidden: &Hidden) -> Response {
    let response = Response::new(status);
    let bytes = &body.bytes;
    if bytes.is_empty() {
        return response;
    }
    let beginning = String::from_utf8_lossy(&bytes[..bytes.len().min(SEARCHED)]);
    let is_cut = bytes.len() > SEARCHED || body.is_cut;
    response.body(if is_cut { hidden.clean_beginning(&beginning) } else { hidden.clean(&beginning) })
}

/// Returns the result of an attempt with this status.
/// `has_one_receiver`: all notices of the definition go to it.
pub(super) fn judged(status: u16, headers: &HeaderMap, is_success: bool, has_one_receiver: bool) -> HandlerResult {
    if is_success {
        return Ok(());
    }
    let error = HttpStatus(status);
    let failure = match status {
        410 if has_one_receiver => Failure::pause(error),
        // It says nothing of the others.
        410 => Failure::give_up(error),
        429 | 503 => match retry_after(headers) {
            Some(delay) => Failure::retry_in(delay, error),
            None => Failure::retry(error),
        },
        _ => Failure::retry(error),
    };
    Err(failure.free_of_values())
}

#[cfg(test)]
mod tests {
    use solid_notify_core::definition::SecretString;

    use super::*;

    #[test]
    fn kept_body_has_no_secret_even_at_the_cut() {
        let hidden = Hidden::of(&[SecretString::from("t0ken-of-mine"), SecretString::from("other-secret")]);
        let kept = |body: &str, is_cut| {
            let shown = kept(400, &Body::of(body, is_cut), &hidden);
            shown.body_text().unwrap_or_default().to_owned()
        };
        let text = |body: &str| kept(body, false);
        assert_eq!(text("no t0ken-of-mine here"), "no … here");
        assert_eq!(text(""), "");
        for padding in 0..20 {
            let body = "t0ken-of-mine".repeat(SEARCHED / 13 - 2)
                + &" ".repeat(padding)
                + "t0ken-of-mine and more"
                + &"x".repeat(5000);
            let shown = text(&body);
            assert!(!shown.contains("t0k"), "{padding}: {shown}");
        }
        assert!(!kept("t0ken-of-mi", true).contains("t0k"));
    }
}
