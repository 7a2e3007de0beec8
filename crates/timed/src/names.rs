//! Which kinds, ids and target URLs are accepted. Scripts and readers of the keys rely on it.

use crate::error::{Error, Result};

/// The longest kind, in bytes.
const LONGEST_KIND: usize = 200;
/// The longest id, in bytes.
const LONGEST_ID: usize = 500;
/// The longest target URL, in bytes.
const LONGEST_TARGET: usize = 2_000;

/// Checks a kind. Braces would change which part of a key a cluster hashes.
pub(crate) fn check_kind(kind: &str) -> Result<()> {
    let fits = is_text(kind, LONGEST_KIND) && !kind.contains(['{', '}']);
    fits.then_some(()).ok_or_else(|| Error::Kind { kind: kind.to_owned() })
}

/// Checks the id of a new task.
pub(crate) fn check_id(id: &str) -> Result<()> {
    is_text(id, LONGEST_ID).then_some(()).ok_or_else(|| Error::Id { id: id.to_owned() })
}

/// Checks a target URL: a scheme, `://`, and more, without spaces.
pub(crate) fn check_target(target: &str) -> Result<()> {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
    };
    let has_parts = target.split_once("://").is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty());
    let fits = has_parts && is_text(target, LONGEST_TARGET) && !target.contains(char::is_whitespace);
    fits.then_some(()).ok_or_else(|| Error::Target { target: target.to_owned() })
}

fn is_text(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.len()) && !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_ids_and_targets_are_checked() {
        for kind in ["remind", "kind 0", "übung", &"k".repeat(200)] {
            assert!(check_kind(kind).is_ok(), "{kind}");
        }
        for kind in ["", "a{b", "a}b", "a\nb", &"k".repeat(201)] {
            assert!(check_kind(kind).is_err(), "{kind}");
        }
        for id in ["7", "order 7", "{x}é\"", &"i".repeat(500)] {
            assert!(check_id(id).is_ok(), "{id}");
        }
        for id in ["", "a\0b", &"i".repeat(501)] {
            assert!(check_id(id).is_err(), "{id}");
        }
        for target in ["https://shop.example/hooks?a=b", "amqp://host", "a+b.c-1://x"] {
            assert!(check_target(target).is_ok(), "{target}");
        }
        let long = format!("https://{}", "x".repeat(1993));
        for target in ["", "shop.example", "https://", "://x", "1a://x", "a b://x", "https://a b", &long] {
            assert!(check_target(target).is_err(), "{target}");
        }
        assert!(check_target(&long[..2000]).is_ok());
    }
}
