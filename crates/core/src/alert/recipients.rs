//! The lists of recipients in the columns `email` and `alert_to`, and the check of addresses before a row is stored.
//!
//! Who gets which alert is left to the sweeper, and whether a chat is known to the handler of alerts.

use crate::alarm::AlertReason;
use crate::mail_address::{MailAddress, split_list};

/// An entry of a list: a recipient of all alerts, or of those of one reason.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The reason; `None`: all.
    pub reason: Option<AlertReason>,
    /// The recipient.
    pub to: &'a str,
}

/// Splits a list that people write: entries are separated by commas, semicolons or lines, outside of quotes. `final_failure=ops` is a
/// recipient of the alerts of that reason.
pub fn entries(list: Option<&String>) -> Vec<Entry<'_>> {
    let texts = split_list(list.map(String::as_str).unwrap_or_default(), &[',', ';', '\n']);
    texts.into_iter().map(str::trim).map(entry).filter(|entry| !entry.to.is_empty()).collect()
}

fn entry(text: &str) -> Entry<'_> {
    match text.split_once('=').map(|(name, to)| (AlertReason::from_name(name.trim()), to.trim())) {
        Some((reason @ Some(_), to)) => Entry { reason, to },
        // An address may contain the sign.
        _ => Entry { reason: None, to: text },
    }
}

/// Returns the first entry of the column `email` that is no address, and what is wrong with it.
pub(crate) fn wrong_address(email: Option<&String>) -> Option<(&str, &'static str)> {
    entries(email).into_iter().find_map(|entry| Some((entry.to, MailAddress::parse(entry.to).err()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_is_an_address() {
        let wrong = |list: &str| wrong_address(Some(&list.to_owned())).map(|(entry, _)| entry.to_owned());
        for list in ["", " , ;", "a@b.c, final_failure = \"d, e\" <f@g.h>;\ni@j.k", "\"Doe, Jane\" <jane@example.org>"]
        {
            assert_eq!(wrong(list), None, "{list:?}");
        }
        assert_eq!(wrong("a@b.c, ops, d@e.f").as_deref(), Some("ops"));
        assert_eq!(wrong("backlog=ops").as_deref(), Some("ops"));
        assert_eq!(
            wrong("\"Doe, Jane <jane@example.org>, a@b.c").as_deref(),
            Some("\"Doe, Jane <jane@example.org>, a@b.c")
        );
        assert_eq!(wrong_address(None), None);
    }
}
