//! Reads the response of a receiver, and decides what it means.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use solid_notify_core::Response;
use solid_notify_core::definition::{ExposeSecret, SecretString};
use solid_notify_core::error::BoxError;
use solid_notify_sweeper::{Failure, HandlerResult, HttpStatus};

/// The beginning of a body from which the kept part is made, in bytes: more than what is kept, so that a secret at the cut is found.
const EXCERPT: usize = 4 * 1024;

/// Reads the body to its end or to `limit` bytes, and returns what it has read. A receiver that sends more is cut off, which says nothing
/// of its success: that is in the status.
///
/// # Errors
/// The connection broke before the end of the body.
pub(super) async fn body(response: &mut reqwest::Response, limit: usize) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while body.len() < limit {
        let Some(chunk) = response.chunk().await? else {
            break;
        };
        body.extend_from_slice(&chunk[..chunk.len().min(limit - body.len())]);
    }
    Ok(body)
}

/// Returns the failure of an attempt without a response. The URL is left out, because it may contain a secret.
pub(super) fn unanswered(whom: &str, error: reqwest::Error) -> Failure {
    Failure::retry(Unanswered { whom: whom.to_owned(), source: error.without_url().into() })
}

#[derive(Debug, thiserror::Error)]
#[error("{whom} did not answer")]
struct Unanswered {
    whom: String,
    source: BoxError,
}

/// Returns what is kept of a response, without the secrets that the request had in it: some receivers repeat them.
/// `limit`: how much of the body was read at most.
pub(super) fn kept(status: u16, body: &[u8], limit: usize, secrets: &[SecretString]) -> Response {
    let response = Response::new(status);
    if body.is_empty() {
        return response;
    }
    let spelled = spellings(secrets);
    let longest = spelled.iter().map(String::len).max().unwrap_or_default();
    let excerpt = EXCERPT.max(2 * longest);
    let mut text = String::from_utf8_lossy(&body[..body.len().min(excerpt)]).into_owned();
    for secret in &spelled {
        text = text.replace(secret.as_str(), "…");
    }
    if body.len() > excerpt || body.len() == limit {
        // The last secret may be cut, and each one that was replaced has moved it towards the kept part.
        text.truncate(text.floor_char_boundary(text.len().saturating_sub(longest)));
    }
    response.body(text)
}

/// Returns the secrets as receivers may repeat them: as they are, as in a text of JSON, as in a URL or a form, and in Base64; the longest first,
/// because one may be a part of another.
fn spellings(secrets: &[SecretString]) -> Vec<String> {
    let mut spelled = Vec::new();
    for secret in secrets.iter().map(ExposeSecret::expose_secret).filter(|secret| !secret.is_empty()) {
        // Without the quotes around it.
        let plain = serde_json::to_string(secret).map(|text| text[1..text.len() - 1].to_owned()).unwrap_or_default();
        // Many programs escape the slash and what is not ASCII.
        let escaped: String = plain
            .encode_utf16()
            .map(|unit| match u8::try_from(unit) {
                Ok(b'/') => "\\/".to_owned(),
                Ok(ascii) if ascii.is_ascii() => char::from(ascii).to_string(),
                _ => format!("\\u{unit:04x}"),
            })
            .collect();
        let form: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        let url = form.replace('+', "%20");
        let strict = utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string();
        spelled.extend([strict.to_lowercase(), url.to_lowercase(), strict, url, form, escaped, plain]);
        // Without the characters at the end, which depend on what stands behind it.
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            spelled.push(engine.encode(secret));
        }
        spelled.push(secret.to_owned());
    }
    spelled.retain(|text| !text.is_empty());
    spelled.sort_unstable_by_key(|text| std::cmp::Reverse(text.len()));
    spelled.dedup();
    spelled
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
        let secrets = [SecretString::from("t0ken-of-mine"), SecretString::from("other-secret")];
        let text = |body: &str| {
            kept(400, body.as_bytes(), body.len() + 1, &secrets).body_text().unwrap_or_default().to_owned()
        };
        assert_eq!(text("no t0ken-of-mine here"), "no … here");
        assert_eq!(text(""), "");
        let key = SecretString::from("k/ey \"ü\" 7+");
        for repeated in [
            "k/ey \"ü\" 7+",
            r#"k/ey \"ü\" 7+"#,
            r#"k\/ey \"\u00fc\" 7+"#,
            "k%2Fey+%22%C3%BC%22+7%2B",
            "k%2fey%20%22%c3%bc%22%207%2b",
            "ay9leSAiw7wiIDcr",
        ] {
            let body = format!("before {repeated} behind");
            let shown = kept(400, body.as_bytes(), 1000, std::slice::from_ref(&key)).body_text().unwrap().to_owned();
            assert_eq!(shown, "before … behind", "{repeated}");
        }
        for padding in 0..20 {
            let body = "t0ken-of-mine".repeat(EXCERPT / 13 - 2)
                + &" ".repeat(padding)
                + "t0ken-of-mine and more"
                + &"x".repeat(5000);
            let shown = text(&body);
            assert!(!shown.contains("t0ken"), "{padding}: {shown}");
        }
        assert!(!kept(400, b"t0ken-of-mi", 11, &secrets).body_text().unwrap_or_default().contains("t0ken"));
    }
}
