//! A letter as a mail in its wire format.

use lettre::address::{Address, Envelope};
use lettre::error::Error;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Attachment, Mailbox, Message, MultiPart, SinglePart};

/// Longer subjects are cut, because mail programs show about a hundred characters.
const SUBJECT_LIMIT: usize = 250;

/// What a mail has: recipients, subject, text, attachments.
#[derive(Default)]
pub(crate) struct Letter {
    /// `None`: the sender of the mailer.
    pub(super) from: Option<Mailbox>,
    pub(super) to: Vec<Mailbox>,
    pub(super) cc: Vec<Mailbox>,
    /// They are in no header.
    pub(super) bcc: Vec<Mailbox>,
    pub(super) reply_to: Vec<Mailbox>,
    pub(super) subject: String,
    pub(super) text: Option<String>,
    pub(super) html: Option<String>,
    pub(super) attachments: Vec<Attached>,
}

/// A file of a letter.
pub(super) struct Attached {
    pub(super) name: String,
    pub(super) content_type: ContentType,
    pub(super) content: Vec<u8>,
}

impl Letter {
    /// Returns the addresses of all recipients.
    pub(crate) fn recipients(&self) -> impl Iterator<Item = &Address> {
        self.to.iter().chain(&self.cc).chain(&self.bcc).map(|mailbox| &mailbox.email)
    }

    /// Returns about how many bytes a mail of it has.
    pub(super) fn bytes(&self) -> usize {
        let texts = [&self.text, &self.html].into_iter().flatten().map(String::len);
        texts.chain(self.attachments.iter().map(|file| file.content.len())).sum()
    }
}

/// Returns the mail. `id` is the same for each attempt, so that a mail program shows a mail that arrives twice only once.
pub(super) fn compose(mut letter: Letter, from: &Mailbox, id: &str) -> Result<Vec<u8>, Error> {
    let subject: String = one_line(&letter.subject).chars().take(SUBJECT_LIMIT).collect();
    let mut mail = Message::builder()
        // The session names the recipients, and a mail may have none in its header.
        .envelope(Envelope::new(None, letter.recipients().cloned().collect())?)
        .from(safe_mailbox(from))
        .subject(subject)
        .message_id(Some(format!("<{}@{}>", safe_id(id), from.email.domain())))
        // It marks the mail as automatic, so that mailboxes send no absence notes in reply (RFC 3834).
        .raw_header(HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".to_owned()));
    for to in &letter.to {
        mail = mail.to(safe_mailbox(to));
    }
    for cc in &letter.cc {
        mail = mail.cc(safe_mailbox(cc));
    }
    for address in &letter.reply_to {
        mail = mail.reply_to(safe_mailbox(address));
    }
    let (body, files) = (body(letter.text.take(), letter.html.take()), letter.attachments);
    let mail = match body {
        Body::One(part) if files.is_empty() => mail.singlepart(part)?,
        Body::Both(parts) if files.is_empty() => mail.multipart(parts)?,
        body => {
            let mixed = match body {
                Body::One(part) => MultiPart::mixed().singlepart(part),
                Body::Both(parts) => MultiPart::mixed().multipart(parts),
            };
            mail.multipart(files.into_iter().fold(mixed, |mixed, file| {
                let part = Attachment::new(one_line(&file.name));
                mixed.singlepart(part.body(file.content, file.content_type))
            }))?
        }
    };
    Ok(mail.formatted())
}

/// What people read in a mail.
enum Body {
    One(SinglePart),
    /// The same as plain text and as HTML.
    Both(MultiPart),
}

fn body(text: Option<String>, html: Option<String>) -> Body {
    match (text, html) {
        (Some(text), Some(html)) => Body::Both(MultiPart::alternative_plain_html(text, html)),
        (None, Some(html)) => Body::One(SinglePart::html(html)),
        (text, None) => Body::One(SinglePart::plain(text.unwrap_or_default())),
    }
}

/// Returns the mailbox with a name in one line. lettre panics for a name with a control character.
fn safe_mailbox(mailbox: &Mailbox) -> Mailbox {
    Mailbox::new(mailbox.name.as_deref().map(one_line), mailbox.email.clone())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn mail(letter: Letter) -> String {
        let from = Mailbox::new(Some(letter.subject.clone()), "shop@example.com".parse().unwrap());
        String::from_utf8(compose(letter, &from, "7-1700000000000").unwrap()).unwrap()
    }

    fn letter(subject: &str) -> Letter {
        Letter {
            to: vec!["ops@example.com".parse().unwrap()],
            subject: subject.to_owned(),
            text: Some("text".to_owned()),
            ..Letter::default()
        }
    }

    /// Returns the names of the headers of a mail and of its parts.
    fn headers(mail: &str) -> Vec<&str> {
        mail.split("\r\n")
            .filter(|line| !line.starts_with([' ', '\t']))
            .filter_map(|line| line.split_once(": ").map(|(name, _)| name))
            .collect()
    }

    #[test]
    fn line_end_in_a_value_adds_no_header() {
        let with = |end: &str| {
            let evil = format!("x{end}Bcc: eve@example.com{end}{end}body");
            let mut letter = letter(&evil);
            letter.cc = vec![Mailbox::new(Some(evil.clone()), "cc@example.com".parse().unwrap())];
            letter.reply_to = letter.cc.clone();
            letter.attachments =
                vec![Attached { name: evil, content_type: ContentType::TEXT_PLAIN, content: b"a".to_vec() }];
            mail(letter)
        };
        let plain = with("");
        for end in ["\r\n", "\n", "\r", "\u{2028}"] {
            assert_eq!(headers(&with(end)), headers(&plain), "{end:?}: {}", with(end));
        }
    }

    #[test]
    fn quote_in_the_name_of_a_file_ends_no_parameter() {
        let mut letter = letter("x");
        let name = "a\"; filename=\"evil.exe".to_owned();
        letter.attachments = vec![Attached { name, content_type: ContentType::TEXT_PLAIN, content: b"a".to_vec() }];
        let text = mail(letter);
        assert!(!text.contains("filename=\"evil.exe"), "{text}");
    }

    #[test]
    fn id_depends_on_the_notice_alone() {
        let id = "Message-ID: <7-1700000000000@example.com>\r\n";
        assert!(mail(letter("x")).contains(id) && mail(letter("y")).contains(id));
    }

    #[test]
    fn hidden_recipient_is_in_no_header() {
        let mut letter = letter("x");
        letter.bcc = vec!["hidden@example.com".parse().unwrap()];
        let to = letter.to.clone();
        let of = |to| mail(Letter { to, bcc: letter.bcc.clone(), ..self::letter("x") });
        assert!(!of(to).contains("hidden@"));
        assert!(!headers(&of(Vec::new())).contains(&"To"));
    }
}
