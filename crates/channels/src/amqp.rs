//! [`Amqp`]: notices as messages of RabbitMQ, or of another broker with AMQP 0-9-1. The broker's confirmation is the delivery;
//! [`Replies`] are the acks of the consumers.

mod broker;
mod config;
mod link;
mod replies;
mod reply;
mod send;
mod trouble;

use std::sync::Arc;

use solid_notify_core::AnyOutbox;
use solid_notify_core::definition::SecretRef;
use solid_notify_sweeper::HandlerResult;
use tokio::sync::watch;

use self::broker::Broker;
pub use self::config::AmqpConfig;
use self::config::Prepared;
use self::link::Link;
pub use self::replies::Replies;
use crate::address::AllowedNetworks;
use crate::brokers::{Clients, Suspects, Unconnected};
use crate::channel::{AnyNotice, Channel};
use crate::secrets::Secrets;

/// Publishes notices to exchanges of RabbitMQ. Definitions choose it by `handler = 'amqp'`; see [`AmqpConfig`].
///
/// An `Ok` of an attempt means that the broker has taken the message: it is in all queues that it was routed to, and a persistent
/// message in a durable queue survives a restart of the broker. AMQP has no way to see the ack of the consumer. A consumer that is to
/// confirm a notice sends a reply: [`Self::replies`].
///
/// All definitions with the same URL share one connection, which is made anew after a loss.
///
/// ```
/// # use solid_notify_channels::{Amqp, ChannelExt};
/// # use solid_notify_core::AnyOutbox;
/// # use solid_notify_sweeper::OutboxExt;
/// # fn example(outbox: &AnyOutbox) {
/// let amqp = Amqp::new();
/// let replies = amqp.replies(outbox); // until it is dropped
/// let sweeper = outbox.sweeper().channel(amqp);
/// # }
/// ```
#[derive(Default)]
pub struct Amqp {
    networks: AllowedNetworks,
    brokers: Clients<Broker>,
    suspects: Suspects,
    /// A configuration with a `reply_queue` was read.
    has_read: watch::Sender<()>,
}

impl Amqp {
    /// Creates the channel. It connects when there is something to send.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows brokers in networks that are not public.
    #[must_use]
    pub fn allow_networks(mut self, networks: &AllowedNetworks) -> Self {
        self.networks = networks.clone();
        self
    }

    /// Starts to receive the replies of all definitions that have a `reply_queue`, also of those that are created later, until the
    /// returned handle is dropped. Needs a Tokio runtime. Several processes may do so.
    ///
    /// The replies have connections of their own, because a broker that is short of memory stops reading from connections that
    /// publish.
    #[must_use = "dropped, it receives no more replies"]
    pub fn replies(&self, outbox: &AnyOutbox) -> Replies {
        Replies::start(outbox.clone(), self.networks.clone(), self.has_read.subscribe())
    }
}

impl Channel for Amqp {
    const NAME: &'static str = config::NAME;
    type Config = AmqpConfig;
    type Prepared = Prepared;

    fn prepare(&self, config: AmqpConfig) -> Result<Prepared, String> {
        config.check()?;
        if config.reply_queue.is_some() {
            self.has_read.send_replace(());
        }
        Ok(Prepared { config, broker: Default::default() })
    }

    fn secrets(prepared: &Prepared) -> Vec<SecretRef> {
        prepared.config.secrets.values().chain([&prepared.config.url]).cloned().collect()
    }

    async fn send(&self, prepared: &Prepared, notice: &AnyNotice) -> HandlerResult {
        let (config, secrets) = (&prepared.config, Secrets::read(notice, Self::secrets(prepared)).await?);
        let message = send::message(config, notice, &secrets).await?;
        let broker =
            Broker::of(&self.brokers, &prepared.broker, &self.networks, &config.url, secrets.get(&config.url)?)?;
        secrets.admit_all(broker.host())?;
        let key = notice.idempotency_key();
        if self.suspects.has(&key) {
            let publish = async |link: Arc<Link>| send::publish(&link, message, notice).await?;
            let sent = async { broker.alone(publish).await.map_err(Unconnected::failure)? };
            return self.suspects.alone(&key, sent).await;
        }
        let link = broker.link().await.map_err(Unconnected::failure)?;
        match send::publish(&link, message, notice).await {
            Ok(result) => result,
            Err(error) if link.lost_by_a_message(&error) => self.suspects.hand_back(key),
            Err(error) => Err(error.into()),
        }
    }
}
