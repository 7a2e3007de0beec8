//! [`Nats`]: notices as messages in streams of NATS JetStream. The acknowledgement of the stream is the delivery.

mod config;
mod send;
mod server;

use solid_notify_sweeper::HandlerResult;

pub use self::config::NatsConfig;
use self::server::Server;
use crate::brokers::{Clients, Current};
use crate::channel::{AnyNotice, Channel};

/// Publishes notices to subjects that a stream of NATS JetStream stores. Definitions choose it by `handler = 'nats'`; see
/// [`NatsConfig`].
///
/// The header `Nats-Msg-Id` has the idempotency key, so that the stream drops a message that it has got within its duplicate window.
/// All definitions with the same URL and credentials share one client, which reconnects by itself.
#[derive(Default)]
pub struct Nats {
    servers: Clients<Server>,
}

impl Nats {
    /// Creates the channel. It connects when there is something to send.
    pub fn new() -> Self {
        Self::default()
    }
}

/// A checked configuration, with the servers that it uses.
pub struct Prepared {
    config: NatsConfig,
    server: Current<Server>,
}

impl Channel for Nats {
    const NAME: &'static str = "nats";
    type Config = NatsConfig;
    type Prepared = Prepared;

    fn prepare(&self, config: NatsConfig) -> Result<Prepared, String> {
        config.check()?;
        Ok(Prepared { config, server: Default::default() })
    }

    async fn send(&self, prepared: &Prepared, notice: &AnyNotice) -> HandlerResult {
        let message = send::message(&prepared.config, notice)?;
        let link = Server::of(&self.servers, &prepared.server, &prepared.config)?.link().await?;
        send::publish(&link, message, notice).await
    }
}
