//! [`Server`]: the client of one URL, which all definitions share. It is made when it is needed, and anew after a loss.
//!
//! The client (async-nats 0.51) resolves names by itself whenever it connects, and takes no stream. So it connects through a relay (`relay.rs`),
//! which is connected to an address that was checked, and `tls.rs` verifies the certificate by the name. It does not follow servers that a server
//! names, because these would not be checked.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerAddr, ServerError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use solid_notify_core::definition::ExposeSecret;
use solid_notify_sweeper::{Failure, HandlerResult};
use tokio::sync::watch;

use super::config::NatsConfig;
use super::tls::ByName;
use crate::address::AllowedNetworks;
use crate::brokers::{Alone, Clients, Connecting, Current, Unconnected};
use crate::lookup;
use crate::relay::{self, Intake};
use crate::secrets::Secrets;

/// After two intervals without an answer of the server the connection is lost.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// How long the client waits for an acknowledgement. The time-out of an attempt is usually shorter.
const TIME_TO_ACK: Duration = Duration::from_secs(60);

/// How long a message whose client has ended waits for the report why, which the client passes on by another task.
pub(super) const TIME_TO_REPORT: Duration = Duration::from_millis(200);

/// Servers and the client of them.
pub(super) struct Server {
    servers: Vec<ServerAddr>,
    options: ConnectOptions,
    networks: AllowedNetworks,
    connecting: Connecting<Link, ConnectError>,
    alone: Alone,
}

/// How a connection was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    Network,
    /// The server has closed it because of what it got.
    Refused,
}

/// A client.
#[derive(Clone)]
pub(super) struct Link {
    client: Client,
    pub(super) context: Context,
    /// Changes when the connection is lost. Then no acknowledgement comes any more for what was published before.
    pub(super) lost: Arc<watch::Sender<Loss>>,
    intake: Arc<Intake>,
}

impl Server {
    /// Returns the servers that a configuration names.
    ///
    /// # Errors
    /// The secrets are no URL and no credentials.
    pub(super) fn of(
        servers: &Clients<Self>,
        current: &Current<Self>,
        networks: &AllowedNetworks,
        config: &NatsConfig,
        secrets: &Secrets<'_>,
    ) -> Result<Arc<Self>, Failure> {
        let url = secrets.get(&config.url)?;
        let credentials = config.credentials.as_ref().map(|secret| secrets.get(secret)).transpose()?;
        let (url, credentials) = (url.expose_secret(), credentials.map(|text| text.expose_secret()));
        let make = || Self::new(url, credentials, networks);
        current
            .client(servers, &format!("{url}\n{}", credentials.unwrap_or_default()), make)
            .map_err(|problem| Failure::retry(format!("the secrets of `url` or `credentials`: {problem}")))
    }

    /// Reads URL and credentials. The error contains no part of them.
    fn new(url: &str, credentials: Option<&str>, networks: &AllowedNetworks) -> Result<Self, String> {
        const FORM: &str = "it is no URL of the form nats://user:password@host:4222";
        let mut options = ConnectOptions::new().name("solid-notify").ping_interval(PING_INTERVAL);
        options = options.ignore_discovered_servers();
        let servers: Vec<ServerAddr> =
            url.split(',').map(|url| url.trim().parse().map_err(|_| FORM)).collect::<Result<_, _>>()?;
        match servers.first().map(|first| (first.username(), first.password())) {
            None => return Err(FORM.to_owned()),
            Some((Some(user), Some(password))) => {
                options = options.user_and_password(decoded(user)?, decoded(password)?);
            }
            Some((Some(token), None)) => options = options.token(decoded(token)?),
            Some((None, _)) => {}
        }
        if let Some(credentials) = credentials {
            options = options.credentials(credentials).map_err(|_| "they are no credentials file of JWT and NKey")?;
        }
        let networks = networks.clone();
        Ok(Self { servers, options, networks, connecting: Connecting::default(), alone: Alone::default() })
    }

