//! [`AckRouter`]: the routes, what their users set, and the path of a request.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{ConnectInfo, DefaultBodyLimit, FromRequest, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::{MethodRouter, post};
use governor::clock::MonotonicClock;
use solid_notify_core::{AnyOutbox, Error};
use tokio::time::timeout;

use crate::answer::{
    Answer, FAILED, METHOD_NOT_ALLOWED, REFUSED_TOKEN, TOO_LARGE, TOO_SLOW, UNAVAILABLE, UNREADABLE, Verb, limited,
    replied,
};
use crate::limits::Limits;
use crate::page;
use crate::sent::{Sent, of_path};

type FindPeer = Arc<dyn Fn(&Parts) -> Option<IpAddr> + Send + Sync>;

/// The routes by which receivers ack and nack, with their limits. [The crate](crate) shows an example.
///
/// Set the secrets of tokens with [`AnyOutbox::use_token_keys`]; without them each request is answered with 500.
#[derive(Clone)]
pub struct AckRouter {
    outbox: AnyOutbox,
    per_process: u32,
    per_peer: u32,
    body_limit: usize,
    time_limit: Duration,
    /// `None`: by the connection.
    peer: Option<FindPeer>,
}

impl std::fmt::Debug for AckRouter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AckRouter")
            .field("requests_per_second", &self.per_process)
            .field("requests_per_second_of_peer", &self.per_peer)
            .field("body_limit", &self.body_limit)
            .field("time_limit", &self.time_limit)
            .finish_non_exhaustive()
    }
}

impl AckRouter {
    /// Creates the routes for the notices of an outbox, of any store.
    pub fn new(outbox: &AnyOutbox) -> Self {
        Self {
            outbox: outbox.clone(),
            per_process: 1000,
            per_peer: 100,
            body_limit: 16 * 1024,
            time_limit: Duration::from_secs(10),
            peer: None,
        }
    }

    /// How many requests with a valid token this process accepts per second; 0: any number. Default: 1000. Requests with invalid
    /// tokens do not count, so they cannot use up this limit.
    #[must_use]
    pub fn requests_per_second(mut self, limit: u32) -> Self {
        self.per_process = limit;
        self
    }

    /// How many requests this process accepts per second from a peer: an IPv4 address, or the /64 network of an IPv6 address; 0: any
    /// number. Default: 100. Without any address of a peer the limit is not in force: serve with
    /// `into_make_service_with_connect_info::<SocketAddr>()`, or set [`Self::peer_by`].
    #[must_use]
    pub fn requests_per_second_of_peer(mut self, limit: u32) -> Self {
        self.per_peer = limit;
        self
    }

    /// How the address of a peer is found. Default: the address of the connection. Behind a proxy that is the proxy's, so set a function that
    /// reads the header in which your proxy puts the address; only a proxy that replaces this header can be trusted. Where the function finds
    /// none, the address of the connection counts, and the first such request is logged.
    #[must_use]
    pub fn peer_by(mut self, find: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        self.peer = Some(Arc::new(find));
        self
    }

    /// The greatest size of a body in bytes. Default: 16 KiB.
    #[must_use]
    pub fn body_limit(mut self, bytes: usize) -> Self {
        self.body_limit = bytes;
        self
    }

    /// How long a body may take to arrive, and then the store to store the reply. Default: 10 s for each.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Returns the routes. Nest them below a path of the application's own router, or serve them alone. Clones of the routes share the
    /// limits.
    pub fn into_router<S: Clone + Send + Sync + 'static>(self) -> Router<S> {
        let body_limit = DefaultBodyLimit::max(self.body_limit);
        let limits = Limits::new(self.per_process, self.per_peer, MonotonicClock);
        Router::new()
            .route("/ack", route(Verb::Ack))
            .route("/nack", route(Verb::Nack))
            .route("/ack/{token}", route(Verb::Ack).get(async || page::of_ack()))
            .route("/nack/{token}", route(Verb::Nack).get(async || page::of_nack()))
            .layer(body_limit)
            .with_state(Arc::new(Shared { settings: self, limits, has_warned: AtomicBool::new(false) }))
    }
}

struct Shared {
    settings: AckRouter,
    limits: Limits,
    /// That a request had no address where the settings look for it.
    has_warned: AtomicBool,
}

type PathParams = Result<RawPathParams, RawPathParamsRejection>;

fn route(verb: Verb) -> MethodRouter<Arc<Shared>> {
    let reply = async move |State(shared): State<Arc<Shared>>, path: PathParams, request: Request| {
        let for_people = is_for_people(request.headers());
        shared.reply(verb, path, request).await.unwrap_or_else(|refused| refused).response(for_people)
    };
    post(reply).fallback(async |headers: HeaderMap| METHOD_NOT_ALLOWED.response(is_for_people(&headers)))
}

/// Returns true for browsers, and false for programs, which accept anything or JSON.
fn is_for_people(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| kind.trim_start().starts_with("text/html"))
}

impl Shared {
    /// Returns the address for which a request counts.
    fn peer(&self, parts: &Parts) -> Option<IpAddr> {
        let by_settings = self.settings.peer.as_ref().map(|find| find(parts));
        if by_settings == Some(None) && !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "an ack came without a readable address of its sender where the settings look for it (peer_by, or peer_header of \
                 `solid-notify serve`); such requests count for the address of the connection"
            );
        }
        let by_connection = || parts.extensions.get().map(|ConnectInfo::<SocketAddr>(peer)| peer.ip());
        by_settings.flatten().or_else(by_connection)
    }

    /// Stores a reply. Reads the token before it counts the request for the limit of the process and calls the store.
    async fn reply(&self, verb: Verb, path: PathParams, request: Request) -> Result<Answer, Answer> {
        let (parts, body) = request.into_parts();
        if let Some(peer) = self.peer(&parts) {
            self.limits.check_peer(peer).map_err(limited)?;
        }
        let path = of_path(path)?;
        let headers = parts.headers.clone();
        let body = Bytes::from_request(Request::from_parts(parts, body), &());
        let body = timeout(self.settings.time_limit, body).await.map_err(|_| TOO_SLOW)?;
        let too_large = |status| if status == StatusCode::PAYLOAD_TOO_LARGE { TOO_LARGE } else { UNREADABLE };
        let body = body.map_err(|rejection| too_large(rejection.status()))?;
        let Sent { token, reason } = Sent::read(path.as_deref(), &headers, &body)?;

        let outbox = &self.settings.outbox;
        let id = outbox.read_token(&token).map_err(|error| failed(None, &error))?.id;
        self.limits.check_process().map_err(limited)?;
        let store = async {
            match verb {
                Verb::Ack => outbox.ack_token(&token).await,
                Verb::Nack => outbox.nack_token(&token, reason).await,
            }
        };
        let Ok(result) = timeout(self.settings.time_limit, store).await else {
            tracing::warn!(notice = id, "the store took too long for an ack or nack");
            return Err(UNAVAILABLE);
        };
        Ok(replied(verb, result.map_err(|error| failed(Some(id), &error))?))
    }
}

/// Logs an error, and returns the response, which contains nothing of it.
fn failed(notice: Option<i64>, error: &Error) -> Answer {
    match error {
        Error::Token { problem } => {
            tracing::info!(problem, "refused the token of an ack or nack");
            REFUSED_TOKEN
        }
        Error::Store(error) if error.is_transient() => {
            tracing::warn!(notice, %error, "cannot store an ack or nack; its sender is asked to repeat it");
            UNAVAILABLE
        }
        error => {
            tracing::error!(notice, %error, "cannot store an ack or nack");
            FAILED
        }
    }
}
