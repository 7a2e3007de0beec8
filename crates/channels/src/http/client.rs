//! [`Client`]: sends requests and reads responses, within limits. It follows no redirect, unpacks no body and keeps no cookie.

use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::client::legacy;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::percent_decode_str;
use solid_notify_core::error::BoxError;
use tokio::time::{Instant, timeout};
use url::Url;

use super::connect::{self, AGENT, Connector};
use super::meter::{Meter, ResponseInWork};

/// How long a connection is kept without a request.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest head of a response, in bytes.
const HEAD_BYTES: usize = 64 * 1024;

/// How much a receiver may send over a connection of HTTP/2 before it is read, in bytes.
#[cfg(feature = "tls")]
const WINDOW: u32 = 1024 * 1024;

/// How long before the end of an attempt the body of a response is not read any more, so that the attempt ends with the status: a tenth of the
/// time that is left, or this time.
const BEFORE_THE_END: Duration = Duration::from_secs(1);

/// An HTTP client. A clone is cheap and has the same connections.
#[derive(Clone)]
pub(crate) struct Client {
    hyper: legacy::Client<Connector, Full<Bytes>>,
    proxies: Arc<Matcher>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// `keep`: how many connections to a host are kept without a request.
    pub(super) fn new(connector: Connector, keep: usize, proxies: Arc<Matcher>) -> Self {
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(keep)
            .http1_max_buf_size(HEAD_BYTES);
        #[cfg(feature = "tls")]
        builder
            .http2_max_header_list_size(u32::try_from(HEAD_BYTES).unwrap_or(u32::MAX))
            .http2_initial_stream_window_size(WINDOW / 2)
            .http2_initial_connection_window_size(WINDOW);
        Self { hyper: builder.build(connector), proxies }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// There was no response. No error contains the URL.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> io::Result<Response> {
        let mut request = Request::new(Full::new(body.into()));
        *request.headers_mut() = headers;
        let headers = request.headers_mut();
        let uri: Uri = without_user(url, headers)?.as_str().parse().map_err(|_| failed(Unusable))?;
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        headers.entry(USER_AGENT).or_insert(AGENT);
        // A tunnel for `https` has its own request.
        let proxy = self.proxies.intercept(&uri).filter(|_| uri.scheme_str() == Some("http"));
        if let Some(authorization) = proxy.as_ref().and_then(|proxy| proxy.basic_auth()) {
            headers.insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        let mut sent = self.hyper.request(request.clone()).await;
        if sent.as_ref().is_err_and(|error| is_unprocessed(error)) {
            sent = self.hyper.request(request).await;
        }
        let response = sent.map_err(failed)?;
        if let Some(proxy) = proxy.filter(|_| response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED) {
            return Err(failed(NoEntry { proxy: connect::name(proxy.uri()) }));
        }
        let in_work = response.extensions().get::<Meter>().map(Meter::begin_response);
        let (head, body) = response.into_parts();
        // The client stops at a buffer of about this size, which may be up to twice as long.
        if head.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>() > HEAD_BYTES {
            return Err(failed(LongHead));
        }
        Ok(Response { status: head.status, headers: head.headers, body, _in_work: in_work })
    }
}

/// Returns a URL without its user and password, which become a header.
fn without_user<'a>(url: &'a Url, headers: &mut HeaderMap) -> io::Result<Cow<'a, Url>> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(Cow::Borrowed(url));
    }
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let authorization = basic(&decoded(url.username()), &decoded(url.password().unwrap_or_default()))?;
    headers.entry(AUTHORIZATION).or_insert(authorization);
    let mut url = url.clone();
    let removed = url.set_username("").and_then(|()| url.set_password(None));
    removed.map_err(|()| failed(Unusable))?;
    Ok(Cow::Owned(url))
}

/// Returns the value of the header `authorization` for a user and a password.
pub(crate) fn basic(user: &str, password: &str) -> io::Result<HeaderValue> {
    let encoded = STANDARD.encode(format!("{user}:{password}"));
    let mut value = HeaderValue::try_from(format!("Basic {encoded}")).map_err(failed)?;
    value.set_sensitive(true);
    Ok(value)
}

