//! A letter as a mail in its wire format.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lettre::address::{Address, Envelope};
use lettre::error::Error;
use lettre::message::header::{Cc, ContentTransferEncoding, ContentType, HeaderName, HeaderValue, ReplyTo, To};
use lettre::message::{Attachment, Body as Encoded, Mailbox, Mailboxes, MaybeString, Message, MultiPart, SinglePart};

/// Longer subjects are cut, because mail programs show about a hundred characters.
const SUBJECT_LIMIT: usize = 250;

/// How many bytes an encoded word of a header has: 73 characters with what is around it and the name `Subject`. A line may have 76
/// (RFC 2047, 2).
const WORD_BYTES: usize = 39;

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
        .raw_header(encoded("Subject", subject))
        .message_id(Some(format!("<{}@{}>", safe_id(id), from.email.domain())))
        // It marks the mail as automatic, so that mailboxes send no absence notes in reply (RFC 3834).
        .raw_header(HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".to_owned()));
    // Each list at once: lettre would read a list again to add to it, and loses a name with a comma.
    let list = |mailboxes: &[Mailbox]| mailboxes.iter().map(safe_mailbox).collect::<Mailboxes>();
    if !letter.to.is_empty() {
        mail = mail.header(To::from(list(&letter.to)));
    }
    if !letter.cc.is_empty() {
        mail = mail.header(Cc::from(list(&letter.cc)));
    }
    if !letter.reply_to.is_empty() {
        mail = mail.header(ReplyTo::from(list(&letter.reply_to)));
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
                mixed.singlepart(part.body(as_it_is(file.content), file.content_type))
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
    match (text.map(lines), html.map(lines)) {
        (Some(text), Some(html)) => Body::Both(MultiPart::alternative_plain_html(text, html)),
        (None, Some(html)) => Body::One(SinglePart::html(html)),
        (text, None) => Body::One(SinglePart::plain(text.unwrap_or_else(|| lines(String::new())))),
    }
}

/// Returns a text with the line ends of mails. A carriage return that ends no line would stand by itself in the mail, which servers refuse, so
/// such a text is in Base64.
fn lines(text: String) -> Encoded {
    let has_lone_return = text.split('\r').skip(1).any(|behind| !behind.starts_with('\n'));
    match has_lone_return {
        true => in_base64(text),
        false => Encoded::new(text),
    }
}

/// Returns a file byte for byte. Its line ends are its own, and a server would refuse or change them.
fn as_it_is(content: Vec<u8>) -> Encoded {
    in_base64(content)
}

fn in_base64(content: impl Into<MaybeString>) -> Encoded {
    // Any content can be in Base64.
    Encoded::new_with_encoding(content, ContentTransferEncoding::Base64).unwrap_or_else(Encoded::new)
}

/// Returns a header with this text. One that looks like an encoded word is encoded, because mail programs would decode it.
fn encoded(name: &'static str, text: String) -> HeaderValue {
    let name = HeaderName::new_from_ascii_str(name);
    if !text.contains("=?") {
        return HeaderValue::new(name, text);
    }
    let (mut words, mut word) = (Vec::new(), String::new());
    for character in text.chars() {
        if word.len() + character.len_utf8() > WORD_BYTES {
            words.push(std::mem::take(&mut word));
        }
        word.push(character);
    }
    words.push(word);
    let words: Vec<_> = words.into_iter().map(|word| format!("=?utf-8?b?{}?=", STANDARD.encode(word))).collect();
    HeaderValue::dangerous_new_pre_encoded(name, text, words.join("\r\n "))
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

    /// Decodes the parts of a mail that are in Base64.
    fn decoded(mail: &str) -> Vec<Vec<u8>> {
        let parts = mail.split("Content-Transfer-Encoding: base64").skip(1);
        let bodies = parts.map(|part| part.split_once("\r\n\r\n").map_or("", |(_, body)| body));
        let bodies = bodies.map(|body| body.split("--").next().unwrap_or_default().replace("\r\n", ""));
        bodies.map(|body| STANDARD.decode(body).unwrap()).collect()
    }

    fn has_lone_line_end(mail: &str) -> bool {
        mail.replace("\r\n", "").contains(['\r', '\n'])
    }

    #[test]
    fn attachment_keeps_its_bytes_and_sends_no_lone_line_end() {
        for content in ["a\nb\r\nc", "a\rb", "BEGIN:VCALENDAR\n", "", "ü\n"] {
            let mut letter = letter("x");
            let (name, content) = ("a.csv".to_owned(), content.as_bytes().to_vec());
            letter.attachments =
                vec![Attached { name, content_type: ContentType::TEXT_PLAIN, content: content.clone() }];
            let text = mail(letter);
            assert!(!has_lone_line_end(&text), "{text:?}");
            assert_eq!(decoded(&text), [content]);
        }
    }

    #[test]
    fn text_keeps_a_lone_return_and_sends_none() {
        for (text, html) in [(Some("a\rb\nc\r\n\r"), None), (None, Some("<p>\r\r\n")), (Some("ü\r"), Some("\rü"))] {
            let mut letter = letter("x");
            (letter.text, letter.html) = (text.map(str::to_owned), html.map(str::to_owned));
            let composed = mail(letter);
            assert!(!has_lone_line_end(&composed), "{composed:?}");
            let with_line_ends = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n").into_bytes();
            let expected: Vec<_> = text.into_iter().chain(html).map(with_line_ends).collect();
            assert_eq!(decoded(&composed), expected);
        }
        let mut plain = letter("x");
        plain.text = Some("a\nb".to_owned());
        assert!(mail(plain).contains("\r\n\r\na\r\nb"), "without a lone return it is readable as it is");
    }

    #[test]
    fn subject_that_looks_encoded_arrives_as_it_was_written() {
        for subject in ["=?utf-8?B?aGVsbG8=?=", "order =?x?= ü", &"=?utf-8?q?a?= ü".repeat(12)] {
            let text = compose(letter(subject), &"shop@example.com".parse().unwrap(), "7").unwrap();
            let text = String::from_utf8(text).unwrap();
            let (_, header) = text.split_once("\r\nSubject: ").unwrap();
            let folded = header.replace("\r\n ", " ");
            let (line, _) = folded.split_once("\r\n").unwrap();
            let words = line.split(' ').map(|word| {
                assert!(word.len() <= 75, "{word}");
                word.strip_prefix("=?utf-8?b?").and_then(|word| word.strip_suffix("?=")).expect("an encoded word")
            });
            let read = words.flat_map(|word| STANDARD.decode(word).unwrap()).collect::<Vec<_>>();
            assert_eq!(String::from_utf8(read).unwrap(), subject);
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
