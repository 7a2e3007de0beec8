//! Chats: posts a text to the webhook of a group, and interprets the answer. [`Chat`] sends notices, and [`crate::AlertChannels`] alerts.
//!
//! The request format and the answers of each service are in a file of its own, without any I/O; this file is the shell
//! around them. A program adds a service of its own with [`ChatService`].

mod channel;
mod code;
mod cut;
mod ding_talk;
mod feishu;
mod sign;
mod slack;
mod we_com;

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use chrono::{DateTime, Utc};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::Value;
use solid_notify_core::Response;
use solid_notify_core::definition::SecretString;
use solid_notify_core::error::BoxError;
use solid_notify_sweeper::HttpStatus;
use tokio::time::{Instant, timeout};
use url::Url;

pub use channel::Chat;
pub use ding_talk::DingTalk;
pub use feishu::Feishu;
pub use slack::Slack;
pub use we_com::WeCom;

use crate::error::ChannelError;
use crate::hiding;
use crate::http::{self, Body, Client};
use crate::lookup::System;
use crate::tls;

/// Well below 30 s, the default `timeout` of a definition.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait after "too many requests" without a stated time.
const USUAL_DELAY: Duration = Duration::from_secs(60);
/// How many bytes of an answer are read.
const ANSWER_LIMIT: usize = 16 * 1024;
/// How many characters of an answer an error contains.
const EXCERPT: usize = 200;

/// A chat service: which request to post, and what its answers mean. [`DingTalk`], [`Feishu`], [`WeCom`] and [`Slack`] are
/// built in; a program can add others:
///
/// ```
/// use chrono::{DateTime, Utc};
/// use solid_notify_channels::{ChatResponse, ChatService, Post, ChatResult};
///
/// struct Teams { url: String }
///
/// impl ChatService for Teams {
///     fn post(&self, text: &str, _now: DateTime<Utc>) -> Post {
///         Post { url: self.url.clone(), body: serde_json::json!({ "text": text }) }
///     }
///     fn judge(&self, response: &ChatResponse<'_>) -> ChatResult {
///         if response.status == 200 { ChatResult::Accepted } else { ChatResult::Refused { reason: response.excerpt() } }
///     }
/// }
/// ```
pub trait ChatService: Send + Sync + 'static {
    /// Returns the request that posts this text, which may have several lines. The service cuts the text to its limit.
    fn post(&self, text: &str, now: DateTime<Utc>) -> Post;

    /// Returns what an answer means. It is not called for the status 429. An error status is a failure, whatever this
    /// returns.
    fn judge(&self, response: &ChatResponse<'_>) -> ChatResult;

    /// Returns texts to remove from error texts. The parts of the URL are removed in any case.
    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A `POST` request with a JSON body. `Debug` does not show the URL, because it is a secret. Exhaustive, because
/// the chat services of an application construct it.
pub struct Post {
    /// The target.
    pub url: String,
    /// The JSON body.
    pub body: Value,
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post").finish_non_exhaustive()
    }
}

/// The answer of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChatResponse<'a> {
    /// The HTTP status.
    pub status: u16,
    /// How long to wait, if a header says so.
    pub retry_after: Option<Duration>,
    /// The body, or its beginning.
    pub body: &'a str,
}

impl ChatResponse<'_> {
    /// Returns the beginning of the body in one line, for an error's text.
    pub fn excerpt(&self) -> String {
        let line = self.body.split_whitespace().collect::<Vec<_>>().join(" ");
        cut::cut(&line, EXCERPT, |_| 1)
    }
}

/// The meaning of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChatResult {
    /// The message is in the chat.
    Accepted,
    /// The service accepts no message now: try again after `delay`.
    TooOften {
        /// How long to wait.
        delay: Duration,
        /// The answer, for an error's text.
        reason: String,
    },
    /// The service refused the message.
    Refused {
        /// The answer, for an error's text.
        reason: String,
    },
}

/// A chat with a name for errors, which alerts use, too.
#[derive(Clone)]
pub(crate) struct NamedChat {
    pub(crate) name: String,
    service: Arc<dyn ChatService>,
}

impl NamedChat {
    pub(crate) fn new(name: String, service: impl ChatService) -> Self {
        Self { name, service: Arc::new(service) }
    }

