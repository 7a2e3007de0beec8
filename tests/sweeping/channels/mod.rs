//! The ready channels, with real servers: brokers (`brokers/`), webhooks, mail, chats, and the handler of alerts. The tests with the mail
//! server are compiled where `mail` is selected.

mod brokers;
mod chat_rows;
mod chats;
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
mod setting_up;
mod smtp;
mod webhooks;
