//! Groups of dead letters: the same definition, class and message, without what differs between notices in the message.
//!
//! The number of a group is stored with each dead letter and compared by readers of other versions, so neither the normal form nor the
//! hash may change without a migration.

use sha2::{Digest, Sha256};

use crate::notice::AttemptRecord;

/// The class name that stands for dead letters without a class.
pub const NO_CLASS: &str = "-";
/// The longest message of a group, in characters.
pub const GROUP_MESSAGE_LIMIT: usize = 200;

/// What stands for a number or an id in the message of a group.
const NUMBER: char = '#';
/// What stands for quoted text.
const QUOTED: char = '…';
/// Hexadecimal words from this length on are ids, if they have a digit.
const HEX_ID: usize = 8;
/// Words from this length on are ids, if they have a digit.
const LONG_ID: usize = 16;
/// The number of characters of a UUID.
const UUID: usize = 36;

/// Returns the number of the group of a dead letter: the first eight bytes of the SHA-256 of `def_id`, the class and the normal form of
/// the message, with a zero byte between them, as a signed number, the highest byte first.
pub fn error_group(def_id: i64, class: Option<&str>, message: &str) -> i64 {
    let class = class.filter(|class| !class.is_empty()).unwrap_or(NO_CLASS);
    let hash = Sha256::digest(format!("{def_id}\0{class}\0{}", group_message(message)));
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    i64::from_be_bytes(first)
}

/// Returns the message by which a dead letter is grouped: that of its last failed attempt, or else why it ended.
pub fn message_to_group<'a>(last: Option<&'a AttemptRecord>, reason: Option<&'a str>) -> &'a str {
    last.map_or(reason.unwrap_or_default(), |last| last.message.as_str())
}

/// Returns the normal form of a message: without numbers, ids (UUIDs, hexadecimal words of eight characters or more, words of 16
/// characters or more with a digit) and quoted text, with single spaces, and at most [`GROUP_MESSAGE_LIMIT`] characters.
///
/// ```
/// use solid_notify_core::error_group::group_message;
///
/// let message = "order 4711 of 6f1c1e4e-8a4b-4b1e-9d6a-0a5d1f1e2b3c:  no account \"Smith & Co\" after 1.5s";
/// assert_eq!(group_message(message), "order # of #: no account \"…\" after #s");
/// ```
pub fn group_message(message: &str) -> String {
    let letters: Vec<char> = message.chars().collect();
    let mut normal = String::new();
    let mut at = 0;
    while at < letters.len() {
        let letter = letters[at];
        let follows_word = at > 0 && letters[at - 1].is_alphanumeric();
        if let Some(end) = closing_quote(&letters, at).filter(|_| !follows_word) {
            normal.extend([letter, QUOTED, letters[end]]);
            at = end + 1;
        } else if letter.is_whitespace() {
            if !normal.is_empty() && !normal.ends_with(' ') {
                normal.push(' ');
            }
            at += 1;
        } else if letter.is_alphanumeric() {
            at = push_word(&letters, at, &mut normal);
        } else {
            normal.push(letter);
            at += 1;
        }
    }
    let cut: String = normal.trim_end().chars().take(GROUP_MESSAGE_LIMIT).collect();
    cut.trim_end().to_owned()
}

/// Returns where the quoted text ends that begins here. An apostrophe within a word ends nothing.
fn closing_quote(letters: &[char], at: usize) -> Option<usize> {
    let close = match letters[at] {
        quote @ ('"' | '\'' | '`') => quote,
        '“' | '„' => '”',
        '«' => '»',
        '‘' => '’',
        _ => return None,
    };
    let ends = |end: &usize| {
        let within_word = letters.get(end + 1).is_some_and(|next| next.is_alphanumeric());
        letters[*end] == close && !(close == '\'' && within_word)
    };
    (at + 1..letters.len()).find(ends)
}

