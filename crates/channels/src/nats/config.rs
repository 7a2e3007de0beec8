//! [`NatsConfig`]: the shape of `handler_config`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::FromStr;

use async_nats::HeaderName;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use solid_notify_core::definition::SecretRef;

use crate::field::{SecretShape, parsed};
use crate::template::Template;

/// The header that marks a test.
pub(super) const TEST: &str = "Notify-Test";

/// The `handler_config` of the channel `nats`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NatsConfig {
    /// The servers: a secret such as `nats://user:password@host:4222`, `nats://token@host` or `tls://host`; several of a cluster are
    /// separated by commas.
    #[schemars(with = "SecretShape")]
    pub(super) url: SecretRef,
    /// The content of a credentials file (JWT and NKey), as `nsc` writes it.
    #[serde(default)]
    #[schemars(with = "Option<SecretShape>")]
    pub(super) credentials: Option<SecretRef>,
    /// The subject. A stream must store it.
    pub(super) subject: Template,
    /// Headers of the message.
    #[serde(default)]
    pub(super) headers: BTreeMap<Header, Template>,
    /// The body. Without it, the parameter as it is.
    #[serde(default)]
    pub(super) body: Option<Template>,
    /// The stream that must store the message. Another one refuses it.
    #[serde(default)]
    pub(super) expected_stream: Option<Header>,
    /// Secrets that templates can insert.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, SecretShape>")]
    pub(super) secrets: BTreeMap<String, SecretRef>,
}

impl NatsConfig {
    /// Checks the names of headers.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.headers.keys().find(|name| name.0.eq_ignore_ascii_case(TEST)) {
            Some(name) => Err(format!("headers.{}: this header marks a test; use another name", name.0)),
            None => Ok(()),
        }
    }
}

/// A name as headers have it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Header(pub(super) String);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer, "a name", |text| match HeaderName::from_str(text) {
            Ok(_) if !text.is_empty() => Ok(Self(text.to_owned())),
            _ => Err(format!("{text:?} is no name: it is empty, or has a space, a colon or a control character")),
        })
    }
}

impl JsonSchema for Header {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Header".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1 })
    }
}

#[cfg(test)]
mod tests {
    use solid_notify_core::definition::read_config;

    use super::*;

    #[test]
    fn header_of_tests_cannot_be_configured() {
        let text = r#"{"url":"env:NATS_URL","subject":"orders","headers":{"notify-test":"true"}}"#;
        let problem = read_config::<NatsConfig>(Some(text)).unwrap().check().unwrap_err();
        assert!(problem.starts_with("headers.notify-test: "), "{problem}");
    }

    #[test]
    fn mistakes_are_named_with_their_field() {
        for (fields, words) in [
            (r#""headers":{"a b":"x"}"#, &["headers", "a b"][..]),
            (r#""expected_stream":"""#, &["expected_stream", "empty"]),
            (r#""stream":"x""#, &["stream", "expected_stream"]),
        ] {
            let text = format!(r#"{{"url":"env:NATS_URL","subject":"orders",{fields}}}"#);
            let problem = read_config::<NatsConfig>(Some(&text)).map(drop).unwrap_err();
            assert!(words.iter().all(|word| problem.contains(word)), "{text}: {problem}");
        }
    }
}