/// A URL that the library of URLs takes, and that of requests does not.
#[derive(Debug, thiserror::Error)]
#[error("the URL has a part that no request can have")]
struct Unusable;

/// The proxy wants other credentials. The receiver has not seen the request.
#[derive(Debug, thiserror::Error)]
#[error("no request through the proxy {proxy}: it answered with the status 407, so check user and password in its URL")]
struct NoEntry {
    proxy: String,
}

/// The head of a response has too many bytes.
#[derive(Debug, thiserror::Error)]
#[error("the head of the response has more than {HEAD_BYTES} bytes")]
struct LongHead;

/// Returns whether the receiver says that it has not looked at a request over HTTP/2, because it closes the connection or is busy.
#[cfg(feature = "tls")]
fn is_unprocessed(error: &(dyn Error + 'static)) -> bool {
    let says = |error: &h2::Error| {
        let closes = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
        let refuses = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
        error.is_remote() && (closes || refuses)
    };
    chain(error).any(|cause| cause.downcast_ref().is_some_and(says))
}

/// HTTP/1 has no way to say it.
#[cfg(not(feature = "tls"))]
fn is_unprocessed(_: &(dyn Error + 'static)) -> bool {
    false
}

/// Returns an error and its causes, also those within an `io::Error`.
pub(super) fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| {
        // The source of an `io::Error` is the source of the error inside it.
        let inside = (*error).downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inside.map(|inside| inside as &(dyn Error + 'static)).or_else(|| (*error).source())
    })
}

/// A response. Its body may still be on the way.
pub(crate) struct Response {
    status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    _in_work: Option<ResponseInWork>,
}

impl Response {
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Reads the body to its end or to `limit` bytes, until shortly before `end`, when the attempt ends. A receiver that sends more, sends
    /// slowly or breaks off is cut off, which says nothing of its success: that is in the status.
    pub(crate) async fn body(&mut self, limit: usize, end: Instant) -> Body {
        let mut bytes = Vec::new();
        let left = end.saturating_duration_since(Instant::now());
        let left = left.saturating_sub((left / 10).min(BEFORE_THE_END));
        let broken = match timeout(left, self.read(limit, &mut bytes)).await {
            Ok(read) => read.err(),
            Err(_) => Some(io::Error::new(io::ErrorKind::TimedOut, "the body of the response did not end in time")),
        };
        Body { is_cut: broken.is_some() || bytes.len() >= limit, bytes, broken }
    }

    async fn read(&mut self, limit: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
        while bytes.len() < limit {
            let Some(frame) = self.body.frame().await else { break };
            if let Ok(chunk) = frame.map_err(failed)?.into_data() {
                bytes.extend_from_slice(&chunk[..chunk.len().min(limit - bytes.len())]);
            }
        }
        Ok(())
    }
}

/// The body of a response, as far as it came.
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    /// Whether more may follow.
    pub(crate) is_cut: bool,
    /// Why it was not read to its end, or to the limit.
    broken: Option<io::Error>,
}

impl Body {
    #[cfg(all(test, feature = "plain-webhook"))]
    pub(crate) fn of(text: &str, is_cut: bool) -> Self {
        Self { bytes: text.as_bytes().to_vec(), is_cut, broken: None }
    }

    /// Returns the bytes, where the outcome is in the body and not in the status.
    ///
    /// # Errors
    /// The body broke off, or did not end in time.
    pub(crate) fn complete(self) -> io::Result<Vec<u8>> {
        self.broken.map_or(Ok(self.bytes), Err)
    }
}

/// Returns the error of a request. Its kind decides the class of the failure.
fn failed(source: impl Into<BoxError>) -> io::Error {
    let source = source.into();
    let timed_out = |cause: &(dyn Error + 'static)| {
        cause.downcast_ref().is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::TimedOut)
    };
    let kind = match chain(&*source).any(timed_out) {
        true => io::ErrorKind::TimedOut,
        // An untrusted certificate, too, because the receiver usually renews it.
        false => io::ErrorKind::ConnectionAborted,
    };
    io::Error::new(kind, source)
}
