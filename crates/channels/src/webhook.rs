//! [`Webhook`]: delivers notices to HTTP receivers, signed as Standard Webhooks.
//!
//! `config.rs` is the configuration, with `fields.rs` for single fields. `request.rs` composes a request, with `place.rs` for the values in its URL, `sign.rs` signs it, `auth.rs`
//! has credentials, `client.rs` the clients with certificates, and `receive.rs` what a response means.

mod auth;
mod builder;
mod client;
mod config;
#[cfg(test)]
#[cfg(feature = "tls")]
mod config_tests;
mod fields;
mod place;
mod prepared;
mod receive;
mod request;
mod shared;
mod sign;

use std::fmt;
use std::sync::Arc;

use chrono::Utc;
use hyper::header::{AUTHORIZATION, HeaderValue};
use solid_notify_core::definition::{ExposeSecret, SecretRef};
use solid_notify_core::{ErrorClass, Response};
use solid_notify_sweeper::{Failure, HandlerResult};
use tokio::time::Instant;
use url::{Position, Url};

pub use builder::WebhookBuilder;
pub use config::WebhookConfig;

use crate::channel::{AnyNotice, Channel};
use crate::computing;
use crate::hiding;
use crate::http::{self, Client, HandedBack, Keep, KeptHosts, Network};
use crate::secrets::Secrets;
use crate::tls;
use auth::{Auth, Authorization, KeptToken, OAuth2, TokenCache, Tokens};
use client::{Clients, TlsClient, TlsFiles};
pub use prepared::Prepared;
use request::Request;
use shared::Shared;

/// The channel `webhook`: an HTTP request for each notice. The chapter "Webhooks" of the book describes its configuration and results.
///
/// ```
/// # fn example(sweeper: solid_notify_sweeper::SweeperBuilder) -> Result<(), solid_notify_channels::ChannelError> {
/// use solid_notify_channels::{AllowedNetworks, ChannelExt, Webhook};
///
/// let networks = AllowedNetworks::new(["10.20.0.0/16"])?;
/// let sweeper = sweeper.channel(Webhook::builder().allow_networks(&networks).build()?);
/// # Ok(()) }
/// ```
pub struct Webhook {
    network: Network,
    /// For all definitions without certificates of their own.
    clients: Clients,
    /// For all definitions whose host comes from a template.
    kept_hosts: KeptHosts,
    tls: Shared<TlsFiles, TlsClient>,
    tokens: Shared<OAuth2, TokenCache>,
    handed_back: HandedBack,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("networks", &self.network.networks).finish_non_exhaustive()
    }
}

impl Channel for Webhook {
    const NAME: &'static str = "webhook";
    type Config = WebhookConfig;
    type Prepared = Prepared;

    fn prepare(&self, config: WebhookConfig) -> Result<Prepared, String> {
        let url = config.check()?;
        let networks = &self.network.networks;
        if let Some(host) = url.as_ref().and_then(Url::host_str) {
            networks.check_host(host).map_err(|refused| format!("url: {refused}"))?;
        }
        let tls = config.tls.as_ref().map(|files| self.tls.get(files));
        let token = match &config.auth {
            Some(Auth::OAuth2(client)) => {
                networks.check_host(client.host()).map_err(|refused| format!("auth.oauth2.token_url: {refused}"))?;
                Some(KeptToken::of(self.tokens.get(client)))
            }
            _ => None,
        };
        Ok(Prepared { config, url, tls, token })
    }

    fn secrets(prepared: &Prepared) -> Vec<SecretRef> {
        prepared.config.secrets()
    }

    async fn send(&self, prepared: &Prepared, notice: &AnyNotice) -> HandlerResult {
        let timeout = prepared.config.timeout.0;
        // Whichever ends first: the configuration's time or the definition's.
        let end = (Instant::now() + timeout).min(notice.ends());
        match tokio::time::timeout(timeout, self.deliver(prepared, notice, end)).await {
            Ok(result) => self.handed_back.once(notice, result),
            Err(_) => {
                let problem = format!("no response within the `timeout` of `handler_config`, {timeout:?}");
                Err(Failure::retry(problem).class(ErrorClass::Timeout).free_of_values())
            }
        }
    }
}

/// Returns what tells connections apart: the host with scheme and port, and the client.
fn client_and_host(url: &Url, tls: Option<&Arc<TlsClient>>) -> String {
    let client = tls.map_or(std::ptr::null(), Arc::as_ptr);
    format!("{client:?} {}", &url[..Position::BeforePath])
}

