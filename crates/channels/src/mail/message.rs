//! An alert as a mail: a subject, plain text, and the same as HTML for people who read it on a telephone.

use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message, MultiPart};
use lettre::{Address, error::Error};
use solid_notify_core::Alert;

/// Longer subjects are cut, because mail programs show about a hundred characters.
const SUBJECT_LIMIT: usize = 250;

/// Returns the mail in its wire format. `id` is the same for each attempt, so that a mail program shows a mail that arrives
/// twice only once.
pub(super) fn compose(alert: &Alert, from: &Mailbox, to: &[Address], id: &str) -> Result<Vec<u8>, Error> {
    let subject: String = one_line(&alert.title()).chars().take(SUBJECT_LIMIT).collect();
    let mut mail = Message::builder()
        .from(from.clone())
        .subject(subject)
        .message_id(Some(format!("<{}@{}>", safe_id(id), from.email.domain())))
        // It marks the mail as automatic, so that mailboxes send no absence notes in reply (RFC 3834).
        .raw_header(HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".to_owned()));
    for address in to {
        mail = mail.to(Mailbox::new(None, address.clone()));
    }
    let mail = mail.multipart(MultiPart::alternative_plain_html(alert.text(), html(alert)))?;
    Ok(mail.formatted())
}

/// Returns the text without line ends and other control characters, because text after a line end in a header would be
/// another header.
pub(super) fn one_line(text: &str) -> String {
    let is_break = |character: char| character.is_control() || matches!(character, '\u{2028}' | '\u{2029}');
    let text: String = text.chars().map(|character| if is_break(character) { ' ' } else { character }).collect();
    text.trim().to_owned()
}

/// Replaces the characters that an id must not contain.
fn safe_id(id: &str) -> String {
    id.chars()
        .map(|character| if character.is_ascii_alphanumeric() || character == '-' { character } else { '-' })
        .collect()
}

/// Returns the alert as HTML. Styles stand at the elements, because mail programs drop style sheets.
fn html(alert: &Alert) -> String {
    let row = |(name, value): (&str, String)| {
        let (name, value) = (escaped(name), escaped(&value));
        let linked = matches!(&*name, "link" | "runbook") && value.starts_with("http");
        let value = if linked { format!("<a href=\"{value}\">{value}</a>") } else { value };
        format!("<tr><td style=\"padding:2px 12px 2px 0;color:#666\">{name}</td><td>{value}</td></tr>\n")
    };
    // The message stands above the table.
    let rows: String = alert.facts().into_iter().filter(|(name, _)| *name != "message").map(row).collect();
    let (title, message) = (escaped(&alert.title()), escaped(&alert.message));
    format!(
        "<!DOCTYPE html>\n<html><body style=\"font-family:sans-serif;font-size:14px\">\n\
         <h2 style=\"font-size:18px\">{title}</h2>\n\
         <pre style=\"white-space:pre-wrap;background:#f4f4f4;padding:8px\">{message}</pre>\n\
         <table style=\"font-size:14px\">\n{rows}</table>\n</body></html>\n"
    )
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use solid_notify_core::{AlertKind, AlertReason};

    use super::*;

    fn alert(definition: &str, message: &str) -> Alert {
        Alert::new(AlertKind::Raised, AlertReason::FinalFailure, definition, message)
    }

    fn composed(alert: &Alert, from: &str) -> String {
        let to = ["ops@example.com".parse().unwrap()];
        String::from_utf8(compose(alert, &from.parse().unwrap(), &to, "7-1700000000000").unwrap()).unwrap()
    }

    /// Returns the names of the headers, which end at the first empty line.
    fn headers(mail: &str) -> Vec<&str> {
        let head = mail.split("\r\n\r\n").next().unwrap();
        head.split("\r\n")
            .filter(|line| !line.starts_with([' ', '\t']))
            .filter_map(|line| line.split(':').next())
            .collect()
    }

    #[test]
    fn a_line_end_in_a_name_adds_no_header() {
        let plain = composed(&alert("sync", "x"), "a@example.com");
        for end in ["\r\n", "\n", "\r", "\u{2028}"] {
            let mail = composed(&alert(&format!("sync{end}Bcc: eve@example.com"), "x"), "a@example.com");
            assert_eq!(headers(&mail), headers(&plain), "{end:?}: {mail}");
        }
    }

    #[test]
    fn the_id_depends_on_the_notice_alone() {
        let id = "Message-ID: <7-1700000000000@example.com>\r\n";
        assert!(composed(&alert("sync", "x"), "a@example.com").contains(id));
        assert!(composed(&alert("other", "y"), "a@example.com").contains(id));
    }

    #[test]
    fn markup_in_a_message_is_text() {
        let page = html(&alert("sync<b>", "<script>alert('x')</script>\n& \"more\""));
        assert!(!page.contains("<script>") && !page.contains("sync<b>"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;\n&amp; &quot;more&quot;"), "{page}");
    }

    #[test]
    fn every_fact_that_there_is_has_a_row() {
        let mut alert = alert("sync", "first\nsecond");
        (alert.notice_id, alert.node, alert.more) = (Some(7), "node-1".to_owned(), 3);
        (alert.tries, alert.max_tries, alert.link) = (Some(4), Some(5), Some("https://ops/notices/7?a&b".to_owned()));
        let page = html(&alert);
        let link = "<a href=\"https://ops/notices/7?a&amp;b\">https://ops/notices/7?a&amp;b</a>";
        for value in [">sync<", ">final_failure<", ">7<", "first\nsecond", ">3<", ">node-1<", ">4 of 5<", link] {
            assert!(page.contains(value), "{value}: {page}");
        }
        assert_eq!(page.matches("<tr>").count(), 7, "{page}");
    }
}
