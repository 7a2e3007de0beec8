//! Reads the response of a receiver, and decides what it means.

use std::io;
use std::time::{Duration, SystemTime};

use hyper::header::{HeaderMap, RETRY_AFTER};
use solid_notify_core::Response;
use solid_notify_core::secret::{Hidden, SEARCHED};
use solid_notify_sweeper::{Failure, HandlerResult, HttpStatus};

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

/// Returns what is kept of a response, without the secrets of the attempt: some receivers repeat them. `limit`: how much of the body was read at
/// most.
pub(super) fn kept(status: u16, body: &[u8], limit: usize, hidden: &Hidden) -> Response {
    let response = Response::new(status);
    if body.is_empty() {
        return response;
    }
    let beginning = String::from_utf8_lossy(&body[..body.len().min(SEARCHED)]);
    let is_cut = body.len() > SEARCHED || body.len() == limit;
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
        429 | 503 => match retry_after(headers, SystemTime::now()) {
            Some(delay) => Failure::retry_in(delay, error),
            None => Failure::retry(error),
        },
        _ => Failure::retry(error),
    };
    Err(failure.free_of_values())
}

/// Returns how long the receiver wants to be left alone: seconds, or a date. A time that is over says nothing.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = text.parse().ok().map(Duration::from_secs);
    let delay = seconds.or_else(|| httpdate::parse_http_date(text).ok()?.duration_since(now).ok());
    delay.filter(|delay| !delay.is_zero())
}

#[cfg(test)]
mod tests {
    use solid_notify_core::definition::SecretString;

    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Tue, 24 Nov 2026 10:00:00 GMT").unwrap();
        let read = |value: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]);
            retry_after(&headers, now)
        };
        assert_eq!(read("77"), Some(Duration::from_secs(77)));
        assert_eq!(read("Tue, 24 Nov 2026 10:01:00 GMT"), Some(Duration::from_secs(60)));
        for nothing in ["0", "-1", "soon", "1.5", "Tue, 24 Nov 2026 09:00:00 GMT", "99999999999999999999999"] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
        assert_eq!(read("18446744073709551615"), Some(Duration::from_secs(u64::MAX)));
    }

    #[test]
    fn kept_body_has_no_secret_even_at_the_cut() {
        let hidden = Hidden::of(&[SecretString::from("t0ken-of-mine"), SecretString::from("other-secret")]);
        let text =
            |body: &str| kept(400, body.as_bytes(), body.len() + 1, &hidden).body_text().unwrap_or_default().to_owned();
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
        assert!(!kept(400, b"t0ken-of-mi", 11, &hidden).body_text().unwrap_or_default().contains("t0k"));
    }
}
