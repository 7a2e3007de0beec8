//! [`Hidden`]: removes secrets from what a receiver says, because some receivers repeat what they got.
//!
//! A receiver repeats a secret as its own program writes texts: in JSON, in a URL or a form, in HTML, in Base64. So a text is compared with a secret
//! character by character, and each character may be written in any of these ways.

use super::{ExposeSecret, SecretString};

/// What stands in place of a secret.
const MARK: char = '…';

/// Parts of a URL that are shorter are not secrets, and occur in many words.
const SHORTEST_PART: usize = 6;

/// The shortest piece of Base64 that is looked for.
const SHORTEST_BASE64: usize = 6;

/// How many backslashes an escape may have: JSON text in JSON text in JSON text has seven before a quotation mark.
const MOST_SLASHES: usize = 8;

/// More bytes than an escape has.
const LONGEST_ESCAPE: usize = 2 * (MOST_SLASHES + 5) + 1;

/// A line of a secret with several lines, such as a key, is looked for by itself if it is as long.
const SHORTEST_LINE: usize = 16;

/// Secrets that must not be shown.
#[derive(Default)]
pub struct Hidden(Vec<Pattern>);

struct Pattern {
    text: SecretString,
    /// It is written in the alphabet of Base64, or in that for URLs.
    is_base64: bool,
}

impl Hidden {
    /// Returns the secrets, and their parts that are secrets by themselves: the password of a URL, its path and query (of `http` and `https`),
    /// and the lines of a key.
    pub fn of<'s>(secrets: impl IntoIterator<Item = &'s SecretString>) -> Self {
        let mut hidden = Self::default();
        for secret in secrets.into_iter().map(ExposeSecret::expose_secret) {
            hidden.add(secret);
            secret.split(',').filter(|part| part.contains("://")).for_each(|url| hidden.add_parts_of(url.trim()));
            let lines = secret.lines().map(str::trim);
            lines.filter(|line| line.len() >= SHORTEST_LINE && *line != secret).for_each(|line| hidden.add(line));
        }
        hidden
    }

    fn add(&mut self, secret: &str) {
        if secret.is_empty() {
            return;
        }
        self.0.push(Pattern { text: secret.into(), is_base64: false });
        for before in 0..3 {
            let encoded = base64(secret.as_bytes(), before);
            if encoded.len() >= SHORTEST_BASE64 {
                self.0.push(Pattern { text: encoded.into(), is_base64: true });
            }
        }
    }

    /// Adds the parts of a URL, as they are and decoded.
    fn add_parts_of(&mut self, url: &str) {
        let Some((scheme, rest)) = url.split_once("://") else { return };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if let Some((user, _)) = authority.rsplit_once('@') {
            // A user without a password is a token.
            self.add_part(user.split_once(':').map_or(user, |(_, password)| password));
        }
        if matches!(scheme, "http" | "https") {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let values = query.split('&').filter_map(|pair| pair.split_once('=')).map(|(_, value)| value);
            path.split('/')
                .chain(values)
                .filter(|part| part.len() >= SHORTEST_PART)
                .for_each(|part| self.add_part(part));
        }
    }

    fn add_part(&mut self, part: &str) {
        let decoded = percent_decoded(part);
        self.add(&decoded);
        if decoded != part {
            self.add(part);
        }
    }

    /// Returns a text without the secrets.
    pub fn clean(&self, text: &str) -> String {
        self.cleaned(text, false)
    }

    /// Returns the beginning of a longer text without the secrets, also without the first part of one at its end.
    pub fn clean_beginning(&self, text: &str) -> String {
        self.cleaned(text, true)
    }

    fn cleaned(&self, text: &str, is_cut: bool) -> String {
        let (mut clean, mut at) = (String::with_capacity(text.len()), 0);
        while let Some(letter) = text[at..].chars().next() {
            let (mut longest, mut is_begun) = (None, false);
            for pattern in &self.0 {
                match pattern.compare(text, at) {
                    Compared::Equal(end) => longest = longest.max(Some(end)),
                    Compared::Begun => is_begun = true,
                    Compared::Different => {}
                }
            }
            match longest {
                Some(end) => at = end,
                None if is_cut && is_begun => at = text.len(),
                None => {
                    clean.push(letter);
                    at += letter.len_utf8();
                    continue;
                }
            }
            clean.push(MARK);
        }
        clean
    }
}

/// What a place in a text has of a secret.
enum Compared {
    /// All of it, to this place.
    Equal(usize),
    /// As much as fits before the end of the text.
    Begun,
    Different,
}

