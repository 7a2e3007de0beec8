//! The tables of the file that are about channels: `channels`, `mail`, `alerts` and `secrets`.

use std::collections::BTreeMap;

use solid_notify::channels::AllowedNetworks;
use solid_notify::definition::{SecretRef, SecretRule, SecretRules};

use super::reading::{Section, not_blank, whole};
use crate::secret::read_secret;
use crate::sending::{Alerts, Chat, ChatKind, Sending, check_mail_server};

/// Reads the settings of channels. `own`: a secret of the program that the file does not name.
pub(super) fn sending(root: &mut Section<'_, '_>, own: Option<&SecretRef>) -> Sending {
    let mut channels = root.section("channels");
    let allowed = channels
        .texts("allow_networks", |network| AllowedNetworks::new([network]).map(|_| network.to_owned()).map_err(whole));
    // Each of them was read before.
    let networks = AllowedNetworks::new(allowed).unwrap_or_default();
    let proxy = channels.text("proxy", |proxy| {
        let sending = Sending { proxy: Some(proxy.to_owned()), ..Sending::default() };
        sending.webhook().map(|_| proxy.to_owned()).map_err(whole)
    });
    channels.end();
    let mut mail = root.section("mail");
    let attachments_from = mail.text("attachments_from", |folder| match std::path::Path::new(folder) {
        path if path.is_dir() => Ok(path.to_owned()),
        _ => Err("there is no such folder".to_owned()),
    });
    mail.end();
    let secrets = secrets(root, own);
    Sending { networks, proxy, attachments_from, secrets, alerts: alerts(root.section("alerts")) }
}

/// Reads which secrets rows may use. They never get those of the databases themselves.
fn secrets(root: &mut Section<'_, '_>, own: Option<&SecretRef>) -> SecretRules {
    let of_file = root.texts_below("databases").into_iter().filter_map(reference);
    let mut rules = of_file.chain(own.cloned()).fold(SecretRules::default(), SecretRules::keep);
    for (_, mut section) in root.sections("secrets") {
        let allowed = section.texts("allow", |pattern| SecretRule::new(pattern).map_err(whole));
        section.require("allow", "allow = [\"env:NAME\"]");
        let definitions = section.texts("definitions", not_blank);
        let hosts = section.texts("hosts", not_blank);
        section.end();
        for rule in allowed {
            rules = rules.allow(rule.definitions(definitions.clone()).hosts(hosts.clone()));
        }
    }
    rules
}

/// Returns the reference in a text of a database. That of a key of parameters stands behind its id.
fn reference(text: &str) -> Option<SecretRef> {
    let of_key = || text.split_once('=').and_then(|(_, reference)| reference.trim().parse().ok());
    text.trim().parse().ok().or_else(of_key)
}

/// Reads how alerts reach people.
fn alerts(mut section: Section<'_, '_>) -> Alerts {
    let smtp = section.text("smtp", |reference| {
        let url = read_secret(reference)?;
        check_mail_server(&url).map(|()| url).map_err(whole)
    });
    let from = section.text("from", not_blank);
    if smtp.is_some() && from.is_none() {
        section.wrong_key("smtp", "mails need a sender: add from = \"alerts@example.org\"");
    }
    let mut chats = BTreeMap::new();
    for (name, mut chat) in section.sections("chats") {
        let kind = chat.text("service", |service| {
            ChatKind::ALL
                .into_iter()
                .find(|kind| kind.name() == service)
                .ok_or_else(|| format!("expected one of {}", ChatKind::ALL.map(ChatKind::name).join(", ")))
        });
        let (url, secret, keyword) = (chat.secret("url"), chat.secret("secret"), chat.text("keyword", not_blank));
        if let Some(kind) = kind {
            chat.require("url", "url = \"env:NAME\" or \"file:/path\"");
            if !kind.has_secret() && (secret.is_some() || keyword.is_some()) {
                chat.wrong_key("service", "this service has neither secret nor keyword");
            }
            if let Some(url) = url {
                chats.insert(name, Chat { kind, url, secret, keyword });
            }
        }
        chat.require("service", "service = \"slack\"");
        chat.end();
    }
    let default_email = section.texts("default_email", not_blank);
    if !default_email.is_empty() && smtp.is_none() {
        section.wrong_key("default_email", "mails need a server: add smtp = \"env:SMTP_URL\"");
    }
    let default_chats = section.texts("default_chats", |name| match chats.contains_key(name) {
        true => Ok(name.to_owned()),
        false => Err(format!("there is no table [alerts.chats.{name}]")),
    });
    let alerts = Alerts { smtp, from, default_email, chats, default_chats };
    if let Err(error) = alerts.channels() {
        section.wrong_key("from", &whole(error));
    }
    section.end();
    alerts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_is_found_whatever_its_path_has() {
        for (text, expected) in [
            ("env:SHOP_PASSWORD", Some("env:SHOP_PASSWORD")),
            ("file:/run/a=b", Some("file:/run/a=b")),
            ("2026=env:PARAM_KEY", Some("env:PARAM_KEY")),
            ("2026 = file:/run/a=b=c", Some("file:/run/a=b=c")),
            ("sqlite://shop.db?mode=rwc", None),
            ("default", None),
        ] {
            assert_eq!(reference(text), expected.map(|expected| expected.parse().unwrap()), "{text}");
        }
    }
}
