//! What a conversation with the server needs to know.

use std::time::Duration;

use lettre::message::Mailbox;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::TlsParameters;
use lettre::transport::smtp::extension::ClientId;
use solid_notify_core::definition::SecretString;

use crate::address::AllowedNetworks;

/// How the connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Security {
    /// Begins in plain text, in which only the request for encryption is sent.
    StartTls,
    /// Encrypted from the first byte.
    Implicit,
    /// Never encrypted.
    Plaintext,
}

/// The settings that a conversation with the server needs. No `Debug`, because it holds the password.
pub(super) struct Settings {
    pub(super) host: String,
    pub(super) port: u16,
    /// Where the server may be; `None`: anywhere, because the program names it.
    pub(super) networks: Option<AllowedNetworks>,
    pub(super) security: Security,
    pub(super) tls: Option<TlsParameters>,
    pub(super) credentials: Option<Credentials>,
    /// The one in `credentials`, which shows none.
    pub(super) password: Option<SecretString>,
    pub(super) from: Mailbox,
    pub(super) hello: ClientId,
    pub(super) timeout: Duration,
}

impl Settings {
    /// Returns host and port, for messages.
    pub(super) fn server(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}