/// Appends the normal form of the word that begins here. Returns where it ends.
fn push_word(letters: &[char], at: usize, normal: &mut String) -> usize {
    if is_uuid(letters, at) {
        normal.push(NUMBER);
        return at + UUID;
    }
    let end = (at..letters.len()).find(|end| !letters[*end].is_alphanumeric()).unwrap_or(letters.len());
    let word = &letters[at..end];
    let has_digit = word.iter().any(char::is_ascii_digit);
    let is_hex = word.len() >= HEX_ID && word.iter().all(char::is_ascii_hexdigit);
    let is_prefixed =
        word.len() > 2 && word[0] == '0' && word[1] == 'x' && word[2..].iter().all(char::is_ascii_hexdigit);
    if has_digit && (is_hex || is_prefixed || word.len() >= LONG_ID) && !word.iter().all(char::is_ascii_digit) {
        normal.push(NUMBER);
        return end;
    }
    if !letters[at].is_ascii_digit() {
        let digits = word.iter().position(char::is_ascii_digit).map_or(end, |digits| at + digits);
        normal.extend(&letters[at..digits]);
        return digits;
    }
    // A number, with its points and commas.
    let mut next = at;
    while letters.get(next).is_some_and(char::is_ascii_digit)
        || (matches!(letters.get(next), Some('.' | ',')) && letters.get(next + 1).is_some_and(char::is_ascii_digit))
    {
        next += 1;
    }
    normal.push(NUMBER);
    next
}

/// Returns true where a UUID begins: 8, 4, 4, 4 and 12 hexadecimal digits.
fn is_uuid(letters: &[char], at: usize) -> bool {
    let Some(word) = letters.get(at..at + UUID) else { return false };
    let is_dash = |place: usize| matches!(place, 8 | 13 | 18 | 23);
    let fits = word.iter().enumerate().all(|(place, letter)| match is_dash(place) {
        true => *letter == '-',
        false => letter.is_ascii_hexdigit(),
    });
    fits && !letters.get(at + UUID).is_some_and(|next| next.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_differs_between_notices_is_removed() {
        for (message, normal) in [
            ("connection refused", "connection refused"),
            ("HTTP status 503", "HTTP status #"),
            ("order7 of v2: 1,234.50 EUR", "order# of v#: # EUR"),
            ("at 2026-11-24T20:03:33.123Z", "at #-#-#T#:#:#Z"),
            ("10.0.0.1:5432 is down", "#:# is down"),
            ("3f2a9c1b is not deadbeef or facade", "# is not deadbeef or facade"),
            ("0xff and 01HV3K8Z9QWERTYUI and cus_9s6XKzkNRiz8i3", "# and # and cus_#s#XKzkNRiz#i#"),
            ("no 'a b' and can't isn't 'x", "no '…' and can't isn't 'x"),
            ("no \"a 'b'\" `c` “d” «e» ‘f’", "no \"…\" `…` “…” «…» ‘…’"),
            ("  a \n\t b  ", "a b"),
            ("it's John's 'order'", "it's John's '…'"),
            ("uuid 6F1C1E4E-8A4B-4B1E-9D6A-0A5D1F1E2B3C.", "uuid #."),
            ("6f1c1e4e-8a4b-4b1e-9d6a-0a5d1f1e2b3cx", "#-#a#b-#b#e-#d#a-#a#d#f#e#b#cx"),
            ("Größe 5 größer als 4", "Größe # größer als #"),
            ("", ""),
        ] {
            assert_eq!(group_message(message), normal, "{message}");
        }
        assert_eq!(group_message(&"abc ".repeat(200)).chars().count(), 199, "cut, and no space at the end");
    }

    #[test]
    fn the_number_of_a_group_never_changes() {
        // Stored numbers are compared with these: a change needs a migration.
        assert_eq!(
            error_group(7, Some("timeout"), "order 1 timed out"),
            error_group(7, Some("timeout"), "order 22 timed out")
        );
        assert_eq!(error_group(7, None, "no"), error_group(7, Some(""), "no"));
        let of =
            [(7, Some("timeout"), "a"), (8, Some("timeout"), "a"), (7, Some("busy"), "a"), (7, Some("timeout"), "b")];
        let numbers: std::collections::BTreeSet<i64> =
            of.into_iter().map(|(def_id, class, message)| error_group(def_id, class, message)).collect();
        assert_eq!(numbers.len(), of.len());
        assert_eq!(error_group(1, Some("timeout"), "no answer after 30s"), FIXED);
    }

    /// By `printf '1\0timeout\0no answer after #s' | sha256sum`.
    const FIXED: i64 = 8_571_806_683_593_125_288;

    proptest! {
        #[test]
        fn a_normal_form_is_short_and_any_text_has_one(text in "\\PC{0,300}") {
            let normal = group_message(&text);
            prop_assert!(normal.chars().count() <= GROUP_MESSAGE_LIMIT);
            prop_assert!(!normal.contains(|letter: char| letter.is_ascii_digit()));
        }
    }
}
