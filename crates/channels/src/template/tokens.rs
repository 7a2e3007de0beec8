//! The tags of a template and their tokens, as far as operators, brackets and operands differ in what they mean.

/// A tag with an expression, or a statement.
pub(super) struct Tag {
    pub(super) is_statement: bool,
    pub(super) tokens: Vec<Token>,
}

/// A part of a tag, with its place in the template.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    Number,
    Text,
    /// `(`, `[` or `{`.
    Open,
    Close,
    Dot,
    Pipe,
    /// An operator that calculates.
    Arithmetic,
    /// An operator that compares and is not a word.
    Comparison,
    /// `~`.
    Join,
    /// A comma, colon, sign of assignment, or what no template has.
    Other,
}

/// Returns the tags of a template. One that is not closed ends with the template.
pub(super) fn tags(source: &str) -> impl Iterator<Item = Tag> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let tag = at + source.get(at..)?.find('{')? + 1;
            let after = &source[tag..];
            at = match after.as_bytes().first() {
                Some(b'#') => after.find("#}").map_or(source.len(), |end| tag + end + 2),
                Some(b'%') if is_raw(&after[1..]) => source.len() - after_raw(after).len(),
                Some(mark @ (b'{' | b'%')) => {
                    let is_statement = *mark == b'%';
                    let signs = usize::from(after[1..].starts_with(['-', '+']));
                    let (tokens, end) = tokens(source, tag + 1 + signs);
                    at = end;
                    return Some(Tag { is_statement, tokens });
                }
                _ => tag,
            };
        }
    })
}

/// Returns the text behind a word, blanks, and the sign that removes blanks.
fn behind_sign(tag: &str) -> &str {
    tag.strip_prefix(['-', '+']).unwrap_or(tag).trim_start()
}

/// Returns whether a tag begins text that is no template.
fn is_raw(tag: &str) -> bool {
    let after = behind_sign(tag).strip_prefix("raw").map(str::trim_start);
    after.is_some_and(|after| behind_sign(after).starts_with("%}"))
}

fn after_raw(tag: &str) -> &str {
    let mut rest = tag;
    while let Some((_, after)) = rest.split_once("{%") {
        if behind_sign(after).starts_with("endraw") {
            return after;
        }
        rest = after;
    }
    ""
}

/// Returns the tokens of a tag, which ends with the first closing mark that is in no bracket and no text, and where it ends.
fn tokens(source: &str, from: usize) -> (Vec<Token>, usize) {
    let (mut tokens, mut open, bytes, mut at) = (Vec::new(), 0_usize, source.as_bytes(), from);
    let closes = |at: usize| matches!(bytes.get(at..at + 2), Some(b"}}" | b"%}"));
    while let Some(&byte) = bytes.get(at) {
        if open == 0 && closes(at) {
            return (tokens, at + 2);
        }
        if open == 0 && matches!(byte, b'-' | b'+') && closes(at + 1) {
            return (tokens, at + 3);
        }
        let start = at;
        at += 1;
        let next = bytes.get(at).copied();
        let kind = match byte {
            b' ' | b'\t' | b'\r' | b'\n' => continue,
            b'"' | b'\'' => {
                while let Some(&inner) = bytes.get(at) {
                    at += if inner == b'\\' { 2 } else { 1 };
                    if inner == byte {
                        break;
                    }
                }
                at = at.min(bytes.len());
                Kind::Text
            }
            b'(' | b'[' | b'{' => {
                open += 1;
                Kind::Open
            }
            b')' | b']' | b'}' => {
                open = open.saturating_sub(1);
                Kind::Close
            }
            b'0'..=b'9' => {
                at = end_of_number(bytes, start);
                Kind::Number
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                while bytes.get(at).is_some_and(|next| next.is_ascii_alphanumeric() || *next == b'_') {
                    at += 1;
                }
                Kind::Word
            }
            b'=' | b'!' | b'<' | b'>' if next == Some(b'=') => {
                at += 1;
                Kind::Comparison
            }
            b'<' | b'>' => Kind::Comparison,
            b'*' | b'/' => {
                at += usize::from(next == Some(byte));
                Kind::Arithmetic
            }
            b'+' | b'-' | b'%' => Kind::Arithmetic,
            b'~' => Kind::Join,
            b'|' => Kind::Pipe,
            b'.' => Kind::Dot,
            _ => {
                while !source.is_char_boundary(at) {
                    at += 1;
                }
                Kind::Other
            }
        };
        tokens.push(Token { kind, start, end: at });
    }
    (tokens, bytes.len())
}

/// Returns the end of a number with its point and exponent.
fn end_of_number(bytes: &[u8], start: usize) -> usize {
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let is_hexadecimal = matches!(bytes.get(start + 1), Some(b'x' | b'X'));
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        at += match byte {
            b'e' | b'E' if !is_hexadecimal && matches!(bytes.get(at + 1), Some(b'+' | b'-')) && is_digit(at + 2) => 2,
            b'.' if is_digit(at + 1) => 1,
            b'_' => 1,
            byte if byte.is_ascii_alphanumeric() => 1,
            _ => break,
        };
    }
    at
}
