//! [`Mail`]: sends notices as mails that a `handler_config` describes.

use std::path::PathBuf;

use lettre::Address;
use lettre::message::Mailbox;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use solid_notify_core::ErrorClass;
use solid_notify_core::definition::{ExposeSecret, SecretRef, SecretString};
use solid_notify_sweeper::{Failure, HandlerResult};

use super::attachments::{self, Limits};
use super::config::MailConfig;
use super::message::Letter;
use super::session::Reply;
use super::{Mailer, mailbox, mailboxes};
use crate::address::AllowedNetworks;
use crate::channel::{AnyNotice, Channel, ack_token_if_keys, marked};
use crate::computing;
use crate::delivered::Progress;
use crate::error::{ChannelError, result};
use crate::hiding;
use crate::secrets::Secrets;
use crate::template::{Addresses, Escape, Template, Values};

/// Servers need accept no more in one mail (RFC 5321, 4.5.3.1.8).
const RECIPIENT_LIMIT: usize = 100;

/// The size of all attachments of a mail, unless the program sets another one. Base64 makes it 14 MB, and many servers refuse more than 20 MB.
const ATTACHMENT_LIMIT: usize = 10 * 1024 * 1024;

/// The channel `mail`: sends a notice as a mail that the column `handler_config` describes.
///
/// ```
/// use solid_notify_channels::{ChannelExt, Mail};
///
/// # fn example(sweeper: solid_notify_sweeper::SweeperBuilder) {
/// let sweeper = sweeper.channel(Mail::new().attachments_from("/srv/payslips"));
/// # }
/// ```
///
/// - One mail goes to all recipients. Each is independent: the server may refuse an address, and the others get the mail. The retry leaves
///   out those that have it. Their fingerprints are stored in the description, and no addresses, because the parameter may be encrypted.
/// - An attempt that left out recipients fails when the others have the mail. Its error names each of them. A permanent refusal has the class
///   of the server's reply (`not_found`, `invalid`), a text that is no address the class `invalid`.
/// - Each attempt has the same `Message-ID`.
#[derive(Debug)]
pub struct Mail {
    mailer: Option<Mailer>,
    /// Where the servers of configurations may be.
    networks: AllowedNetworks,
    limits: Limits,
}

impl Default for Mail {
    fn default() -> Self {
        Self::new()
    }
}

impl Mail {
    /// Creates the channel. Each configuration names its mail server.
    pub fn new() -> Self {
        Self {
            mailer: None,
            networks: AllowedNetworks::default(),
            limits: Limits { folder: None, bytes: ATTACHMENT_LIMIT },
        }
    }

    /// Creates the channel with the server and the sender of configurations that name none.
    pub fn with(mailer: Mailer) -> Self {
        Self { mailer: Some(mailer), ..Self::new() }
    }

    /// Allows mail servers of configurations in networks that are not public. The server of [`Self::with`] may be anywhere.
    #[must_use]
    pub fn allow_networks(mut self, networks: &AllowedNetworks) -> Self {
        self.networks = networks.clone();
        self
    }

    /// Lets configurations attach the files below this folder. Links that lead out of it are refused. Let only programs that you
    /// trust write there.
    #[must_use]
    pub fn attachments_from(mut self, folder: impl Into<PathBuf>) -> Self {
        self.limits.folder = Some(folder.into());
        self
    }

    /// Sets how many bytes all attachments of a mail have at most: 10 MiB by default.
    #[must_use]
    pub fn max_attachment_bytes(mut self, bytes: usize) -> Self {
        self.limits.bytes = bytes;
        self
    }
}

/// A checked configuration, and the mailer of its URL.
pub struct PreparedMail {
    config: MailConfig,
    mailer: Mutex<Option<(SecretString, Mailer)>>,
}

impl Channel for Mail {
    const NAME: &'static str = "mail";
    type Config = MailConfig;
    type Prepared = PreparedMail;

    fn prepare(&self, config: MailConfig) -> Result<PreparedMail, String> {
        config.check(self.mailer.is_some(), self.limits.folder.is_some())?;
        Ok(PreparedMail { config, mailer: Mutex::default() })
    }

    fn secrets(prepared: &PreparedMail) -> Vec<SecretRef> {
        prepared.config.secrets.values().chain(&prepared.config.smtp).cloned().collect()
    }

    async fn send(&self, prepared: &PreparedMail, notice: &AnyNotice) -> HandlerResult {
        let (config, secrets) = (&prepared.config, Secrets::read(notice, Self::secrets(prepared)).await?);
        let values = Values::new(notice, ack_token_if_keys(notice)?, (&config.secrets, &secrets))?;
        let (mut letter, mut errors) = self.letter(config, &values, notice).await?;
        letter.subject = marked(letter.subject, notice);
        let mailer = match &self.mailer {
            Some(mailer) if prepared.config.smtp.is_none() => mailer.clone(),
            _ => prepared.mailer(&self.networks, letter.from.as_ref(), &secrets)?,
        };
        secrets.admit_all(mailer.host())?;
        hiding::note(mailer.password());
        let progress = Progress::of(notice, fingerprint);
        let left: Vec<Address> = letter.recipients().filter(|to| !progress.has(to.as_ref())).cloned().collect();
        if left.is_empty() {
            return result(errors);
        }
        let (mut reply, id, composing) = (None, notice.idempotency_key(), mailer.clone());
        let composed = computing::on(notice, letter.bytes(), move || composing.compose(letter, &id, left)).await?;
        let sent = async { mailer.send(composed?).await };
        match sent.await {
            Ok(sent) => {
                reply = sent.response;
                errors.extend(sent.refused);
                // Where no recipient is left, no retry reads the list.
                if !errors.is_empty() {
                    progress.note(sent.accepted.iter().map(AsRef::as_ref));
                }
            }
            Err(error) => errors.push(error),
        }
        if let Some((code, text)) = reply.or_else(|| errors.iter().find_map(reply_of)) {
            notice.set_response(hiding::response(code, &text));
        }
        result(errors)
    }
}

