//! [`ChannelError`]: why a mail or a message did not reach a recipient, or why a channel cannot be set up.
//!
//! The errors of the clients (`lettre`, `std::io`) and [`HttpStatus`](solid_notify_sweeper::HttpStatus) stay in the chain of sources, so that the sweeper can
//! classify an error by its type. None of the texts contains a secret.

use std::fmt::Write as _;
use std::time::Duration;

use solid_notify_core::ErrorClass;
use solid_notify_core::error::BoxError;
use solid_notify_sweeper::{Failure, HandlerResult};

/// The length from which the text of several errors has no more of them, in bytes.
const LONGEST_TEXT: usize = 16 * 1024;

/// Why a channel did not deliver to a recipient, or cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// A value that was given to a builder is invalid.
    #[error("{what}")]
    Setup {
        /// What is wrong, in words for the person who configures it.
        what: String,
        /// The underlying error, if there is one.
        source: Option<BoxError>,
    },
    /// An alert has no recipient: neither its definition nor the defaults name one.
    #[error(
        "the definition `{definition}` names no recipient in `email` or `alert_to`, and there are no defaults: set one of the \
         columns, then retry this alert"
    )]
    NoRecipient {
        /// The definition that the alert is about.
        definition: String,
    },
    /// An alert names a chat that was not given to [`crate::AlertChannelsBuilder`].
    #[error("the column `alert_to` names the chat `{name}`, which is not known here: {}", known_names(.known))]
    UnknownChat {
        /// The name.
        name: String,
        /// The names that are known.
        known: Vec<String>,
    },
    /// An alert names mail addresses, but no mailer is set.
    #[error("the column `email` names {addresses}, and there is no mailer: give one to `AlertChannels::builder()`")]
    NoMailer {
        /// The addresses, separated by commas.
        addresses: String,
    },
    /// Not an address: no mail can ever be sent to it.
    #[error("{place} has {address:?}, which is no mail address")]
    NotAnAddress {
        /// The column or the field that has it.
        place: String,
        /// The text.
        address: String,
        /// What is wrong with it.
        source: BoxError,
    },
    /// The mail server does not take mail for one address.
    #[error("the mail server refused the address `{address}`")]
    AddressRefused {
        /// The address.
        address: String,
        /// The server's answer.
        source: BoxError,
    },
    /// The mail server does not accept the name with which the mailer says hello. It is no fault of an address.
    #[error(
        "the mail server {server} does not accept the name {hello} of this sender: set the full name of its host, by `?hello=` \
         in the URL of the mail server or by `MailerBuilder::hello`"
    )]
    HelloRefused {
        /// Host and port.
        server: String,
        /// The name.
        hello: String,
        /// A `lettre::transport::smtp::Error`.
        source: BoxError,
    },
    /// The mail was not handed over.
    #[error("the mail to {to} was not handed over to the mail server {server}")]
    Mail {
        /// The addresses, separated by commas.
        to: String,
        /// Host and port.
        server: String,
        /// A `lettre::transport::smtp::Error`, or an `std::io::Error` if the time-out expired.
        source: BoxError,
    },
    /// A chat's server did not answer.
    #[error("the chat `{chat}` did not answer")]
    NoAnswer {
        /// The chat's name.
        chat: String,
        /// An `std::io::Error`, without the URL.
        source: BoxError,
    },
    /// A chat's server answered that it did not take the message.
    #[error("the chat `{chat}` refused the message: {reason}")]
    Refused {
        /// The chat's name.
        chat: String,
        /// The server's answer.
        reason: String,
        /// A `HttpStatus`, if the status was that of an error.
        source: Option<BoxError>,
    },
    /// A chat got more messages than it accepts in a time.
    #[error("the chat `{chat}` takes no more messages for {} s: {reason}", .delay.as_secs())]
    TooOften {
        /// The chat's name.
        chat: String,
        /// How long to wait.
        delay: Duration,
        /// The server's answer.
        reason: String,
    },
    /// Several of these errors. The first one is the source, because a chain has room for one.
    #[error("{}", several(.first, .others))]
    Several {
        /// One of them.
        #[source]
        first: Box<ChannelError>,
        /// The rest.
        others: Vec<ChannelError>,
    },
}

impl ChannelError {
    pub(crate) fn setup(what: impl Into<String>) -> Self {
        Self::Setup { what: what.into(), source: None }
    }

    pub(crate) fn setup_failed(what: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Setup { what: what.into(), source: Some(source.into()) }
    }

    /// Returns all errors as one; `None` if there are none. The first one decides the class, so an error that passes stands before one that
    /// does not.
    pub(crate) fn all(mut errors: Vec<Self>) -> Option<Self> {
        errors.sort_by_key(Self::lasts);
        match errors.len() {
            0 | 1 => errors.pop(),
            _ => {
                let others = errors.split_off(1);
                errors.pop().map(|first| Self::Several { first: Box::new(first), others })
            }
        }
    }

    /// Returns the handler's result.
    pub(crate) fn failure(self) -> Failure {
        match self.delay() {
            // Not as the reply's code says: it is retried until the setting is corrected.
            _ if matches!(self, Self::HelloRefused { .. }) => Failure::retry(self).class(ErrorClass::Unknown),
            _ if self.is_permanent() => Failure::give_up(self).class(ErrorClass::Invalid),
            Some(delay) => Failure::retry_in(delay, self).class(ErrorClass::Busy),
            None => Failure::retry(self),
        }
    }

