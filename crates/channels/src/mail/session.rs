//! The conversation with a mail server. One mail goes to all recipients in one transaction; each of them may be refused by
//! itself.
//!
//! A connection is used once. Alerts are rare, and one that was given up half-way (a handler's time-out drops it) must not be
//! used again: its next answer would be the one to the last question.

use std::io;
use std::time::Duration;

use lettre::Address;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::DEFAULT_MECHANISMS;
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{Extension, MailParameter};
use solid_notify_core::error::BoxError;
use tokio::time::timeout;

use super::settings::{Security, Settings};

/// How long the answer to a good-bye is waited for.
const PATIENCE_AT_THE_END: Duration = Duration::from_secs(1);

/// Whom the server does not take the mail for, and why; it took it for the others.
pub(super) type Refusals = Vec<(Address, Error)>;

/// Sends a mail.
pub(super) async fn send(settings: &Settings, to: &[Address], mail: &[u8]) -> Result<Refusals, BoxError> {
    let (mut connection, refusals) = within(settings, async {
        let mut connection = open(settings).await?;
        let refusals = hand_over(&mut connection, settings, to, mail).await?;
        Ok((connection, refusals))
    })
    .await?;
    leave(&mut connection).await;
    Ok(refusals)
}

/// Signs in, and leaves.
pub(super) async fn check(settings: &Settings) -> Result<(), BoxError> {
    let mut connection = within(settings, open(settings)).await?;
    leave(&mut connection).await;
    Ok(())
}

async fn open(settings: &Settings) -> Result<AsyncSmtpConnection, Error> {
    let Settings { host, port, security, tls, credentials, hello, timeout, .. } = settings;
    let from_the_start = tls.clone().filter(|_| *security == Security::Implicit);
    let place = (host.as_str(), *port);
    let mut connection =
        AsyncSmtpConnection::connect_tokio1(place, Some(*timeout), hello, from_the_start, None).await?;
    if let (Security::StartTls, Some(tls)) = (security, tls) {
        // Fails where the server does not offer it, so that nobody in between can talk us out of it.
        connection.starttls(tls.clone(), hello).await?;
    }
    if let Some(credentials) = credentials {
        connection.auth(DEFAULT_MECHANISMS, credentials).await?;
    }
    Ok(connection)
}

async fn hand_over(
    connection: &mut AsyncSmtpConnection,
    settings: &Settings,
    to: &[Address],
    mail: &[u8],
) -> Result<Refusals, Error> {
    let mut parameters = Vec::new();
    // Without it such an address is refused by itself below.
    let has_utf8 = to.iter().any(|address| !AsRef::<str>::as_ref(address).is_ascii());
    if has_utf8 && connection.server_info().supports_feature(Extension::SmtpUtfEight) {
        parameters.push(MailParameter::SmtpUtfEight);
    }
    connection.command(Mail::new(Some(settings.from.email.clone()), parameters)).await?;
    let mut refusals = Vec::new();
    for address in to {
        match connection.command(Rcpt::new(address.clone(), Vec::new())).await {
            Ok(_) => {}
            Err(error) if is_about_the_address(&error) => refusals.push((address.clone(), error)),
            Err(error) => return Err(error),
        }
    }
    if refusals.len() < to.len() {
        connection.command(Data).await?;
        connection.message(mail).await?;
    }
    Ok(refusals)
}

/// An answer, but not "421: the service ends now", which is about the server. (RFC 5321, 3.8 and 4.2.3)
fn is_about_the_address(error: &Error) -> bool {
    error.status().is_some_and(|code| u16::from(code) != 421)
}

/// Limits the whole conversation: the client below only limits how long it takes to connect.
async fn within<T>(settings: &Settings, conversation: impl Future<Output = Result<T, Error>>) -> Result<T, BoxError> {
    match timeout(settings.timeout, conversation).await {
        Ok(outcome) => Ok(outcome?),
        Err(_) => {
            let silence = format!("it took longer than {:?}", settings.timeout);
            Err(io::Error::new(io::ErrorKind::TimedOut, silence).into())
        }
    }
}

/// Says good-bye. What it answers changes nothing: the mail is its own by now. So nobody waits for it for long, since who has
/// got the mail is noted afterwards.
async fn leave(connection: &mut AsyncSmtpConnection) {
    let _ = timeout(PATIENCE_AT_THE_END, connection.abort()).await;
}
