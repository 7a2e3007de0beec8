//! Makes a message of a notice, publishes it, and turns the broker's answer into the result of the attempt.

use lapin::message::BasicReturnMessage;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Confirmation};
use solid_notify_core::{ErrorClass, Response};
use solid_notify_sweeper::{Failure, HandlerResult};

use super::config::{AmqpConfig, TEST, short};
use super::link::{Link, Message};
use crate::channel::{AnyNotice, ack_token};
use crate::hiding;
use crate::secrets::Secrets;
use crate::template::{Template, Values};

/// The header with the idempotency key, for consumers that read the same header of each broker. The property `message_id` has it, too.
const ID: &str = "notify-id";

/// Makes the message of a notice.
pub(super) async fn message(
    config: &AmqpConfig,
    notice: &AnyNotice,
    secrets: &Secrets<'_>,
) -> Result<Message, Failure> {
    let token = ack_token(notice)?;
    let values = Values::new(notice, token.clone(), (&config.secrets, secrets))?;
    let mut properties = BasicProperties::default()
        .with_message_id(own(&notice.idempotency_key())?)
        .with_timestamp(u64::try_from(notice.created().timestamp()).unwrap_or_default())
        .with_content_type(config.content_type.short().map_err(Failure::retry)?)
        .with_delivery_mode(if config.persistent { 2 } else { 1 });
    let mut headers = FieldTable::default();
    for (name, value) in &config.headers {
        let value = value.render(&format!("headers.{}", name.0), &values).await?;
        headers.insert(name.short().map_err(Failure::retry)?, AMQPValue::LongString(LongString::from(value)));
    }
    headers.insert(own(ID)?, AMQPValue::LongString(LongString::from(notice.idempotency_key())));
    if notice.is_test() {
        headers.insert(own(TEST)?, AMQPValue::Boolean(true));
    }
    properties = properties.with_headers(headers);
    if let Some(expiration) = config.expiration {
        properties = properties.with_expiration(own(&expiration.0.as_millis().to_string())?);
    }
    if let Some(priority) = config.priority {
        properties = properties.with_priority(priority);
    }
    if let (Some(queue), Some(token)) = (&config.reply_queue, token) {
        properties = properties.with_reply_to(queue.short().map_err(Failure::retry)?).with_correlation_id(own(&token)?);
    }
    Ok(Message {
        exchange: config.exchange.short().map_err(Failure::retry)?,
        routing_key: rendered(&config.routing_key, "routing_key", &values).await?,
        mandatory: config.mandatory,
        properties,
        body: match &config.body {
            None => notice.raw_param().to_owned(),
            Some(body) => body.render("body", &values).await?,
        },
    })
}

/// Returns a text of the library, which is short.
fn own(text: &str) -> Result<ShortString, Failure> {
    short(text).map_err(Failure::retry)
}

async fn rendered(template: &Template, field: &str, values: &Values<'_>) -> Result<ShortString, Failure> {
    short(&template.render(field, values).await?)
        .map_err(|problem| Failure::retry(format!("handler_config: {field}: {problem}")).class(ErrorClass::Invalid))
}

/// Publishes a message. The broker's confirmation is the delivery.
///
/// # Errors
/// The connection or its channel failed.
pub(super) async fn publish(link: &Link, message: Message, notice: &AnyNotice) -> lapin::Result<HandlerResult> {
    if let Err(problem) = fits(&message.properties, link.frame_max()) {
        return Ok(Err(Failure::retry(problem).class(ErrorClass::Invalid)));
    }
    let mut blocked = link.blocked();
    let reason = blocked.borrow().clone();
    if let Some(reason) = reason {
        let error = format!("the broker takes no messages until it has memory or disk space again: {reason}");
        return Ok(Err(Failure::retry(error).class(ErrorClass::Unavailable)));
    }
    let publishing = link.publish(message);
    tokio::pin!(publishing);
    let confirmation = tokio::select! {
        biased;
        confirmation = &mut publishing => confirmation,
        Ok(reason) = async { blocked.wait_for(Option::is_some).await.map(|reason| reason.clone()) } => {
            // The time-out of the attempt ends the wait. The response then says why.
            notice.set_response(hiding::response("connection.blocked", &reason.unwrap_or_default()));
            publishing.await
        }
    };
    Ok(result(confirmation?, notice))
}

/// Checks that properties and headers fit into one frame. They cannot be divided, and a broker answers a larger one by closing the connection,
/// which other definitions use, too.
fn fits(properties: &BasicProperties, frame: u32) -> Result<(), String> {
    /// The frame, the class, the length of the body, flags, and fields of fixed size; rounded up.
    const REST: usize = 100;
    let texts = [
        properties.content_type(),
        properties.correlation_id(),
        properties.reply_to(),
        properties.expiration(),
        properties.message_id(),
    ];
    let texts: usize = texts.into_iter().flatten().map(|text| 1 + text.as_str().len()).sum();
    let headers = properties.headers().iter().flat_map(|headers| headers.inner());
    let headers: usize = headers.map(|(name, value)| 2 + name.as_str().len() + encoded(value)).sum();
    let (bytes, most) = (texts + headers, usize::try_from(frame).unwrap_or(usize::MAX).saturating_sub(REST));
    if bytes > most {
        return Err(format!(
            "handler_config: headers: with the properties they have {bytes} bytes, and the broker takes {most}; large values belong into the body"
        ));
    }
    Ok(())
}

/// Returns how many bytes a value of [`message`] has behind its type.
fn encoded(value: &AMQPValue) -> usize {
    match value {
        AMQPValue::LongString(text) => 4 + text.as_bytes().len(),
        _ => 1,
    }
}

fn result(confirmation: Confirmation, notice: &AnyNotice) -> HandlerResult {
    match confirmation {
        Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned)) => Err(unroutable(&returned, notice)),
        Confirmation::Ack(None) => {
            notice.set_response(Response::new("ack"));
            Ok(())
        }
        Confirmation::Nack(None) => {
            notice.set_response(Response::new("nack"));
            let error = "the broker refused the message (nack): a queue is full and rejects messages, or it failed";
            Err(Failure::retry(error).class(ErrorClass::Busy))
        }
        Confirmation::NotRequested => Err(Failure::retry("the broker confirms nothing on this channel")),
    }
}

fn unroutable(returned: &BasicReturnMessage, notice: &AnyNotice) -> Failure {
    notice.set_response(hiding::response(returned.reply_code, returned.reply_text.as_str()));
    let error = format!(
        "the broker returned the message ({} {}): no queue is bound to the exchange {:?} for this routing key",
        returned.reply_code,
        returned.reply_text,
        returned.exchange.as_str()
    );
    Failure::retry(error).class(ErrorClass::NotFound)
}
