//! How the receiver recognises the sender: a bearer token, user and password, or a token of OAuth 2 that this file fetches and keeps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use solid_notify_core::ErrorClass;
use solid_notify_core::definition::{ExposeSecret, SecretRef, SecretString};
use solid_notify_sweeper::{Failure, HttpStatus};
use tokio::sync::Mutex;
use url::Url;

use super::client::Reference;
use super::fields::{Endpoint, SecretShape};
use super::receive;
use crate::hiding;
use crate::http::{self, Client};
use crate::secrets::Secrets;

/// How the receiver recognises the sender: one of these.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Auth {
    /// A token: `Authorization: Bearer …`.
    Bearer(#[schemars(with = "SecretShape")] Reference),
    /// A user and a password.
    Basic(Basic),
    /// A token of OAuth 2 by client credentials (RFC 6749, 4.4). It is kept until shortly before its end, and fetched again after a response
    /// with the status 401.
    #[serde(rename = "oauth2")]
    OAuth2(OAuth2),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Basic {
    /// The user.
    user: String,
    /// The password.
    #[schemars(with = "SecretShape")]
    password: Reference,
}

#[derive(Clone, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OAuth2 {
    /// Where tokens are fetched: an `https` or `http` URL. The same rules hold for its address as for the receiver's.
    #[schemars(with = "String")]
    token_url: TokenUrl,
    /// The name of the client.
    client_id: String,
    /// The secret of the client.
    #[schemars(with = "SecretShape")]
    client_secret: Reference,
    /// The scopes, separated by spaces.
    scope: Option<String>,
    /// The audience, for servers that ask for it.
    audience: Option<String>,
    /// Where the client's name and secret are in the request of a token: in a `header` (basic authentication) or in its `body`.
    #[serde(default)]
    credentials: Credentials,
}

/// An [`Endpoint`] as part of a key.
#[derive(Clone, PartialEq, Eq, Hash)]
struct TokenUrl(Url);

impl<'de> Deserialize<'de> for TokenUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Endpoint::deserialize(deserializer).map(|endpoint| Self(endpoint.0))
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Credentials {
    #[default]
    Header,
    Body,
}

/// The value of the header `authorization`, and the secrets in it.
pub(super) struct Authorization {
    pub(super) header: SecretString,
    pub(super) secrets: Vec<SecretString>,
}

impl Authorization {
    fn bearer(token: SecretString) -> Self {
        Self { header: format!("Bearer {}", token.expose_secret()).into(), secrets: vec![token] }
    }
}

impl Auth {
    /// Returns the authorization of an attempt. `tokens`: where the token of OAuth 2 is kept. `used`: a token that the receiver has just
    /// refused; it is fetched anew unless another attempt has done so.
    pub(super) async fn authorization(
        &self,
        tokens: &Tokens<'_>,
        used: Option<&Authorization>,
    ) -> Result<Authorization, Failure> {
        let authorization = match self {
            Self::Bearer(token) => Authorization::bearer(tokens.secrets.get(&token.0)?.clone()),
            Self::Basic(Basic { user, password }) => {
                let password = tokens.secrets.get(&password.0)?.clone();
                let encoded = STANDARD.encode(format!("{user}:{}", password.expose_secret()));
                Authorization { header: format!("Basic {encoded}").into(), secrets: vec![password, encoded.into()] }
            }
            Self::OAuth2(client) => client.token(tokens, used).await.map(Authorization::bearer)?,
        };
        hiding::note(&authorization.secrets);
        Ok(authorization)
    }

    /// Returns its secret.
    pub(super) fn secret(&self) -> &SecretRef {
        match self {
            Self::Bearer(Reference(secret)) | Self::Basic(Basic { password: Reference(secret), .. }) => secret,
            Self::OAuth2(client) => &client.client_secret.0,
        }
    }

    /// Returns whether another authorization can follow after a response with the status 401.
    pub(super) fn is_renewable(&self) -> bool {
        matches!(self, Self::OAuth2(_))
    }
}

/// A kept token.
struct Token {
    text: SecretString,
    /// When it is fetched anew; `None`: after a refusal.
    until: Option<Instant>,
}

/// The token of one client, for all definitions that have this client.
#[derive(Default)]
pub(super) struct TokenCache(parking_lot::Mutex<Option<Token>>);

/// The token as one definition uses it. Who fetches it holds the lock, so attempts of the definition that need it at the same time fetch it
/// once. Other definitions do not wait for that, because their way to the endpoint may be another one.
pub(super) struct KeptToken {
    pub(super) of_client: Arc<TokenCache>,
    fetching: Mutex<()>,
}

impl KeptToken {
    pub(super) fn of(client: Arc<TokenCache>) -> Self {
        Self { of_client: client, fetching: Mutex::default() }
    }
}

/// What fetching a token needs.
pub(super) struct Tokens<'a> {
    pub(super) kept: Option<&'a KeptToken>,
    pub(super) client: &'a Client,
    pub(super) secrets: &'a Secrets<'a>,
    /// When the attempt ends.
    pub(super) end: tokio::time::Instant,
}

