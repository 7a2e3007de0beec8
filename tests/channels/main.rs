//! The ready channels, with real servers: brokers (`brokers/`), webhooks, mail, chats, and the handler of alerts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod book;
mod brokers;
mod chat_rows;
mod chats;
mod config_tables;
mod configured;
mod desk;
mod limits;
#[cfg(mail)]
mod mail_outages;
mod mail_rows;
#[cfg(mail)]
mod mailbox;
#[cfg(mail)]
mod mails;
mod receiver;
mod recipients;
mod send;
mod setting_up;
mod smtp;
mod webhooks;
