//! A part of the text with its position, so that every error can point at its place.
//!
//! It is independent of the language.

use super::error::IntervalError;

/// A part of a whole text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    whole: &'a str,
    text: &'a str,
    /// Where `text` starts in `whole`, in bytes.
    start: usize,
}

impl<'a> Piece<'a> {
    pub fn new(whole: &'a str) -> Self {
        Self { whole, text: whole, start: 0 }
    }

    pub fn as_str(self) -> &'a str {
        self.text
    }

    pub fn is_empty(self) -> bool {
        self.text.is_empty()
    }

    /// Returns the error that `expected` is missing, `at` bytes after the start of this piece.
    pub fn error(self, at: usize, expected: impl Into<String>) -> IntervalError {
        IntervalError::Malformed { text: self.whole.to_owned(), offset: self.start + at, expected: expected.into() }
    }

    /// Returns the same error for the end of this piece.
    pub fn error_at_end(self, expected: impl Into<String>) -> IntervalError {
        self.error(self.text.len(), expected)
    }

    /// Returns the piece without white space around it.
    pub fn trim(self) -> Self {
        let ahead = self.text.len() - self.text.trim_start().len();
        self.part(ahead, self.text.trim())
    }

    /// Returns the rest after `prefix`, if the piece starts with it.
    pub fn strip(self, prefix: &str) -> Option<Self> {
        let rest = self.text.strip_prefix(prefix)?;
        Some(self.part(prefix.len(), rest))
    }

    /// Returns the pieces before and after the first `separator`.
    pub fn split_once(self, separator: char) -> Option<(Self, Self)> {
        let (before, behind) = self.text.split_once(separator)?;
        let ahead = before.len() + separator.len_utf8();
        Some((self.part(0, before), self.part(ahead, behind)))
    }

    /// Returns the longest start of the piece whose characters all `fit`, and the rest.
    pub fn take_while(self, fit: impl Fn(char) -> bool) -> (Self, Self) {
        let end = self.text.find(|c| !fit(c)).unwrap_or(self.text.len());
        let (taken, rest) = self.text.split_at(end);
        (self.part(0, taken), self.part(end, rest))
    }

    /// Returns the pieces between commas, without white space around them; always at least one.
    pub fn entries(self) -> impl Iterator<Item = Self> {
        let mut rest = Some(self);
        std::iter::from_fn(move || {
            let piece = rest?;
            let split = piece.split_once(',');
            rest = split.map(|(_, behind)| behind);
            Some(split.map_or(piece, |(before, _)| before).trim())
        })
    }

    fn part(self, ahead: usize, text: &'a str) -> Self {
        Self { text, start: self.start + ahead, ..self }
    }
}