/// Returns the server's reply that is an error.
fn reply_of(error: &ChannelError) -> Option<Reply> {
    let (ChannelError::Mail { source, .. }
    | ChannelError::AddressRefused { source, .. }
    | ChannelError::HelloRefused { source, .. }) = error
    else {
        return None;
    };
    let error = source.downcast_ref::<lettre::transport::smtp::Error>()?;
    Some((error.status()?.into(), error.to_string()))
}

/// Returns a short form of an address that is different for each notice. The description is stored without encryption, and it has none of
/// the values that a definition masks.
fn fingerprint(notice: &AnyNotice, address: &str) -> String {
    let digest = Sha256::digest(format!("{}\n{address}", notice.idempotency_key()));
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl Mail {
    /// Returns the letter, and an error for each recipient that is no address.
    async fn letter(
        &self,
        config: &MailConfig,
        values: &Values<'_>,
        notice: &AnyNotice,
    ) -> Result<(Letter, Vec<ChannelError>), Failure> {
        let from = sender(config, values).await?;
        let (reply_to, wrong) = read("reply_to", &config.reply_to, values).await?;
        result(wrong)?;
        let (mut seen, mut errors) = (Vec::new(), Vec::new());
        let mut recipients = |(mut found, wrong): (Vec<Mailbox>, Vec<ChannelError>)| {
            errors.extend(wrong);
            // An address that is in several fields gets one mail.
            found.retain(|mailbox| !seen.contains(&mailbox.email));
            seen.extend(found.iter().map(|mailbox| mailbox.email.clone()));
            found
        };
        let to = recipients(read("to", &config.to, values).await?);
        let cc = recipients(read("cc", &config.cc, values).await?);
        let bcc = recipients(read("bcc", &config.bcc, values).await?);
        if seen.is_empty() && errors.is_empty() {
            return Err(invalid("no recipient: `to`, `cc` and `bcc` give no address"));
        }
        if seen.len() > RECIPIENT_LIMIT {
            return Err(invalid(format!(
                "{} recipients are more than the {RECIPIENT_LIMIT} that a mail may have",
                seen.len()
            )));
        }
        let letter = Letter {
            from,
            to,
            cc,
            bcc,
            reply_to,
            subject: config.subject.render("subject", values).await?,
            text: rendered("text", config.text.as_ref(), values).await?,
            html: rendered("html", config.html.as_ref(), values).await?,
            attachments: attachments::read(&config.attachments, values, &self.limits, notice).await?,
        };
        Ok((letter, errors))
    }
}

async fn rendered<E: Escape>(
    field: &str,
    template: Option<&Template<E>>,
    values: &Values<'_>,
) -> Result<Option<String>, Failure> {
    match template {
        Some(template) => template.render(field, values).await.map(Some),
        None => Ok(None),
    }
}

/// Returns the addresses of a field, and an error for each text that is none.
async fn read(
    field: &str,
    templates: &[Template<Addresses>],
    values: &Values<'_>,
) -> Result<(Vec<Mailbox>, Vec<ChannelError>), Failure> {
    let mut texts = Vec::new();
    for (at, template) in templates.iter().enumerate() {
        texts.extend(template.addresses(&format!("{field}[{at}]"), values).await?);
    }
    Ok(mailboxes(&texts, &format!("the field `{field}`")))
}

fn invalid(problem: impl Into<String>) -> Failure {
    Failure::retry(problem.into()).class(ErrorClass::Invalid)
}

/// Returns the sender of the configuration.
async fn sender(config: &MailConfig, values: &Values<'_>) -> Result<Option<Mailbox>, Failure> {
    let Some(template) = &config.from else { return Ok(None) };
    let [address] = &template.addresses("from", values).await?[..] else {
        return Err(invalid("the field `from` gives no address or several: a mail has one sender"));
    };
    let mut from = mailbox(address, "the field `from`").map_err(ChannelError::failure)?;
    if let Some(name) = &config.from_name {
        from.name = Some(name.render("from_name", values).await?);
    }
    Ok(Some(from))
}

impl PreparedMail {
    /// Returns the mailer of the URL as it is now.
    fn mailer(
        &self,
        networks: &AllowedNetworks,
        from: Option<&Mailbox>,
        secrets: &Secrets<'_>,
    ) -> Result<Mailer, Failure> {
        let (Some(smtp), Some(from)) = (&self.config.smtp, from) else {
            // Not reachable: a configuration without a server or its sender is refused.
            return Err(invalid("`smtp` or `from` is missing"));
        };
        let url = secrets.get(smtp)?;
        let mut kept = self.mailer.lock();
        if let Some((_, mailer)) = kept.as_ref().filter(|(known, _)| known.expose_secret() == url.expose_secret()) {
            return Ok(mailer.clone());
        }
        let mailer = Mailer::from_url(url.expose_secret())?.limited_to(networks.clone());
        let mailer = mailer.from(from.email.to_string()).build()?;
        networks.admit(mailer.host())?;
        *kept = Some((url.clone(), mailer.clone()));
        Ok(mailer)
    }
}
