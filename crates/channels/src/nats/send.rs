//! Makes a message of a notice, publishes it, and turns the stream's answer into the result of the attempt.

use std::error::Error;
use std::str::FromStr;

use async_nats::header::{NATS_EXPECTED_STREAM, NATS_MESSAGE_ID};
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{HeaderMap, HeaderName, HeaderValue, Subject};
use sha2::{Digest, Sha256};
use solid_notify_core::ErrorClass;
use solid_notify_sweeper::{Failure, HandlerResult};
use tokio::time::timeout;

use super::config::{NatsConfig, TEST};
use super::server::{Link, Loss, TIME_TO_REPORT};
use crate::brokers::Published;
use crate::channel::{AnyNotice, ack_token};
use crate::hiding;
use crate::secrets::Secrets;
use crate::template::Values;

/// The header with the idempotency key.
const ID: &str = "Notify-Id";

/// The header with the token, where the receiver must ack.
const ACK_TOKEN: &str = "Notify-Ack-Token";

/// A message and its subject.
pub(super) struct Message {
    subject: Subject,
    headers: HeaderMap,
    body: String,
}

/// Makes the message of a notice.
pub(super) async fn message(
    config: &NatsConfig,
    notice: &AnyNotice,
    secrets: &Secrets<'_>,
) -> Result<Message, Failure> {
    let token = ack_token(notice)?;
    let values = Values::new(notice, token.clone(), (&config.secrets, secrets))?;
    let (mut headers, mut rendered) = (HeaderMap::new(), Vec::new());
    for (name, value) in &config.headers {
        let value = value.render(&format!("headers.{}", name.0), &values).await?;
        insert(&mut headers, &name.0, &value)?;
        rendered.push((name.0.as_str(), value));
    }
    if let Some(token) = token {
        insert(&mut headers, ACK_TOKEN, &token)?;
    }
    if notice.is_test() {
        insert(&mut headers, TEST, "true")?;
    }
    if let Some(stream) = &config.expected_stream {
        insert(&mut headers, NATS_EXPECTED_STREAM, &stream.0)?;
    }
    insert(&mut headers, ID, &notice.idempotency_key())?;
    let body = match &config.body {
        None => notice.raw_param().to_owned(),
        Some(body) => body.render("body", &values).await?,
    };
    let subject = Subject::validated(config.subject.render("subject", &values).await?).map_err(|_| {
        let error = "handler_config: subject: it is empty, or has a space or an empty part between two dots";
        Failure::retry(error).class(ErrorClass::Invalid)
    })?;
    let id = message_id(notice, &subject, &rendered, &body);
    insert(&mut headers, NATS_MESSAGE_ID, &id)?;
    Ok(Message { subject, headers, body })
}

/// Returns the id by which the stream drops a message that it has got within its duplicate window. It is the same in attempts that
/// repeat a message of which it is unknown whether the stream has it. It differs where the consumer must get the notice again, and where an
/// edit has changed the message.
fn message_id(notice: &AnyNotice, subject: &str, headers: &[(&str, String)], body: &str) -> String {
    let mut digest = Sha256::new();
    let texts = headers.iter().flat_map(|(name, value)| [*name, value.as_str()]);
    for text in [subject, body].into_iter().chain(texts) {
        digest.update(text.len().to_be_bytes());
        digest.update(text);
    }
    let content: String = digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{content}", notice.idempotency_key(), notice.same_message_since())
}

/// Inserts a header. The client's own conversions panic on a line break.
fn insert(headers: &mut HeaderMap, name: impl AsRef<str>, value: &str) -> Result<(), Failure> {
    let name = name.as_ref();
    let parsed = HeaderName::from_str(name).ok().zip(HeaderValue::from_str(value).ok());
    let (key, value) = parsed.ok_or_else(|| {
        Failure::retry(format!("handler_config: headers.{name}: the value has a line break")).class(ErrorClass::Invalid)
    })?;
    headers.insert(key, value);
    Ok(())
}

/// How many bytes the line before a message may have: the usual limit of a server, which says it to no client.
const LINE: usize = 4096;

/// What the line has beside the subject: the subject of the acknowledgement, lengths, blanks; rounded up.
const REST: usize = 196;

/// Publishes a message. The acknowledgement of the stream is the delivery.
pub(super) async fn publish(link: &Link, message: Message, notice: &AnyNotice) -> Published {
    if message.subject.len() > LINE - REST {
        let (has, most) = (message.subject.len(), LINE - REST);
        let error = format!("handler_config: subject: it has {has} bytes, and the server takes {most}");
        return Published::Ended(Err(Failure::retry(error).class(ErrorClass::Invalid)));
    }
    let mut lost = link.lost.subscribe();
    // Each error with whether it says that the client has ended. While it sends, a valid subject has no other one of this kind.
    let publishing = async {
        let sent = link.context.publish_with_headers(message.subject, message.headers, message.body.into()).await;
        let acknowledged = sent.map_err(|error| (error.kind() == PublishErrorKind::Other, error))?;
        acknowledged.await.map_err(|error| (error.kind() == PublishErrorKind::BrokenPipe, error))
    };
    let acknowledged = tokio::select! {
        biased;
        acknowledged = publishing => acknowledged,
        Ok(()) = lost.changed() => {
            if *lost.borrow() == Loss::Refused {
                return Published::Refused;
            }
            return lost_connection();
        }
    };
    if let Err((true, _)) = acknowledged {
        let reported = timeout(TIME_TO_REPORT, lost.changed()).await.is_ok_and(|reported| reported.is_ok());
        return if reported && *lost.borrow() == Loss::Refused { Published::Refused } else { lost_connection() };
    }
    Published::Ended(result(acknowledged.map_err(|(_, error)| error), notice))
}

fn lost_connection() -> Published {
    let error = "the connection was lost before the stream acknowledged the message";
    Published::Ended(Err(Failure::retry(error).class(ErrorClass::Network).free_of_values()))
}

fn result(acknowledged: Result<PublishAck, PublishError>, notice: &AnyNotice) -> HandlerResult {
    match acknowledged {
        Ok(ack) => {
            let status = if ack.duplicate { "duplicate" } else { "stored" };
            let body = format!("stream {}, sequence {}", ack.stream, ack.sequence);
            notice.set_response(hiding::response(status, &body));
            Ok(())
        }
        Err(error) => {
            let refused = error.source().and_then(|source| source.downcast_ref::<jetstream::Error>());
            let Some(refused) = refused else { return Err(error.into()) };
            notice.set_response(hiding::response(refused.error_code().0, &refused.to_string()));
            let class = class(refused);
            Err(Failure::retry(error).class(class))
        }
    }
}

/// Returns the class of what a stream answers. Its codes are those of HTTP.
fn class(refused: &jetstream::Error) -> ErrorClass {
    match refused.code() {
        404 => ErrorClass::NotFound,
        _ if refused.error_code() == ErrorCode::STREAM_NOT_MATCH => ErrorClass::NotFound,
        400 => ErrorClass::Invalid,
        401 | 403 => ErrorClass::Auth,
        429 => ErrorClass::Busy,
        // No leader yet, not enough memory or disk space, too many messages.
        500..=599 => ErrorClass::Unavailable,
        _ => ErrorClass::Unknown,
    }
}
