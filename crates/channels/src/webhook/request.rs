//! The request of an attempt: URL, headers and body, from the configuration and the notice. It opens no connection.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Serialize;
use serde_json::value::RawValue;
use solid_notify_core::ErrorClass;
use solid_notify_core::definition::SecretRef;
use solid_notify_sweeper::Failure;
use tokio::sync::OnceCell;
use url::Url;

use super::config::{Body, CloudEvents, CloudEventsMode, Method, WebhookConfig};
use super::fields::endpoint;
use super::place;
use super::prepared::Prepared;
use crate::channel::{AnyNotice, ack_token_if_keys};
use crate::computing;
use crate::secrets::Secrets;
use crate::template::{Escape, OUTPUT_LIMIT, Template, Values};

/// A request without what depends on the time and on the token of the receiver.
pub(super) struct Request {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// What a value of a CloudEvent in a header is encoded with (HTTP binding, 3.1.3.2); beside these all that is not ASCII.
const IN_HEADER: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

impl Request {
    /// Composes the request of this notice.
    ///
    /// # Errors
    /// A template that cannot be filled in, a URL or a header that is none, a body that is too long: of the class `invalid`, because the
    /// same parameter fails again. No error contains a value.
    pub(super) async fn new(prepared: &Prepared, notice: &AnyNotice, secrets: &Secrets<'_>) -> Result<Self, Failure> {
        let config = &prepared.config;
        let filling = Filling {
            notice,
            secrets: (&config.secrets, secrets),
            ack_token: ack_token_if_keys(notice)?,
            values: OnceCell::new(),
        };
        let url = match &prepared.url {
            Some(url) => url.clone(),
            None => filled_url(prepared, &filling).await?,
        };
        let mut headers = HeaderMap::new();
        let body = body(config, &filling, &mut headers).await?;
        check_length(body.len(), config)?;
        let mut left = OUTPUT_LIMIT;
        for (name, template) in &config.headers {
            let name = name.as_str();
            let value = filling.text_within(left, template, &format!("headers.{name}")).await?;
            left = left.saturating_sub(value.len());
            set(&mut headers, name, &value)?;
        }
        set(&mut headers, "webhook-id", &notice.idempotency_key())?;
        if notice.is_test() {
            set(&mut headers, "webhook-test", "true")?;
        }
        if let Some(token) = &filling.ack_token {
            set(&mut headers, "ack-token", token)?;
        }
        Ok(Self { url, headers, body: body.into_owned().into() })
    }
}

/// Fills in templates. The values are read when the first template needs them.
struct Filling<'a> {
    notice: &'a AnyNotice,
    secrets: (&'a BTreeMap<String, SecretRef>, &'a Secrets<'a>),
    ack_token: Option<String>,
    values: OnceCell<Values<'a>>,
}

impl<'a> Filling<'a> {
    async fn text<'t, E: Escape>(&self, template: &'t Template<E>, field: &str) -> Result<Cow<'t, str>, Failure> {
        self.text_within(OUTPUT_LIMIT, template, field).await
    }

    async fn text_within<'t, E: Escape>(
        &self,
        limit: usize,
        template: &'t Template<E>,
        field: &str,
    ) -> Result<Cow<'t, str>, Failure> {
        if template.is_constant() {
            return Ok(template.source().into());
        }
        template.render_within(limit, field, self.values().await?).await.map(Cow::Owned)
    }

    async fn values(&self) -> Result<&Values<'a>, Failure> {
        self.values.get_or_try_init(async || Values::new(self.notice, self.ack_token.clone(), self.secrets)).await
    }
}

fn invalid(problem: String) -> Failure {
    Failure::retry(problem).class(ErrorClass::Invalid)
}

/// Checks the length of a body, or of a part of it.
fn check_length(bytes: usize, config: &WebhookConfig) -> Result<(), Failure> {
    if bytes <= config.max_request_bytes {
        return Ok(());
    }
    let most = config.max_request_bytes;
    Err(invalid(format!("the body has {bytes} bytes, more than `max_request_bytes` of `handler_config` ({most})")))
}

async fn filled_url(prepared: &Prepared, filling: &Filling<'_>) -> Result<Url, Failure> {
    let marked = filling.text(&prepared.config.url, "url").await?;
    let failed =
        |problem: &str| invalid(format!("handler_config: the URL that the template `url` makes is refused: {problem}"));
    // `urlencode` leaves dots and slashes as they are, and a URL is normalised. A value must not lead to another path.
    let placed = place::placed(&marked).map_err(failed)?;
    let url = endpoint(&placed.text).map_err(|problem| failed(&problem))?;
    if placed.segments.is_some_and(|segments| url.path_segments().is_none_or(|path| path.count() != segments)) {
        return Err(failed("its path has other segments than the template"));
    }
    if !prepared.config.allows(&url) {
        return Err(failed("its host is not in `allow_hosts`"));
    }
    if !filling.secrets.0.is_empty() {
        // Name servers learn the host before anything is sent.
        let others = filling.values().await?.with_other_secrets(filling.secrets.0);
        let other = prepared.config.url.render("url", &others).await.ok();
        let other = other.and_then(|marked| endpoint(&place::placed(&marked).ok()?.text).ok());
        if other.is_none_or(|other| other.host() != url.host()) {
            return Err(failed("its host depends on a secret"));
        }
    }
    Ok(url)
}

