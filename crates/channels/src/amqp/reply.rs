//! What a consumer replies: `{"result":"ack"}` or `{"result":"nack","reason":"…"}`, with the token of the message as correlation id.

use serde::Deserialize;
use solid_notify_core::notice::MESSAGE_LIMIT;
use solid_notify_core::{AckResult, AnyOutbox, Error, Result};

/// A reply with its token. It may wait for long, beside many others, so it has no more than is stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    token: String,
    body: Body,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
enum Body {
    Ack,
    Nack {
        #[serde(default)]
        reason: String,
    },
}

/// What becomes of the message that contained a reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Handled {
    /// The outbox has stored it, or knows it already.
    Stored(AckResult),
    /// It can never be stored.
    Useless(&'static str),
}

impl Reply {
    /// Reads a reply.
    ///
    /// # Errors
    /// What is wrong. It contains neither the token nor the body.
    pub(super) fn read(correlation_id: Option<&str>, body: &[u8]) -> std::result::Result<Self, &'static str> {
        let token = correlation_id.ok_or("it has no correlation id; the one of the message was expected")?;
        let mut body = serde_json::from_slice(body)
            .map_err(|_| r#"its body is neither {"result":"ack"} nor {"result":"nack","reason":"…"}"#)?;
        if let Body::Nack { reason } = &mut body {
            reason.truncate(reason.floor_char_boundary(MESSAGE_LIMIT));
            reason.shrink_to_fit();
        }
        Ok(Self { token: token.to_owned(), body })
    }

    /// Stores the reply.
    ///
    /// # Errors
    /// The outbox could not store it now.
    pub(super) async fn store(&self, outbox: &AnyOutbox) -> Result<Handled> {
        let stored = match &self.body {
            Body::Ack => outbox.ack_token(&self.token).await,
            Body::Nack { reason } => outbox.nack_token(&self.token, reason.as_str()).await,
        };
        match stored {
            Ok(AckResult::OtherNotice) => Ok(Handled::Useless("its token is of another database")),
            Ok(result) => Ok(Handled::Stored(result)),
            Err(Error::Token { problem }) => Ok(Handled::Useless(problem)),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_and_nacks_are_read_and_all_else_is_refused_without_the_token() {
        let read = |body: &str| Reply::read(Some("token"), body.as_bytes()).map(|reply| reply.body);
        assert_eq!(read(r#"{"result":"ack","by":"wms"}"#), Ok(Body::Ack));
        assert_eq!(read(r#"{"reason":"sold out","result":"nack"}"#), Ok(Body::Nack { reason: "sold out".to_owned() }));
        assert_eq!(read(r#"{"result":"nack"}"#), Ok(Body::Nack { reason: String::new() }));
        for wrong in ["", "ack", r#""ack""#, r#"{"result":"token"}"#, r#"{"result":"nack","reason":7}"#, "{}", "\u{0}"]
        {
            assert!(read(wrong).is_err_and(|problem| !problem.contains("token")), "{wrong}");
        }
        assert!(Reply::read(None, br#"{"result":"ack"}"#).is_err());
    }
}
