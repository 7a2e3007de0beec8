//! [`Network`]: the HTTP clients of what rows configure, for webhooks and chats. They connect to checked addresses only, and the program may set
//! a proxy.

use std::collections::HashSet;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, ClientBuilder, Proxy, redirect};
use solid_notify_sweeper::{Failure, HandlerResult};

use crate::address::AllowedNetworks;
use crate::channel::AnyNotice;
use crate::error::ChannelError;
use crate::tls;

/// How long a connection may take, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection is kept without a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How many such connections are kept to one receiver: more than most definitions send at a time, because others are closed after each
/// request.
const IDLE_CONNECTIONS: usize = 256;
/// The largest headers of a response over HTTP/2, in bytes. Over HTTP/1 the client has a limit of its own of about 400 kB, for which it has no setting.
#[cfg(feature = "tls")]
const HEADER_LIMIT: u32 = 64 * 1024;

/// What all clients of a channel have in common: how they reach what rows name.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) networks: AllowedNetworks,
    pub(crate) proxy: Option<Proxy>,
}

impl Network {
    /// Begins a client.
    pub(crate) fn builder(&self) -> ClientBuilder {
        let resolver: Arc<dyn Resolve> = match &self.proxy {
            // The client resolves only the proxy's own name, and the proxy resolves that of the receiver.
            Some(_) => Arc::clone(&self.resolver),
            None => Arc::new(Checked { resolver: Arc::clone(&self.resolver), networks: self.networks.clone() }),
        };
        let builder = Client::builder()
            .dns_resolver(resolver)
            // Neither a redirect nor a proxy of the environment may lead to an address that was not checked.
            .redirect(redirect::Policy::none())
            .no_proxy()
            // Another crate of the program may switch on these features of reqwest. A small response could then be a large one.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .referer(false)
            .user_agent(concat!("solid-notify/", env!("CARGO_PKG_VERSION")));
        #[cfg(feature = "tls")]
        let builder = builder.http2_max_header_list_size(HEADER_LIMIT);
        match &self.proxy {
            Some(proxy) => builder.proxy(proxy.clone()),
            None => builder,
        }
    }
}

/// Reads the URL of a proxy.
///
/// # Errors
/// A text without the URL, which may contain a password.
pub(crate) fn proxy(url: &str) -> Result<Proxy, ChannelError> {
    let proxy = Proxy::all(url).map_err(|_| ChannelError::setup("the URL of the proxy is no http or https URL"))?;
    // The client also accepts a host without a scheme, which it reaches by http.
    if url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
        tls::check_scheme("https", tls::HAS_TLS)
            .map_err(|problem| ChannelError::setup(format!("the URL of the proxy: {problem}")))?;
    }
    Ok(proxy)
}

/// The notices that were handed back once, by idempotency key, because their receiver closed a connection over HTTP/2 with an error. It does so because of
/// one of the requests on it, and does not say which.
#[derive(Debug, Default)]
pub(crate) struct HandedBack(Mutex<HashSet<String>>);

/// How many of them are remembered. Of more, some are handed back once more.
const HANDED_BACK: usize = 10_000;

impl HandedBack {
    /// Returns the result of an attempt: handed back, where it failed with the connection for the first time. The next time counts.
    pub(crate) fn once(&self, notice: &AnyNotice, result: HandlerResult) -> HandlerResult {
        let is_closed = result.as_ref().is_err_and(|failure| is_go_away(&**failure.error()));
        let mut keys = self.0.lock();
        if !is_closed && keys.is_empty() {
            return result;
        }
        let key = notice.idempotency_key();
        if keys.remove(&key) || !is_closed {
            return result;
        }
        if keys.len() >= HANDED_BACK {
            keys.clear();
        }
        keys.insert(key);
        Err(Failure::hand_back(Duration::ZERO))
    }
}

/// Returns whether the receiver has closed the connection with an error (GOAWAY).
#[cfg(feature = "tls")]
fn is_go_away(error: &(dyn Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error: &&(dyn Error + 'static)| (*error).source());
    let closed = |error: &h2::Error| error.is_go_away() && error.is_remote();
    causes.any(|cause| cause.downcast_ref().is_some_and(closed))
}

/// HTTP/1 has one request at a time on a connection.
#[cfg(not(feature = "tls"))]
fn is_go_away(_: &(dyn Error + 'static)) -> bool {
    false
}

/// A resolver that returns only addresses that may be connected to. The client connects to what it returns and does not ask again.
struct Checked {
    resolver: Arc<dyn Resolve>,
    networks: AllowedNetworks,
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let (host, networks) = (name.as_str().to_owned(), self.networks.clone());
        let resolving = self.resolver.resolve(name);
        Box::pin(async move {
            let allowed = networks.of_name(&host, resolving.await)?;
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}
