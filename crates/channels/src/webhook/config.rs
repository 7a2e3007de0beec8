//! [`WebhookConfig`]: the shape of `handler_config`, and the checks that concern several of its fields.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use solid_notify_core::definition::SecretRef;
use url::Url;

use super::auth::Auth;
use super::client::TlsFiles;
use super::fields::{HeaderField, HostPattern, SecretShape, Span, StatusPattern, endpoint};
use crate::template::{InUrl, Json, Template};

/// The configuration of a webhook.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookConfig {
    /// Where requests go: an `https` or `http` URL. Write values into it with `urlencode`: `https://shop.example.com/orders/{{ param.id | urlencode }}`.
    pub(super) url: Template<InUrl>,
    /// Which hosts the URL may have: exact ones, and `*.example.com` for all below a domain. Required where the URL is a template.
    #[serde(default)]
    pub(super) allow_hosts: Vec<HostPattern>,
    /// The method. With `GET` there is no body.
    #[serde(default)]
    pub(super) method: Method,
    /// More headers, by their names.
    #[serde(default)]
    pub(super) headers: BTreeMap<HeaderField, Template>,
    /// What the request contains. The default is the parameter as it was added.
    #[serde(default)]
    pub(super) body: Body,
    /// Keys of the signature: `whsec_` with Base64 behind it. Two of them while one is replaced; none: no signature.
    #[serde(default)]
    #[schemars(with = "Vec<SecretShape>")]
    pub(super) signing_keys: Vec<SecretRef>,
    /// How the receiver recognises the sender.
    pub(super) auth: Option<Auth>,
    /// Certificates of its own.
    pub(super) tls: Option<TlsFiles>,
    /// Secrets that templates use as `secrets.name`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, SecretShape>")]
    pub(super) secrets: BTreeMap<String, SecretRef>,
    /// How long a delivery may take, from the token to the status of the response. Keep it below the definition's `timeout`.
    #[serde(default = "usual_timeout")]
    #[schemars(default = "usual_timeout_text")]
    pub(super) timeout: Span,
    /// The longest body of a request, in bytes; at most 16 MiB.
    #[serde(default = "usual_request")]
    pub(super) max_request_bytes: usize,
    /// How much of a response is read, in bytes; at most 1 MiB.
    #[serde(default = "usual_response")]
    pub(super) max_response_bytes: usize,
    /// Which statuses are a success.
    #[serde(default = "usual_success")]
    #[schemars(default = "usual_success_text")]
    pub(super) success: Vec<StatusPattern>,
}

fn usual_timeout() -> Span {
    Span(Duration::from_secs(20))
}

fn usual_timeout_text() -> &'static str {
    "20s"
}

/// The largest `max_request_bytes`, `max_response_bytes` and number of `signing_keys`: each attempt under way has the memory, and signs its body with
/// each key.
const MOST_REQUEST: usize = 16 * 1024 * 1024;
const MOST_RESPONSE: usize = 1024 * 1024;
const MOST_KEYS: usize = 10;

fn usual_request() -> usize {
    1024 * 1024
}

fn usual_response() -> usize {
    64 * 1024
}

fn usual_success() -> Vec<StatusPattern> {
    vec![StatusPattern::SUCCESS]
}

fn usual_success_text() -> [&'static str; 1] {
    ["2xx"]
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, serde::Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Method {
    Get,
    #[default]
    Post,
    Put,
    Patch,
    Delete,
}

impl From<Method> for hyper::Method {
    fn from(method: Method) -> Self {
        match method {
            Method::Get => Self::GET,
            Method::Post => Self::POST,
            Method::Put => Self::PUT,
            Method::Patch => Self::PATCH,
            Method::Delete => Self::DELETE,
        }
    }
}

/// What a request contains.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Body {
    #[default]
    /// The parameter as it was added.
    Param,
    /// No body.
    None,
    /// The parameter as a CloudEvent 1.0; `{}` for the defaults.
    CloudEvents(CloudEvents),
    /// A template that makes JSON.
    Json(Template<Json>),
    /// A template that makes text. The header `content-type` may name another type.
    Text(Template),
    /// Fields of an HTML form, each a template.
    Form(BTreeMap<String, Template>),
}