/// The longest response of a token endpoint, in bytes.
const LONGEST_RESPONSE: usize = 64 * 1024;

/// How long a token is valid whose response does not say it.
const KEPT_BY_DEFAULT: Duration = Duration::from_secs(3600);

/// A response of a token endpoint (RFC 6749, 5.1).
#[derive(Deserialize)]
struct Granted {
    access_token: String,
    token_type: Option<String>,
    #[serde(default)]
    expires_in: Option<serde_json::Value>,
}

impl OAuth2 {
    /// Returns the host of the token endpoint.
    pub(super) fn host(&self) -> &str {
        self.token_url.0.host_str().unwrap_or_default()
    }

    async fn token(&self, tokens: &Tokens<'_>, used: Option<&Authorization>) -> Result<SecretString, Failure> {
        let usable = || {
            let kept = tokens.kept?.of_client.0.lock();
            let token = kept.as_ref().filter(|token| token.until.is_none_or(|until| Instant::now() < until))?;
            let refused = used.iter().flat_map(|used| &used.secrets);
            let is_refused = refused.into_iter().any(|text| text.expose_secret() == token.text.expose_secret());
            (!is_refused).then(|| token.text.clone())
        };
        if let Some(token) = usable() {
            return Ok(token);
        }
        let _fetching = match tokens.kept {
            Some(kept) => Some(kept.fetching.lock().await),
            None => None,
        };
        // Another attempt may have fetched it meanwhile.
        if let Some(token) = usable() {
            return Ok(token);
        }
        let token = self.fetch(tokens).await?;
        let text = token.text.clone();
        if let Some(kept) = tokens.kept {
            *kept.of_client.0.lock() = Some(token);
        }
        Ok(text)
    }

    async fn fetch(&self, tokens: &Tokens<'_>) -> Result<Token, Failure> {
        let failed = |problem: &str| Failure::retry(format!("the token endpoint {problem}")).free_of_values();
        let (headers, form) = self.request(tokens)?;
        let response = tokens.client.send(Method::POST, &self.token_url.0, headers, form).await;
        let mut response =
            response.map_err(|error| receive::unanswered("the token endpoint", error).free_of_values())?;
        let status = response.status().as_u16();
        if status != 200 {
            // RFC 6749 gives all refusals of a client the status 400 or 401. The body may repeat what was sent, so it is not shown.
            let class = if status == 400 { ErrorClass::Auth } else { HttpStatus(status).class() };
            return Err(failed(&format!("answered with the status {status}")).class(class));
        }
        let body = response.body(LONGEST_RESPONSE, tokens.end).await.complete();
        let body = body.map_err(|error| receive::unanswered("the token endpoint", error).free_of_values())?;
        let granted: Granted =
            serde_json::from_slice(&body).map_err(|_| failed("answered with something other than a token in JSON"))?;
        if granted.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Err(failed("granted a token of another type than `Bearer`"));
        }
        // One that is kept and that no header can have would fail each attempt of each definition of the client.
        if granted.access_token.is_empty() || !granted.access_token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(failed("granted a token that is empty or has a character that no header may have"));
        }
        let seconds = granted.expires_in.and_then(|value| value.as_u64().or_else(|| value.as_str()?.parse().ok()));
        let valid = seconds.map_or(KEPT_BY_DEFAULT, Duration::from_secs);
        let until = Instant::now().checked_add(kept_for(valid));
        Ok(Token { text: granted.access_token.into(), until })
    }

    /// Returns the headers and the form that ask for a token.
    fn request(&self, tokens: &Tokens<'_>) -> Result<(HeaderMap, String), Failure> {
        let secret = tokens.secrets.get(&self.client_secret.0)?;
        tokens.secrets.admit(self.host(), [&self.client_secret.0])?;
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        for (name, value) in [("scope", &self.scope), ("audience", &self.audience)] {
            if let Some(value) = value {
                form.append_pair(name, value);
            }
        }
        let mut headers = HeaderMap::from_iter([
            (ACCEPT, HeaderValue::from_static("application/json")),
            (CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded")),
        ]);
        match self.credentials {
            Credentials::Header => {
                // RFC 6749, 2.3.1: both are encoded as in a form before they become user and password.
                let encoded = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
                let basic = http::basic(&encoded(&self.client_id), &encoded(secret.expose_secret()));
                headers.insert(AUTHORIZATION, basic.map_err(Failure::retry)?);
            }
            Credentials::Body => {
                form.append_pair("client_id", &self.client_id).append_pair("client_secret", secret.expose_secret());
            }
        }
        Ok((headers, form.finish()))
    }
}

/// Returns for how long a token is used that is valid for this time: not to its very end, because a request travels.
fn kept_for(valid: Duration) -> Duration {
    valid.saturating_sub((valid / 5).min(Duration::from_secs(30)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_renewed_before_its_end() {
        assert_eq!(kept_for(Duration::from_secs(3600)), Duration::from_secs(3570));
        assert_eq!(kept_for(Duration::from_secs(60)), Duration::from_secs(48));
        assert_eq!(kept_for(Duration::ZERO), Duration::ZERO);
    }
}
