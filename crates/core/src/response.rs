//! [`Response`]: what a receiver answered to an attempt, as a handler reports it, and [`LastResponse`], as a notice keeps it.
//!
//! Which part of it people see is decided by [`crate::definition::Mask`].

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::clean::clean_text;

/// The longest status of a response, in characters.
pub const RESPONSE_STATUS_LIMIT: usize = 100;
/// How much of the body of a response is kept, in bytes.
pub const RESPONSE_BODY_LIMIT: usize = 1024;

/// What a receiver answered: a status, and the beginning of the body. A handler reports it, and the notice keeps it with the outcome
/// of the attempt.
///
/// ```
/// use solid_notify_core::Response;
///
/// let response = Response::new(503).body("the queue is full\u{7}");
/// assert_eq!((response.status(), response.body_text()), ("503", Some("the queue is full\u{FFFD}")));
/// assert_eq!(Response::new("ACCOUNT_CLOSED").body_text(), None);
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Response {
    status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

impl Response {
    /// Creates a response with a status: the number of an HTTP status, or a code as text. Its first
    /// 100 characters are kept, and each control character becomes U+FFFD.
    pub fn new(status: impl fmt::Display) -> Self {
        let status = status.to_string().chars().take(RESPONSE_STATUS_LIMIT).map(printable).collect();
        Self { status, body: None }
    }

    /// Sets the body. Its first 1,024 bytes are kept, cut between characters. What is not UTF-8, and each control
    /// character except a line feed and a tab, becomes U+FFFD.
    #[must_use]
    pub fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        // One byte more than the limit shows that it is cut. The cut may be within a character, which then is not UTF-8.
        let begin = &body[..body.len().min(RESPONSE_BODY_LIMIT + 1)];
        let text: String = String::from_utf8_lossy(begin).chars().map(printable_in_body).collect();
        self.body = Some(clean_text(&text, RESPONSE_BODY_LIMIT));
        self
    }

    /// Returns the status.
    pub fn status(&self) -> &str {
        &self.status
    }

    /// Returns the kept part of the body, if there is a body.
    pub fn body_text(&self) -> Option<&str> {
        self.body.as_deref()
    }

    /// Returns what is left of the response to an encrypted parameter: a status that is a number.
    #[must_use]
    pub fn code_only(self) -> Self {
        let is_code = self.code().is_some();
        Self { status: if is_code { self.status } else { "***".to_owned() }, body: None }
    }

    /// Returns the status if it is a number, as of HTTP and SMTP.
    pub fn code(&self) -> Option<u16> {
        self.status.parse().ok()
    }

    /// Returns a response of what people see of the texts of another one.
    pub(crate) fn shown(status: String, body: Option<String>) -> Self {
        Self { status, body: body.map(|text| clean_text(&text, RESPONSE_BODY_LIMIT)) }
    }
}

fn printable(letter: char) -> char {
    if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter }
}

fn printable_in_body(letter: char) -> char {
    if matches!(letter, '\n' | '\t') { letter } else { printable(letter) }
}

impl fmt::Debug for Response {
    /// Leaves out the body, which may repeat the parameter.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Response");
        shown.field("status", &self.status);
        shown.field("body_bytes", &self.body.as_ref().map(String::len)).finish()
    }
}

impl fmt::Display for Response {
    /// Writes `503: the queue is full`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.status)?;
        self.body.as_ref().filter(|body| !body.is_empty()).map_or(Ok(()), |body| write!(f, ": {body}"))
    }
}

/// The column `response` of a notice: what its receiver answered last, and to which attempt. An attempt without a response leaves it as
/// it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LastResponse {
    /// The number of the attempt.
    pub attempt: i64,
    /// The fence of its claim.
    pub fence: i64,
    /// When the attempt began, by the database's clock.
    pub time: DateTime<Utc>,
    /// How long the attempt took, in milliseconds.
    pub duration_ms: u64,
    /// The response.
    #[serde(flatten)]
    pub response: Response,
}

impl LastResponse {
    /// Creates the value of the column.
    pub fn new(attempt: i64, fence: i64, time: DateTime<Utc>, duration_ms: u64, response: Response) -> Self {
        Self { attempt, fence, time, duration_ms, response }
    }

    /// Returns the JSON that stores keep.
    pub fn to_stored(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    /// Reads the JSON that a store has kept; `None` for a text that an edit by hand made unreadable.
    pub fn from_stored(text: Option<&str>) -> Option<Self> {
        serde_json::from_str(text?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters_and_made_printable() {
        let response = Response::new("x\u{0}".repeat(200)).body("ü".repeat(600));
        assert_eq!(response.status(), "x\u{FFFD}".repeat(50));
        let body = response.body_text().unwrap();
        assert!(body.len() <= RESPONSE_BODY_LIMIT && body.starts_with("üü") && body.ends_with("ü […]"), "{body}");
        let exact = "a".repeat(RESPONSE_BODY_LIMIT);
        assert_eq!(Response::new(200).body(&exact).body_text(), Some(exact.as_str()));
        assert_eq!(Response::new(200).body(b"a\xff\r\n\tb").body_text(), Some("a\u{FFFD}\u{FFFD}\n\tb"));
    }

    #[test]
    fn a_body_of_replaced_bytes_stays_within_the_limit() {
        let body = Response::new(200).body([0xff; 5000]);
        assert!(body.body_text().unwrap().len() <= RESPONSE_BODY_LIMIT);
    }

    #[test]
    fn stored_response_is_read_again_and_debug_output_has_no_body() {
        let response = Response::new(422).body("secret");
        let last = LastResponse::new(3, 5, DateTime::UNIX_EPOCH, 12, response.clone());
        let stored = last.to_stored().unwrap();
        assert_eq!(
            stored,
            r#"{"attempt":3,"fence":5,"time":"1970-01-01T00:00:00Z","duration_ms":12,"status":"422","body":"secret"}"#
        );
        assert_eq!(LastResponse::from_stored(Some(&stored)), Some(last.clone()));
        assert_eq!(LastResponse::from_stored(Some("{")), None);
        assert!(!format!("{last:?}").contains("secret"));
        assert_eq!(
            (response.to_string(), Response::new(204).to_string()),
            ("422: secret".to_owned(), "204".to_owned())
        );
    }
}