    /// Returns how long to wait before the next try, if the receiver said so.
    pub fn delay(&self) -> Option<Duration> {
        match self {
            Self::TooOften { delay, .. } => Some(*delay),
            Self::Several { first, others } => each(first, others).filter_map(Self::delay).max(),
            _ => None,
        }
    }

    /// Returns how surely the next try fails in the same way.
    fn lasts(&self) -> u8 {
        match self {
            Self::NotAnAddress { .. } => 2,
            #[cfg(feature = "mail")]
            Self::AddressRefused { source, .. } => u8::from(
                source.downcast_ref::<lettre::transport::smtp::Error>().is_some_and(|error| error.is_permanent()),
            ),
            _ => 0,
        }
    }

    /// Returns true if no later try can succeed: a text is not an address. A wrong password or an unknown
    /// name is different, because a later release of the program, or another node, may have the right one.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::NotAnAddress { .. } => true,
            Self::Several { first, others } => each(first, others).all(Self::is_permanent),
            _ => false,
        }
    }
}

/// Turns the errors of all recipients into the handler's result.
pub(crate) fn result(errors: Vec<ChannelError>) -> HandlerResult {
    ChannelError::all(errors).map_or(Ok(()), |error| Err(error.failure()))
}

/// Returns an error with its cause.
#[cfg(feature = "mail")]
pub(crate) fn described(error: &ChannelError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn known_names(known: &[String]) -> String {
    if known.is_empty() { "no chat is".to_owned() } else { format!("known are {}", known.join(", ")) }
}

fn each<'a>(first: &'a ChannelError, others: &'a [ChannelError]) -> impl Iterator<Item = &'a ChannelError> {
    std::iter::once(first).chain(others)
}

/// Returns the texts of all errors with their causes, because the chain contains the causes of the first one only. A notice does not keep as much,
/// and each may have a long text of a server, so beyond a limit the others are only counted.
fn several(first: &ChannelError, others: &[ChannelError]) -> String {
    let mut text = String::new();
    for (at, error) in each(first, others).enumerate() {
        if text.len() > LONGEST_TEXT {
            let _ = write!(text, "; and {} more", others.len() + 1 - at);
            break;
        }
        let _ = write!(text, "{}{error}", if text.is_empty() { "" } else { "; " });
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            let own = error.to_string();
            // The texts of some errors already contain their causes.
            if !text.ends_with(&own) {
                let _ = write!(text, ": {own}");
            }
            cause = error.source();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::io;

    use super::*;

    fn silent(chat: &str) -> ChannelError {
        let source = io::Error::new(io::ErrorKind::TimedOut, "time is up").into();
        ChannelError::NoAnswer { chat: chat.to_owned(), source }
    }

    fn too_often(seconds: u64) -> ChannelError {
        ChannelError::TooOften {
            chat: "ops".to_owned(),
            delay: Duration::from_secs(seconds),
            reason: "slower".to_owned(),
        }
    }

    #[test]
    fn text_of_many_errors_is_bounded() {
        let refused = || ChannelError::AddressRefused { address: "a@x".to_owned(), source: "x".repeat(60_000).into() };
        let text = ChannelError::all((0..100).map(|_| refused()).collect()).unwrap().to_string();
        assert!(text.len() < 61_000 && text.ends_with("x; and 99 more"), "{}", text.len());
    }

    fn no_address() -> ChannelError {
        ChannelError::NotAnAddress {
            place: "the column `email`".to_owned(),
            address: "no-address".to_owned(),
            source: "no @".into(),
        }
    }

    #[test]
    fn several_errors_show_each_with_its_causes_and_keep_the_first_chain() {
        assert!(ChannelError::all(Vec::new()).is_none());
        let both = ChannelError::all(vec![silent("ops"), silent("dev")]).unwrap();
        let text = "the chat `ops` did not answer: time is up; the chat `dev` did not answer: time is up";
        assert_eq!(both.to_string(), text);
        let mut cause: Option<&(dyn Error + 'static)> = Some(&both);
        let mut found = None;
        while let Some(error) = cause {
            found = found.or(error.downcast_ref::<io::Error>());
            cause = error.source();
        }
        assert_eq!(found.unwrap().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn the_longest_wait_counts() {
        let error = ChannelError::all(vec![too_often(60), silent("dev"), too_often(600)]).unwrap();
        assert_eq!(error.delay(), Some(Duration::from_secs(600)));
        assert_eq!(silent("dev").delay(), None);
    }

    #[test]
    fn only_uncorrectable_errors_are_permanent() {
        assert!(ChannelError::all(vec![no_address(), no_address()]).unwrap().is_permanent());
        assert!(!ChannelError::all(vec![no_address(), silent("ops")]).unwrap().is_permanent());
        let unknown = ChannelError::UnknownChat { name: "opps".to_owned(), known: vec!["ops".to_owned()] };
        assert!(!unknown.is_permanent());
        assert!(unknown.to_string().ends_with("known are ops"));
    }
}
