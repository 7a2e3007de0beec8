//! [`Sending`]: a sweeper with all ready channels. `run` and `serve` have the same.
//!
//! The channels over HTTP are here. `more.rs` has those to mail servers and brokers; `http_only.rs` replaces it in a program without the
//! feature `full`.

#[cfg_attr(not(feature = "full"), path = "http_only.rs")]
mod more;

use std::collections::BTreeMap;
use std::path::PathBuf;

use solid_notify::alert::ALERT_DEFINITION;
use solid_notify::channels::{
    AlertChannels, AllowedNetworks, ChannelError, ChannelExt, Chat as ChatChannel, DingTalk, Feishu, Slack, WeCom,
    Webhook,
};
use solid_notify::definition::SecretRules;
use solid_notify::{AnyOutbox, OutboxExt, SweeperBuilder};

use self::more::{More, with_mail};
pub(crate) use self::more::{Replies, check_mail_server};
use crate::secret::Secret;

/// Settings of the channels.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sending {
    /// Networks of the own site that rows may have channels reach.
    pub(crate) networks: AllowedNetworks,
    /// The proxy of webhooks and chats.
    pub(crate) proxy: Option<String>,
    /// The folder of attachments of mails.
    pub(crate) attachments_from: Option<PathBuf>,
    /// Which secrets rows may use.
    pub(crate) secrets: SecretRules,
    pub(crate) alerts: Alerts,
}

/// How alerts reach people.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Alerts {
    /// The URL of the mail server.
    pub(crate) smtp: Option<Secret>,
    pub(crate) from: Option<String>,
    pub(crate) default_email: Vec<String>,
    /// By the names that `alert_to` has.
    pub(crate) chats: BTreeMap<String, Chat>,
    pub(crate) default_chats: Vec<String>,
}

/// A group in a chat.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chat {
    pub(crate) kind: ChatKind,
    pub(crate) url: Secret,
    pub(crate) secret: Option<Secret>,
    pub(crate) keyword: Option<String>,
}

/// The services of chats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChatKind {
    DingTalk,
    Feishu,
    Slack,
    WeCom,
}

impl ChatKind {
    pub(crate) const ALL: [Self; 4] = [Self::DingTalk, Self::Feishu, Self::Slack, Self::WeCom];

    /// As the channel `chat` names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DingTalk => "ding_talk",
            Self::Feishu => "feishu",
            Self::Slack => "slack",
            Self::WeCom => "we_com",
        }
    }

    /// Whether its robots may have a secret and a keyword.
    pub(crate) fn has_secret(self) -> bool {
        matches!(self, Self::DingTalk | Self::Feishu)
    }
}

impl Sending {
    /// Builds the channel of webhooks.
    pub(crate) fn webhook(&self) -> Result<Webhook, ChannelError> {
        let mut webhook = Webhook::builder().allow_networks(&self.networks);
        if let Some(proxy) = &self.proxy {
            webhook = webhook.proxy(proxy);
        }
        webhook.build()
    }

    /// Returns a sweeper with all channels, and the replies of consumers, which arrive until that is dropped.
    pub(crate) fn sweeper(&self, outbox: &AnyOutbox) -> Result<(SweeperBuilder, Replies), ChannelError> {
        outbox.use_secret_rules(self.secrets.clone());
        let more = More::new(&self.networks);
        let replies = more.replies(outbox);
        let sweeper = self.channels(outbox, more)?;
        Ok((sweeper, replies))
    }

    fn channels(&self, outbox: &AnyOutbox, more: More) -> Result<SweeperBuilder, ChannelError> {
        let chat = ChatChannel::new().allow_networks(&self.networks);
        let chat = self.proxy.iter().fold(chat, ChatChannel::proxy);
        let sweeper = outbox.sweeper().channel(self.webhook()?).channel(chat);
        let mut sweeper = more.register(sweeper, self.attachments_from.as_deref());
        if let Some(alerts) = self.alerts.channels()? {
            sweeper = sweeper.handler_type(ALERT_DEFINITION, alerts);
        }
        Ok(sweeper)
    }

    /// Has edits through this outbox checked by the channels, until the builder is dropped. Whether an address may be reached is decided
    /// where it is sent from.
    pub(crate) fn check_edits(outbox: &AnyOutbox) -> Result<SweeperBuilder, ChannelError> {
        let networks = AllowedNetworks::new(["0.0.0.0/0", "::/0"])?;
        let more = More::new(&networks);
        Self { networks, ..Self::default() }.channels(outbox, more)
    }
}

impl Alerts {
    /// Builds the handler of alerts. `None`: there is neither mail nor a chat, so alerts wait for a process that has one.
    pub(crate) fn channels(&self) -> Result<Option<AlertChannels>, ChannelError> {
        if self.smtp.is_none() && self.chats.is_empty() {
            return Ok(None);
        }
        let mut channels = AlertChannels::builder();
        if let (Some(smtp), Some(from)) = (&self.smtp, &self.from) {
            channels = with_mail(channels, smtp, from)?;
        }
        for (name, chat) in &self.chats {
            let url = chat.url.value();
            let secret = chat.secret.as_ref().map(Secret::value);
            channels = match chat.kind {
                ChatKind::Slack => channels.chat(name, Slack::new(url)),
                ChatKind::WeCom => channels.chat(name, WeCom::new(url)),
                ChatKind::DingTalk => {
                    let robot = secret.into_iter().fold(DingTalk::new(url), DingTalk::secret);
                    channels.chat(name, chat.keyword.iter().fold(robot, DingTalk::keyword))
                }
                ChatKind::Feishu => {
                    let bot = secret.into_iter().fold(Feishu::new(url), Feishu::secret);
                    channels.chat(name, chat.keyword.iter().fold(bot, Feishu::keyword))
                }
            };
        }
        for address in &self.default_email {
            channels = channels.default_email(address);
        }
        for name in &self.default_chats {
            channels = channels.default_chat(name);
        }
        channels.build().map(Some)
    }
}
