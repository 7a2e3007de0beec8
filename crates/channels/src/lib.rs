//! Ready handlers of solid-notify. There is one so far: [`AlertChannels`] takes the alerts of the built-in definition
//! `notify.alert` and sends them by mail (feature `mail`) and to chats: DingTalk, Feishu (Lark), WeCom, Slack (feature `chat`).
//! Users name the crate `solid-notify`, as `solid_notify::channels`.
//!
//! ```no_run
//! # #[cfg(all(feature = "mail", feature = "chat"))]
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
//!     .default_chat("ops")                                     // for alerts that name nobody
//!     .build()?;
//! let sweeper = sweeper.register(ALERT_DEFINITION, alerts);
//! # Ok(()) }
//! ```
//!
//! An operator then writes into the row of a definition whom to tell: `email = 'a@example.com, b@example.com'`,
//! `alert_to = 'ops, dev'`.
//!
//! # What to expect
//!
//! - **At least once**, as all that solid-notify sends: a process may die between sending and storing that it has sent. A mail
//!   has the same `Message-ID` each time, so most mail programs show it once; chats show it twice.
//! - **Each recipient on its own.** What some got and others did not is retried as the definition `notify.alert` says, for the
//!   others only. The description of the alert's notice says who has it.
//! - **A service that says "too often"** is left alone for as long as it shuts out (DingTalk: ten minutes), capped by the
//!   definition's `max_retry_interval`.
//! - **Long texts are cut** to what a service takes, with a mark at the end.
//! - **Secrets** are in none of the errors, logs and `Debug` texts.
//! - A name that is not known, a wrong password or a refused address is retried, too, until the tries run out: somebody may
//!   correct it. Only a text that is no address at all is given up at once, if nothing else is left to do.
//!
//! Both clients encrypt with rustls and trust the operating system's certificates.

// Without a channel nothing is ever delivered, so what remembers deliveries is idle.
#![cfg_attr(not(any(feature = "mail", feature = "chat")), allow(dead_code))]

mod alerts;
#[cfg(feature = "chat")]
mod chat;
mod delivered;
mod error;
#[cfg(feature = "mail")]
mod mail;

pub use alerts::{AlertChannels, AlertChannelsBuilder};
#[cfg(feature = "chat")]
pub use chat::{Answer, ChatService, DingTalk, Feishu, Post, Slack, Verdict, WeCom};
pub use error::ChannelError;
#[cfg(feature = "mail")]
pub use mail::{Mailer, MailerBuilder};
