//! [`Network`]: the HTTP clients of what rows configure, for webhooks and chats. They connect to checked addresses only, and the program may set
//! a proxy.

#[cfg(feature = "plain-webhook")]
use std::collections::HashMap;
use std::collections::HashSet;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, ClientBuilder, Proxy, redirect};
use solid_notify_sweeper::{Failure, HandlerResult};
#[cfg(feature = "plain-webhook")]
use tokio::time::Instant;

use crate::address::AllowedNetworks;
use crate::channel::AnyNotice;
use crate::error::ChannelError;
use crate::tls;

/// How long a connection may take, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection is kept without a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How many such connections are kept to a receiver that a row names: more than most definitions send at a time, because others are closed after
/// each request.
const IDLE_CONNECTIONS: usize = 256;
/// How many are kept to one of the hosts that templates make.
#[cfg(feature = "plain-webhook")]
const FEW_IDLE_CONNECTIONS: usize = 4;
/// How many of these hosts keep connections at a time. The process has 1,024 files and connections as a rule, and this is an eighth of them.
#[cfg(feature = "plain-webhook")]
const HOSTS: usize = 32;
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

/// How many connections a client keeps to a host without a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    Many,
    #[cfg(feature = "plain-webhook")]
    Few,
    #[cfg(feature = "plain-webhook")]
    None,
}

impl Keep {
    fn connections(self) -> usize {
        match self {
            Self::Many => IDLE_CONNECTIONS,
            #[cfg(feature = "plain-webhook")]
            Self::Few => FEW_IDLE_CONNECTIONS,
            #[cfg(feature = "plain-webhook")]
            Self::None => 0,
        }
    }
}

impl Network {
    /// Begins a client.
    pub(crate) fn builder(&self, keep: Keep) -> ClientBuilder {
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
            .pool_max_idle_per_host(keep.connections())
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

/// The hosts made by templates to which connections are kept, with the clients that keep them. A parameter can name any number of hosts, and
/// descriptors are of the whole process. So further hosts get a connection for each request, until another host has had none for so long that its
/// connections are closed.
#[cfg(feature = "plain-webhook")]
#[derive(Debug, Default)]
pub(crate) struct KeptHosts(Mutex<HashMap<String, HostUse>>);

#[cfg(feature = "plain-webhook")]
#[derive(Debug)]
struct HostUse {
    requests: usize,
    /// The end of the latest one.
    ended: Instant,
}

/// A request to a host to which connections are kept.
#[cfg(feature = "plain-webhook")]
pub(crate) struct RequestToKept<'a> {
    hosts: &'a KeptHosts,
    host: String,
}

#[cfg(feature = "plain-webhook")]
impl KeptHosts {
    /// Begins a request. `None`: no connection to this host is kept.
    pub(crate) fn begin(&self, host: String) -> Option<RequestToKept<'_>> {
        let mut hosts = self.0.lock();
        if !hosts.contains_key(&host) && hosts.len() >= HOSTS {
            // The client looks for old connections in this interval.
            hosts.retain(|_, host| host.requests > 0 || host.ended.elapsed() < 2 * IDLE_TIMEOUT);
            if hosts.len() >= HOSTS {
                return None;
            }
        }
        hosts.entry(host.clone()).or_insert_with(|| HostUse { requests: 0, ended: Instant::now() }).requests += 1;
        Some(RequestToKept { hosts: self, host })
    }
}

#[cfg(feature = "plain-webhook")]
impl Drop for RequestToKept<'_> {
    fn drop(&mut self) {
        if let Some(host) = self.hosts.0.lock().get_mut(&self.host) {
            host.requests -= 1;
            host.ended = Instant::now();
        }
    }
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

#[cfg(all(test, feature = "plain-webhook"))]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn few_hosts_of_templates_keep_connections_and_an_old_one_makes_room() {
        let hosts = KeptHosts::default();
        let name = |number: usize| format!("http://{number}.example.com");
        let requests: Vec<_> = (0..HOSTS).map(|number| hosts.begin(name(number)).unwrap()).collect();
        assert!(hosts.begin(name(HOSTS)).is_none(), "all are in use");
        assert!(hosts.begin(name(0)).is_some(), "one of them again");
        drop(requests);
        assert!(hosts.begin(name(HOSTS)).is_none(), "their connections may be open");
        tokio::time::advance(IDLE_TIMEOUT).await;
        let again = hosts.begin(name(0)).unwrap();
        tokio::time::advance(IDLE_TIMEOUT).await;
        assert!(hosts.begin(name(HOSTS)).is_some());
        assert_eq!(hosts.0.lock().len(), 2, "of the others no connection is open");
        drop(again);
    }
}
