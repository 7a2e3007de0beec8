//! The error of a retry interval and its place in the text.
//!
//! The parsers write what was expected; this file only combines that with the text.

/// A text that is not a retry interval.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IntervalError {
    /// The text is not valid. The message points at the place of the error.
    #[error("{}", point_at(.text, *.offset, .expected))]
    Malformed {
        /// The text as it was given.
        text: String,
        /// The place of the error, in bytes from the start of `text`; `text.len()` is its end.
        offset: usize,
        /// What belongs there, to be read after the word "expected".
        expected: String,
    },
    /// The text is too long to be a retry interval. The message does not repeat it, because it may be of any size.
    #[error("retry_interval: expected at most {limit} bytes, but the text has {length}")]
    TooLong {
        /// The length of the text in bytes.
        length: usize,
        /// The maximum length in bytes.
        limit: usize,
    },
}

impl IntervalError {
    /// Returns what was expected and a picture of the place, without the column and its value, which a
    /// [`Problem`](crate::Problem) names itself.
    pub fn expected(&self) -> String {
        match self {
            Self::Malformed { text, offset, expected } => format!("{expected}{}", picture(text, *offset)),
            Self::TooLong { length, limit } => format!("at most {limit} bytes, but the text has {length}"),
        }
    }
}

/// The message of a malformed text: one line as a summary, then the text with a caret under the place.
fn point_at(text: &str, offset: usize, expected: &str) -> String {
    format!("retry_interval \"{}\": expected {expected}{}", in_one_line(text), picture(text, offset))
}

/// Returns the text with a caret under the place, each on a line of its own.
fn picture(text: &str, offset: usize) -> String {
    let line = in_one_line(text);
    if line.trim().is_empty() {
        return String::new();
    }
    // Columns are characters, not bytes, so that the caret is also right after an `é`.
    let column = text.char_indices().take_while(|(at, _)| *at < offset).count();
    format!("\n  {line}\n  {:column$}^", "")
}

/// A line break or a tab inside the text would move the caret away from its place.
fn in_one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn malformed(text: &str, offset: usize) -> String {
        let (text, expected) = (text.to_owned(), "a duration".to_owned());
        IntervalError::Malformed { text, offset, expected }.to_string()
    }

    #[test]
    fn the_caret_stands_under_the_place() {
        assert_eq!(malformed("[5s,5x]", 4), "retry_interval \"[5s,5x]\": expected a duration\n  [5s,5x]\n      ^");
    }

    #[test]
    fn the_caret_counts_characters_not_bytes() {
        assert_eq!(malformed("éé5x", 4), "retry_interval \"éé5x\": expected a duration\n  éé5x\n    ^");
    }

    #[test]
    fn the_caret_can_stand_behind_the_end() {
        assert!(malformed("[5s", 3).ends_with("\n  [5s\n     ^"));
    }

    #[test]
    fn line_breaks_do_not_move_the_caret() {
        assert!(malformed("[5s,\n5x]", 5).ends_with("\n  [5s, 5x]\n       ^"));
    }

    #[test]
    fn a_blank_text_has_no_picture() {
        assert_eq!(malformed(" ", 0), "retry_interval \" \": expected a duration");
    }
}
