//! [`Mailer`]: sends alerts as mails, over SMTP.
//!
//! `builder.rs` builds it from its settings, `message.rs` writes a mail, `session.rs` talks to the server.
//! [`crate::AlertChannels`] chooses the recipients.

mod builder;
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

pub use builder::MailerBuilder;

use crate::error::ChannelError;
use settings::Settings;

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
    /// Signs in at the server and disconnects, so that a program finds a wrong setting at its start and not with the first
    /// alert.
    ///
    /// # Errors
    /// Fails if no mail could be sent: the server does not answer, its certificate is not trusted, the password is wrong.
    pub async fn check(&self) -> Result<(), ChannelError> {
        session::check(&self.settings).await.map_err(|source| self.failed("no recipient (a check)".to_owned(), source))
    }

    /// Sends one mail to all these addresses. Returns the refused addresses with their errors; the others got the mail.
    pub(crate) async fn send(&self, alert: &Alert, id: &str, to: &[Address]) -> Result<Refused, ChannelError> {
        let names = || to.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let mail = message::compose(alert, &self.settings.from, to, id);
        let mail = mail.map_err(|error| self.failed(names(), error.into()))?;
        let refusals = session::send(&self.settings, to, &mail).await.map_err(|error| self.failed(names(), error))?;
        let refused = refusals.into_iter().map(|(address, error)| {
            let error = ChannelError::AddressRefused { address: address.to_string(), source: error.into() };
            (address, error)
        });
        Ok(refused.collect())
    }

    fn failed(&self, to: String, source: BoxError) -> ChannelError {
        ChannelError::Mail { to, server: self.settings.server(), source }
    }
}

/// The addresses that the server refused, with their errors.
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

/// Parses an address as people write it: `ops@example.com`, or `Ops <ops@example.com>`.
pub(crate) fn address(text: &str) -> Result<Address, ChannelError> {
    let wrong = |source: BoxError| ChannelError::NotAnAddress { address: text.to_owned(), source };
    // The parser refuses control characters, even in quotes, because a line end would end the command to the server.
    let mailbox: Mailbox = text.parse().map_err(|error: AddressError| wrong(error.into()))?;
    let address = mailbox.email;
    if address.domain().is_ascii() {
        return Ok(address);
    }
    // A domain in another script is converted to its ASCII form, which every server accepts.
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
    fn a_wrong_address_is_shown_with_its_column() {
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
