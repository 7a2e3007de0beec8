//! Ready-made handlers of solid-notify: the channels that a row chooses by its column `handler` (`webhook`, `mail`, `chat`, `amqp`, `nats`,
//! `redis_stream`; a feature for each), and [`AlertChannels`]. It handles the alerts of the built-in definition `notify.alert`, and sends
//! them by mail (feature `mail`) and to chats: DingTalk, Feishu (Lark), WeCom, Slack (feature `chat`). Users name the crate `solid-notify`, as `solid_notify::channels`.
//!
//! ```no_run
//! # #[cfg(all(feature = "mail", feature = "plain-chat"))]
//! # fn example(sweeper: solid_notify_sweeper::SweeperBuilder) -> Result<(), Box<dyn std::error::Error>> {
//! use solid_notify_channels::{AlertChannels, DingTalk, Mailer, Slack};
//! use solid_notify_core::ALERT_DEFINITION;
//!
//! let mailer = Mailer::from_url(&std::env::var("SMTP_URL")?)?   // smtp://user:password@host:587?tls=required
//!     .from("alerts@example.com")
//!     .from_name("订单 alerts")
//!     .build()?;
//! let alerts = AlertChannels::builder()
//!     .mail(mailer)                                            // for the addresses in `email`
//!     .chat("ops", DingTalk::new(std::env::var("OPS_URL")?).secret(std::env::var("OPS_SECRET")?))
//!     .chat("dev", Slack::new(std::env::var("DEV_URL")?))      // for the names in `alert_to`
//!     .default_chat("ops")                                     // for alerts without a recipient
//!     .build()?;
//! let sweeper = sweeper.handler_type(ALERT_DEFINITION, alerts);
//! # Ok(()) }
//! ```
//!
//! An operator then sets the recipients in the row of a definition: `email = 'a@example.com, b@example.com'`, `alert_to =
//! 'ops, dev'`.
//!
//! # What to expect
//!
//! - **At least once**, like all notices of solid-notify: a process may die between sending and storing that it has sent. A
//!   mail has the same `Message-ID` each time, so most mail programs show it once; chats show it twice.
//! - **Each recipient is independent.** An alert that reached only some recipients is retried as the definition `notify.alert`
//!   says, for the others only. The description of the alert's notice lists the recipients that have it.
//! - **A service that answers "too often"** gets no message for as long as it blocks (DingTalk: ten minutes), at most for
//!   the definition's `max_retry_interval`, or a day where it has none.
//! - **Long texts are cut** to the service's limit, with a mark at the end.
//! - **Secrets** appear in no error, log or `Debug` text.
//! - An unknown chat, a wrong password or a refused address is retried too, until the tries run out, because an operator may
//!   correct it. Only an alert whose recipients are all invalid addresses is given up at once.
//!
//! Both clients encrypt with rustls and trust the operating system's certificates. With the feature `plain-chat` instead of `chat` there is no TLS,
//! and a URL that begins with `https` is refused. Alerts to chats go through the proxy of the
//! environment (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`); mails use none.

// Without a channel no alert is delivered, so the code that remembers deliveries is unused.
#![cfg_attr(not(any(feature = "mail", feature = "plain-chat")), allow(dead_code))]

mod address;
mod alerts;
#[cfg(feature = "amqp")]
mod amqp;
#[cfg(any(feature = "amqp", feature = "nats", feature = "redis-streams"))]
mod brokers;
mod channel;
#[cfg(feature = "plain-chat")]
mod chat;
#[cfg(any(feature = "mail", feature = "plain-webhook"))]
mod computing;
mod delivered;
mod error;
mod field;
mod hiding;
#[cfg(any(feature = "plain-chat", feature = "plain-webhook"))]
mod http;
#[cfg(any(
    feature = "amqp",
    feature = "mail",
    feature = "nats",
    feature = "plain-chat",
    feature = "plain-webhook",
    feature = "redis-streams"
))]
mod lookup;
#[cfg(feature = "mail")]
mod mail;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "redis-streams")]
mod redis_streams;
#[cfg(any(feature = "amqp", feature = "nats", feature = "redis-streams"))]
mod relay;
mod secrets;
pub mod template;
#[cfg(any(feature = "plain-chat", feature = "plain-webhook"))]
mod tls;
#[cfg(feature = "plain-webhook")]
mod webhook;

pub use address::AllowedNetworks;
pub use alerts::{AlertChannels, AlertChannelsBuilder};
#[cfg(feature = "amqp")]
pub use amqp::{Amqp, AmqpConfig, Replies};
pub use channel::{AnyNotice, Channel, ChannelExt, schema};
#[cfg(feature = "plain-chat")]
pub use chat::{Chat, ChatResponse, ChatResult, ChatService, DingTalk, Feishu, Post, Slack, WeCom};
pub use error::ChannelError;
#[cfg(feature = "plain-webhook")]
pub use http::{Resolve, Resolving};
#[cfg(feature = "mail")]
pub use mail::{Mail, Mailer, MailerBuilder};
#[cfg(feature = "nats")]
pub use nats::{Nats, NatsConfig};
#[cfg(feature = "redis-streams")]
pub use redis_streams::{RedisStreams, RedisStreamsConfig};
pub use secrets::Secrets;
#[cfg(feature = "plain-webhook")]
pub use webhook::{Webhook, WebhookBuilder, WebhookConfig};
