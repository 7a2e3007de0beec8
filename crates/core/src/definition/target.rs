//! [`TargetFilter`]: which notices of its definition a target gets (the column `target_filter`).
//!
//! What a target inherits is left to `in_force.rs`.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;
use serde_json_path::JsonPath;

use super::NotifyDef;

/// The longest filter, in bytes, and its deepest nesting: the parser is recursive.
const LONGEST: usize = 2000;
const DEEPEST: usize = 8;

const EXPECTED: &str = "a filter expression of JSONPath (RFC 9535) in which `@` is the parameter, such as `@.amount > 100 && @.country == 'DE'`";

/// Which parameters a target gets: the column `target_filter`, a filter expression of JSONPath (RFC 9535), without `$[?` and `]`.
/// `@` is the parameter.
///
/// ```
/// use solid_notify_core::definition::TargetFilter;
/// let filter: TargetFilter = "@.amount >= 100 && @.country == 'DE'".parse()?;
/// assert!(filter.accepts(r#"{"amount":250,"country":"DE"}"#));
/// assert!(!filter.accepts(r#"{"amount":250}"#));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone)]
pub struct TargetFilter {
    text: String,
    path: JsonPath,
}

impl FromStr for TargetFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let depth = |depth: usize, letter: char| match letter {
            '(' | '[' => depth + 1,
            ')' | ']' => depth.saturating_sub(1),
            _ => depth,
        };
        let depths = text.chars().scan(0, |now, letter| {
            *now = depth(*now, letter);
            Some(*now)
        });
        if text.len() > LONGEST || depths.max().unwrap_or(0) > DEEPEST {
            return Err(format!("{EXPECTED}; at most {LONGEST} bytes, with at most {DEEPEST} brackets in one another"));
        }
        // In parentheses, so that the text can end neither the expression nor the query.
        let path = JsonPath::parse(&format!("$[?({text})]")).map_err(|error| format!("{EXPECTED}; {error}"))?;
        if let Some(pattern) = patterns(text).into_iter().find(|pattern| !is_regex(pattern)) {
            return Err(format!("{EXPECTED}; the pattern {pattern} is no regular expression"));
        }
        Ok(Self { text: text.to_owned(), path })
    }
}

/// Returns the literals that are the second argument of `match` or `search`, with their quotes.
fn patterns(text: &str) -> Vec<&str> {
    let (mut found, mut at) = (Vec::new(), 0);
    // For each open bracket: whether it has the arguments of such a call.
    let mut calls = Vec::new();
    while let Some(letter) = text[at..].chars().next() {
        let before = text[..at].trim_end();
        match letter {
            '(' => {
                let name = text[..at].rsplit(|letter: char| letter != '_' && !letter.is_alphanumeric()).next();
                calls.push(matches!(name, Some("match" | "search")));
            }
            '[' => calls.push(false),
            ')' | ']' => _ = calls.pop(),
            '\'' | '"' => {
                let length = literal_length(&text[at..], letter);
                if calls.last() == Some(&true)
                    && before.ends_with(',')
                    && text[at + length..].trim_start().starts_with(')')
                {
                    found.push(&text[at..at + length]);
                }
                at += length;
                continue;
            }
            _ => {}
        }
        at += letter.len_utf8();
    }
    found
}

/// Returns the length of the literal with which a text begins, in bytes.
fn literal_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns whether a literal is a regular expression: with nothing as an alternative it matches the empty text. One that cannot be read matches
/// nothing, so its filter would silently refuse all notices.
fn is_regex(literal: &str) -> bool {
    let (quote, rest) = literal.split_at(1);
    let query = JsonPath::parse(&format!("$[?match('', {quote}|{rest})]"));
    query.is_ok_and(|query| !query.query(&Value::Array(vec![Value::Null])).is_empty())
}

impl TargetFilter {
    /// Returns whether it lets a parameter through. One that cannot be read, because it nests too deep, gets through.
    pub fn accepts(&self, param: &str) -> bool {
        match serde_json::from_str::<Value>(param) {
            Ok(param) => !self.path.query(&Value::Array(vec![param])).is_empty(),
            Err(_) => true,
        }
    }
}

impl PartialEq for TargetFilter {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Display for TargetFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for TargetFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TargetFilter").field(&self.text).finish()
    }
}

impl NotifyDef {
    /// Returns the filter of a target that has one.
    pub fn filter(&self) -> Option<Result<TargetFilter, String>> {
        self.target_filter.as_deref().filter(|text| !text.trim().is_empty()).map(str::parse)
    }
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