/// A CloudEvent. Its `id` is the idempotency key, its `time` that of the insert.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CloudEvents {
    /// `structured`: one JSON object with all attributes. `binary`: attributes are headers, and the body is the parameter.
    #[serde(default)]
    pub(super) mode: CloudEventsMode,
    /// The attribute `source`, a URI reference. The default is `solid-notify`.
    pub(super) source: Option<Template>,
    /// The attribute `type`. The default is the name of the definition.
    #[serde(rename = "type")]
    pub(super) kind: Option<Template>,
    /// The attribute `subject`.
    pub(super) subject: Option<Template>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CloudEventsMode {
    #[default]
    Structured,
    Binary,
}

impl WebhookConfig {
    /// Checks what concerns several fields, and returns the URL if it is constant.
    pub(super) fn check(&self) -> Result<Option<Url>, String> {
        let url = match self.url.is_constant() {
            true => Some(endpoint(self.url.source()).map_err(|problem| format!("url: {problem}"))?),
            false if self.allow_hosts.is_empty() => {
                return Err("url: it is a template, so `allow_hosts` must list the hosts that it may have, such as \
                            [\"*.example.com\"]"
                    .to_owned());
            }
            false => None,
        };
        if url.as_ref().is_some_and(|url| !self.allows(url)) {
            return Err("url: its host is not in `allow_hosts`".to_owned());
        }
        if self.method == Method::Get && !matches!(self.body, Body::Param | Body::None) {
            return Err("body: a request with the method GET has none; use POST, PUT, PATCH or DELETE".to_owned());
        }
        for (header, value) in &self.headers {
            let name = header.as_str();
            if header.is_secret() && value.is_constant() {
                return Err(format!(
                    "headers.{name}: its value is a secret; use `auth`, or list it in `secrets` and write {{{{ secrets.name }}}}"
                ));
            }
            if name == "authorization" && self.auth.is_some() {
                return Err("headers.authorization: `auth` sets it, too; keep one of them".to_owned());
            }
        }
        for (field, value, most) in [
            ("max_request_bytes", self.max_request_bytes, MOST_REQUEST),
            ("max_response_bytes", self.max_response_bytes, MOST_RESPONSE),
        ] {
            if value > most {
                return Err(format!("{field}: expected at most {most}, but it is {value}"));
            }
        }
        if self.signing_keys.len() > MOST_KEYS {
            let problem = format!("expected at most {MOST_KEYS} keys, but there are {}", self.signing_keys.len());
            return Err(format!("signing_keys: {problem}"));
        }
        if self.success.is_empty() {
            return Err("success: it is empty, so no attempt could succeed; leave it out for \"2xx\"".to_owned());
        }
        if let Some(tls) = &self.tls {
            tls.check()?;
        }
        Ok(url)
    }

    /// Returns the secrets that are used with the receiver; that of OAuth 2 goes to the token endpoint.
    pub(super) fn secrets(&self) -> Vec<SecretRef> {
        let auth = self.auth.as_ref().map(|auth| auth.secret().clone());
        let tls = self.tls.iter().flat_map(TlsFiles::secrets);
        self.secrets.values().chain(&self.signing_keys).cloned().chain(auth).chain(tls).collect()
    }

    /// Returns whether host and path of the URL are the same for each notice.
    pub(super) fn has_one_receiver(&self) -> bool {
        let place = self.url.source().split(['?', '#']).next().unwrap_or_default();
        // Each mark of a template begins with it, and no URL has it.
        !place.contains('{')
    }

    /// Returns whether the host of the URL is the same for each notice.
    pub(super) fn has_one_host(&self) -> bool {
        let Some((scheme, rest)) = self.url.source().split_once("://") else { return false };
        // A URL may have more slashes there than two, and its blanks are left out.
        let rest = rest.trim_start_matches(|letter: char| matches!(letter, '/' | '\\') || letter.is_ascii_whitespace());
        let host = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
        !scheme.contains('{') && !host.contains('{')
    }

    /// Returns whether the URL's host is among those that the configuration lists.
    pub(super) fn allows(&self, url: &Url) -> bool {
        self.allow_hosts.is_empty() || self.allow_hosts.iter().any(|pattern| pattern.allows(url))
    }
}
