//! [`Network`]: the HTTP clients of what rows configure, for webhooks and chats. They connect to checked addresses only, and the program may set
//! a proxy.

mod client;
mod connect;
mod handed_back;
#[cfg(feature = "plain-webhook")]
mod kept_hosts;
mod meter;
mod resolve;
mod retry_after;

use std::sync::Arc;

use hyper::Uri;
use hyper_util::client::proxy::matcher::Matcher;

pub(crate) use self::client::{Body, Client};
#[cfg(feature = "plain-webhook")]
pub(crate) use self::client::{Response, basic};
use self::connect::Connector;
pub(crate) use self::handed_back::HandedBack;
#[cfg(feature = "plain-webhook")]
pub(crate) use self::kept_hosts::KeptHosts;
pub use self::resolve::{Resolve, Resolving};
pub(crate) use self::retry_after::retry_after;
use crate::address::AllowedNetworks;
use crate::error::ChannelError;
use crate::tls;

/// How many connections without a request are kept to a receiver that a row names: more than most definitions send at a time, because others are
/// closed after each request.
const IDLE_CONNECTIONS: usize = 256;
/// How many are kept to one of the hosts that templates make.
#[cfg(feature = "plain-webhook")]
const FEW_IDLE_CONNECTIONS: usize = 4;

/// What all clients of a channel have in common: how they reach what rows name.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) networks: AllowedNetworks,
    pub(crate) proxy: Option<Arc<Matcher>>,
}

/// How many connections a client keeps to a host without a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    Many,
    #[cfg(feature = "plain-webhook")]
    Few,
    None,
}

impl Keep {
    fn connections(self) -> usize {
        match self {
            Self::Many => IDLE_CONNECTIONS,
            #[cfg(feature = "plain-webhook")]
            Self::Few => FEW_IDLE_CONNECTIONS,
            Self::None => 0,
        }
    }
}

impl Network {
    /// Makes a client.
    pub(crate) fn client(&self, keep: Keep, tls: tls::Config) -> Client {
        let (networks, proxies) = match &self.proxy {
            // The client resolves only the proxy's own name, and the proxy resolves that of the receiver.
            Some(proxy) => (None, Arc::clone(proxy)),
            // Variables of the environment name no proxy here.
            None => (Some(self.networks.clone()), Arc::new(Matcher::builder().build())),
        };
        let connector = Connector::new(Arc::clone(&self.resolver), networks, Arc::clone(&proxies), tls);
        Client::new(connector, keep.connections(), proxies)
    }
}

/// Makes a client for receivers that the program itself names. It uses the proxy of the environment.
#[cfg(feature = "plain-chat")]
pub(crate) fn client_of_the_program(resolver: Arc<dyn Resolve>, tls: tls::Config) -> Client {
    let proxies = Arc::new(Matcher::from_env());
    let connector = Connector::new(resolver, None, Arc::clone(&proxies), tls);
    Client::new(connector, Keep::Many.connections(), proxies)
}

/// Reads the URL of a proxy.
///
/// # Errors
/// A text without the URL, which may contain a password.
pub(crate) fn proxy(url: &str) -> Result<Arc<Matcher>, ChannelError> {
    let no_url = || ChannelError::setup("the URL of the proxy is no http or https URL");
    let proxies = Matcher::builder().all(url).build();
    // The matcher takes a text that is none as if there were no proxy.
    let proxy = proxies.intercept(&Uri::from_static("http://a/")).ok_or_else(no_url)?;
    match proxy.uri().scheme_str() {
        Some(scheme @ ("http" | "https")) => tls::check_scheme(scheme, tls::HAS_TLS)
            .map_err(|problem| ChannelError::setup(format!("the URL of the proxy: {problem}")))?,
        _ => return Err(no_url()),
    }
    Ok(Arc::new(proxies))
}
