//! Mail over SMTP: [`Mail`] sends notices, and [`crate::AlertChannels`] alerts, by the same [`Mailer`].
//!
//! `config.rs` reads a `handler_config`, `channel.rs` makes letters by it. `builder.rs` builds a mailer from its settings, `message.rs`
//! writes a letter as a mail, `session.rs` talks to the server.

mod alert;
mod attachments;
mod builder;
mod channel;
mod config;
mod message;
mod session;
mod settings;
mod stream;

use std::fmt;
use std::sync::Arc;

use lettre::Address;
use lettre::message::Mailbox;
use solid_notify_core::definition::SecretString;
use solid_notify_core::error::BoxError;
use solid_notify_core::mail_address::MailAddress;
use url::Host;

pub(crate) use alert::letter as alert_letter;
pub use builder::MailerBuilder;
pub use channel::Mail;

use crate::error::ChannelError;
use message::Letter;
use session::{NameRefused, Reply};
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
    /// Returns the name or the address of the server.
    fn host(&self) -> &str {
        &self.settings.host
    }

    /// Signs in at the server and disconnects, so that a program finds a wrong setting at its start and not with the first
    /// alert.
    ///
    /// # Errors
    /// Fails if no mail could be sent: the server does not answer, its certificate is not trusted, the password is wrong.
    pub async fn check(&self) -> Result<(), ChannelError> {
        session::check(&self.settings)
            .await
            .map_err(|source| self.undelivered("no recipient (a check)".to_owned(), source))
    }

    /// Returns the password of its account, which no text of the server may show.
    pub(crate) fn password(&self) -> Option<&SecretString> {
        self.settings.password.as_ref()
    }

    /// Makes a mail for these recipients of a letter. `id` is the same at each attempt, so that a mail program shows a mail that arrives twice
    /// only once. It takes long for a large letter.
    pub(crate) fn compose(&self, letter: Letter, id: &str, to: Vec<Address>) -> Result<Composed, ChannelError> {
        let from = letter.from.clone().unwrap_or_else(|| self.settings.from.clone());
        match message::compose(letter, &from, id) {
            Ok(mail) => Ok(Composed { from, to, mail }),
            Err(error) => Err(self.failed(&to, error.into())),
        }
    }

    fn failed(&self, to: &[Address], source: BoxError) -> ChannelError {
        let to = to.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        self.undelivered(to, source)
    }

    fn undelivered(&self, to: String, source: BoxError) -> ChannelError {
        let server = self.settings.server();
        match source.downcast::<NameRefused>() {
            Ok(refused) => {
                ChannelError::HelloRefused { server, hello: self.settings.hello.to_string(), source: refused.0.into() }
            }
            Err(source) => ChannelError::Mail { to, server, source },
        }
    }

    /// Sends a mail.
    pub(crate) async fn send(&self, Composed { from, to, mail }: Composed) -> Result<Sent, ChannelError> {
        let sent = session::send(&self.settings, &from, &to, &mail).await;
        let (refusals, response) = sent.map_err(|source| self.failed(&to, source))?;
        let is_accepted = |address: &&Address| refusals.iter().all(|(other, _)| other != *address);
        let accepted = to.iter().filter(is_accepted).cloned().collect();
        let refused = refusals.into_iter().map(|(address, error)| ChannelError::AddressRefused {
            address: address.to_string(),
            source: error.into(),
        });
        Ok(Sent { accepted, refused: refused.collect(), response })
    }
}

/// A mail in its wire format, and where it goes.
pub(crate) struct Composed {
    from: Mailbox,
    to: Vec<Address>,
    mail: Vec<u8>,
}

/// What the server made of a mail.
pub(crate) struct Sent {
    /// The addresses that have it.
    pub(crate) accepted: Vec<Address>,
    /// An error for each of the other addresses.
    pub(crate) refused: Vec<ChannelError>,
    /// The reply to the mail; `None` if the server refused all addresses.
    pub(crate) response: Option<Reply>,
}

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

/// Reads addresses as people write them: `ops@example.com`, or `Ops <ops@example.com>`. Returns each address once, and the errors of the
/// others.
pub(crate) fn mailboxes(texts: &[String], place: &str) -> (Vec<Mailbox>, Vec<ChannelError>) {
    let (mut mailboxes, mut errors) = (Vec::<Mailbox>::new(), Vec::new());
    for text in texts {
        match mailbox(text, place) {
            Ok(mailbox) if mailboxes.iter().any(|known| known.email == mailbox.email) => {}
            Ok(mailbox) => mailboxes.push(mailbox),
            Err(error) => errors.push(error),
        }
    }
    (mailboxes, errors)
}

/// Reads an address. `place` has it, for the error.
pub(crate) fn mailbox(text: &str, place: &str) -> Result<Mailbox, ChannelError> {
    let wrong =
        |source: BoxError| ChannelError::NotAnAddress { place: place.to_owned(), address: text.to_owned(), source };
    let read = MailAddress::parse(text).map_err(|problem| wrong(problem.into()))?;
    let address = match read.domain.is_ascii() {
        true => Address::new(read.local, read.domain),
        // A domain in another script is converted to its ASCII form, which every server accepts.
        false => {
            let host = Host::parse(read.domain).map_err(|error| wrong(error.into()))?;
            Address::new(read.local, host.to_string())
        }
    };
    Ok(Mailbox::new(read.name(), address.map_err(|error| wrong(error.into()))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Result<Address, ChannelError> {
        mailbox(text, "the column `email`").map(|mailbox| mailbox.email)
    }

    #[test]
    fn an_address_may_have_a_name_and_a_domain_in_any_script() {
        assert_eq!(address("ops@example.com").unwrap().to_string(), "ops@example.com");
        assert_eq!(address("Ops <ops@example.com>").unwrap().to_string(), "ops@example.com");
        assert_eq!(address("\"a, b\"@example.com").unwrap().to_string(), "\"a, b\"@example.com");
        let named = mailbox("\"Doe, Jane\" <jane@example.com>", "x").unwrap();
        assert_eq!((named.name.as_deref(), named.email.as_ref()), (Some("Doe, Jane"), "jane@example.com"));
        assert_eq!(address("ops@例子.cn").unwrap().to_string(), "ops@xn--fsqu00a.cn");
    }

    #[test]
    fn a_wrong_address_is_shown_with_its_column() {
        for text in ["ops", "ops@", "@example.com", "a b@example.com", "订单", "a@x.org, b@x.org"] {
            let error = address(text).unwrap_err().to_string();
            assert!(error.contains("`email`") && error.contains(&format!("{text:?}")), "{error}");
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
