//! The ready-made handler of alerts, with a real mail server and real receivers of chat messages: recipients, retries and
//! secrets. The tests with the mail server are compiled where `mail` is selected.

mod chats;
mod desk;
mod limits;
#[cfg(mail)]
mod mailbox;
#[cfg(mail)]
mod mails;
mod receiver;
mod recipients;
mod setting_up;
