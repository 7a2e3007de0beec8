//! [`SecretShape`]: how a schema shows a secret. [`parsed`]: reads a field of a `handler_config` from a text, so that a mistake has the position of its field.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserializer;
use serde::de::{Error, Visitor};

/// Reads a text by `parse`. serde_json adds a position only to errors of a visitor, so a type that deserialises a `String` first and
/// then checks it would lose the position.
///
/// # Errors
/// What `parse` returns, or that `expected` is expected.
pub(crate) fn parsed<'de, D, T, F>(deserializer: D, expected: &'static str, parse: F) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    F: FnOnce(&str) -> Result<T, String>,
{
    deserializer.deserialize_str(Parser { expected, parse, result: PhantomData })
}

struct Parser<T, F> {
    expected: &'static str,
    parse: F,
    result: PhantomData<fn() -> T>,
}

impl<T, F: FnOnce(&str) -> Result<T, String>> Visitor<'_> for Parser<T, F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
}

/// The shape of a `SecretRef` in a schema.
pub(crate) struct SecretShape;

impl JsonSchema for SecretShape {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "secret (env:NAME or file:/path)", "pattern": "^(env:|file:/)" })
    }
}
