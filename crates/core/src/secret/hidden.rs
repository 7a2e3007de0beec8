//! [`Hidden`]: removes secrets from what a receiver says, because some receivers repeat what they got.
//!
//! A receiver repeats a secret as its own program writes texts: in JSON, in a URL or a form, in HTML, in Base64, in lines. `spelling.rs` reads a text
//! without the escapes, and here the bytes of each reading go through one automaton, which knows all secrets (`patterns.rs`). So the work is that of a
//! few passes over the text, however many secrets there are.

use std::sync::OnceLock;

use aho_corasick::Anchored;
use aho_corasick::automaton::Automaton;

use super::SecretString;
use super::patterns::{LEAST, Patterns, Search, folded};
use super::spelling::{LONGEST_ESCAPE, Letter, begins_escape, readings};

/// What stands in place of a secret.
const MARK: char = '…';

/// How much of a text is searched and returned, in bytes. No notice keeps as much of a text, also where secrets in it become short.
pub const SEARCHED: usize = 16 * 1024;

/// What stands in place of a text that cannot be searched.
const UNSEARCHED: &str = "… (not shown: the secrets of this attempt are too large to be removed from it)";

/// Secrets that must not be shown.
#[derive(Default)]
pub struct Hidden {
    secrets: Vec<SecretString>,
    /// Made when the first text is searched, because few attempts have one.
    search: OnceLock<Option<Search>>,
}

impl Hidden {
    /// Takes the secrets, and their parts that are secrets by themselves: the password of a URL, its path and query (of `http` and `https`),
    /// the lines of a key, and a key without its prefix. One with less than four bytes stays in texts, and so do public certificates.
    pub fn of<'s>(secrets: impl IntoIterator<Item = &'s SecretString>) -> Self {
        Self { secrets: secrets.into_iter().cloned().collect(), search: OnceLock::new() }
    }

    /// Returns a text without the secrets; of a text of more than 16 KiB its beginning.
    pub fn clean(&self, text: &str) -> String {
        self.cleaned(text, false)
    }

    /// Returns the beginning of a longer text without the secrets, also without the first part of one at its end.
    pub fn clean_beginning(&self, text: &str) -> String {
        self.cleaned(text, true)
    }

    fn cleaned(&self, text: &str, is_cut: bool) -> String {
        let beginning = &text[..text.floor_char_boundary(SEARCHED)];
        let is_cut = is_cut || beginning.len() < text.len();
        if self.secrets.is_empty() || text.len() < LEAST {
            return beginning.to_owned();
        }
        match self.search.get_or_init(|| Patterns::of(&self.secrets).search()) {
            Some(search) => without(beginning, &search.secrets_in(beginning, is_cut)),
            None => UNSEARCHED.to_owned(),
        }
    }
}

/// Returns a text without these bytes.
fn without(text: &str, hidden: &[bool]) -> String {
    let (mut clean, mut is_behind) = (String::with_capacity(text.len()), false);
    for (at, letter) in text.char_indices() {
        let is_hidden = hidden[at..at + letter.len_utf8()].contains(&true);
        match (is_hidden, is_behind) {
            (true, false) => clean.push(MARK),
            (true, true) => {}
            (false, _) => clean.push(letter),
        }
        is_behind = is_hidden;
    }
    clean
}

impl Search {
    /// Returns which bytes of the text are of secrets.
    fn secrets_in(&self, text: &str, is_cut: bool) -> Vec<bool> {
        let mut hidden = vec![false; text.len()];
        for reading in readings(text) {
            let compared = |letter: Letter| folded(letter.byte).map(|byte| Letter { byte, ..letter });
            let letters: Vec<Letter> = reading.into_iter().filter_map(compared).collect();
            self.mark(&letters, &mut hidden);
            if is_cut && let Some(from) = self.begun(&letters) {
                hidden[from..].fill(true);
            }
        }
        hidden
    }

    fn mark(&self, letters: &[Letter], hidden: &mut [bool]) {
        let mut state = self.anywhere;
        for (at, letter) in letters.iter().enumerate() {
            state = self.automaton.next_state(Anchored::No, state, letter.byte);
            if self.automaton.is_match(state) {
                // The first one is the longest of those that end here.
                let length = self.automaton.pattern_len(self.automaton.match_pattern(state, 0));
                hidden[letters[at + 1 - length].from..letter.to].fill(true);
            }
        }
    }

    /// Returns where a secret begins whose rest is behind the end of the text.
    fn begun(&self, letters: &[Letter]) -> Option<usize> {
        let first = letters.len().saturating_sub(self.automaton.max_pattern_len().max(LONGEST_ESCAPE));
        (first..letters.len()).find(|from| self.is_begun(&letters[*from..])).map(|from| letters[from].from)
    }

    fn is_begun(&self, letters: &[Letter]) -> bool {
        let mut state = self.here;
        for (at, letter) in letters.iter().enumerate() {
            state = self.automaton.next_state(Anchored::Yes, state, letter.byte);
            if self.automaton.is_dead(state) {
                // An escape that the end of the text cuts may be the next character.
                return at > 0 && begins_escape(letter.byte) && letters.len() - at < LONGEST_ESCAPE;
            }
        }
        true
    }
}

#[cfg(test)]
#[path = "hidden_tests.rs"]
mod tests;
