//! [`WebhookBuilder`]: what the program decides of webhooks, and no row: the network.

use std::fmt;
use std::sync::Arc;

use super::Webhook;
use super::client::Clients;
use crate::address::AllowedNetworks;
use crate::error::ChannelError;
use crate::http::{self, HandedBack, Keep, KeptHosts, Network, Resolve};
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
    networks: AllowedNetworks,
    proxy: Option<String>,
    resolver: Option<Arc<dyn Resolve>>,
}

impl WebhookBuilder {
    /// Allows receivers in networks that are not public.
    pub fn allow_networks(mut self, networks: &AllowedNetworks) -> Self {
        self.networks = networks.clone();
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
    /// A proxy that is none, or a system without usable certificates of authorities.
    pub fn build(self) -> Result<Webhook, ChannelError> {
        let network = Network {
            resolver: self.resolver.unwrap_or_else(|| Arc::new(System)),
            networks: self.networks,
            proxy: self.proxy.as_deref().map(http::proxy).transpose()?,
        };
        let tls = tls::config(tls::Certificates::default());
        let tls = tls.map_err(|problem| ChannelError::setup(format!("the HTTP client of webhooks: {problem}")))?;
        let client = network.client(Keep::Many, tls);
        Ok(Webhook {
            network,
            clients: Clients::with(client),
            kept_hosts: KeptHosts::default(),
            tls: Default::default(),
            tokens: Default::default(),
            handed_back: HandedBack::default(),
        })
    }
}

impl fmt::Debug for WebhookBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookBuilder").field("networks", &self.networks).finish_non_exhaustive()
    }
}
