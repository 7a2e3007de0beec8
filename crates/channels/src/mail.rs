//! [`Mailer`]: sends alerts as mails, over SMTP.
//!
//! Its settings are in `settings.rs`, what a mail looks like in `message.rs`, the conversation with the server in
//! `session.rs`. Who gets a mail is decided by [`crate::AlertChannels`].

mod message;
mod session;
mod settings;

use std::fmt;
use std::sync::Arc;

use lettre::Address;
use lettre::address::AddressError;
use lettre::message::Mailbox;
use solid_notify_core::Alert;
use solid_notify_core::error::BoxError;
use url::Host;

pub use settings::MailerBuilder;

use crate::error::ChannelError;
use settings::{Security, Settings};

/// Sends mails through an SMTP server.
///
/// ```
/// # fn main() -> Result<(), solid_notify_channels::ChannelError> {
/// use solid_notify_channels::Mailer;
///
/// let mailer = Mailer::starttls("mail.example.com")
///     .credentials("alerts", "a secret of your configuration")
///     .from("alerts@example.com")
///     .from_name("订单 alerts")
///     .build()?;
/// // The same as a URL, for people who configure by environment variables:
/// let mailer = Mailer::from_url("smtp://alerts:a%20secret@mail.example.com?tls=required")?
///     .from("alerts@example.com")
///     .build()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Mailer {
    settings: Arc<Settings>,
}

impl Mailer {
    /// A server that begins in plain text and is asked to encrypt (STARTTLS), on port 587. One that does not is not used.
    pub fn starttls(host: &str) -> MailerBuilder {
        MailerBuilder::new(host, Security::StartTls)
    }

    /// A server that encrypts from the first byte on, on port 465.
    pub fn tls(host: &str) -> MailerBuilder {
        MailerBuilder::new(host, Security::Implicit)
    }

    /// A server that is spoken to in plain text, on port 25: a relay on the same machine. Everybody in between reads the
    /// mails, and the password where one is given.
    pub fn plaintext(host: &str) -> MailerBuilder {
        MailerBuilder::new(host, Security::Plaintext)
    }

    /// A server by its URL: `smtps://user:password@host:465`, `smtp://user:password@host:587?tls=required`, or in plain text
    /// `smtp://host:25?tls=none`. User and password are percent-encoded.
    ///
    /// # Errors
    /// Says what is wrong with it, without repeating the password.
    pub fn from_url(url: &str) -> Result<MailerBuilder, ChannelError> {
        MailerBuilder::from_url(url)
    }

    /// Signs in at the server and leaves again: tells at a program's start what the first alert would find out.
    ///
    /// # Errors
    /// Fails where no mail could be sent: nobody answers, the certificate is not trusted, the password is wrong.
    pub async fn check(&self) -> Result<(), ChannelError> {
        session::check(&self.settings).await.map_err(|source| self.failed("nobody (it was a check)".to_owned(), source))
    }

    /// Sends one mail to all these. What is refused of one address is told with it; the others got it.
    pub(crate) async fn send(&self, alert: &Alert, id: &str, to: &[Address]) -> Result<Refused, ChannelError> {
        let names = || to.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let mail = message::compose(alert, &self.settings.from, to, id);
        let mail = mail.map_err(|error| self.failed(names(), error.into()))?;
        let refusals = session::send(&self.settings, to, &mail).await.map_err(|error| self.failed(names(), error))?;
        let refused = refusals.into_iter().map(|(address, error)| {
            let told = ChannelError::AddressRefused { address: address.to_string(), source: error.into() };
            (address, told)
        });
        Ok(refused.collect())
    }

    fn failed(&self, to: String, source: BoxError) -> ChannelError {
        ChannelError::Mail { to, server: self.settings.server(), source }
    }
}

/// The addresses that the server does not take mail for, and why.
pub(crate) type Refused = Vec<(Address, ChannelError)>;

impl fmt::Debug for Mailer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { security, from, timeout, .. } = &*self.settings;
        f.debug_struct("Mailer")
            .field("server", &self.settings.server())
            .field("security", security)
            .field("from", from)
            .field("timeout", timeout)
            .finish_non_exhaustive()
    }
}

/// An address as people write it: `ops@example.com`, or `Ops <ops@example.com>`.
pub(crate) fn address(text: &str) -> Result<Address, ChannelError> {
    let wrong = |source: BoxError| ChannelError::NotAnAddress { address: text.to_owned(), source };
    // It takes no control character, not even in quotes: a line end would be the end of the command to the server.
    let mailbox: Mailbox = text.parse().map_err(|error: AddressError| wrong(error.into()))?;
    let address = mailbox.email;
    if address.domain().is_ascii() {
        return Ok(address);
    }
    // Other scripts in a domain travel in their ASCII form, which every server takes.
    let host = Host::parse(address.domain()).map_err(|error| wrong(error.into()))?;
    Address::new(address.user(), host.to_string()).map_err(|error| wrong(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_name_and_a_domain_in_any_script() {
        assert_eq!(address("ops@example.com").unwrap().to_string(), "ops@example.com");
        assert_eq!(address("Ops <ops@example.com>").unwrap().to_string(), "ops@example.com");
        assert_eq!(address("ops@例子.cn").unwrap().to_string(), "ops@xn--fsqu00a.cn");
    }

    #[test]
    fn what_is_no_address_is_repeated_with_the_column() {
        for text in ["ops", "ops@", "@example.com", "a b@example.com", "订单"] {
            let error = address(text).unwrap_err().to_string();
            assert!(error.contains("`email`") && error.contains(text), "{error}");
        }
    }

    #[test]
    fn an_address_has_no_line_end_even_in_quotes() {
        let hidden = [
            "\"a\r\nDATA\"@example.com",
            "\"a\rb\"@example.com",
            "\"a\\\nb\"@example.com",
            "Ops\r\n <ops@example.com>",
        ];
        for text in hidden.into_iter().chain(["ops@example.com\nBcc: x", "ops@\u{85}example.com"]) {
            let error = address(text).unwrap_err().to_string();
            assert!(!error.contains(char::is_control), "{error:?}");
        }
    }
}
