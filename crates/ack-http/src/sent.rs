//! What a request contains: its token, and the reason of a nack. What becomes of it is left to `router`.

use axum::extract::RawPathParams;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName, header};
use serde::Deserialize;

use crate::answer::{Answer, CONTENT_TYPE, NO_TOKEN, REFUSED_TOKEN, SEVERAL_TOKENS, UNREADABLE};

const ACK_TOKEN: HeaderName = HeaderName::from_static("ack-token");

/// The fields of a body. It has no `Debug`, because a token is a secret.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    token: Option<String>,
    reason: Option<String>,
    description: Option<String>,
}

/// A request as it was understood.
pub(crate) struct Sent {
    pub(crate) token: String,
    /// Why a notice is nacked.
    pub(crate) reason: String,
}

impl Sent {
    /// Reads a request. A token in the path, in the header `ack-token` or in the body comes before one in the header `authorization`, which
    /// may be for a gateway.
    ///
    /// # Errors
    /// The response that says what is missing.
    pub(crate) fn read(path: Option<&str>, headers: &HeaderMap, body: &[u8]) -> Result<Self, Answer> {
        let Fields { token, reason, description } = fields(headers, body)?;
        let own = [path, only(headers, &ACK_TOKEN)?, token.as_deref()];
        let mut given = own.into_iter().flatten();
        let token = match (given.next(), given.next()) {
            (Some(token), None) => token,
            (Some(_), Some(_)) => return Err(SEVERAL_TOKENS),
            (None, _) => only(headers, &AUTHORIZATION)?.and_then(bearer).ok_or(NO_TOKEN)?,
        };
        let texts = [reason, description].into_iter().flatten().map(|text| text.trim().to_owned());
        let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
        let reason = if texts.is_empty() { "no reason given".to_owned() } else { texts.join(": ") };
        Ok(Self { token: token.to_owned(), reason })
    }
}

/// Returns the token of the path; `None` for a route without one.
///
/// # Errors
/// A path that is not UTF-8 has no valid token.
pub(crate) fn of_path<E>(params: Result<RawPathParams, E>) -> Result<Option<String>, Answer> {
    let params = params.map_err(|_| REFUSED_TOKEN)?;
    Ok(params.iter().find(|(name, _)| *name == "token").map(|(_, token)| token.to_owned()))
}

/// Returns the value of a header that may be there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Answer> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| REFUSED_TOKEN),
        (Some(_), Some(_)) => Err(SEVERAL_TOKENS),
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

fn fields(headers: &HeaderMap, body: &[u8]) -> Result<Fields, Answer> {
    if body.is_empty() {
        return Ok(Fields::default());
    }
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match content_type.as_str() {
        // The error of the parser may quote the token.
        "application/json" => serde_json::from_slice(body).map_err(|_| UNREADABLE),
        "application/x-www-form-urlencoded" => form(body),
        _ => Err(CONTENT_TYPE),
    }
}

fn form(body: &[u8]) -> Result<Fields, Answer> {
    let mut fields = Fields::default();
    for (name, value) in form_urlencoded::parse(body) {
        let field = match &*name {
            "token" => &mut fields.token,
            "reason" => &mut fields.reason,
            "description" => &mut fields.description,
            _ => return Err(UNREADABLE),
        };
        if field.replace(value.into_owned()).is_some() {
            return Err(UNREADABLE);
        }
    }
    Ok(fields)
}