impl Pattern {
    fn compare(&self, text: &str, at: usize) -> Compared {
        // The places behind each way to read what was compared so far: `%25` may be `%25` or `%`.
        let (mut places, mut is_begun) = (vec![at], false);
        for letter in self.text.expose_secret().chars() {
            let mut next = Vec::with_capacity(places.len());
            for place in places {
                let rest = &text[place..];
                let known = next.len();
                let mut add = |length: Option<usize>| {
                    if let Some(end) = length.map(|length| place + length)
                        && !next.contains(&end)
                    {
                        next.push(end);
                    }
                };
                each_spelling(letter, rest, &mut add);
                match letter {
                    '+' if self.is_base64 => each_spelling('-', rest, &mut add),
                    '/' if self.is_base64 => each_spelling('_', rest, &mut add),
                    _ => {}
                }
                // The end of the text, or an escape that it cuts.
                let is_cut = rest.len() < LONGEST_ESCAPE && (rest.is_empty() || rest.starts_with(['%', '\\', '&']));
                is_begun |= next.len() == known && is_cut;
            }
            if next.is_empty() {
                return if is_begun { Compared::Begun } else { Compared::Different };
            }
            places = next;
        }
        places.into_iter().max().map_or(Compared::Different, Compared::Equal)
    }
}

