//! [`RedisStreams`]: notices as entries of Redis streams. The reply with the id of the entry is the delivery.

mod config;
mod send;

use std::sync::Arc;

use solid_notify_core::ErrorClass;
use solid_notify_core::definition::ExposeSecret;
use solid_notify_redis_connection::{Error, Redis};
use solid_notify_sweeper::{Failure, HandlerResult};

pub use self::config::RedisStreamsConfig;
use crate::brokers::{Clients, Connecting, Current, Unconnected};
use crate::channel::{AnyNotice, Channel};

/// Appends notices to Redis streams. Definitions choose it by `handler = 'redis_stream'`; see [`RedisStreamsConfig`].
///
/// All definitions with the same URL share one connection, to one server or to a cluster, which reconnects by itself.
#[derive(Default)]
pub struct RedisStreams {
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

    async fn connection(&self, prepared: &Prepared) -> Result<Redis, Failure> {
        let url = prepared.config.url.read()?;
        let url = url.expose_secret();
        let make = || Ok(Server { connecting: Connecting::default() });
        let server: Arc<Server> = prepared.server.client(&self.servers, url, make)?;
        // Whether the server may delete old streams is the operator's choice.
        let connect = || Redis::builder(url).allow_eviction(true).connect();
        server.connecting.get(|_| true, connect).await.map_err(|error| {
            let class = match &error {
                Unconnected::Refused(error) => send::class(error),
                Unconnected::Late(_) => ErrorClass::Timeout,
            };
            Failure::retry(error).class(class)
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

    async fn send(&self, prepared: &Prepared, notice: &AnyNotice) -> HandlerResult {
        let entry = send::entry(&prepared.config, notice)?;
        let redis = self.connection(prepared).await?;
        send::append(redis, entry, notice).await
    }
}
