//! The common part of DingTalk, Feishu and WeCom: they answer with HTTP 200 and a code in the body, 0 for success.

use std::time::Duration;

use serde_json::Value;

use super::{ChatResponse, ChatResult};

/// The fields of a service's code and text, and the codes that mean "too often".
pub(super) struct Codes {
    pub(super) code: &'static str,
    pub(super) words: &'static str,
    pub(super) too_often: &'static [i64],
    /// How long to wait after "too often", unless the answer says so.
    pub(super) delay: Duration,
}

impl Codes {
    pub(super) fn judge(&self, response: &ChatResponse<'_>) -> ChatResult {
        let body: Value = serde_json::from_str(response.body).unwrap_or_default();
        let Some(code) = body.get(self.code).and_then(Value::as_i64) else {
            // The answer is not from the service, but for instance from a proxy or a wrong URL.
            return ChatResult::Refused { reason: format!("no `{}` in the answer {}", self.code, response.excerpt()) };
        };
        let words = body.get(self.words).and_then(Value::as_str).unwrap_or_default();
        let reason = format!("{} {code}: {words}", self.code);
        match code {
            0 => ChatResult::Accepted,
            _ if self.too_often.contains(&code) => {
                ChatResult::TooOften { delay: response.retry_after.unwrap_or(self.delay), reason }
            }
            _ => ChatResult::Refused { reason },
        }
    }
}
