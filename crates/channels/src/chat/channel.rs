//! [`Chat`]: sends notices as messages that a `handler_config` describes.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::Deserialize;
use solid_notify_core::definition::{ExposeSecret, SecretRef, SecretString};
use solid_notify_sweeper::{Failure, HandlerResult};
use url::Url;

use super::{ChatService, DingTalk, Feishu, NamedChat, Slack, WeCom, tls};
use crate::address::AllowedNetworks;
use crate::channel::{AnyNotice, Channel, ack_token_if_keys, marked};
use crate::error::ChannelError;
use crate::field::SecretShape;
use crate::http::{self, Client, HandedBack, Keep, Network};
use crate::lookup::System;
use crate::secrets::Secrets;
use crate::template::{Template, Values};

/// The channel `chat`: posts a notice to a group in Slack, DingTalk, Feishu or WeCom, as the column `handler_config` says.
///
/// ```
/// use solid_notify_channels::{Chat, ChannelExt};
///
/// # fn example(sweeper: solid_notify_sweeper::SweeperBuilder) {
/// let sweeper = sweeper.channel(Chat::new());
/// # }
/// ```
///
/// The environment's proxies are not used. A notice goes to one group; use targets for several. A service that takes no more messages gets the next one when it takes
/// messages again, with the class `busy`.
#[derive(Debug, Default)]
pub struct Chat {
    networks: AllowedNetworks,
    proxy: Option<SecretString>,
    /// One for all definitions. The error is reported where a configuration is checked.
    client: OnceLock<Result<Client, String>>,
    /// For messages that need connections of their own.
    alone: OnceLock<Result<Client, String>>,
    handed_back: HandedBack,
}

impl Chat {
    /// Creates the channel.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows chat services in networks that are not public.
    #[must_use]
    pub fn allow_networks(self, networks: &AllowedNetworks) -> Self {
        Self { networks: networks.clone(), client: OnceLock::new(), alone: OnceLock::new(), ..self }
    }

    /// Sends all posts through this proxy, as a webhook does. A URL that is none is reported with
    /// the first configuration.
    #[must_use]
    pub fn proxy(self, url: impl Into<String>) -> Self {
        Self { proxy: Some(url.into().into()), client: OnceLock::new(), alone: OnceLock::new(), ..self }
    }

    fn client(&self, keep: Keep) -> Result<Client, String> {
        let make = || {
            let proxy = self.proxy.as_ref().map(|url| http::proxy(url.expose_secret())).transpose()?;
            let network = Network { resolver: Arc::new(System), networks: self.networks.clone(), proxy };
            Ok(network.client(keep, tls()?))
        };
        let client = if keep == Keep::None { &self.alone } else { &self.client };
        client.get_or_init(|| make().map_err(|error: ChannelError| error.to_string())).clone()
    }
}

/// The `handler_config` of the channel `chat`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChatConfig {
    /// The service of the group.
    service: Service,
    /// The URL of the group's webhook, which contains its access token.
    #[schemars(with = "SecretShape")]
    url: SecretRef,
    /// The secret that signs messages. Only for `ding_talk` and `feishu`.
    #[schemars(with = "Option<SecretShape>")]
    secret: Option<SecretRef>,
    /// A word that stands before each message, because the group refuses messages without it. Only for `ding_talk` and `feishu`.
    keyword: Option<String>,
    /// The message, as plain text. A longer one than the service takes is cut, with a mark at its end.
    text: Template,
    /// Secrets that templates use as `secrets.name`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, SecretShape>")]
    secrets: BTreeMap<String, SecretRef>,
}

/// A chat service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Service {
    Slack,
    DingTalk,
    Feishu,
    WeCom,
}

/// A checked configuration, with the client.
pub struct PreparedChat {
    config: ChatConfig,
    client: Client,
}

impl Channel for Chat {
    const NAME: &'static str = "chat";
    type Config = ChatConfig;
    type Prepared = PreparedChat;

    fn prepare(&self, config: ChatConfig) -> Result<PreparedChat, String> {
        if matches!(config.service, Service::Slack | Service::WeCom) {
            for (field, is_set) in [("secret", config.secret.is_some()), ("keyword", config.keyword.is_some())] {
                if is_set {
                    return Err(format!("`{field}` is only for the services ding_talk and feishu: remove it"));
                }
            }
        }
        Ok(PreparedChat { config, client: self.client(Keep::Many)? })
    }

    fn secrets(prepared: &PreparedChat) -> Vec<SecretRef> {
        prepared.config.all_secrets()
    }

    async fn send(&self, PreparedChat { config, client }: &PreparedChat, notice: &AnyNotice) -> HandlerResult {
        let secrets = Secrets::read(notice, config.all_secrets()).await?;
        let values = Values::new(notice, ack_token_if_keys(notice)?, (&config.secrets, &secrets))?;
        let text = config.text.render("text", &values).await?;
        let text = marked(text, notice);
        let group = config.group(&secrets)?;
        group.check()?;
        let url = Url::parse(secrets.get(&config.url)?.expose_secret()).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        secrets.admit_all(host)?;
        self.networks.admit(host)?;
        let alone = self.handed_back.has(notice).then(|| self.client(Keep::None)).transpose();
        let alone = alone.map_err(Failure::retry)?;
        let (response, result) = group.send(alone.as_ref().unwrap_or(client), &text, notice.ends()).await;
        if let Some(response) = response {
            notice.set_response(response);
        }
        let result = result.map_err(|error| match &error {
            // The URL is a secret of the row, and nothing has come back.
            ChannelError::NoAnswer { .. } => error.failure().free_of_values(),
            _ => error.failure(),
        });
        self.handed_back.once(notice, result)
    }
}

impl ChatConfig {
    fn all_secrets(&self) -> Vec<SecretRef> {
        self.secrets.values().chain([&self.url]).chain(&self.secret).cloned().collect()
    }

    /// Returns the group with its secrets.
    fn group(&self, secrets: &Secrets<'_>) -> Result<NamedChat, Failure> {
        let url = secrets.get(&self.url)?.expose_secret().to_owned();
        let secret = self.secret.as_ref().map(|secret| secrets.get(secret)).transpose()?;
        let secret = secret.map(ExposeSecret::expose_secret);
        Ok(match self.service {
            Service::Slack => named("slack", Slack::new(url)),
            Service::WeCom => named("we_com", WeCom::new(url)),
            Service::DingTalk => {
                let robot = secret.iter().fold(DingTalk::new(url), |robot, secret| robot.secret(*secret));
                named("ding_talk", self.keyword.iter().fold(robot, DingTalk::keyword))
            }
            Service::Feishu => {
                let bot = secret.iter().fold(Feishu::new(url), |bot, secret| bot.secret(*secret));
                named("feishu", self.keyword.iter().fold(bot, Feishu::keyword))
            }
        })
    }
}

fn named(name: &str, service: impl ChatService) -> NamedChat {
    NamedChat::new(name.to_owned(), service)
}
