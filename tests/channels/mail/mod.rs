//! The channel `mail` through a real server. This file has the mail server of the run, and what it has delivered: a file for each mail and
//! recipient.

mod hostile;
mod mails;
mod outages;

use std::path::PathBuf;
use std::sync::LazyLock;

use chrono::{DateTime, Utc};
use mail_parser::{Message, MessageParser};
use solid_notify::channels::{Mailer, MailerBuilder};
use test_support::sending::eventually;

/// A variable of the run.
pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: `cargo xtask test` provides a mail server, `cargo xtask servers --only mail` one for a session")
    })
}

/// Returns an address that no mail was sent to before, because a server may outlive a run.
pub fn fresh(name: &str) -> String {
    static RUN: LazyLock<u128> =
        LazyLock::new(|| (Utc::now() - DateTime::UNIX_EPOCH).to_std().expect("after 1970").as_millis());
    format!("{name}-{}@notify.test", *RUN)
}

/// Sends through the port of this variable, and trusts the server's certificate.
pub fn through(url: &str) -> MailerBuilder {
    trusting_the_system_alone(url).root_certificate(std::fs::read(variable("SMTP_CERTIFICATE")).unwrap())
}

/// The same with the operating system's certificates alone.
pub fn trusting_the_system_alone(url: &str) -> MailerBuilder {
    Mailer::from_url(&variable(url)).unwrap().from("alerts@notify.test").from_name("订单 \"Q\" 📦")
}

/// The texts of the mails that this address has got so far.
pub fn delivered(address: &str) -> Vec<String> {
    let folder = PathBuf::from(variable("SMTP_MAILS"));
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| std::fs::read(file.path()).ok());
    let texts = texts.map(|bytes| String::from_utf8(bytes).expect("a mail is ASCII on its way"));
    texts.filter(|text| text.contains(&format!("Envelope-to: {address}\n"))).collect()
}

/// Waits for the only mail of an address.
pub async fn the_mail_to(address: &str) -> String {
    eventually(&format!("a mail to {address}"), async || !delivered(address).is_empty()).await;
    let mut mails = delivered(address);
    assert_eq!(mails.len(), 1, "{mails:?}");
    mails.remove(0)
}

/// Reads a mail as a mail program does.
pub fn parsed(text: &str) -> Message<'_> {
    MessageParser::default().parse(text.as_bytes()).expect("a mail")
}
