//! The ready channels, with real servers: brokers (`brokers/`), webhooks, mail, chats, and the handler of alerts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod addresses;
mod book;
mod brokers;
mod chat_rows;
mod chats;
mod config_tables;
mod configured;
mod desk;
mod limits;
mod long_templates;
mod mail;
mod mail_names;
mod mail_rows;
mod malformed;
mod prepared;
mod receiver;
mod recipients;
mod repeated;
mod secrets;
mod send;
mod setting_up;
mod webhooks;
