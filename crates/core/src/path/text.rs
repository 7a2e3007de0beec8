//! Texts of JSON without their escapes. A lone surrogate (`\ud83d`), which no Rust text can have, keeps its place: the bytes are WTF-8, whose order
//! is that of the code points.

use std::borrow::Cow;

/// Returns a text of JSON, given without its quotes, without escapes.
pub fn decoded(raw: &str) -> Cow<'_, [u8]> {
    if !raw.contains('\\') {
        return Cow::Borrowed(raw.as_bytes());
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(raw.len()), raw);
    while let Some((plain, escape)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let mut letters = escape.chars();
        let letter = match letters.next() {
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                rest = &escape[escape.len().min(5)..];
                let first = unit(escape);
                let second = rest.strip_prefix('\\').and_then(|next| pair(first, unit(next)));
                if second.is_some() {
                    rest = &rest[6..];
                }
                push(&mut bytes, second.unwrap_or(first));
                continue;
            }
            other => other.unwrap_or('\\'),
        };
        push(&mut bytes, u32::from(letter));
        rest = letters.as_str();
    }
    bytes.extend_from_slice(rest.as_bytes());
    Cow::Owned(bytes)
}

/// Returns the number of an escape `uXXXX`.
fn unit(escape: &str) -> u32 {
    let digits = escape.strip_prefix('u').and_then(|rest| rest.get(..4));
    digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or_default()
}

/// Returns the code point of two surrogates.
pub(super) fn pair(high: u32, low: u32) -> Option<u32> {
    let is_pair = (0xD800..0xDC00).contains(&high) && (0xDC00..0xE000).contains(&low);
    is_pair.then(|| 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00))
}

fn push(bytes: &mut Vec<u8>, point: u32) {
    match char::from_u32(point) {
        Some(letter) => bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        // A lone surrogate has three bytes, as other code points of its size.
        None => bytes
            .extend([0xE0 | (point >> 12), 0x80 | ((point >> 6) & 0x3F), 0x80 | (point & 0x3F)].map(|byte| byte as u8)),
    }
}

/// Returns the number of code points.
pub(super) fn length(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0xC0 != 0x80).count()
}

/// Returns the text for a regular expression, in which a lone surrogate is one character: U+FFFD.
pub(super) fn for_patterns(text: Cow<'_, [u8]>) -> Cow<'_, str> {
    let mut bytes = match text {
        Cow::Borrowed(bytes) => return String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => bytes,
    };
    for at in 0..bytes.len().saturating_sub(2) {
        if bytes[at] == 0xED && bytes[at + 1] >= 0xA0 {
            bytes[at..at + 3].copy_from_slice("\u{FFFD}".as_bytes());
        }
    }
    Cow::Owned(String::from_utf8(bytes).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_and_lone_surrogates_stay() {
        for (raw, text) in [
            (r#"a\"\\\/\b\f\n\r\t"#, "a\"\\/\u{8}\u{c}\n\r\t"),
            (r"\u00e9\u00E9é", "ééé"),
            (r"\ud83d\ude00x", "😀x"),
            (r"\u0041\\u0041", "A\\u0041"),
        ] {
            assert_eq!(decoded(raw), text.as_bytes(), "{raw}");
        }
        for (raw, shown, length) in [
            (r"a\ud83d", "a\u{FFFD}", 2),
            (r"\ud83dx", "\u{FFFD}x", 2),
            (r"\ude00\ud83d\n", "\u{FFFD}\u{FFFD}\n", 3),
            (r"\ud83d\ud83d\ude00", "\u{FFFD}😀", 2),
        ] {
            assert_eq!(super::length(&decoded(raw)), length, "{raw}");
            assert_eq!(for_patterns(decoded(raw)), shown, "{raw}");
        }
        assert_ne!(decoded(r"\ud83d"), decoded(r"\ud83e"));
        assert!(decoded(r"\ud7ff") < decoded(r"\ud83d") && decoded(r"\ud83d") < decoded(r"\ue000"));
        assert!(decoded(r"\uffff") < decoded(r"\ud83d\ude00"), "by code points, not by UTF-16 units");
    }

    proptest::proptest! {
        #[test]
        fn what_serde_json_writes_is_read_back(text in "\\PC{0,12}|[\\x00-\\x1f\"\\\\/é😀]{0,12}") {
            let json = serde_json::to_string(&text).unwrap();
            let decoded = decoded(&json[1..json.len() - 1]);
            proptest::prop_assert_eq!(&*decoded, text.as_bytes());
            proptest::prop_assert_eq!(length(&decoded), text.chars().count());
        }
    }
}
