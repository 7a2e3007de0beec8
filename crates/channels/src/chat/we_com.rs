//! [`WeCom`]: the bot of a WeCom (企业微信) group.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::json;

use super::code::Codes;
use super::cut::{cut, utf8};
use super::{ChatResponse, ChatResult, ChatService, Post};

/// A text may have 2048 bytes of UTF-8.
const TEXT_LIMIT: usize = 2048;

/// A bot may send 20 messages a minute.
const CODES: Codes = Codes { code: "errcode", words: "errmsg", too_often: &[45009], delay: Duration::from_secs(60) };

/// The bot of a WeCom group. It needs only its webhook's URL, which is its secret.
#[derive(Clone)]
pub struct WeCom {
    url: String,
}

impl WeCom {
    /// Creates the bot of this webhook: `https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=…`.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into() }
    }
}

impl ChatService for WeCom {
    fn post(&self, text: &str, _now: DateTime<Utc>) -> Post {
        let body = json!({ "msgtype": "text", "text": { "content": cut(text, TEXT_LIMIT, utf8) } });
        Post { url: self.url.clone(), body }
    }

    fn judge(&self, response: &ChatResponse<'_>) -> ChatResult {
        CODES.judge(response)
    }
}

impl fmt::Debug for WeCom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeCom").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_text_is_cut_to_2048_bytes() {
        let post = WeCom::new("u").post(&"订单".repeat(1000), DateTime::UNIX_EPOCH);
        let size = post.body["text"]["content"].as_str().unwrap().len();
        assert!((2040..=2048).contains(&size), "{size}");
    }
}
