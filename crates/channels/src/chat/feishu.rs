//! [`Feishu`]: the custom bot of a Feishu (Lark) group.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::json;

use super::code::Codes;
use super::cut::{cut, json as json_size};
use super::sign::{signature, since_1970};
use super::{ChatResponse, ChatResult, ChatService, Post};

/// A request's body may have 20 KB; the difference is for the JSON around the text.
const TEXT_LIMIT: usize = 19_000;

/// Feishu accepts 100 messages a minute and five a second. 11232 is the bots' own code; the longer one comes from the
/// gateway.
const CODES: Codes =
    Codes { code: "code", words: "msg", too_often: &[11232, 99991400], delay: Duration::from_secs(60) };

/// The custom bot of a Feishu or Lark group: its webhook's URL, and its secret if it requires signatures.
///
/// A bot may require a keyword in each message instead: set it with [`Feishu::keyword`].
#[derive(Clone)]
pub struct Feishu {
    url: String,
    secret: Option<String>,
    keyword: Option<String>,
}

impl Feishu {
    /// Creates the bot of this webhook: `https://open.feishu.cn/open-apis/bot/v2/hook/…`, Lark's at `open.larksuite.com`.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), secret: None, keyword: None }
    }

    /// Sets the secret that signs messages.
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = Some(secret.into());
        self
    }

    /// Sets a word that is put before each message, because the bot refuses messages without it.
    pub fn keyword(mut self, keyword: impl Into<String>) -> Self {
        self.keyword = Some(keyword.into());
        self
    }
}

impl ChatService for Feishu {
    fn post(&self, text: &str, now: DateTime<Utc>) -> Post {
        // `<at user_id="all">` in an error's text would outbox all members; a zero-width space makes it plain text.
        let text = super::with_keyword(self.keyword.as_deref(), text).replace("<at", "<\u{200b}at");
        let mut body = json!({ "msg_type": "text", "content": { "text": cut(&text, TEXT_LIMIT, json_size) } });
        if let Some(secret) = &self.secret {
            let time = since_1970(now).as_secs();
            // Time and secret together are the HMAC key, and the signed message is empty.
            body["sign"] = signature(&format!("{time}\n{secret}"), "").into();
            body["timestamp"] = time.to_string().into();
        }
        Post { url: self.url.clone(), body }
    }

    fn judge(&self, response: &ChatResponse<'_>) -> ChatResult {
        CODES.judge(response)
    }

    fn secrets(&self) -> Vec<String> {
        self.secret.iter().cloned().collect()
    }
}

impl fmt::Debug for Feishu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feishu").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_signature_is_of_nothing_with_the_time_and_the_secret() {
        let post = Feishu::new("https://f/hook/t")
            .secret("s1")
            .post("hello", DateTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        // Computed with another program (Python's hmac and base64).
        let expected = json!({
            "msg_type": "text", "content": { "text": "hello" }, "timestamp": "1700000000",
            "sign": "tbqVg0rPL2TG7HtClLn54D/yXJnQ68YFRVX6D+faBrA=",
        });
        assert_eq!((post.url.as_str(), post.body), ("https://f/hook/t", expected));
    }

    #[test]
    fn the_text_of_an_error_mentions_no_member() {
        let post = Feishu::new("u").post("failed: <at user_id=\"all\">", DateTime::UNIX_EPOCH);
        assert!(!post.body["content"]["text"].as_str().unwrap().contains("<at"));
    }

    #[test]
    fn the_body_of_a_long_message_stays_below_the_limit() {
        let size =
            Feishu::new("u").secret("s").post(&"订单".repeat(10_000), DateTime::UNIX_EPOCH).body.to_string().len();
        assert!((18_000..=20_000).contains(&size), "{size}");
    }
}