impl Webhook {
    async fn deliver(&self, prepared: &Prepared, notice: &AnyNotice, end: Instant) -> HandlerResult {
        let config = &prepared.config;
        let secrets = Secrets::read(notice, Self::secrets(prepared)).await?;
        let request = Request::new(prepared, notice, &secrets).await?;
        let host = request.url.host_str().unwrap_or_default();
        match &prepared.url {
            Some(_) => secrets.admit_all(host)?,
            None => secrets.check_all(host)?,
        }
        let networks = &self.network.networks;
        networks.check_host(host).map_err(|refused| Failure::retry(refused).class(ErrorClass::Invalid))?;
        if !config.has_one_receiver() {
            let port = request.url.port_or_known_default().unwrap_or_default();
            notice.is_for_one_of_many(&format!("{host}:{port}"))?;
        }
        // To the end of the response, because the connection is kept after it.
        let kept_host = match config.has_one_host() {
            true => None,
            false => self.kept_hosts.begin(client_and_host(&request.url, prepared.tls.as_ref())),
        };
        let keep = match &kept_host {
            _ if self.handed_back.has(notice) => Keep::None,
            _ if config.has_one_host() => Keep::Many,
            Some(_) => Keep::Few,
            None => Keep::None,
        };
        let client = self.client(prepared, &secrets, keep)?;
        let tokens = Tokens { kept: prepared.token.as_ref(), client: &client, secrets: &secrets, end };
        let mut authorization = match &config.auth {
            Some(auth) => Some(auth.authorization(&tokens, None).await?),
            None => None,
        };
        let mut response = self.exchange((prepared, notice), &request, &tokens, authorization.as_ref()).await?;
        if response.status() == 401
            && let Some(auth) = config.auth.as_ref().filter(|auth| auth.is_renewable())
        {
            authorization = Some(auth.authorization(&tokens, authorization.as_ref()).await?);
            response = self.exchange((prepared, notice), &request, &tokens, authorization.as_ref()).await?;
        }
        let status = response.status().as_u16();
        // A shutdown may end this while the body is read, so the status is reported before.
        notice.set_response(Response::new(status));
        let body = response.body(config.max_response_bytes, end).await;
        notice.set_response(receive::kept(status, &body, &hiding::hidden()));
        let is_success = config.success.iter().any(|pattern| pattern.contains(status));
        receive::judged(status, response.headers(), is_success, config.has_one_receiver())
    }

    /// Returns the client of a configuration.
    fn client(&self, prepared: &Prepared, secrets: &Secrets<'_>, keep: Keep) -> Result<Client, Failure> {
        match (&prepared.tls, &prepared.config.tls) {
            (Some(kept), Some(files)) => kept.get((&self.network, keep), files, secrets),
            _ => self.clients.get(keep, || {
                let tls = tls::config(tls::Certificates::default());
                let tls = tls.map_err(|problem| format!("the HTTP client of webhooks: {problem}"))?;
                Ok(self.network.client(keep, tls))
            }),
        }
    }

    /// Sends the request once, signed with the time of now.
    async fn exchange(
        &self,
        (prepared, notice): (&Prepared, &AnyNotice),
        request: &Request,
        Tokens { client, secrets, .. }: &Tokens<'_>,
        authorization: Option<&Authorization>,
    ) -> Result<http::Response, Failure> {
        let config = &prepared.config;
        let (mut headers, seconds) = (request.headers.clone(), Utc::now().timestamp());
        headers.insert("webhook-timestamp", seconds.into());
        if !config.signing_keys.is_empty() {
            let id = headers.get("webhook-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
            let (signer, body) = (sign::signer(&config.signing_keys, secrets)?, request.body.clone());
            let bytes = body.len() * config.signing_keys.len();
            let signature = computing::on(notice, bytes, move || signer.sign(&id, seconds, &body)).await?;
            headers.insert("webhook-signature", HeaderValue::try_from(signature).map_err(Failure::retry)?);
        }
        if let Some(authorization) = authorization {
            let mut value = HeaderValue::try_from(authorization.header.expose_secret()).map_err(|_| {
                Failure::retry("handler_config: auth: a secret has a character that no header may have")
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let sent = client.send(config.method.into(), &request.url, headers, request.body.clone());
        sent.await.map_err(|error| prepared.unanswered(error))
    }
}
