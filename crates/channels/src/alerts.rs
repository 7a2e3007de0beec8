//! [`AlertChannels`]: the handler of the definition `notify.alert`. It selects the recipients of an alert; the mailer and the chats
//! do the sending.

use futures_util::future::join;
use solid_notify_core::Alert;
use solid_notify_sweeper::{Failure, Handler, HandlerResult, Notice};
use std::fmt;

#[cfg(feature = "plain-chat")]
use crate::chat::{self, ChatService, NamedChat};
use crate::delivered::Progress;
#[cfg(feature = "mail")]
use crate::error::described;
use crate::error::{ChannelError, result};
use crate::hiding;
#[cfg(feature = "plain-chat")]
use crate::http::Client;
#[cfg(feature = "mail")]
use crate::mail::{self, Mailer};

/// Sends alerts by mail and to chats. The crate's page shows how to register it.
///
/// - An alert goes to the addresses in its `email` and to the chats that its `alert_to` names. If it names neither, it goes to
///   the defaults. Without defaults it becomes a dead letter that says so: retry it when the definition names a recipient.
/// - `alert_to` holds names only. URLs and secrets stay in the program's configuration, because many people read the tables and
///   copy them to other places.
/// - Each recipient is independent: a failure for one does not keep the alert from another, and the retry leaves out recipients
///   that have the alert. They are stored in the description of the alert's notice.
/// - A clone is cheap and has the same recipients.
#[derive(Clone)]
pub struct AlertChannels {
    #[cfg(feature = "mail")]
    mailer: Option<Mailer>,
    #[cfg(feature = "plain-chat")]
    chats: Vec<NamedChat>,
    #[cfg(feature = "plain-chat")]
    client: Client,
    defaults: Recipients,
}

/// Builds [`AlertChannels`].
#[derive(Default)]
pub struct AlertChannelsBuilder {
    #[cfg(feature = "mail")]
    mailer: Option<Mailer>,
    #[cfg(feature = "plain-chat")]
    chats: Vec<NamedChat>,
    defaults: Recipients,
}

/// The recipients of an alert: addresses, and names of chats.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Recipients {
    email: Vec<String>,
    chats: Vec<String>,
}

impl Recipients {
    fn of(alert: &Alert) -> Self {
        Self { email: cleaned(&alert.email), chats: cleaned(&alert.alert_to) }
    }

    fn is_empty(&self) -> bool {
        self.email.is_empty() && self.chats.is_empty()
    }
}

/// Returns each name once, without blanks around it.
fn cleaned(names: &[String]) -> Vec<String> {
    let mut clean: Vec<String> = Vec::new();
    for name in names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
        if !clean.iter().any(|known| known == name) {
            clean.push(name.to_owned());
        }
    }
    clean
}

impl AlertChannels {
    /// Returns a builder without any channel.
    pub fn builder() -> AlertChannelsBuilder {
        AlertChannelsBuilder::default()
    }

    /// Sends the mail to the addresses that do not have it yet. Returns the errors.
    #[cfg(feature = "mail")]
    async fn mail(
        &self,
        notice: &Notice<Alert>,
        progress: &Progress<'_, Alert>,
        names: &[String],
    ) -> Vec<ChannelError> {
        let (mailboxes, mut errors) = mail::mailboxes(names, "the column `email`");
        let addresses = mailboxes.iter().map(|mailbox| mailbox.email.clone());
        let left: Vec<_> = addresses.filter(|address| !progress.has(address.as_ref())).collect();
        if left.is_empty() {
            return errors;
        }
        let Some(mailer) = &self.mailer else {
            errors.push(no_mailer(left.iter().map(ToString::to_string)));
            return errors;
        };
        hiding::note(mailer.password());
        let letter = mail::alert_letter(notice.param(), mailboxes);
        let composed = mailer.compose(letter, &notice.idempotency_key(), left);
        let sent = async { mailer.send(composed?).await };
        match sent.await {
            Ok(sent) => {
                progress.note(sent.accepted.iter().map(AsRef::as_ref));
                errors.extend(sent.refused);
            }
            Err(error) => errors.push(error),
        }
        errors
    }

