//! [`Slack`]: an incoming webhook of a Slack channel, or of a compatible service (Mattermost, Rocket.Chat).

use std::fmt;

use chrono::{DateTime, Utc};
use serde_json::json;

use super::cut::cut;
use super::{ChatResponse, ChatResult, ChatService, Post};

/// Slack itself cuts longer texts, without a mark.
const TEXT_LIMIT: usize = 40_000;

/// An incoming webhook of a Slack channel. It needs only its URL, which is its secret.
#[derive(Clone)]
pub struct Slack {
    url: String,
}

impl Slack {
    /// Creates the channel of this webhook: `https://hooks.slack.com/services/…`.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into() }
    }
}

impl ChatService for Slack {
    fn post(&self, text: &str, _now: DateTime<Utc>) -> Post {
        // Cut before escaping, so that no escape is cut, but measured with the size after escaping.
        let text = cut(text, TEXT_LIMIT, |character| escape(character).map_or(1, str::len));
        let mut escaped = String::with_capacity(text.len());
        for character in text.chars() {
            match escape(character) {
                Some(escape) => escaped.push_str(escape),
                None => escaped.push(character),
            }
        }
        Post { url: self.url.clone(), body: json!({ "text": escaped }) }
    }

    fn judge(&self, response: &ChatResponse<'_>) -> ChatResult {
        // Slack answers `ok`, or words such as `no_service`; compatible services have other bodies with a success status.
        match response.status {
            200..=299 => ChatResult::Accepted,
            status => ChatResult::Refused { reason: format!("HTTP {status}: {}", response.excerpt()) },
        }
    }
}

/// The three characters that Slack reads as markup: `<!channel>` in an error's text would outbox all members.
fn escape(character: char) -> Option<&'static str> {
    match character {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        _ => None,
    }
}

impl fmt::Debug for Slack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slack").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn posted(text: &str) -> String {
        Slack::new("u").post(text, DateTime::UNIX_EPOCH).body["text"].as_str().unwrap().to_owned()
    }

    #[test]
    fn the_text_of_an_error_mentions_no_member() {
        assert_eq!(posted("failed: <!channel> & more"), "failed: &lt;!channel&gt; &amp; more");
    }

    #[test]
    fn a_text_is_cut_to_what_slack_takes_and_no_escape_is_cut() {
        let text = posted(&"<".repeat(50_000));
        assert!(text.chars().count() <= TEXT_LIMIT && text.ends_with("&lt; […]"), "{}", text.chars().count());
        assert_eq!(posted(&"订".repeat(40_000)).chars().count(), 40_000);
    }
}