    /// Returns the names or addresses of the hosts.
    pub(super) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(ServerAddr::host)
    }

    /// Returns the client, once it has connected.
    pub(super) async fn link(&self) -> Result<Link, Unconnected<ConnectError>> {
        self.connecting.get(Link::is_usable, || self.connect()).await
    }

    /// Uses a connection for one message.
    pub(super) async fn alone(
        &self,
        send: impl AsyncFnOnce(Link) -> HandlerResult,
    ) -> Result<HandlerResult, Unconnected<ConnectError>> {
        self.alone.with(self.connect(), send).await
    }

    /// Connects to an address that a row may reach.
    fn connect(&self) -> BoxFuture<'static, Result<Link, ConnectError>> {
        // Here, because the lookups count for the definition of the attempt that began them.
        let lookup = |server: &ServerAddr| {
            let found = lookup::sockets(server.host(), server.port(), Some(self.networks.clone()));
            (server.clone(), found)
        };
        let mut lookups: Vec<_> = self.servers.iter().map(lookup).collect();
        // Not all nodes use the first server of a cluster.
        fastrand::shuffle(&mut lookups);
        let options = self.options.clone();
        let connecting = async move {
            let mut failed = ConnectError::from(io::Error::from(io::ErrorKind::AddrNotAvailable));
            for (server, found) in lookups {
                let connected = match found.await {
                    Ok(found) => connect(&server, &found, options.clone()).await,
                    Err(error) => Err(error.into()),
                };
                use ConnectErrorKind::{Authentication, AuthorizationViolation};
                match connected {
                    Err(error) if !matches!(error.kind(), Authentication | AuthorizationViolation) => failed = error,
                    ended => return ended,
                }
            }
            Err(failed)
        };
        connecting.boxed()
    }
}

impl Link {
    /// Returns false after a loss, and when the server has sent very much over it.
    fn is_usable(&self) -> bool {
        self.client.connection_state() == State::Connected && !self.intake.has_left() && !self.intake.is_worn()
    }
}

async fn connect(server: &ServerAddr, addresses: &[SocketAddr], options: ConnectOptions) -> Result<Link, ConnectError> {
    let intake = Intake::of_acknowledgements();
    let relay = format!("{}://{}", server.scheme(), relay::open(addresses, &intake).await?).parse::<ServerAddr>()?;
    // After a loss the name may have other addresses, so this client ends soon.
    let options = options.max_reconnects(1).tls_client_config(ByName::new(server.host()).config()?);
    let lost = Arc::new(watch::Sender::new(Loss::Network));
    let (report, is_refused) = (Arc::clone(&lost), Arc::new(AtomicBool::new(false)));
    let options = options.event_callback(move |event| {
        let (report, is_refused) = (Arc::clone(&report), Arc::clone(&is_refused));
        async move {
            match event {
                // The server reports a missing right, too, and keeps the connection.
                Event::ServerError(ServerError::Other(error))
                    if !error.to_lowercase().contains("permissions violation") =>
                {
                    // Without its text, which may repeat a value or a secret.
                    tracing::warn!("NATS refuses what it got");
                    is_refused.store(true, Ordering::Relaxed);
                }
                Event::Disconnected => {
                    tracing::warn!("the connection to NATS is lost");
                    let is_refused = is_refused.swap(false, Ordering::Relaxed);
                    report.send_replace(if is_refused { Loss::Refused } else { Loss::Network });
                }
                Event::Connected => tracing::info!("connected to NATS"),
                _ => {}
            }
        }
    });
    let client = options.connect(relay).await?;
    // The client reports no loss where its task has ended by a panic: on a line that it does not expect.
    let (mut left, report) = (intake.left(), Arc::downgrade(&lost));
    tokio::spawn(async move {
        let _ = left.wait_for(|left| *left).await;
        // The client may know more.
        tokio::time::sleep(TIME_TO_REPORT).await;
        if let Some(report) = report.upgrade() {
            report.send_if_modified(|_| true);
        }
    });
    let mut context = async_nats::jetstream::new(client.clone());
    context.set_timeout(TIME_TO_ACK);
    Ok(Link { client, context, lost, intake })
}

/// Returns a part of a URL without its percent signs.
fn decoded(part: &str) -> Result<String, String> {
    let decoded = percent_encoding::percent_decode_str(part).decode_utf8();
    decoded.map(|text| text.into_owned()).map_err(|_| "user or password are not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_urls_and_credentials_are_not_shown() {
        assert!(Server::new("nats://u:p%40@a:4222, tls://b", None, &AllowedNetworks::default()).is_ok());
        for (url, credentials) in [("nats://hunter2:x@", None), ("ftp://hunter2", None), ("nats://a", Some("hunter2"))]
        {
            let problem = Server::new(url, credentials, &AllowedNetworks::default()).map(drop).unwrap_err();
            assert!(!problem.contains("hunter2"), "{url}: {problem}");
        }
    }
}
