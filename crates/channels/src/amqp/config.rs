//! [`AmqpConfig`]: the shape of `handler_config`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use lapin::types::ShortString;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use solid_notify_core::definition::SecretRef;
use solid_notify_core::retry::read_duration;

use super::broker::Broker;
use crate::brokers::Current;
use crate::field::{SecretShape, parsed};
use crate::template::Template;

/// What definitions have in the column `handler`.
pub(super) const NAME: &str = "amqp";

/// The header that marks a test.
pub(super) const TEST: &str = "notify-test";

/// The `handler_config` of the channel `amqp`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AmqpConfig {
    /// The broker: a secret such as `amqps://user:password@host:5671/vhost`. A `/` in the name of the virtual host is written `%2f`;
    /// without a path it is `/`. `?heartbeat=` sets the seconds between heartbeats, 10 by default.
    #[schemars(with = "SecretShape")]
    pub(super) url: SecretRef,
    /// The exchange; empty: the default exchange, which routes to the queue that the routing key names. It must exist.
    #[serde(default)]
    pub(super) exchange: Name,
    /// The routing key, up to 255 bytes.
    pub(super) routing_key: Template,
    /// Headers of the message, as text.
    #[serde(default)]
    pub(super) headers: BTreeMap<Name, Template>,
    /// The body. Without it, the parameter as it is.
    #[serde(default)]
    pub(super) body: Option<Template>,
    /// The content type of the body.
    #[serde(default = "json")]
    pub(super) content_type: Name,
    /// Whether a message that no queue gets is a failure of the class `not_found`. Otherwise the broker drops it and confirms it.
    #[serde(default = "yes")]
    pub(super) mandatory: bool,
    /// Whether a durable queue keeps the message over a restart of the broker.
    #[serde(default = "yes")]
    pub(super) persistent: bool,
    /// How long the message may wait in a queue, such as `1h`. Then the broker drops it or makes it a dead letter of its own.
    #[serde(default)]
    pub(super) expiration: Option<Expiration>,
    /// The priority, for queues with `x-max-priority`.
    #[serde(default)]
    pub(super) priority: Option<u8>,
    /// The queue for replies, which must exist. A message that needs an ack (`need_confirm`) names it in `reply_to`.
    #[serde(default)]
    pub(super) reply_queue: Option<Name>,
    /// Secrets that templates can insert.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, SecretShape>")]
    pub(super) secrets: BTreeMap<String, SecretRef>,
}

/// A checked configuration, with the broker that it uses.
pub struct Prepared {
    pub(super) config: AmqpConfig,
    pub(super) broker: Current<Broker>,
}

fn json() -> Name {
    Name("application/json".to_owned())
}

fn yes() -> bool {
    true
}

impl AmqpConfig {
    /// Checks what concerns several fields.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.reply_queue.as_ref().is_some_and(|queue| queue.0.is_empty()) {
            return Err("reply_queue: the name is empty; leave the field out if consumers do not reply".to_owned());
        }
        if self.headers.keys().any(|name| name.0 == TEST) {
            return Err(format!("headers.{TEST}: this header marks a test; use another name"));
        }
        Ok(())
    }
}

/// A name of AMQP: up to 255 bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(pub(super) String);

impl Name {
    /// Returns it as the client wants it.
    pub(super) fn short(&self) -> Result<ShortString, String> {
        short(&self.0)
    }
}

/// Returns a text as the client wants it. Its own conversion panics on a longer text.
pub(super) fn short(text: &str) -> Result<ShortString, String> {
    ShortString::try_new(text).map_err(|_| format!("it has {} bytes; AMQP allows 255", text.len()))
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer, "a text of at most 255 bytes", |text| short(text).map(|_| Self(text.to_owned())))
    }
}

impl serde::Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl JsonSchema for Name {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": 255 })
    }
}

/// A duration in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Expiration(pub(super) Duration);

impl<'de> Deserialize<'de> for Expiration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer, "a duration such as \"1h\"", |text| {
            let duration = read_duration(text).map_err(|expected| format!("expected {expected}, got {text:?}"))?;
            // RabbitMQ refuses more than 32 bits of milliseconds.
            if duration.as_millis() > u128::from(u32::MAX) {
                return Err(format!("{text:?} is too long; RabbitMQ allows 49 days"));
            }
            Ok(Self(duration))
        })
    }
}

impl JsonSchema for Expiration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "duration" })
    }
}

#[cfg(test)]
mod tests {
    use solid_notify_core::definition::read_config;

    use super::*;

    #[test]
    fn mistakes_are_named_with_their_field() {
        let long = "x".repeat(256);
        for (fields, words) in [
            (r#""expiration":"5""#.to_owned(), &["expiration: ", "5s"][..]),
            (r#""expiration":"60d""#.to_owned(), &["expiration: ", "49 days"]),
            (format!(r#""exchange":"{long}""#), &["exchange: ", "256 bytes"]),
            (format!(r#""headers":{{"{long}":"x"}}"#), &["headers", "256 bytes"]),
            (r#""priority":256"#.to_owned(), &["priority: ", "256"]),
            (r#""routing":"x""#.to_owned(), &["routing", "routing_key"]),
        ] {
            let text = format!(r#"{{"url":"env:AMQP_URL","routing_key":"orders",{fields}}}"#);
            let problem = read_config::<AmqpConfig>(Some(&text)).map(drop).unwrap_err();
            assert!(words.iter().all(|word| problem.contains(word)), "{text}: {problem}");
        }
    }

    #[test]
    fn header_of_tests_cannot_be_configured() {
        let text = r#"{"url":"env:AMQP_URL","routing_key":"x","headers":{"notify-test":"true"}}"#;
        let problem = read_config::<AmqpConfig>(Some(text)).unwrap().check().unwrap_err();
        assert!(problem.starts_with("headers.notify-test: "), "{problem}");
    }

    #[test]
    fn literal_url_is_refused_without_showing_it() {
        let text = r#"{"url":"amqp://u:hunter2@host","routing_key":"x"}"#;
        let problem = read_config::<AmqpConfig>(Some(text)).map(drop).unwrap_err();
        assert!(problem.contains("env:NAME") && !problem.contains("hunter2"), "{problem}");
    }
}
