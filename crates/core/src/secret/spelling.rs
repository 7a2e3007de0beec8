//! How a text may write a character: as it is, or escaped for a URL, for JSON, or for HTML, also several times.
//!
//! A text is read as it is, then without its escapes, then without those that are left, and so on. Each byte remembers where it stands in the text.

/// How often escapes are removed: JSON text in JSON text in a form, in HTML.
const DEEPEST: usize = 4;

/// More bytes than an escape has: a character beyond 16 bits in JSON text that is in JSON text twice.
pub(super) const LONGEST_ESCAPE: usize = 27;

/// More bytes than a reference of HTML has.
const LONGEST_REFERENCE: usize = 16;

/// The names of ASCII characters in HTML.
const NAMES: [(u8, &str); 43] = [
    (b'\t', "Tab"),
    (b'\n', "NewLine"),
    (b'!', "excl"),
    (b'"', "quot"),
    (b'"', "QUOT"),
    (b'#', "num"),
    (b'$', "dollar"),
    (b'%', "percnt"),
    (b'&', "amp"),
    (b'&', "AMP"),
    (b'\'', "apos"),
    (b'(', "lpar"),
    (b')', "rpar"),
    (b'*', "ast"),
    (b'*', "midast"),
    (b'+', "plus"),
    (b',', "comma"),
    (b'.', "period"),
    (b'/', "sol"),
    (b':', "colon"),
    (b';', "semi"),
    (b'<', "lt"),
    (b'<', "LT"),
    (b'=', "equals"),
    (b'>', "gt"),
    (b'>', "GT"),
    (b'?', "quest"),
    (b'@', "commat"),
    (b'[', "lsqb"),
    (b'[', "lbrack"),
    (b'\\', "bsol"),
    (b']', "rsqb"),
    (b']', "rbrack"),
    (b'^', "Hat"),
    (b'_', "lowbar"),
    (b'`', "grave"),
    (b'{', "lcub"),
    (b'{', "lbrace"),
    (b'|', "verbar"),
    (b'|', "vert"),
    (b'}', "rcub"),
    (b'}', "rbrace"),
    (b'-', "hyphen"),
];

/// The names of the characters from U+00A0 to U+00FF in HTML.
const LATIN: &str = "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro \
                     para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil \
                     Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave \
                     Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml \
                     igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute \
                     thorn yuml";

