//! What DingTalk, Feishu and WeCom have in common: they answer with HTTP 200 and a code in the body, 0 where all went well.

use std::time::Duration;

use serde_json::Value;

use super::{Answer, Verdict};

/// Where a service has its code and its words, and which codes mean "too often".
pub(super) struct Codes {
    pub(super) code: &'static str,
    pub(super) words: &'static str,
    pub(super) too_often: &'static [i64],
    /// How long to wait then, unless the answer says.
    pub(super) delay: Duration,
}

impl Codes {
    pub(super) fn judge(&self, answer: &Answer<'_>) -> Verdict {
        let body: Value = serde_json::from_str(answer.body).unwrap_or_default();
        let Some(code) = body.get(self.code).and_then(Value::as_i64) else {
            // Whoever answered, it was not the service: a proxy's page, a wrong URL.
            return Verdict::Refused { reason: format!("no `{}` in the answer {}", self.code, answer.excerpt()) };
        };
        let words = body.get(self.words).and_then(Value::as_str).unwrap_or_default();
        let reason = format!("{} {code}: {words}", self.code);
        match code {
            0 => Verdict::Accepted,
            _ if self.too_often.contains(&code) => {
                Verdict::TooOften { delay: answer.retry_after.unwrap_or(self.delay), reason }
            }
            _ => Verdict::Refused { reason },
        }
    }
}
