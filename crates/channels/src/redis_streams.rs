//! [`RedisStreams`]: notices as entries of Redis streams. The reply with the id of the entry is the delivery.

mod config;
mod send;

use std::sync::Arc;

use solid_notify_core::ErrorClass;
use solid_notify_core::definition::{ExposeSecret, SecretRef};
use solid_notify_redis_connection::{Error, Redis, Resolve};
use solid_notify_sweeper::{Failure, HandlerResult};

pub use self::config::RedisStreamsConfig;
use crate::address::AllowedNetworks;
use crate::brokers::{Clients, Connecting, Current, Unconnected};
use crate::channel::{AnyNotice, Channel};
use crate::lookup;
use crate::secrets::Secrets;

/// Appends notices to Redis streams. Definitions choose it by `handler = 'redis_stream'`; see [`RedisStreamsConfig`].
///
/// All definitions with the same URL share one connection, to one server or to a cluster, which reconnects by itself.
#[derive(Default)]
pub struct RedisStreams {
    networks: AllowedNetworks,
    servers: Clients<Server>,
}

/// A Redis and the connection to it.
struct Server {
    connecting: Connecting<Redis, Error>,
}

/// A checked configuration, with the server that it uses.
pub struct Prepared {
    config: RedisStreamsConfig,
    server: Current<Server>,
}

impl RedisStreams {
    /// Creates the channel. It connects when there is something to send.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows servers in networks that are not public.
    #[must_use]
    pub fn allow_networks(mut self, networks: &AllowedNetworks) -> Self {
        self.networks = networks.clone();
        self
    }

    async fn connection(&self, prepared: &Prepared, secrets: &Secrets<'_>) -> Result<Redis, Failure> {
        let url = secrets.get(&prepared.config.url)?.expose_secret();
        for host in hosts(url)? {
            secrets.check_all(&host)?;
            self.networks.admit(&host)?;
        }
        let make = || Ok(Server { connecting: Connecting::default() });
        let server: Arc<Server> = prepared.server.client(&self.servers, url, make)?;
        let networks = self.networks.clone();
        let resolve: Resolve =
            Arc::new(move |host, port| Box::pin(lookup::sockets(host, port, Some(networks.clone()))));
        // Whether the server may delete old streams is the operator's choice.
        let connect = || Redis::builder(url).allow_eviction(true).resolver(resolve).connect();
        server.connecting.get(|_| true, connect).await.map_err(|error| {
            let class = match &error {
                Unconnected::Refused(error) => send::class(error),
                Unconnected::Late(_) => ErrorClass::Timeout,
            };
            error.failure().class(class)
        })
    }
}

impl Channel for RedisStreams {
    const NAME: &'static str = "redis_stream";
    type Config = RedisStreamsConfig;
    type Prepared = Prepared;

    fn prepare(&self, config: RedisStreamsConfig) -> Result<Prepared, String> {
        config.check()?;
        Ok(Prepared { config, server: Default::default() })
    }

    fn secrets(prepared: &Prepared) -> Vec<SecretRef> {
        prepared.config.secrets.values().chain([&prepared.config.url]).cloned().collect()
    }

    async fn send(&self, prepared: &Prepared, notice: &AnyNotice) -> HandlerResult {
        let secrets = Secrets::read(notice, Self::secrets(prepared)).await?;
        let entry = send::entry(&prepared.config, notice, &secrets)?;
        let redis = self.connection(prepared, &secrets).await?;
        send::append(redis, entry, notice).await
    }
}

/// Returns the hosts of the nodes of a URL; those of a cluster are separated by commas.
fn hosts(url: &str) -> Result<Vec<String>, Failure> {
    let nodes = url.split(',').map(|node| redis::IntoConnectionInfo::into_connection_info(node.trim()));
    let host = |node: redis::RedisResult<redis::ConnectionInfo>| match node.as_ref().map(redis::ConnectionInfo::addr) {
        Ok(redis::ConnectionAddr::Tcp(host, _) | redis::ConnectionAddr::TcpTls { host, .. }) => Ok(host.clone()),
        Ok(_) => {
            let error = "the secret of `url` names a socket of this machine: write redis://user:password@host:6379/0";
            Err(Failure::retry(error).class(ErrorClass::Invalid))
        }
        Err(_) => Ok(String::new()),
    };
    nodes.map(host).collect()
}
