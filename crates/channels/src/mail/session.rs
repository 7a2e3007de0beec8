//! The conversation with a mail server. One mail goes to all recipients in one transaction; the server may refuse each of
//! them separately. lettre's own transport ends the mail at the first refusal, and waits without limit for the goodbye: see
//! `docs/decisions/0098-mailer-talks-smtp.md`.
//!
//! A connection is used once: see `docs/decisions/0120-mail-and-chat-by-a-row.md`. One that was dropped half-way (by a handler's time-out)
//! must not be reused in any case, because its next answer would belong to an earlier command.

use std::io;
use std::time::Duration;

use lettre::Address;
use lettre::message::Mailbox;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::DEFAULT_MECHANISMS;
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{Extension, MailParameter};
use solid_notify_core::error::BoxError;
use tokio::time::timeout;

use super::settings::{Security, Settings};
use super::stream;

/// How long to wait for the answer to QUIT.
const PATIENCE_AT_THE_END: Duration = Duration::from_secs(1);

/// How many bytes of a mail are encoded and written at a time, so that a large one leaves other tasks their turns.
const PIECE: usize = 16 * 1024;

/// The addresses that the server refused, with their errors; it accepted the mail for the others.
pub(super) type Refusals = Vec<(Address, Error)>;

/// The code and the text of a reply.
pub(super) type Reply = (u16, String);

/// Sends a mail. Returns the refusals, and the server's reply to the mail; `None` if it refused all addresses.
pub(super) async fn send(
    settings: &Settings,
    from: &Mailbox,
    to: &[Address],
    mail: &[u8],
) -> Result<(Refusals, Option<Reply>), BoxError> {
    let (mut connection, sent) = within(settings, async {
        let mut connection = open(settings).await?;
        let sent = hand_over(&mut connection, from, to, mail).await?;
        Ok((connection, sent))
    })
    .await?;
    leave(&mut connection).await;
    Ok(sent)
}

/// Signs in and disconnects.
pub(super) async fn check(settings: &Settings) -> Result<(), BoxError> {
    let mut connection = within(settings, open(settings)).await?;
    leave(&mut connection).await;
    Ok(())
}

async fn open(settings: &Settings) -> Result<AsyncSmtpConnection, BoxError> {
    let Settings { host, port, networks, security, tls, credentials, hello, .. } = settings;
    let from_the_start = tls.clone().filter(|_| *security == Security::Implicit);
    let stream = stream::connect((host.as_str(), *port), networks.clone(), from_the_start).await?;
    let mut connection = AsyncSmtpConnection::connect_with_transport(stream, hello).await.map_err(of_greeting)?;
    if let (Security::StartTls, Some(tls)) = (security, tls) {
        // Fails if the server does not offer STARTTLS, so that an attacker in between cannot suppress the encryption.
        connection.starttls(tls.clone(), hello).await?;
    }
    if let Some(credentials) = credentials {
        connection.auth(DEFAULT_MECHANISMS, credentials).await?;
    }
    Ok(connection)
}

async fn hand_over(
    connection: &mut AsyncSmtpConnection,
    from: &Mailbox,
    to: &[Address],
    mail: &[u8],
) -> Result<(Refusals, Option<Reply>), BoxError> {
    let mut parameters = Vec::new();
    // Without this extension the server refuses such an address separately below.
    let has_utf8 = to.iter().any(|address| !AsRef::<str>::as_ref(address).is_ascii());
    if has_utf8 && connection.server_info().supports_feature(Extension::SmtpUtfEight) {
        parameters.push(MailParameter::SmtpUtfEight);
    }
    let named = |error| if is_about_the_name(&error) { NameRefused(error).into() } else { BoxError::from(error) };
    connection.command(Mail::new(Some(from.email.clone()), parameters)).await.map_err(named)?;
    let mut refusals = Vec::new();
    for address in to {
        match connection.command(Rcpt::new(address.clone(), Vec::new())).await {
            Ok(_) => {}
            Err(error) if is_about_the_address(&error) => refusals.push((address.clone(), error)),
            Err(error) => return Err(named(error)),
        }
    }
    if refusals.len() == to.len() {
        return Ok((refusals, None));
    }
    connection.command(Data).await?;
    let reply = connection.message_iter(mail.chunks(PIECE)).await?;
    let text = reply.message().collect::<Vec<_>>().join("\n");
    Ok((refusals, Some((reply.code().into(), text))))
}

/// Returns true for an answer about the address. 421 ("the service ends now") is about the server (RFC 5321, 3.8 and
/// 4.2.3).
fn is_about_the_address(error: &Error) -> bool {
    error.status().is_some_and(|code| u16::from(code) != 421) && !is_about_the_name(error)
}

/// Returns true for a permanent answer about the name in EHLO. Many servers give it only when they see an address: with 504, which RFC
/// 5321 has for parameters of commands, and Postfix in any case with these words.
fn is_about_the_name(error: &Error) -> bool {
    let Some(code) = error.status().filter(|_| error.is_permanent()) else { return false };
    u16::from(code) == 504 || error.to_string().to_ascii_lowercase().contains("helo command rejected")
}

/// The server does not accept the name in EHLO.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NameRefused(#[source] pub(super) Error);

/// Returns the error of the greeting. A permanent answer to EHLO is about the name; 554 is the greeting of a server that takes no mail.
fn of_greeting(error: Error) -> BoxError {
    match error.status().map(u16::from) {
        Some(code) if error.is_permanent() && code != 554 => NameRefused(error).into(),
        _ => error.into(),
    }
}

/// Limits the whole conversation.
async fn within<T>(
    settings: &Settings,
    conversation: impl Future<Output = Result<T, BoxError>>,
) -> Result<T, BoxError> {
    match timeout(settings.timeout, conversation).await {
        Ok(outcome) => outcome,
        Err(_) => {
            let silence = format!("it took longer than {:?}", settings.timeout);
            Err(io::Error::new(io::ErrorKind::TimedOut, silence).into())
        }
    }
}

/// Sends QUIT. The answer does not matter, because the server already has the mail. The wait is short, because the delivery
/// is noted only afterwards.
async fn leave(connection: &mut AsyncSmtpConnection) {
    let _ = timeout(PATIENCE_AT_THE_END, connection.abort()).await;
}
