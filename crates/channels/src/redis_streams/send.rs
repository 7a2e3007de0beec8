//! Makes an entry of a notice, appends it, and turns Redis's reply into the result of the attempt.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::{ErrorKind, RedisError, ServerErrorKind};
use solid_notify_core::ErrorClass;
use solid_notify_redis_connection::{Error, Redis};
use solid_notify_sweeper::Failure;
use tokio::sync::watch;
use tokio::time::timeout;

use super::config::{OWN_FIELDS, RedisStreamsConfig};
use crate::brokers::Published;
use crate::channel::{AnyNotice, ack_token};
use crate::hiding;
use crate::relay::{Intake, SERVERS};
use crate::secrets::Secrets;
use crate::template::Values;

/// Makes the arguments of `XADD`.
pub(super) async fn entry(
    config: &RedisStreamsConfig,
    notice: &AnyNotice,
    secrets: &Secrets<'_>,
) -> Result<Vec<String>, Failure> {
    let token = ack_token(notice)?;
    let values = Values::new(notice, token.clone(), (&config.secrets, secrets))?;
    let mut arguments = vec![config.stream.render("stream", &values).await?];
    if let Some(length) = config.maxlen {
        arguments.extend(["MAXLEN".to_owned(), "~".to_owned(), length.to_string()]);
    }
    if let Some(id) = &config.minid {
        arguments.extend(["MINID".to_owned(), "~".to_owned(), id.render("minid", &values).await?]);
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
        arguments.extend([name.clone(), template.render(&format!("fields.{name}"), &values).await?]);
    }
    Ok(arguments)
}

/// A connection.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) redis: Redis,
    pub(super) nodes: Arc<Mutex<Nodes>>,
    pub(super) intake: Arc<Intake>,
    /// Whether the server has closed it because of an entry.
    pub(super) refused: Arc<watch::Sender<bool>>,
}

/// The hosts of a connection. A cluster has several.
#[derive(Default)]
pub(super) struct Nodes {
    pub(super) connected: Hosts,
    /// Those to which the secrets of the definition that has connected may not go.
    pub(super) refused: Hosts,
}

/// Some hosts: not more than a client may be connected to.
#[derive(Default)]
pub(super) struct Hosts(BTreeSet<String>);

impl Hosts {
    pub(super) fn insert(&mut self, host: &str) {
        if self.0.len() < SERVERS {
            self.0.insert(host.to_owned());
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &String> {
        self.0.iter()
    }
}

/// How long an entry whose connection was lost waits for the refusal of another entry, which the client reports at the same time.
const TIME_TO_REFUSE: Duration = Duration::from_millis(200);

/// Appends an entry. The reply with its id is the delivery.
pub(super) async fn append(link: Link, entry: Vec<String>, notice: &AnyNotice) -> Published {
    let Link { redis, refused, .. } = link;
    // A task, because the connection notices a stall only by a call that is waited for to its end.
    let call = tokio::spawn(async move { redis.command::<String>("XADD", &entry, "appending to the stream").await });
    let error = match call.await {
        Ok(Ok(id)) => {
            refused.send_if_modified(std::mem::take);
            notice.set_response(hiding::response("stored", &id));
            return Published::Ended(Ok(()));
        }
        Ok(Err(error)) => error,
        Err(error) => return Published::Ended(Err(error.into())),
    };
    if is_refusal(&error) {
        // Without its text, which may repeat a value or a secret.
        tracing::warn!("Redis has closed a connection because of an entry");
        refused.send_replace(true);
        return Published::Refused;
    }
    let class = class(&error);
    if class == ErrorClass::Network {
        let mut refusals = refused.subscribe();
        let refusal = timeout(TIME_TO_REFUSE, refusals.wait_for(|refused| *refused)).await;
        if let Ok(Ok(_)) = refusal {
            return Published::Refused;
        }
    }
    Published::Ended(Err(Failure::retry(error).class(class)))
}

/// Returns whether the server says that what it got is not the protocol, such as a text longer than its `proto-max-bulk-len`. It then closes the
/// connection. The client gives this reply to the entry that has waited longest, which need not be the one.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Redis { source, .. } if source.detail().is_some_and(|detail| detail.starts_with("Protocol error")))
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
