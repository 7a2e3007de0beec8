//! The last resort: guesses the class of an error from its text, if no type determines it.
//!
//! It guesses only classes that are retried by default, because a word with another meaning must never end a notice.
//! `SweeperBuilder::guess_classes(false)` switches it off.

use solid_notify_core::ErrorClass;

/// The words to look for, in lower case. The first entry that occurs decides.
const WORDS: [(&str, ErrorClass); 22] = [
    ("deadlock", ErrorClass::Deadlock),
    ("could not serialize access", ErrorClass::Deadlock),
    ("lock wait timeout", ErrorClass::Deadlock),
    ("database is locked", ErrorClass::Deadlock),
    ("too many requests", ErrorClass::Busy),
    ("too many connections", ErrorClass::Busy),
    ("rate limit", ErrorClass::Busy),
    ("service unavailable", ErrorClass::Unavailable),
    ("temporarily unavailable", ErrorClass::Unavailable),
    ("bad gateway", ErrorClass::Unavailable),
    ("timed out", ErrorClass::Timeout),
    ("deadline has elapsed", ErrorClass::Timeout),
    ("deadline exceeded", ErrorClass::Timeout),
    ("gateway timeout", ErrorClass::Timeout),
    ("connection refused", ErrorClass::Network),
    ("connection reset", ErrorClass::Network),
    ("connection aborted", ErrorClass::Network),
    ("connection closed", ErrorClass::Network),
    ("broken pipe", ErrorClass::Network),
    ("failed to lookup address", ErrorClass::Network),
    ("no route to host", ErrorClass::Network),
    ("network is unreachable", ErrorClass::Network),
];

/// Guesses the class of a text.
pub(super) fn class(text: &str) -> Option<ErrorClass> {
    let text = text.to_ascii_lowercase();
    WORDS.iter().find(|(words, _)| text.contains(words)).map(|(_, class)| *class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_never_ends_a_notice_and_looks_for_what_it_can_find() {
        for (words, class) in WORDS {
            assert!(class.is_retried_by_default(), "{words}");
            assert_eq!(super::class(&format!("OMP: {}!", words.to_uppercase())), Some(class), "{words}");
        }
        assert_eq!(super::class("no such customer"), None);
    }
}
