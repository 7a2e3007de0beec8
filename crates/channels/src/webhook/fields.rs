//! The types of single fields of the configuration. Each checks its value when it is read, so that a mistake has its position.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use hyper::header::HeaderName;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use solid_notify_core::retry::read_duration;
use url::{Host, Url};

pub(super) use crate::field::SecretShape;
use crate::field::parsed;
use crate::tls;

/// Gives a type that is a text in JSON its schema with this format, and its reader.
macro_rules! text_field {
    ($name:ident, $format:literal, $parse:expr) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                parsed(deserializer, $format, $parse)
            }
        }
        shape!($name, { "type": "string", "format": $format });
    };
}

/// Gives a type its schema.
macro_rules! shape {
    ($name:ident, $schema:tt) => {
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

/// A duration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span(pub Duration);

text_field!(Span, "duration", |text| read_duration(text).map(Span).map_err(|expected| format!("expected {expected}")));

/// A URL without values to fill in.
#[derive(Debug, Clone)]
pub(super) struct Endpoint(pub Url);

text_field!(Endpoint, "URL", |text| endpoint(text).map(Endpoint));

/// Reads the URL of a receiver. An error does not contain it, because a URL may have a secret in it.
pub(super) fn endpoint(text: &str) -> Result<Url, String> {
    let url = Url::parse(text)
        .map_err(|error| format!("it is no URL: {error}; expected one such as \"https://shop.example.com/hook\""))?;
    tls::check(&url)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it has a user or password in it; use `auth`".to_owned());
    }
    match url.host_str() {
        // It is remembered, with what its receiver did.
        Some(host) if host.len() > HOST_LIMIT => {
            Err(format!("its host has {} bytes, more than the {HOST_LIMIT} of a name", host.len()))
        }
        Some(_) => Ok(url),
        None => Err("it has no host".to_owned()),
    }
}

/// The longest name of a host, with a dot at its end, in bytes (RFC 1035, 2.3.4).
const HOST_LIMIT: usize = 254;

/// A host, or with `*.` all hosts below a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostPattern {
    /// The domain, or the address in the form of a URL. Lower case, without a dot at its end.
    host: String,
    below: bool,
}

text_field!(HostPattern, "host, or *.domain", Self::read);

impl HostPattern {
    fn read(text: &str) -> Result<Self, String> {
        let (below, host) = text.strip_prefix("*.").map_or((false, text), |domain| (true, domain));
        match Host::parse(host) {
            Ok(Host::Domain(domain)) if !domain.contains('*') => {
                Ok(Self { host: without_dot(&domain).to_owned(), below })
            }
            Ok(address @ (Host::Ipv4(_) | Host::Ipv6(_))) if !below => Ok(Self { host: address.to_string(), below }),
            _ => Err(format!("{text:?} is neither a host such as `shop.example.com` nor `*.` with a domain behind it")),
        }
    }

    /// Returns whether a URL has such a host.
    pub(super) fn allows(&self, url: &Url) -> bool {
        let host = without_dot(url.host_str().unwrap_or_default());
        if !self.below {
            return host == self.host;
        }
        host.strip_suffix(&*self.host).is_some_and(|front| front.len() > 1 && front.ends_with('.'))
    }
}

fn without_dot(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

/// Headers that the channel or the HTTP client sets.
const OWN_HEADERS: &[&str] = &[
    "ack-token",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "webhook-id",
    "webhook-signature",
    "webhook-test",
    "webhook-timestamp",
];

/// The name of a header that a configuration sets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HeaderField(String);

text_field!(HeaderField, "header", Self::read);

impl HeaderField {
    fn read(text: &str) -> Result<Self, String> {
        let name: HeaderName = text.parse().map_err(|_| format!("{text:?} is no name of a header"))?;
        if OWN_HEADERS.contains(&name.as_str()) || name.as_str().starts_with("proxy-") {
            return Err(format!(
                "the header `{name}` is set by the channel or by the connection and cannot be configured"
            ));
        }
        Ok(Self(name.as_str().to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether its value is a secret by its very meaning.
    pub(super) fn is_secret(&self) -> bool {
        matches!(&*self.0, "authorization" | "cookie" | "api-key" | "x-api-key" | "x-auth-token")
    }
}

/// A status, or with `2xx` a hundred of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StatusPattern {
    first: u16,
    last: u16,
}

shape!(StatusPattern, { "type": ["integer", "string"] });

impl StatusPattern {
    pub(super) const SUCCESS: Self = Self { first: 200, last: 299 };

    fn one<E: Error>(status: u64) -> Result<Self, E> {
        match u16::try_from(status) {
            Ok(status @ 200..=599) => Ok(Self { first: status, last: status }),
            _ => Err(E::custom(format!("{status} is no status from 200 to 599"))),
        }
    }

    pub(super) fn contains(self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }
}

impl<'de> Deserialize<'de> for StatusPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StatusReader)
    }
}

struct StatusReader;

impl Visitor<'_> for StatusReader {
    type Value = StatusPattern;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a status such as 409, or \"2xx\" for a hundred of them")
    }

    fn visit_u64<E: Error>(self, status: u64) -> Result<StatusPattern, E> {
        StatusPattern::one(status)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<StatusPattern, E> {
        let hundred =
            text.strip_suffix("xx").and_then(|first| first.parse().ok()).filter(|first| (2..=5).contains(first));
        let hundred = hundred.map(|first: u16| StatusPattern { first: first * 100, last: first * 100 + 99 });
        match (hundred, text.parse()) {
            (Some(hundred), _) => Ok(hundred),
            (None, Ok(status)) => StatusPattern::one(status),
            (None, Err(_)) => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(pattern: &str, url: &str) -> bool {
        HostPattern::read(pattern).unwrap().allows(&Url::parse(url).unwrap())
    }

    #[test]
    fn pattern_of_a_host_allows_that_host_or_those_below_it() {
        assert!(allows("shop.example.com", "https://SHOP.example.com./x"));
        assert!(!allows("shop.example.com", "https://a.shop.example.com/"));
        assert!(allows("*.example.com", "https://a.b.example.com/"));
        for other in [
            "https://example.com/",
            "https://badexample.com/",
            "https://.example.com/",
            "https://example.com.evil.org/",
        ] {
            assert!(!allows("*.example.com", other), "{other}");
        }
        assert!(allows("[::1]", "http://[0:0::1]/") && allows("127.0.0.1", "http://0x7f.1/"));
        for wrong in ["", "*", "*.", "*.*.example.com", "a b", "*.10.0.0.1", "https://example.com", "example.com:80"] {
            assert!(HostPattern::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn host_is_no_longer_than_a_name_may_be() {
        let url = |length: usize| endpoint(&format!("http://{}.example.com/", "a".repeat(length)));
        assert!(url(200).is_ok());
        let error = url(500_000).unwrap_err();
        assert_eq!(error, "its host has 500012 bytes, more than the 254 of a name");
    }

    #[test]
    fn success_is_a_status_or_a_hundred() {
        let read = serde_json::from_str::<Vec<StatusPattern>>;
        let [two, one, text] = read(r#"["2xx", 409, "404"]"#).unwrap()[..] else { panic!() };
        assert!(
            two.contains(200) && two.contains(299) && !two.contains(300) && one.contains(409) && text.contains(404)
        );
        for wrong in ["[\"1xx\"]", "[100]", "[600]", "[-1]", "[\"x\"]", "[\"22xx\"]", "[2.5]", "[null]"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