    /// Checks the URL at the start, so that a mistake shows before the first alert.
    pub(crate) fn check(&self) -> Result<(), ChannelError> {
        let name = &self.name;
        let url = Url::parse(&self.service.post("", Utc::now()).url).map_err(|error| {
            ChannelError::setup_failed(format!("the URL of the chat `{name}` is no http or https URL"), error)
        })?;
        tls::check(&url).map_err(|problem| ChannelError::setup(format!("the URL of the chat `{name}`: {problem}")))
    }

    /// Posts a text. Returns the answer, if there was one, and the error, unless the chat has the text.
    /// `end`: when the attempt ends.
    pub(crate) async fn send(
        &self,
        client: &Client,
        text: &str,
        end: Instant,
    ) -> (Option<Response>, Result<(), ChannelError>) {
        let chat = self.name.clone();
        let post = self.service.post(text, Utc::now());
        let secrets = self.service.secrets().into_iter().chain([post.url.clone()]).map(SecretString::from);
        hiding::note(&secrets.collect::<Vec<_>>());
        let Answer { status, failure, retry_after, body } = match ask(client, &post, end).await {
            Ok(answer) => answer,
            Err(source) => return (None, Err(ChannelError::NoAnswer { chat, source })),
        };
        // Some services repeat an unknown token in their answer. It is removed before a part of the answer is taken.
        let (hidden, text) = (hiding::hidden(), String::from_utf8_lossy(&body.bytes).into_owned());
        let (is_cut, broken) = (body.is_cut, body.complete().err());
        let body = if is_cut { hidden.clean_beginning(&text) } else { hidden.clean(&text) };
        let response = ChatResponse { status: status.as_u16(), retry_after, body: &body };
        let result = match status {
            StatusCode::TOO_MANY_REQUESTS => {
                ChatResult::TooOften { delay: retry_after.unwrap_or(USUAL_DELAY), reason: response.excerpt() }
            }
            _ => self.service.judge(&response),
        };
        let result = match (result, broken) {
            (ChatResult::Accepted, _) if status.is_success() => Ok(()),
            // Most services answer each message with the same status, and say in the body what became of it.
            (_, Some(source)) if status.is_success() => Err(ChannelError::NoAnswer { chat, source: source.into() }),
            (ChatResult::Accepted, _) => {
                let reason = format!("{status}: {}", response.excerpt());
                Err(ChannelError::Refused { chat, reason, source: failure })
            }
            (ChatResult::TooOften { delay, reason }, _) => Err(ChannelError::TooOften { chat, delay, reason }),
            (ChatResult::Refused { reason }, _) => Err(ChannelError::Refused { chat, reason, source: failure }),
        };
        (Some(Response::new(status.as_u16()).body(body)), result)
    }
}

/// What a service answered.
struct Answer {
    status: StatusCode,
    /// The error of an error status, for its class.
    failure: Option<BoxError>,
    retry_after: Option<Duration>,
    body: Body,
}

/// Posts a message, within a time.
///
/// # Errors
/// There was no answer. The error does not contain the URL, which is the secret of most services.
async fn ask(client: &Client, post: &Post, end: Instant) -> Result<Answer, BoxError> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {TIMEOUT:?}"));
    let end = end.min(Instant::now() + TIMEOUT);
    timeout(TIMEOUT, exchange(client, post, end)).await.map_err(late)?
}

async fn exchange(client: &Client, post: &Post, end: Instant) -> Result<Answer, BoxError> {
    let url = Url::parse(&post.url)?;
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    let mut response = client.send(Method::POST, &url, headers, serde_json::to_vec(&post.body)?).await?;
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    Ok(Answer {
        status,
        failure: is_error.then(|| HttpStatus(status.as_u16()).into()),
        retry_after: wait(response.headers()),
        // An answer is usually one line; a longer one is not read to its end.
        body: response.body(ANSWER_LIMIT, end).await,
    })
}

/// Makes the HTTP client for the chats of alerts, which the program itself names.
pub(crate) fn client() -> Result<Client, ChannelError> {
    Ok(http::client_of_the_program(Arc::new(System), tls()?))
}

fn tls() -> Result<tls::Config, ChannelError> {
    let config = tls::config(tls::Certificates::default());
    config.map_err(|problem| ChannelError::setup(format!("the HTTP client for chats: {problem}")))
}