/// Sets a header. A line end, by which a value could begin another header, is refused.
fn set(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), Failure> {
    let (Ok(field), Ok(mut value)) = (name.parse::<HeaderName>(), HeaderValue::from_bytes(value.as_bytes())) else {
        return Err(invalid(format!("handler_config: the value for the header `{name}` has a control character")));
    };
    value.set_sensitive(true);
    headers.insert(field, value);
    Ok(())
}

async fn body<'a>(
    config: &'a WebhookConfig,
    filling: &Filling<'a>,
    headers: &mut HeaderMap,
) -> Result<Cow<'a, str>, Failure> {
    if config.method == Method::Get {
        return Ok(Cow::Borrowed(""));
    }
    // A body that is only a little too long is reported with its length.
    let limit = config.max_request_bytes.max(OUTPUT_LIMIT);
    let (kind, text) = match &config.body {
        Body::None => return Ok(Cow::Borrowed("")),
        Body::Param => ("application/json", filling.notice.raw_param().into()),
        Body::Json(template) => {
            let text = filling.text_within(limit, template, "body.json").await?.into_owned();
            let bytes = text.len();
            let check = move || serde_json::from_str::<&RawValue>(&text).map(drop).map(|()| text);
            let text = computing::on(filling.notice, bytes, check).await?.map_err(|error| {
                invalid(format!(
                    "handler_config: what the template `body.json` makes is no JSON: line {} column {}",
                    error.line(),
                    error.column()
                ))
            })?;
            ("application/json", text.into())
        }
        Body::Text(template) => ("text/plain; charset=utf-8", filling.text_within(limit, template, "body.text").await?),
        Body::Form(fields) => {
            let (mut values, mut bytes) = (Vec::new(), 0);
            for (name, template) in fields {
                let value = filling.text_within(limit, template, &format!("body.form.{name}")).await?;
                bytes += value.len();
                check_length(bytes, config)?;
                values.push((name.clone(), value.into_owned()));
            }
            let encode = move || {
                let mut form = url::form_urlencoded::Serializer::new(String::new());
                form.extend_pairs(values);
                form.finish()
            };
            ("application/x-www-form-urlencoded", computing::on(filling.notice, bytes, encode).await?.into())
        }
        Body::CloudEvents(event) => cloud_event(event, filling, headers).await?,
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(text)
}

/// A CloudEvent in structured mode (JSON format 1.0).
#[derive(Serialize)]
struct Event<'a> {
    specversion: &'static str,
    id: String,
    source: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<Cow<'a, str>>,
    time: String,
    datacontenttype: &'static str,
    data: &'a RawValue,
}

/// Returns an attribute of a CloudEvent: what the template makes, or the usual text.
async fn attribute<'a>(
    filling: &Filling<'_>,
    field: &str,
    template: Option<&'a Template>,
    usual: &'a str,
) -> Result<Cow<'a, str>, Failure> {
    let path = format!("body.cloud_events.{field}");
    let text = match template {
        Some(template) => filling.text(template, &path).await?,
        None => Cow::Borrowed(usual),
    };
    if text.is_empty() {
        return Err(invalid(format!("handler_config: what the template `{path}` makes is empty")));
    }
    Ok(text)
}

async fn cloud_event<'a>(
    event: &'a CloudEvents,
    filling: &Filling<'a>,
    headers: &mut HeaderMap,
) -> Result<(&'static str, Cow<'a, str>), Failure> {
    let source = attribute(filling, "source", event.source.as_ref(), "solid-notify").await?;
    let kind = attribute(filling, "type", event.kind.as_ref(), filling.notice.definition()).await?;
    let subject = match &event.subject {
        Some(subject) => Some(attribute(filling, "subject", Some(subject), "").await?),
        None => None,
    };
    let notice = filling.notice;
    let time = notice.created().to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    if event.mode == CloudEventsMode::Binary {
        let (id, version) = (notice.idempotency_key(), "1.0");
        let attributes = [("specversion", version), ("id", &id), ("source", &source), ("type", &kind), ("time", &time)];
        for (name, value) in attributes.into_iter().chain(subject.as_deref().map(|subject| ("subject", subject))) {
            set(headers, &format!("ce-{name}"), &utf8_percent_encode(value, IN_HEADER).to_string())?;
        }
        return Ok(("application/json", notice.raw_param().into()));
    }
    let event = Event {
        specversion: "1.0",
        id: notice.idempotency_key(),
        source,
        kind,
        subject,
        time,
        datacontenttype: "application/json",
        data: notice.param(),
    };
    let text = serde_json::to_string(&event).map_err(|_| invalid("the parameter is not JSON".to_owned()))?;
    Ok(("application/cloudevents+json; charset=utf-8", text.into()))
}