    #[cfg(not(feature = "mail"))]
    async fn mail(&self, _: &Notice<Alert>, _: &Progress<'_, Alert>, names: &[String]) -> Vec<ChannelError> {
        if names.is_empty() { Vec::new() } else { vec![no_mailer(names.iter().cloned())] }
    }

    fn has_mailer(&self) -> bool {
        #[cfg(feature = "mail")]
        return self.mailer.is_some();
        #[cfg(not(feature = "mail"))]
        return false;
    }

    fn known_chats(&self) -> Vec<String> {
        #[cfg(feature = "plain-chat")]
        return self.chats.iter().map(|chat| chat.name.clone()).collect();
        #[cfg(not(feature = "plain-chat"))]
        return Vec::new();
    }

    /// Posts to all chats that do not have it yet, at the same time. Returns the errors.
    #[cfg(feature = "plain-chat")]
    async fn chat(
        &self,
        notice: &Notice<Alert>,
        progress: &Progress<'_, Alert>,
        names: &[String],
    ) -> Vec<ChannelError> {
        let text = notice.param().text();
        let post = async |name: &String| {
            let Some(chat) = self.chats.iter().find(|chat| chat.name == *name) else {
                return Err(ChannelError::UnknownChat { name: name.clone(), known: self.known_chats() });
            };
            chat.send(&self.client, &text, notice.ends()).await.1?;
            progress.note([name.as_str()]);
            Ok(())
        };
        let posts = names.iter().filter(|name| !progress.has(name)).map(post);
        futures_util::future::join_all(posts).await.into_iter().filter_map(Result::err).collect()
    }

    #[cfg(not(feature = "plain-chat"))]
    async fn chat(&self, _: &Notice<Alert>, _: &Progress<'_, Alert>, names: &[String]) -> Vec<ChannelError> {
        names.iter().map(|name| ChannelError::UnknownChat { name: name.clone(), known: Vec::new() }).collect()
    }
}

fn no_mailer(addresses: impl Iterator<Item = String>) -> ChannelError {
    ChannelError::NoMailer { addresses: addresses.collect::<Vec<_>>().join(", ") }
}

impl Handler for AlertChannels {
    type Param = Alert;

    async fn handle(&self, notice: Notice<Alert>) -> HandlerResult {
        hiding::of_attempt(self.deliver(notice)).await
    }

    fn check_recipients(&self, email: &[String], alert_to: &[String]) -> Result<(), String> {
        let named = Recipients { email: cleaned(email), chats: cleaned(alert_to) };
        if named.is_empty() && self.defaults.is_empty() {
            return Err(
                "it names no recipient, and there are no defaults: set its column `email` or `alert_to`".to_owned()
            );
        }
        #[cfg(feature = "mail")]
        if let Some(error) = mail::mailboxes(&named.email, "the column `email`").1.into_iter().next() {
            return Err(described(&error));
        }
        let known = self.known_chats();
        let unknown = named.chats.into_iter().find(|name| !known.contains(name));
        match unknown {
            Some(name) => Err(ChannelError::UnknownChat { name, known }.to_string()),
            None if !named.email.is_empty() && !self.has_mailer() => {
                Err(no_mailer(named.email.into_iter()).to_string())
            }
            None => Ok(()),
        }
    }
}

