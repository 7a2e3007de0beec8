//! [`Nats`]: notices as messages in streams of NATS JetStream. The acknowledgement of the stream is the delivery.

mod config;
mod send;
mod server;
mod tls;

use solid_notify_core::definition::SecretRef;
use solid_notify_sweeper::HandlerResult;

pub use self::config::NatsConfig;
use self::server::Server;
use crate::address::AllowedNetworks;
use crate::brokers::{Clients, Current, Published, Suspects, Unconnected};
use crate::channel::{AnyNotice, Channel};
use crate::secrets::Secrets;

/// Publishes notices to subjects that a stream of NATS JetStream stores. Definitions choose it by `handler = 'nats'`; see
/// [`NatsConfig`].
///
/// The header `Notify-Id` has the idempotency key. The header `Nats-Msg-Id` has the same value in attempts that repeat a message of which
/// it is unknown whether the stream has it, so that the stream drops a copy within its duplicate window. It has another one after a nack,
/// a missing ack, an edit of what is sent, and a retry of an operator, because the consumer must get these.
/// All definitions with the same URL and credentials share one client, which is made anew after a loss.
#[derive(Default)]
pub struct Nats {
    networks: AllowedNetworks,
    servers: Clients<Server>,
    suspects: Suspects,
}

impl Nats {
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

    fn secrets(Prepared { config, .. }: &Prepared) -> Vec<SecretRef> {
        config.secrets.values().chain([&config.url]).chain(&config.credentials).cloned().collect()
    }

    async fn send(&self, prepared: &Prepared, notice: &AnyNotice) -> HandlerResult {
        let secrets = Secrets::read(notice, Self::secrets(prepared)).await?;
        let message = send::message(&prepared.config, notice, &secrets).await?;
        let server = Server::of(&self.servers, &prepared.server, &self.networks, &prepared.config, &secrets)?;
        for host in server.hosts() {
            secrets.admit_all(host)?;
            self.networks.admit(host)?;
        }
        let key = notice.idempotency_key();
        if self.suspects.has(&key) {
            let publish = async |link| send::publish(&link, message, notice).await.alone();
            let sent = async { server.alone(publish).await.map_err(Unconnected::failure)? };
            return self.suspects.alone(&key, sent).await;
        }
        let link = server.link().await.map_err(Unconnected::failure)?;
        match send::publish(&link, message, notice).await {
            Published::Ended(result) => result,
            Published::Refused => self.suspects.hand_back(key),
        }
    }
}
