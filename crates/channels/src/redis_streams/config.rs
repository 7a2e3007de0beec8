//! [`RedisStreamsConfig`]: the shape of `handler_config`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use solid_notify_core::definition::SecretRef;

use crate::field::SecretShape;
use crate::template::Template;

/// The fields that the channel sets: the idempotency key, the name of the definition, the token where the receiver must ack, and the mark of a
/// test.
pub(super) const OWN_FIELDS: [&str; 4] = ["id", "definition", "ack_token", "test"];

/// The `handler_config` of the channel `redis_stream`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedisStreamsConfig {
    /// The server: a secret such as `redis://user:password@host:6379/0`, or `rediss://…` for TLS (feature `redis-tls`); of a cluster a
    /// few nodes, separated by commas.
    #[schemars(with = "SecretShape")]
    pub(super) url: SecretRef,
    /// The key of the stream. It is created with its first entry.
    pub(super) stream: Template,
    /// Fields of the entry, besides `id` and `definition`. Without it, the field `param` has the parameter.
    #[serde(default)]
    pub(super) fields: BTreeMap<String, Template>,
    /// About how many entries the stream keeps (`MAXLEN ~`). Without it and `minid`, it keeps all.
    #[serde(default)]
    pub(super) maxlen: Option<u64>,
    /// The stream drops about all entries before this id (`MINID ~`), such as `1767225600000`.
    #[serde(default)]
    pub(super) minid: Option<Template>,
    /// Secrets that templates can insert.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, SecretShape>")]
    pub(super) secrets: BTreeMap<String, SecretRef>,
}

impl RedisStreamsConfig {
    /// Checks what concerns several fields.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.maxlen.is_some() && self.minid.is_some() {
            return Err("maxlen, minid: a stream is trimmed by one of them; leave one out".to_owned());
        }
        match OWN_FIELDS.iter().find(|name| self.fields.contains_key(**name)) {
            Some(name) => Err(format!("fields.{name}: the channel sets this field itself; use another name")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use solid_notify_core::definition::read_config;

    use super::*;

    #[test]
    fn contradictions_are_named() {
        for (fields, word) in [
            (r#""maxlen":1,"minid":"1""#, "leave one out"),
            (r#""fields":{"id":"x"}"#, "fields.id"),
            (r#""fields":{"test":"x"}"#, "fields.test"),
        ] {
            let text = format!(r#"{{"url":"env:REDIS_URL","stream":"orders",{fields}}}"#);
            let config = read_config::<RedisStreamsConfig>(Some(&text)).unwrap();
            assert!(config.check().unwrap_err().contains(word), "{text}");
        }
    }
}