/// Returns how long to wait: from the standard header, or the seconds from that of Feishu's gateway.
fn wait(headers: &HeaderMap) -> Option<Duration> {
    let seconds = || headers.get("x-ogw-ratelimit-reset")?.to_str().ok()?.trim().parse().ok();
    http::retry_after(headers).or_else(|| seconds().map(Duration::from_secs))
}

/// Puts the keyword that a robot requires in each message before the text.
fn with_keyword(keyword: Option<&str>, text: &str) -> String {
    keyword.map_or_else(|| text.to_owned(), |keyword| format!("{keyword}\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(service: &dyn ChatService, status: u16, body: &str) -> ChatResult {
        service.judge(&ChatResponse { status, retry_after: None, body })
    }

    #[test]
    fn an_http_200_with_a_code_of_failure_is_a_failure() {
        let cases: [(&dyn ChatService, &str, &str); 4] = [
            (&DingTalk::new("u"), r#"{"errcode":310000,"errmsg":"sign not match"}"#, "errcode 310000: sign not match"),
            (
                &WeCom::new("u"),
                r#"{"errcode":93000,"errmsg":"invalid webhook url"}"#,
                "errcode 93000: invalid webhook url",
            ),
            (&Feishu::new("u"), r#"{"code":19021,"msg":"sign match fail"}"#, "code 19021: sign match fail"),
            (&DingTalk::new("u"), "<html>sign in</html>", "no `errcode` in the answer <html>sign in</html>"),
        ];
        for (service, body, reason) in cases {
            assert_eq!(judged(service, 200, body), ChatResult::Refused { reason: reason.to_owned() });
        }
    }

    #[test]
    fn a_message_that_a_service_accepts_is_delivered() {
        assert_eq!(judged(&DingTalk::new("u"), 200, r#"{"errcode":0,"errmsg":"ok"}"#), ChatResult::Accepted);
        assert_eq!(judged(&WeCom::new("u"), 200, r#"{"errcode":0,"errmsg":"ok"}"#), ChatResult::Accepted);
        assert_eq!(judged(&Feishu::new("u"), 200, r#"{"code":0,"msg":"success","data":{}}"#), ChatResult::Accepted);
        assert_eq!(judged(&Slack::new("u"), 200, "ok"), ChatResult::Accepted);
    }

    #[test]
    fn a_throttled_sender_waits_as_long_as_the_service_shuts_it_out() {
        let cases: [(&dyn ChatService, &str, u64); 4] = [
            (&DingTalk::new("u"), r#"{"errcode":130101,"errmsg":"send too fast"}"#, 600),
            (&WeCom::new("u"), r#"{"errcode":45009,"errmsg":"api freq out of limit"}"#, 60),
            (&Feishu::new("u"), r#"{"code":11232,"msg":"frequency limited"}"#, 60),
            (&Feishu::new("u"), r#"{"code":99991400,"msg":"request trigger frequency limit"}"#, 60),
        ];
        for (service, body, seconds) in cases {
            let result = judged(service, 200, body);
            assert!(
                matches!(result, ChatResult::TooOften { delay, .. } if delay == Duration::from_secs(seconds)),
                "{result:?}"
            );
        }
    }

    #[test]
    fn header_sets_the_delay() {
        let mut headers = HeaderMap::new();
        assert_eq!(wait(&headers), None);
        headers.insert("x-ogw-ratelimit-reset", "52".parse().unwrap());
        assert_eq!(wait(&headers), Some(Duration::from_secs(52)));
        headers.insert("retry-after", "7".parse().unwrap());
        assert_eq!(wait(&headers), Some(Duration::from_secs(7)));
    }

    #[test]
    fn nothing_shows_a_secret_in_debug() {
        let url = "https://chat.example/hook/t0ken";
        let shown = [
            format!("{:?}", DingTalk::new(url).secret("SEC1")),
            format!("{:?}", Feishu::new(url).secret("SEC1")),
            format!("{:?}", WeCom::new(url)),
            format!("{:?}", Slack::new(url)),
            format!("{:?}", Slack::new(url).post("x", Utc::now())),
        ];
        assert!(shown.iter().all(|text| !text.contains("t0ken") && !text.contains("SEC1")), "{shown:?}");
    }
}