/// A byte, and where it is written in the text.
#[derive(Clone, Copy)]
pub(super) struct Letter {
    pub(super) byte: u8,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Returns the ways to read a text: as it is, and without its escapes.
pub(super) fn readings(text: &str) -> Vec<Vec<Letter>> {
    let letter = |(at, byte): (usize, u8)| Letter { byte, from: at, to: at + 1 };
    let mut readings = vec![text.bytes().enumerate().map(letter).collect::<Vec<_>>()];
    while readings.len() <= DEEPEST
        && let Some(next) = readings.last().and_then(|last| without_escapes(last))
    {
        readings.push(next);
    }
    readings
}

/// Returns whether an escape may begin with this byte.
pub(super) fn begins_escape(byte: u8) -> bool {
    matches!(byte, b'%' | b'\\' | b'&')
}

/// `None`: there are none.
fn without_escapes(letters: &[Letter]) -> Option<Vec<Letter>> {
    let bytes: Vec<u8> = letters.iter().map(|letter| letter.byte).collect();
    let (mut read, mut at) = (Vec::with_capacity(letters.len()), 0);
    while let Some(letter) = letters.get(at) {
        match escape(&bytes[at..]) {
            Some(Escape { character, length }) => {
                let to = letters[at + length - 1].to;
                read.extend(character.as_bytes().iter().map(|byte| Letter { byte: *byte, from: letter.from, to }));
                at += length;
            }
            None => {
                read.push(*letter);
                at += 1;
            }
        }
    }
    (read.len() < letters.len()).then_some(read)
}

/// A character, or a byte of one, and how many bytes its escape has.
struct Escape {
    character: Character,
    length: usize,
}

struct Character([u8; 4], usize);

impl Character {
    fn as_bytes(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

impl Escape {
    fn of_byte(byte: u32, length: usize) -> Option<Self> {
        Some(Self { character: Character([u8::try_from(byte).ok()?, 0, 0, 0], 1), length })
    }

    fn of_code(code: u32, length: usize) -> Option<Self> {
        let mut bytes = [0; 4];
        let count = char::from_u32(code)?.encode_utf8(&mut bytes).len();
        Some(Self { character: Character(bytes, count), length })
    }
}

/// Returns the escape at the beginning of a text.
fn escape(text: &[u8]) -> Option<Escape> {
    match text.first()? {
        b'%' => Escape::of_byte(number(text.get(1..3)?, 16)?, 3),
        b'\\' => backslash(text),
        b'&' => reference(text),
        _ => None,
    }
}

/// `\n`, `\/`, `\u00fc`, and `\xfc` of programs.
fn backslash(text: &[u8]) -> Option<Escape> {
    let letter = match text.get(1)? {
        b'u' => return unicode(text),
        b'x' => return Escape::of_byte(number(text.get(2..4)?, 16)?, 4),
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        letter @ (b'"' | b'\'' | b'/' | b'\\') => *letter,
        _ => return None,
    };
    Escape::of_byte(letter.into(), 2)
}

/// `\u00fc`, and a pair of them for a character beyond 16 bits.
fn unicode(text: &[u8]) -> Option<Escape> {
    let first = number(text.get(2..6)?, 16)?;
    let second =
        text.get(6..12).filter(|second| second.starts_with(b"\\u")).and_then(|second| number(&second[2..], 16));
    match second {
        Some(second @ 0xdc00..=0xdfff) if (0xd800..=0xdbff).contains(&first) => {
            Escape::of_code(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00), 12)
        }
        _ => Escape::of_code(first, 6),
    }
}

/// `&#252;`, `&#x00FC;`, `&uuml;`.
fn reference(text: &[u8]) -> Option<Escape> {
    let end = text.iter().take(LONGEST_REFERENCE).position(|byte| *byte == b';')?;
    let code = match text.get(1..end)? {
        [b'#', b'x' | b'X', digits @ ..] => number(digits, 16)?,
        [b'#', digits @ ..] => number(digits, 10)?,
        name => named(name)?,
    };
    Escape::of_code(code, end + 1)
}

fn named(name: &[u8]) -> Option<u32> {
    let ascii = NAMES.iter().find(|(_, known)| known.as_bytes() == name).map(|(byte, _)| u32::from(*byte));
    ascii.or_else(|| (0xa0..).zip(LATIN.split(' ')).find(|(_, known)| known.as_bytes() == name).map(|(code, _)| code))
}

/// Returns the number that these digits are.
fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let begin = (!digits.is_empty()).then_some(0_u32);
    let next = |number: u32, digit: &u8| number.checked_mul(radix)?.checked_add(char::from(*digit).to_digit(radix)?);
    begin.and_then(|begin| digits.iter().try_fold(begin, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deepest(text: &str) -> String {
        let letters = readings(text).pop().unwrap();
        String::from_utf8(letters.into_iter().map(|letter| letter.byte).collect()).unwrap()
    }

    #[test]
    fn each_escape_is_read() {
        for (text, read) in [
            ("%41%c3%BC", "Aü"),
            (r#"\"\/\\ \u0041\u00FC\ud83d\uDE00"#, "\"/\\ Aü😀"),
            (r"\xc3\xbc\t", "ü\t"),
            ("&lt;&#60;&#x3c;&#X0003C;&#0060;&uuml;&yuml;&nbsp;&sol;", "<<<<<üÿ\u{a0}/"),
            ("&#38;lt;", "<"),
            (r"\\\\\\\\u0041", "A"),
            ("%25252541", "A"),
        ] {
            assert_eq!(deepest(text), read, "{text}");
        }
        for text in [
            "%4",
            "%4g",
            r"\u004",
            r"\q",
            r"\ud83d",
            "&#;",
            "&#xq;",
            "&#99999999999;",
            "&#00000000000065;",
            "&no;",
            "&",
            "100 % & \\",
        ] {
            assert_eq!(deepest(text), text);
        }
    }

    #[test]
    fn number_of_readings_is_bounded() {
        assert_eq!(readings("plain").len(), 1);
        assert_eq!(readings(&"%25".repeat(1000)).len(), 2);
        assert_eq!(readings(&format!("%{}41", "25".repeat(1000))).len(), DEEPEST + 1);
    }

    #[test]
    fn letters_know_where_they_are_written() {
        let letters = readings("x&#37;41y").pop().unwrap();
        let places: Vec<_> = letters.iter().map(|letter| (letter.byte, letter.from, letter.to)).collect();
        assert_eq!(places, [(b'x', 0, 1), (b'A', 1, 8), (b'y', 8, 9)]);
    }
}
