//! Makes an entry of a notice, appends it, and turns Redis's reply into the result of the attempt.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use solid_notify_core::{ErrorClass, Response};
use solid_notify_redis_connection::{Error, Redis};
use solid_notify_sweeper::{Failure, HandlerResult};

use super::config::{OWN_FIELDS, RedisStreamsConfig};
use crate::channel::{AnyNotice, ack_token};
use crate::secrets::Secrets;
use crate::template::Values;

/// Makes the arguments of `XADD`.
pub(super) fn entry(
    config: &RedisStreamsConfig,
    notice: &AnyNotice,
    secrets: &Secrets<'_>,
) -> Result<Vec<String>, Failure> {
    let token = ack_token(notice)?;
    let values = Values::new(notice, token.clone(), (&config.secrets, secrets))?;
    let mut arguments = vec![config.stream.render("stream", &values)?];
    if let Some(length) = config.maxlen {
        arguments.extend(["MAXLEN".to_owned(), "~".to_owned(), length.to_string()]);
    }
    if let Some(id) = &config.minid {
        arguments.extend(["MINID".to_owned(), "~".to_owned(), id.render("minid", &values)?]);
    }
    arguments.push("*".to_owned());
    let mut field = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    let [id, definition, ack_token, test] = OWN_FIELDS;
    field(id, notice.idempotency_key());
    field(definition, notice.definition().to_owned());
    if let Some(token) = token {
        field(ack_token, token);
    }
    if notice.is_test() {
        field(test, "true".to_owned());
    }
    if config.fields.is_empty() {
        field("param", notice.raw_param().to_owned());
    }
    for (name, template) in &config.fields {
        field(name, template.render(&format!("fields.{name}"), &values)?);
    }
    Ok(arguments)
}

/// Appends an entry. The reply with its id is the delivery.
pub(super) async fn append(redis: Redis, entry: Vec<String>, notice: &AnyNotice) -> HandlerResult {
    // A task, because the connection notices a stall only by a call that is waited for to its end.
    let call = tokio::spawn(async move { redis.command::<String>("XADD", &entry, "appending to the stream").await });
    match call.await? {
        Ok(id) => {
            notice.set_response(Response::new("stored").body(id));
            Ok(())
        }
        Err(error) => {
            let class = class(&error);
            Err(Failure::retry(error).class(class))
        }
    }
}

/// Returns the class of an error.
pub(super) fn class(error: &Error) -> ErrorClass {
    match error {
        Error::Redis { source, .. } if source.is_timeout() => ErrorClass::Timeout,
        Error::Redis { source, .. } if source.is_io_error() => ErrorClass::Network,
        Error::Redis { source, .. } => class_of_reply(source),
        _ => ErrorClass::Unknown,
    }
}

fn class_of_reply(error: &RedisError) -> ErrorClass {
    match (error.kind(), error.code()) {
        (ErrorKind::AuthenticationFailed | ErrorKind::Server(ServerErrorKind::NoPerm), _)
        | (_, Some("NOAUTH" | "WRONGPASS" | "NOPERM")) => ErrorClass::Auth,
        // The memory is full.
        (_, Some("OOM")) => ErrorClass::Busy,
        // The key is no stream.
        (_, Some("WRONGTYPE")) => ErrorClass::Invalid,
        (ErrorKind::Server(ServerErrorKind::ResponseError), _) => ErrorClass::Unknown,
        // Loading, a failover, a cluster without this slot.
        (ErrorKind::Server(_) | ErrorKind::ClusterConnectionNotFound, _) => ErrorClass::Unavailable,
        _ => ErrorClass::Unknown,
    }
}