impl AlertChannels {
    async fn deliver(&self, notice: Notice<Alert>) -> HandlerResult {
        let alert = notice.param();
        let mut recipients = Recipients::of(alert);
        if recipients.is_empty() {
            recipients = self.defaults.clone();
        }
        if recipients.is_empty() {
            return Err(Failure::give_up(ChannelError::NoRecipient { definition: alert.definition.clone() }));
        }
        let progress = Progress::of(&notice, |_, name| name.to_owned());
        let mails = self.mail(&notice, &progress, &recipients.email);
        let sending = join(mails, self.chat(&notice, &progress, &recipients.chats));
        #[cfg(any(feature = "mail", feature = "plain-chat"))]
        let sending = crate::lookup::of_attempt(&notice, sending);
        let (mails, chats) = sending.await;
        result(mails.into_iter().chain(chats).collect())
    }
}

impl AlertChannelsBuilder {
    /// Sets the server through which mails are sent.
    #[cfg(feature = "mail")]
    pub fn mail(mut self, mailer: Mailer) -> Self {
        self.mailer = Some(mailer);
        self
    }

    /// Adds a chat under the name that `alert_to` uses. A name has neither a comma nor an `@`, and is used once.
    #[cfg(feature = "plain-chat")]
    pub fn chat(mut self, name: impl Into<String>, service: impl ChatService) -> Self {
        self.chats.push(NamedChat::new(name.into(), service));
        self
    }

    /// Adds an address that gets the alerts without a recipient of their own. May be called several times.
    pub fn default_email(mut self, address: impl Into<String>) -> Self {
        self.defaults.email.push(address.into());
        self
    }

    /// Adds the name of a chat that gets the alerts without a recipient of their own. May be called several times.
    pub fn default_chat(mut self, name: impl Into<String>) -> Self {
        self.defaults.chats.push(name.into());
        self
    }

    /// Builds the handler.
    ///
    /// # Errors
    /// Returns an error for an invalid name, URL or address, so that the mistake shows at the start and not when an alert
    /// is lost.
    pub fn build(self) -> Result<AlertChannels, ChannelError> {
        #[cfg(feature = "mail")]
        for address in &self.defaults.email {
            mail::mailbox(address, "the default address")
                .map_err(|error| ChannelError::setup_failed(format!("the default address `{address}`"), error))?;
        }
        #[cfg(feature = "mail")]
        let has_mailer = self.mailer.is_some();
        #[cfg(not(feature = "mail"))]
        let has_mailer = false;
        if !has_mailer && !self.defaults.email.is_empty() {
            return Err(ChannelError::setup("there is a default address and no mailer"));
        }
        #[cfg(feature = "plain-chat")]
        let known: Vec<&str> = self.chats.iter().map(|chat| chat.name.as_str()).collect();
        #[cfg(not(feature = "plain-chat"))]
        let known: Vec<&str> = Vec::new();
        for (at, name) in known.iter().enumerate() {
            if name.is_empty() || name.trim() != *name || name.contains([',', '@']) || name.contains(char::is_control) {
                return Err(ChannelError::setup(format!("`{name}` cannot be the name of a chat")));
            }
            if known[..at].contains(name) {
                return Err(ChannelError::setup(format!("two chats have the name `{name}`")));
            }
        }
        if let Some(name) = self.defaults.chats.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(ChannelError::setup(format!(
                "the default chat `{name}` is not known; known are: {}",
                known.join(", ")
            )));
        }
        #[cfg(feature = "plain-chat")]
        for chat in &self.chats {
            chat.check()?;
        }
        Ok(AlertChannels {
            #[cfg(feature = "mail")]
            mailer: self.mailer,
            #[cfg(feature = "plain-chat")]
            chats: self.chats,
            #[cfg(feature = "plain-chat")]
            client: chat::client()?,
            defaults: self.defaults,
        })
    }
}

impl fmt::Debug for AlertChannels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("AlertChannels");
        #[cfg(feature = "mail")]
        shown.field("mailer", &self.mailer);
        #[cfg(feature = "plain-chat")]
        shown.field("chats", &self.chats.iter().map(|chat| &chat.name).collect::<Vec<_>>());
        shown.field("defaults", &self.defaults).finish_non_exhaustive()
    }
}
