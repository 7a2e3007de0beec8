//! [`DingTalk`]: the custom robot of a DingTalk group.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::json;

use super::code::Codes;
use super::cut::{cut, json as json_size};
use super::sign::{signature, since_1970};
use super::{ChatResponse, ChatResult, ChatService, Post};

/// The commonly stated limit of a request's body is 20,000 bytes; the pages about the robot state none. The difference is
/// for the JSON around the text.
const TEXT_LIMIT: usize = 19_000;

/// DingTalk blocks a robot for ten minutes after more than 20 messages in a minute.
const CODES: Codes = Codes { code: "errcode", words: "errmsg", too_often: &[130101], delay: Duration::from_secs(600) };

/// The custom robot of a DingTalk group: its webhook's URL, and its secret if it requires signatures (加签).
///
/// A robot may require a keyword in each message instead: set it with [`DingTalk::keyword`].
#[derive(Clone)]
pub struct DingTalk {
    url: String,
    secret: Option<String>,
    keyword: Option<String>,
}

impl DingTalk {
    /// Creates the robot of this webhook: `https://oapi.dingtalk.com/robot/send?access_token=…`.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), secret: None, keyword: None }
    }

    /// Sets the secret that signs messages: `SEC…`.
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = Some(secret.into());
        self
    }

    /// Sets a word that is put before each message, because the robot refuses messages without it.
    pub fn keyword(mut self, keyword: impl Into<String>) -> Self {
        self.keyword = Some(keyword.into());
        self
    }
}

impl ChatService for DingTalk {
    fn post(&self, text: &str, now: DateTime<Utc>) -> Post {
        let text = super::with_keyword(self.keyword.as_deref(), text);
        let body = json!({ "msgtype": "text", "text": { "content": cut(&text, TEXT_LIMIT, json_size) } });
        let Some(secret) = &self.secret else {
            return Post { url: self.url.clone(), body };
        };
        let time = since_1970(now).as_millis();
        // Three characters of Base64 have another meaning in a query.
        let sign = signature(secret, &format!("{time}\n{secret}"));
        let sign = sign.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        let joint = if self.url.contains('?') { '&' } else { '?' };
        Post { url: format!("{}{joint}timestamp={time}&sign={sign}", self.url), body }
    }

    fn judge(&self, response: &ChatResponse<'_>) -> ChatResult {
        CODES.judge(response)
    }

    fn secrets(&self) -> Vec<String> {
        self.secret.iter().cloned().collect()
    }
}

impl fmt::Debug for DingTalk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DingTalk").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_signature_is_of_the_time_and_the_secret_with_the_secret() {
        let robot = DingTalk::new("https://oapi.dingtalk.com/robot/send?access_token=t").secret("SEC1");
        let post = robot.post("hello", DateTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123));
        // Computed with another program (Python's hmac, base64 and quote_plus).
        let sign = "LtwRhnP04fXYO09uCgUpnz%2F3dV0OxcApXKnTCuuaVBQ%3D";
        let expected =
            format!("https://oapi.dingtalk.com/robot/send?access_token=t&timestamp=1700000000123&sign={sign}");
        assert_eq!(post.url, expected);
        assert_eq!(post.body, json!({ "msgtype": "text", "text": { "content": "hello" } }));
    }

    #[test]
    fn a_robot_without_a_secret_gets_no_signature() {
        let url = "https://oapi.dingtalk.com/robot/send?access_token=t";
        assert_eq!(DingTalk::new(url).post("hello", DateTime::UNIX_EPOCH).url, url);
    }

    #[test]
    fn the_body_of_a_long_message_fits_with_its_keyword_first() {
        let post = DingTalk::new("u").keyword("告警").post(&"\"订单\"\n".repeat(10_000), DateTime::UNIX_EPOCH);
        let size = post.body.to_string().len();
        assert!((18_000..=20_000).contains(&size), "{size}");
        assert!(post.body["text"]["content"].as_str().unwrap().starts_with("告警\n"));
    }
}
