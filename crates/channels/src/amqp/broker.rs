//! [`Broker`]: the connection to one URL, which all definitions share; each queue for replies has another one. It is made when it is needed,
//! and again after a loss.

use std::sync::Arc;

use lapin::uri::AMQPUri;
use solid_notify_core::definition::{ExposeSecret, SecretRef, SecretString};
use solid_notify_sweeper::{Failure, HandlerResult};

use super::link::Link;
use crate::address::AllowedNetworks;
use crate::brokers::{Alone, Clients, Connecting, Current, Unconnected};

/// After two intervals without a byte from the broker the connection is lost.
const HEARTBEAT_SECONDS: u16 = 10;

/// The largest frame that the client agrees to, in bytes: the one of RabbitMQ. The client takes any size that the broker names, and makes two
/// buffers for 32 frames each.
const FRAME_BYTES: u32 = 131_072;

/// A broker and the connection to it.
pub(super) struct Broker {
    uri: AMQPUri,
    networks: AllowedNetworks,
    connecting: Connecting<Arc<Link>, lapin::Error>,
    alone: Alone,
}

impl Broker {
    /// Returns the broker of a URL. `url`: the reference to it. `networks`: where it may be, the same ones for all that share `clients`.
    ///
    /// # Errors
    /// The secret is no URL of a broker, or has an address that is refused.
    pub(super) fn of(
        clients: &Clients<Self>,
        current: &Current<Self>,
        networks: &AllowedNetworks,
        url: &SecretRef,
        secret: &SecretString,
    ) -> Result<Arc<Self>, Failure> {
        let text = secret.expose_secret();
        let broker = current
            .client(clients, text, || Self::new(text, networks))
            .map_err(|problem| Failure::retry(format!("the secret {url}: {problem}")))?;
        networks.admit(broker.host())?;
        Ok(broker)
    }

    /// Reads a URL. The error contains no part of it.
    fn new(url: &str, networks: &AllowedNetworks) -> Result<Self, String> {
        let mut uri: AMQPUri = url.parse().map_err(|_| "it is no URL of the form amqp://user:password@host/vhost")?;
        if let Some(host) = ipv6_host(url) {
            // The client would take it for `localhost`.
            uri.authority.host = host.to_owned();
        }
        uri.query.heartbeat = uri.query.heartbeat.or(Some(HEARTBEAT_SECONDS));
        // 0 means any size.
        uri.query.frame_max =
            uri.query.frame_max.filter(|given| (1..FRAME_BYTES).contains(given)).or(Some(FRAME_BYTES));
        Ok(Self { uri, networks: networks.clone(), connecting: Connecting::default(), alone: Alone::default() })
    }

    /// Returns the name or the address of its host.
    pub(super) fn host(&self) -> &str {
        &self.uri.authority.host
    }

    /// Returns the connection, once it is made.
    pub(super) async fn link(&self) -> Result<Arc<Link>, Unconnected<lapin::Error>> {
        self.connecting.get(|link| link.is_usable(), || Link::open(self.uri.clone(), &self.networks)).await
    }

    /// Uses a connection for one message.
    pub(super) async fn alone(
        &self,
        send: impl AsyncFnOnce(Arc<Link>) -> HandlerResult,
    ) -> Result<HandlerResult, Unconnected<lapin::Error>> {
        self.alone.with(Link::open(self.uri.clone(), &self.networks), send).await
    }
}

/// Returns the host of a URL whose host is an address of IP version 6, without the brackets.
fn ipv6_host(url: &str) -> Option<&str> {
    let authority = url.split_once("://")?.1.split(['/', '?', '#']).next()?;
    let place = authority.rsplit('@').next()?;
    place.strip_prefix('[')?.split_once(']').map(|(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_wrong_ones_are_not_shown() {
        let uri = |url: &str| Broker::new(url, &AllowedNetworks::default()).map(|broker| broker.uri);
        let six = uri("amqps://u:p%5B@[::1]:5673/%2f").unwrap();
        assert_eq!((six.authority.host.as_str(), six.authority.port, six.vhost.as_str()), ("::1", 5673, "/"));
        assert_eq!(six.query.heartbeat, Some(HEARTBEAT_SECONDS));
        assert_eq!(uri("amqp://host?heartbeat=60").unwrap().query.heartbeat, Some(60));
        for (given, used) in [
            ("", FRAME_BYTES),
            ("?frame_max=0", FRAME_BYTES),
            ("?frame_max=4096", 4096),
            ("?frame_max=134217728", FRAME_BYTES),
        ] {
            assert_eq!(uri(&format!("amqp://host{given}")).unwrap().query.frame_max, Some(used), "{given}");
        }
        for wrong in ["hunter2", "http://hunter2@host", "amqp:hunter2", "amqp://host?heartbeat=hunter2"] {
            let problem = uri(wrong).unwrap_err();
            assert!(problem.contains("amqp://") && !problem.contains("hunter2"), "{wrong}: {problem}");
        }
    }
}
