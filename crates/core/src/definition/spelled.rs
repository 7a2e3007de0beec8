//! Finds values in a text however JSON spells them: `é` also as `\u00e9`, `/` as `\/`, and both in JSON text within JSON text.
//!
//! Which values must not be seen is left to `mask.rs`.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::path::{Budget, Unjudged};

/// How often a text is read as JSON text within JSON text. Each time doubles the backslashes of an escape.
const NESTED: usize = 4;

/// Returns a text with `instead` in the place of each of these values, in any spelling. Values that overlap are replaced together.
///
/// # Errors
/// [`Unjudged`], if the search takes more steps than the budget has.
pub(super) fn replaced(
    text: &str,
    values: &BTreeSet<String>,
    instead: &str,
    budget: &mut Budget,
) -> Result<String, Unjudged> {
    let mut found = places(text, values, budget)?;
    let mut read = Read::of(text, |at| at);
    for _ in 0..NESTED {
        let Some(Read { text, origins }) = read else { break };
        let places = places(&text, values, budget)?;
        found.extend(places.into_iter().map(|place| origins[place.start]..origins[place.end]));
        read = Read::of(&text, |at| origins[at]);
    }
    found.sort_unstable_by_key(|place| place.start);
    let (mut shown, mut end) = (String::with_capacity(text.len()), 0);
    for place in found {
        if place.start >= end {
            shown.push_str(&text[end..place.start]);
            shown.push_str(instead);
        }
        end = end.max(place.end);
    }
    shown.push_str(&text[end..]);
    Ok(shown)
}

/// Returns where a text has these values. Each value costs a reading of the text, and so does the reading of its escapes.
fn places(text: &str, values: &BTreeSet<String>, budget: &mut Budget) -> Result<Vec<Range<usize>>, Unjudged> {
    let mut places = Vec::new();
    budget.spend_bytes(text.len())?;
    for value in values {
        budget.spend_bytes(if value.len() > text.len() { 0 } else { 2 * text.len() })?;
        let before = places.len();
        places.extend(text.match_indices(value.as_str()).map(|(at, found)| at..at + found.len()));
        budget.spend(4 * (places.len() - before) as u64)?;
    }
    Ok(places)
}

/// A text without its escapes.
struct Read {
    text: String,
    /// For each byte of the text, and for its end: where the character of that byte begins in the original text.
    origins: Vec<usize>,
}

impl Read {
    /// Reads the escapes of a text, each byte of which has an origin; `None`: it has none. A backslash that begins no escape stays.
    fn of(text: &str, origin: impl Fn(usize) -> usize) -> Option<Self> {
        if !text.contains('\\') {
            return None;
        }
        let (mut read, mut origins, mut at) =
            (String::with_capacity(text.len()), Vec::with_capacity(text.len() + 1), 0);
        let mut has_escape = false;
        while let Some(plain) = text[at..].chars().next() {
            let escape = escape(&text[at..]);
            has_escape |= escape.is_some();
            let (letter, length) = escape.unwrap_or((plain, plain.len_utf8()));
            read.push(letter);
            origins.extend(std::iter::repeat_n(origin(at), letter.len_utf8()));
            at += length;
        }
        origins.push(origin(at));
        has_escape.then_some(Self { text: read, origins })
    }
}

/// Returns the character of the escape with which a text begins, and the length of the escape.
fn escape(text: &str) -> Option<(char, usize)> {
    let letter = match text.strip_prefix('\\')?.chars().next()? {
        same @ ('"' | '\\' | '/') => same,
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => {
            let units = [unit(text), text.get(6..).and_then(unit)];
            let letter = char::decode_utf16(units.into_iter().map_while(|unit| unit)).next()?.ok()?;
            return Some((letter, 6 * letter.len_utf16()));
        }
        _ => return None,
    };
    Some((letter, 2))
}

/// Returns the UTF-16 code unit of an escape such as `\u00e9`, with which a text begins.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) { u16::from_str_radix(digits, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(text: &str, values: &[&str]) -> String {
        let values = values.iter().map(ToString::to_string).collect();
        replaced(text, &values, "*", &mut Budget::default()).unwrap()
    }

    #[test]
    fn value_is_found_in_every_spelling_of_json() {
        for spelled in [
            "café/\"😀\"",
            r#"caf\u00e9\/\"😀\""#,
            r"caf\u00E9/\u0022\ud83d\ude00\u0022",
            r"\u0063\u0061\u0066\u00e9\u002f\u0022\uD83D\uDE00\u0022",
            r#"caf\\u00e9\\/\\\"😀\\\""#,
            r"caf\\\\u00e9\\\\/\\\\u0022\\\\ud83d\\\\ude00\\\\u0022",
        ] {
            assert_eq!(without(&format!("a {spelled}, b"), &["café/\"😀\""]), "a *, b", "{spelled}");
        }
        assert_eq!(without(r"a\nb a\\nb a\tb", &["a\nb", r"a\nb"]), r"* * a\tb");
    }

    #[test]
    fn what_is_no_value_keeps_its_bytes() {
        for text in ["", r"\", r"C:\x \u12", r"\ud83d \ude00x", r"\u+0e9", r"caf\u00e8 ü\", "caf\u{e9}"] {
            assert_eq!(without(text, &["café/"]), text);
        }
        assert_eq!(without(r"\ü\u00e9abc\", &["éabc"]), r"\ü*\");
    }

    #[test]
    fn values_that_overlap_are_replaced_together() {
        assert_eq!(without("xabcdex", &["abcd", "cde"]), "x*x");
        assert_eq!(without("abcabc", &["abc"]), "**");
        assert_eq!(without("abcabc", &["abc", "abcabc"]), "*");
        assert_eq!(without(r"1\u0032345", &["123", "345"]), "*");
    }

    proptest::proptest! {
        #[test]
        fn value_is_never_shown(before in "[abé\\\\/\"u0e9]{0,20}", value in "[abé\\\\/\"]{3,5}", after in "[abé\\\\/\"u0e9]{0,20}") {
            let spelled: String = value.chars().map(|letter| format!("\\u{:04x}", u32::from(letter))).collect();
            // A backslash before it would belong to its first escape.
            let text = format!("{}{spelled}{after}", before.trim_end_matches('\\'));
            let shown = without(&text, &[&value]);
            proptest::prop_assert!(!shown.contains(&spelled), "{} in {}: {}", value, text, shown);
        }
    }
}