/// Passes on how many bytes of the text a spelling of this character has at its beginning, for each spelling.
fn each_spelling(letter: char, text: &str, add: &mut impl FnMut(Option<usize>)) {
    add(text.starts_with(letter).then_some(letter.len_utf8()));
    match text.as_bytes().first() {
        Some(b'+') if letter == ' ' => add(Some(1)),
        Some(b'%') => add(percent(letter, text)),
        Some(b'\\') => {
            // JSON text within JSON text has more of them.
            let slashes = text.bytes().take(MOST_SLASHES).take_while(|byte| *byte == b'\\').count();
            match letter {
                '\\' => [2, 4, 8].into_iter().filter(|length| *length <= slashes).for_each(|length| add(Some(length))),
                _ => add(json(letter, text, slashes)),
            }
            add(unicode(letter, text, slashes));
        }
        Some(b'&') => {
            const ENTITIES: [(char, &str); 6] =
                [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&#39;"), ('\'', "&#x27;")];
            let found = ENTITIES.iter().find(|(of, entity)| *of == letter && text.starts_with(entity));
            add(found.map(|(_, entity)| entity.len()));
        }
        _ => {}
    }
}

/// `%C3%BC`, in any case.
fn percent(letter: char, text: &str) -> Option<usize> {
    let mut bytes = [0; 4];
    let (bytes, text) = (letter.encode_utf8(&mut bytes).as_bytes(), text.as_bytes());
    let is_byte =
        |(at, byte): (usize, &u8)| text.get(3 * at) == Some(&b'%') && hex(text, 3 * at + 1, 2) == Some((*byte).into());
    bytes.iter().enumerate().all(is_byte).then_some(3 * bytes.len())
}

/// `\"`, `\/`, `\n`, with this many backslashes.
fn json(letter: char, text: &str, slashes: usize) -> Option<usize> {
    let escaped = match letter {
        '\u{8}' => 'b',
        '\u{c}' => 'f',
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '"' | '/' | '\'' => letter,
        _ => return None,
    };
    text[slashes..].starts_with(escaped).then_some(slashes + 1)
}

/// `\u00fc`, in any case, with this many backslashes, and a pair of them for a character beyond 16 bits.
fn unicode(letter: char, text: &str, slashes: usize) -> Option<usize> {
    let mut units = [0; 2];
    let (units, text, length) = (letter.encode_utf16(&mut units), text.as_bytes(), slashes + 5);
    let is_unit = |(at, unit): (usize, &u16)| {
        let begin = length * at;
        text.get(begin..begin + slashes).is_some_and(|begin| begin.iter().all(|byte| *byte == b'\\'))
            && text.get(begin + slashes) == Some(&b'u')
            && hex(text, begin + slashes + 1, 4) == Some((*unit).into())
    };
    units.iter().enumerate().all(is_unit).then_some(length * units.len())
}

/// Returns the number that these hexadecimal digits are.
fn hex(text: &[u8], at: usize, digits: usize) -> Option<u32> {
    let digits = text.get(at..at + digits)?;
    digits.iter().try_fold(0, |number, digit| Some(number * 16 + char::from(*digit).to_digit(16)?))
}

fn percent_decoded(text: &str) -> String {
    let (bytes, mut decoded, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let escaped = (*byte == b'%').then(|| hex(bytes, at + 1, 2)).flatten().and_then(|code| u8::try_from(code).ok());
        decoded.push(escaped.unwrap_or(*byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

/// Returns the Base64 of a secret that has `before` bytes before it, without the characters that depend on what stands around it.
fn base64(secret: &[u8], before: usize) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bit =
        |at: usize| (at / 8).checked_sub(before).and_then(|byte| secret.get(byte)).map(|byte| byte >> (7 - at % 8) & 1);
    let letter = |at: usize| {
        let index = (6 * at..6 * at + 6).try_fold(0, |index, at| Some(index << 1 | usize::from(bit(at)?)))?;
        ALPHABET.get(index).copied().map(char::from)
    };
    let first = (8 * before).div_ceil(6);
    (first..).map_while(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(secret: &str) -> Hidden {
        Hidden::of([&SecretString::from(secret)])
    }

    #[test]
    fn secret_is_removed_in_each_spelling() {
        for (secret, spellings) in [
            (
                "AbC/d",
                &[
                    "AbC/d",
                    r"AbC\/d",
                    "AbC%2fd",
                    "AbC%2Fd",
                    "%41bC%2fd",
                    r"AbC\u002Fd",
                    "AbC%2f%64",
                    r"AbC\\\/d",
                    r"AbC\\u002fd",
                ][..],
            ),
            (
                "k/ey \"ü\" 7+",
                &[
                    r#"k\/ey \"\u00fc\" 7+"#,
                    r#"k/ey \"\u00FC\" 7\u002B"#,
                    r#"k/ey \u0022ü\u0022 7\u002b"#,
                    "k%2Fey+%22%C3%BC%22+7%2B",
                    "k%2fey%20%22%c3%bc%22%207%2b",
                    "k/ey &quot;ü&quot; 7+",
                ],
            ),
            (
                "a~!*'()&<>b",
                &[
                    "a~!*'()&<>b",
                    r"a~!*'()\u0026\u003c\u003Eb",
                    "a%7E%21%2A%27%28%29%26%3C%3Eb",
                    "a~!*&#39;()&amp;&lt;&gt;b",
                ],
            ),
            ("100%25\\n", &["100%25\\n", "100%2525\\\\n", "100%2525%5Cn"]),
            ("😀key\n", &[r"\ud83d\uDE00key\n", "%F0%9F%98%80key%0a", "😀key\n"]),
        ] {
            for spelling in spellings {
                assert_eq!(hidden(secret).clean(&format!("before {spelling} behind")), "before … behind", "{spelling}");
            }
        }
    }

    #[test]
    fn secret_is_removed_from_base64_wherever_it_stands_in_it() {
        let secret = "s3cret?>of ~mine";
        // What `base64` prints for the secret behind none, one, two and three bytes, and the form for URLs.
        for (encoded, left) in [
            ("czNjcmV0Pz5vZiB+bWluZQ==", "…Q=="),
            ("OnMzY3JldD8+b2Ygfm1pbmU=", "On…U="),
            ("YTpzM2NyZXQ/Pm9mIH5taW5l", "YTp…"),
            ("YTpzM2NyZXQ_Pm9mIH5taW5l", "YTp…"),
            ("YTpzM2NyZXQ%2FPm9mIH5taW5l", "YTp…"),
            ("YTpzM2NyZXQ\\/Pm9mIH5taW5l", "YTp…"),
        ] {
            assert_eq!(hidden(secret).clean(encoded), left, "{encoded}");
        }
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        let hidden = Hidden::of([&SecretString::from("AbC/d"), &SecretString::from("")]);
        for text in ["", "abc/d", "AbC/", "AbC%2", "AbC\\u002", "100 % of \\ & +", "ü"] {
            assert_eq!(hidden.clean(text), text);
        }
    }

    #[test]
    fn parts_of_urls_and_lines_of_keys_are_secrets() {
        let url = "https://chat.example/hook/T0KEN-IN-PATH?access_token=t0ken-in%2Fquery&v=1";
        let text = "no hook T0KEN-IN-PATH with t0ken-in/query at chat.example, code 1";
        assert_eq!(hidden(url).clean(text), "no hook … with … at chat.example, code 1");
        assert_eq!(hidden("amqp://shop:p%40ss@host/v").clean("shop: p@ss, p%40ss"), "shop: …, …");
        assert_eq!(hidden("nats://a:one@x, nats://tok@y").clean("one or tok or a"), "… or … or a");
        let key = "-----BEGIN X-----\nSUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU\n-----END X-----";
        assert_eq!(hidden(key).clean("SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU"), "…");
    }

    #[test]
    fn beginning_of_a_secret_at_the_cut_is_removed() {
        let hidden = hidden("t0ken/ofü");
        for (cut, left) in [
            ("no t0k", "no …"),
            ("no t0ken%2", "no …"),
            ("no t0ken\\u00", "no …"),
            ("no token", "no token"),
            ("t0ken/ofü x", "… x"),
        ] {
            assert_eq!(hidden.clean_beginning(cut), left, "{cut}");
        }
        assert_eq!(hidden.clean("no t0k"), "no t0k");
    }
}
