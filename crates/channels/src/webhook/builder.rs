//! [`WebhookBuilder`]: what the program decides of webhooks, and no row: the network.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use reqwest::dns::Resolve;

use super::Webhook;
use super::address::Addresses;
use super::client::Network;
use crate::error::ChannelError;
use crate::lookup::System;
use crate::tls;

impl Webhook {
    /// Begins to build the channel.
    pub fn builder() -> WebhookBuilder {
        WebhookBuilder::default()
    }
}

/// Builds [`Webhook`].
#[derive(Default)]
#[must_use]
pub struct WebhookBuilder {
    networks: Vec<String>,
    proxy: Option<String>,
    resolver: Option<Arc<dyn Resolve>>,
}

impl WebhookBuilder {
    /// Allows receivers in a network that is not public, such as `10.0.0.0/8`, `fd00::/8` or the single address `127.0.0.1`. May be
    /// called several times.
    ///
    /// This is no part of a definition, because a person who may edit rows must not reach the internal services of the sender.
    pub fn allow_network(mut self, network: impl Into<String>) -> Self {
        self.networks.push(network.into());
        self
    }

    /// Sends all requests through this proxy, an `http` or `https` URL that may have user and password in it. Variables of the
    /// environment such as `HTTPS_PROXY` are not used.
    ///
    /// The proxy resolves the names of receivers. So the proxy must refuse private addresses; the channel then only refuses those that
    /// stand in a URL.
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(url.into());
        self
    }

    /// Resolves the names of hosts by this resolver instead of the operating system's. What it returns is checked in the same way.
    pub fn resolver(mut self, resolver: impl Resolve + 'static) -> Self {
        self.resolver = Some(Arc::new(resolver));
        self
    }

    /// Builds the channel.
    ///
    /// # Errors
    /// A network or a proxy that is none, or a system without usable certificates of authorities.
    pub fn build(self) -> Result<Webhook, ChannelError> {
        let mut allowed = Vec::with_capacity(self.networks.len());
        for text in &self.networks {
            let network =
                text.parse::<IpNet>().or_else(|error| text.parse::<IpAddr>().map(IpNet::from).map_err(|_| error));
            allowed.push(network.map_err(|error| {
                ChannelError::setup_failed(format!("`{text}` is no network such as `10.0.0.0/8`"), error)
            })?);
        }
        let proxy = self.proxy.map(|url| {
            // The URL may contain a password, and the error contains the URL.
            let proxy = reqwest::Proxy::all(&url)
                .map_err(|_| ChannelError::setup("the URL of the proxy is no http or https URL"))?;
            // The client also accepts a host without a scheme, which it reaches by http.
            if url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
                tls::check_scheme("https", tls::HAS_TLS)
                    .map_err(|problem| ChannelError::setup(format!("the URL of the proxy: {problem}")))?;
            }
            Ok(proxy)
        });
        let network = Network {
            resolver: self.resolver.unwrap_or_else(|| Arc::new(System)),
            addresses: Arc::new(Addresses::new(allowed)),
            proxy: proxy.transpose()?,
        };
        let client =
            network.client().map_err(|error| ChannelError::setup_failed("the HTTP client of webhooks", error))?;
        Ok(Webhook { network, client, tls: Default::default(), tokens: Default::default() })
    }
}

impl fmt::Debug for WebhookBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookBuilder").field("networks", &self.networks).finish_non_exhaustive()
    }
}
