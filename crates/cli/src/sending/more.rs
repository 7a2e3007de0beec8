//! The channels to mail servers and brokers.

use std::path::Path;

use solid_notify::channels::{
    self, AlertChannelsBuilder, AllowedNetworks, Amqp, ChannelError, ChannelExt, Mail, Mailer, Nats, RedisStreams,
};
use solid_notify::{AnyOutbox, SweeperBuilder};

use crate::secret::Secret;

/// Replies of consumers. They arrive until this is stopped or dropped.
pub(crate) struct Replies(channels::Replies);

impl Replies {
    pub(crate) fn stop(self) {
        drop(self.0);
    }
}

/// The channels beside those over HTTP.
pub(super) struct More {
    amqp: Amqp,
    networks: AllowedNetworks,
}

impl More {
    pub(super) fn new(networks: &AllowedNetworks) -> Self {
        Self { amqp: Amqp::new().allow_networks(networks), networks: networks.clone() }
    }

    pub(super) fn replies(&self, outbox: &AnyOutbox) -> Replies {
        Replies(self.amqp.replies(outbox))
    }

    /// Adds the channels to a sweeper.
    pub(super) fn register(self, sweeper: SweeperBuilder, attachments_from: Option<&Path>) -> SweeperBuilder {
        let networks = &self.networks;
        let mut mail = Mail::new().allow_networks(networks);
        if let Some(folder) = attachments_from {
            mail = mail.attachments_from(folder);
        }
        let (nats, redis) = (Nats::new().allow_networks(networks), RedisStreams::new().allow_networks(networks));
        sweeper.channel(self.amqp).channel(mail).channel(nats).channel(redis)
    }
}

/// Checks the URL of a mail server.
pub(crate) fn check_mail_server(url: &Secret) -> Result<(), ChannelError> {
    Mailer::from_url(url.value()).map(drop)
}

/// Sends alerts by mail, too.
pub(super) fn with_mail(
    alerts: AlertChannelsBuilder,
    server: &Secret,
    from: &str,
) -> Result<AlertChannelsBuilder, ChannelError> {
    Ok(alerts.mail(Mailer::from_url(server.value())?.from(from).build()?))
}
