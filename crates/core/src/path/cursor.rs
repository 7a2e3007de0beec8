//! [`Cursor`]: reads the words of JSONPath: blanks, names, whole numbers, numbers and quoted texts.

use super::number::Decimal;
use super::text::pair;

/// The largest whole number of an index or a slice: 2^53 - 1, as RFC 9535 says.
const LARGEST_INDEX: i64 = (1 << 53) - 1;

/// A place in an expression.
pub(super) struct Cursor<'a> {
    text: &'a str,
    pub(super) at: usize,
}

/// What is wrong, with its place.
pub(super) type Result<T> = std::result::Result<T, String>;

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Passes over `word` if it is there.
    pub(super) fn eat(&mut self, word: &str) -> bool {
        let is_there = self.rest().starts_with(word);
        self.at += if is_there { word.len() } else { 0 };
        is_there
    }

    pub(super) fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    /// Passes over blanks and `word`, if both are there.
    pub(super) fn eat_after_blanks(&mut self, word: &str) -> bool {
        let before = self.at;
        self.blanks();
        let is_there = self.eat(word);
        if !is_there {
            self.at = before;
        }
        is_there
    }

    /// Returns an error at this place.
    pub(super) fn expected<T>(&self, what: &str) -> Result<T> {
        let found = self.peek().map_or("its end".to_owned(), |letter| format!("`{letter}`"));
        Err(format!("at byte {}, before {found}, is missing {what}", self.at))
    }

    /// Returns an error about what begins at `at`.
    pub(super) fn wrong<T>(at: usize, problem: impl std::fmt::Display) -> Result<T> {
        Err(format!("at byte {at}: {problem}"))
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let word = &rest[..rest.find(|letter| !is_part(letter)).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    /// Reads the name of a member that stands without quotes.
    pub(super) fn name(&mut self) -> Result<String> {
        let is_first = |letter: char| letter.is_ascii_alphabetic() || letter == '_' || !letter.is_ascii();
        if !self.peek().is_some_and(is_first) {
            return self.expected("a name, `*` or `[`; other names are written `['a-b']`");
        }
        Ok(self.take_while(|letter| is_first(letter) || letter.is_ascii_digit()).to_owned())
    }

    /// Reads the name of a function, or a literal such as `true`; it may be empty.
    pub(super) fn word(&mut self) -> &'a str {
        self.take_while(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
    }

    /// Reads a whole number, if there is one.
    pub(super) fn whole(&mut self) -> Result<Option<i64>> {
        let start = self.at;
        let negative = self.eat("-");
        let digits = self.take_while(|letter| letter.is_ascii_digit());
        match (digits, negative) {
            ("", false) => return Ok(None),
            ("", true) => return self.expected("a digit"),
            ("0", false) => return Ok(Some(0)),
            _ if digits.starts_with('0') => return Self::wrong(start, "a whole number begins with 0"),
            _ => {}
        }
        match digits.parse::<i64>() {
            Ok(size) if size <= LARGEST_INDEX => Ok(Some(if negative { -size } else { size })),
            _ => Self::wrong(start, format!("an index is larger than {LARGEST_INDEX}")),
        }
    }

    /// Reads a number.
    pub(super) fn number(&mut self) -> Result<Decimal> {
        let start = self.at;
        self.eat("-");
        match self.take_while(|letter| letter.is_ascii_digit()) {
            "" => return self.expected("a digit"),
            digits if digits.len() > 1 && digits.starts_with('0') => {
                return Self::wrong(start, "a number begins with 0");
            }
            _ => {}
        }
        if self.eat(".") && self.take_while(|letter| letter.is_ascii_digit()).is_empty() {
            return self.expected("a digit");
        }
        if self.eat("e") || self.eat("E") {
            let _ = self.eat("+") || self.eat("-");
            if self.take_while(|letter| letter.is_ascii_digit()).is_empty() {
                return self.expected("a digit");
            }
        }
        Ok(Decimal::read(&self.text[start..self.at]))
    }

    /// Reads a text in quotes.
    pub(super) fn quoted(&mut self) -> Result<String> {
        let Some(quote @ ('\'' | '"')) = self.peek() else { return self.expected("a text in quotes") };
        self.at += 1;
        let mut text = String::new();
        loop {
            let start = self.at;
            let Some(letter) = self.peek() else { return self.expected(&format!("the closing {quote}")) };
            self.at += letter.len_utf8();
            match letter {
                _ if letter == quote => return Ok(text),
                '\\' => text.push(self.escape(quote)?),
                '\0'..='\x1f' => {
                    return Self::wrong(start, "a control character is written as an escape such as `\\n`");
                }
                _ => text.push(letter),
            }
        }
    }

    /// Reads what follows a backslash.
    fn escape(&mut self, quote: char) -> Result<char> {
        let start = self.at - 1;
        let letter = self.peek().unwrap_or('\0');
        self.at += if letter == '\0' { 0 } else { letter.len_utf8() };
        let letter = match letter {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '/' | '\\' => letter,
            'u' => {
                let first = self.unit()?;
                let point = match first {
                    0xD800..0xDC00 if self.eat("\\u") => pair(first, self.unit()?),
                    _ => Some(first),
                };
                match point.and_then(char::from_u32) {
                    Some(letter) => letter,
                    None => return Self::wrong(start, "half of a surrogate pair is not a character"),
                }
            }
            _ if letter == quote => letter,
            _ => return Self::wrong(start, "an escape is one of `\\b \\f \\n \\r \\t \\/ \\\\ \\u00e9`, or the quote"),
        };
        Ok(letter)
    }

    fn unit(&mut self) -> Result<u32> {
        let digits = self.rest().get(..4).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let Some(unit) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
            return self.expected("four hexadecimal digits");
        };
        self.at += 4;
        Ok(unit)
    }
}
