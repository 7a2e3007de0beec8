//! [`MailConfig`]: the `handler_config` of [`super::Mail`].

use std::collections::BTreeMap;

use lettre::message::header::ContentType;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use solid_notify_core::definition::SecretRef;

use super::mailbox;
use crate::error::described;
use crate::field::{SecretShape, parsed};
use crate::template::{Addresses, Html, Template, Text};

/// The `handler_config` of the channel `mail`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MailConfig {
    /// The URL of the mail server with its account: `smtp://user:password@host:587?tls=required` (STARTTLS), `smtps://user:password@host`
    /// (TLS from the first byte), or `smtp://host:25?tls=none`. User and password are percent-encoded. `hello=` sets the name for EHLO,
    /// where the server refuses that of the sender's host. Required unless the program gave a `Mailer`.
    #[schemars(with = "Option<SecretShape>")]
    pub(super) smtp: Option<SecretRef>,
    /// The address of the sender. Required with `smtp`.
    pub(super) from: Option<Template<Addresses>>,
    /// The name of the sender, in any script. Only with `from`.
    pub(super) from_name: Option<Template>,
    /// The recipients. An inserted list has an address in each element; an inserted text is one address whatever it contains.
    #[serde(default)]
    pub(super) to: Vec<Template<Addresses>>,
    /// Recipients of a copy.
    #[serde(default)]
    pub(super) cc: Vec<Template<Addresses>>,
    /// Recipients of a copy whom the others do not see.
    #[serde(default)]
    pub(super) bcc: Vec<Template<Addresses>>,
    /// Where replies go, if not to the sender.
    #[serde(default)]
    pub(super) reply_to: Vec<Template<Addresses>>,
    /// The subject. Line ends in it become blanks, and 250 characters are kept.
    pub(super) subject: Template,
    /// The mail as plain text. `text`, `html` or both are required.
    pub(super) text: Option<Template>,
    /// The mail as HTML. A mail with both forms leaves the choice to the mail program.
    pub(super) html: Option<Template<Html>>,
    /// The files of the mail. Each has one of `base64`, `file` and `content`.
    #[serde(default)]
    pub(super) attachments: Vec<AttachmentConfig>,
    /// Secrets that templates use as `secrets.name`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, SecretShape>")]
    pub(super) secrets: BTreeMap<String, SecretRef>,
}

/// A file of a mail.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AttachmentConfig {
    /// The name of the file that the recipient sees.
    pub(super) name: Template<Text>,
    /// The media type, such as `application/pdf`.
    #[serde(deserialize_with = "media_type", default = "bytes")]
    #[schemars(with = "String", default = "bytes_name")]
    pub(super) content_type: ContentType,
    /// The content in Base64, such as `{{ param.pdf }}`.
    pub(super) base64: Option<Template>,
    /// The path of a file below the folder that the program allows by `Mail::attachments_from`.
    pub(super) file: Option<Template>,
    /// The content as text, such as `{{ param | tojson }}` or the lines of a CSV file.
    pub(super) content: Option<Template>,
}

const BYTES: &str = "application/octet-stream";

fn bytes() -> ContentType {
    ContentType::parse(BYTES).unwrap_or(ContentType::TEXT_PLAIN)
}

fn bytes_name() -> String {
    BYTES.to_owned()
}

fn media_type<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ContentType, D::Error> {
    parsed(deserializer, "a media type such as \"application/pdf\"", |text| {
        // A line end within the quotes of a parameter would be one in the header.
        ContentType::parse(text)
            .ok()
            .filter(|_| !text.contains(char::is_control))
            .ok_or_else(|| format!("{text:?} is no media type; write one such as \"application/pdf\""))
    })
}

impl MailConfig {
    /// Checks what concerns several fields.
    pub(super) fn check(&self, has_mailer: bool, has_folder: bool) -> Result<(), String> {
        if self.smtp.is_none() && !has_mailer {
            return Err("`smtp` is missing, and the program gave no mailer: set it to \"env:NAME\" or \"file:/path\""
                .to_owned());
        }
        if self.smtp.is_some() && self.from.is_none() {
            return Err("`from` is missing: `smtp` needs the address of a sender".to_owned());
        }
        if self.from_name.is_some() && self.from.is_none() {
            return Err("`from_name` needs `from`, the address of the sender".to_owned());
        }
        if self.to.is_empty() && self.cc.is_empty() && self.bcc.is_empty() {
            return Err("no recipient: set `to`, `cc` or `bcc`".to_owned());
        }
        if self.text.is_none() && self.html.is_none() {
            return Err("the mail is empty: set `text`, `html` or both".to_owned());
        }
        self.check_addresses()?;
        for (at, file) in self.attachments.iter().enumerate() {
            if [&file.base64, &file.file, &file.content].into_iter().flatten().count() != 1 {
                return Err(format!("attachments[{at}]: set one of `base64`, `file` and `content`"));
            }
            if file.file.is_some() && !has_folder {
                return Err(format!(
                    "attachments[{at}].file: the program allows no folder; it sets one by `Mail::attachments_from`"
                ));
            }
        }
        Ok(())
    }

    /// Checks the addresses in which nothing is filled in.
    fn check_addresses(&self) -> Result<(), String> {
        let lists = [("to", &self.to), ("cc", &self.cc), ("bcc", &self.bcc), ("reply_to", &self.reply_to)];
        let listed = lists.into_iter().flat_map(|(field, list)| {
            list.iter().enumerate().map(move |(at, template)| (format!("{field}[{at}]"), template))
        });
        let sender = self.from.iter().map(|template| ("from".to_owned(), template));
        for (field, template) in listed.chain(sender).filter(|(_, template)| template.is_constant()) {
            for line in template.source().lines().map(str::trim).filter(|line| !line.is_empty()) {
                mailbox(line, &field).map_err(|error| described(&error))?;
            }
        }
        Ok(())
    }
}
