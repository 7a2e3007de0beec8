//! [`Patterns`]: what is looked for in a text because of its secrets, and the automaton that finds all of it in one pass.

use std::borrow::Cow;
use std::collections::BTreeSet;

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::noncontiguous::NFA;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::spelling::readings;
use super::{ExposeSecret, SecretString};

/// The least length of what is looked for, in bytes. Shorter ones occur in ordinary words: without them texts could not be read, and the gaps would
/// show the secret. Who tries all of them needs no text.
pub(super) const LEAST: usize = 4;

/// Parts of a URL's path and query that are shorter are not secrets, and occur in many words.
const LEAST_PART: usize = 6;

/// A piece of such a part, without punctuation, is looked for by itself if it is as long: `bot1234:t0ken` is often repeated without `bot`.
const LEAST_PIECE: usize = 8;

/// A line of a secret with several lines, such as a key, is looked for by itself if it is as long.
const LEAST_LINE: usize = 16;

/// The shortest piece of Base64 that is looked for.
const LEAST_BASE64: usize = 6;

/// Longer secrets are looked for in pieces of this length, so that a part of one is found, too.
const PIECE: usize = 64;

/// How many bytes two pieces share, so that Base64 of both has no gap between them.
const OVERLAP: usize = 3;

/// How many bytes all patterns have at most: those of a key of RSA with 8,192 bits. Its automaton is made within a few milliseconds.
const MOST: usize = 128 * 1024;

/// Byte strings that are looked for.
#[derive(Default)]
pub(super) struct Patterns {
    texts: BTreeSet<Vec<u8>>,
    /// Their length, also of those that are the same. It limits the work.
    bytes: usize,
}

/// The automaton of all patterns.
pub(super) struct Search {
    pub(super) automaton: NFA,
    /// The states before the first byte: a pattern may begin at any later one, or must begin with it.
    pub(super) anywhere: StateID,
    pub(super) here: StateID,
}

impl Patterns {
    pub(super) fn of(secrets: &[SecretString]) -> Self {
        let mut patterns = Self::default();
        let distinct: BTreeSet<&str> = secrets.iter().map(ExposeSecret::expose_secret).collect();
        for secret in distinct {
            if !patterns.are_too_many() {
                patterns.add_secret(&without_certificates(secret));
            }
        }
        patterns
    }

    /// `None`: there are too many.
    pub(super) fn search(self) -> Option<Search> {
        if self.are_too_many() {
            return None;
        }
        let automaton = NFA::builder().prefilter(false).build(&self.texts).ok()?;
        let (anywhere, here) = (automaton.start_state(Anchored::No).ok()?, automaton.start_state(Anchored::Yes).ok()?);
        Some(Search { automaton, anywhere, here })
    }

    fn are_too_many(&self) -> bool {
        self.bytes > MOST
    }

    fn add_secret(&mut self, secret: &str) {
        // As it is, and three times in Base64.
        if self.bytes + 5 * secret.len() > MOST {
            self.bytes = MOST + 1;
            return;
        }
        self.add(secret);
        // The prefix of keys for Standard Webhooks.
        secret.strip_prefix("whsec_").into_iter().for_each(|key| self.add(key));
        if secret.contains("://") {
            self.add_urls(secret);
        }
        let is_secret = |line: &&str| line.len() >= LEAST_LINE && *line != secret && !line.starts_with("-----");
        let lines = secret.lines().map(str::trim).filter(is_secret);
        lines.for_each(|line| self.add_pieces(line.as_bytes(), false));
    }

    /// Adds a text as it is, in Base64, and both without its escapes.
    fn add(&mut self, text: &str) {
        for reading in readings(text) {
            let bytes: Vec<u8> = reading.iter().map(|letter| letter.byte).collect();
            self.add_pieces(&bytes, true);
        }
    }

    fn add_pieces(&mut self, secret: &[u8], with_base64: bool) {
        let last = secret.len().saturating_sub(PIECE + OVERLAP);
        for from in (0..last).step_by(PIECE).chain([last]) {
            let piece = &secret[from..secret.len().min(from + PIECE + OVERLAP)];
            self.insert(piece, LEAST);
            for before in 0..if with_base64 { 3 } else { 0 } {
                self.insert(&base64(piece, before), LEAST_BASE64);
            }
            if self.are_too_many() {
                return;
            }
        }
    }

    fn insert(&mut self, text: &[u8], least: usize) {
        let text: Vec<u8> = text.iter().copied().filter_map(folded).collect();
        if text.len() >= least && !self.are_too_many() {
            self.bytes += text.len();
            self.texts.insert(text);
        }
    }

    /// Adds the parts of a URL, or of several with commas between them. A comma may also be a character of a password.
    fn add_urls(&mut self, urls: &str) {
        let mut whole = String::new();
        for part in urls.split(',') {
            self.add_parts_of(part);
            if part.contains("://") {
                self.add_parts_of(&std::mem::take(&mut whole));
            } else {
                whole.push(',');
            }
            whole.push_str(part);
        }
        self.add_parts_of(&whole);
    }

    fn add_parts_of(&mut self, url: &str) {
        let (scheme, rest) = url.trim().split_once("://").unwrap_or(("", url.trim()));
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if let Some((user, _)) = authority.rsplit_once('@') {
            // A user without a password is a token.
            self.add(user.split_once(':').map_or(user, |(_, password)| password));
        }
        if matches!(scheme, "http" | "https") {
            let (path, query) = path.split_once(['?', '#']).unwrap_or((path, ""));
            let values = query.split(['&', ';', '#']).map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
            for part in path.split('/').chain(values).filter(|part| part.len() >= LEAST_PART) {
                self.add(part);
                let pieces = part.split(|letter: char| !letter.is_alphanumeric() && !matches!(letter, '-' | '_'));
                pieces.filter(|piece| piece.len() >= LEAST_PIECE).for_each(|piece| self.add(piece));
            }
        }
    }
}

/// Returns a byte as it is compared; `None`: it is not compared. Base64 has two alphabets, and is broken into lines; forms write a space as `+`.
pub(super) fn folded(byte: u8) -> Option<u8> {
    match byte {
        b'\r' | b'\n' => None,
        b' ' | b'-' => Some(b'+'),
        b'_' => Some(b'/'),
        _ => Some(byte),
    }
}

/// Returns a secret without certificates and public keys, which everybody may see.
fn without_certificates(secret: &str) -> Cow<'_, str> {
    const BEGIN: &str = "-----BEGIN ";
    let is_public = |block: &str| {
        let label = block.split("-----").next().unwrap_or_default();
        label.contains("CERTIFICATE") || label.contains("PUBLIC KEY")
    };
    let mut blocks = secret.split(BEGIN);
    let before = blocks.next().unwrap_or_default();
    if !blocks.clone().any(is_public) {
        return Cow::Borrowed(secret);
    }
    let mut private = before.to_owned();
    for block in blocks {
        // Behind the last line of the block.
        let rest = block.split_once("-----END ").and_then(|(_, end)| end.split_once("-----"));
        match rest {
            Some((_, rest)) if is_public(block) => private.push_str(rest),
            _ => private.extend([BEGIN, block]),
        }
    }
    private.truncate(private.trim_end().len());
    Cow::Owned(private)
}

/// Returns the Base64 of a secret that has `before` bytes before it, without the characters that depend on what stands around it.
fn base64(secret: &[u8], before: usize) -> Vec<u8> {
    let text = [&[0; 2][..before.min(2)], secret].concat();
    let whole = (8 * before).div_ceil(6)..8 * text.len() / 6;
    STANDARD_NO_PAD.encode(text).get(whole).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(secrets: &[String]) -> Patterns {
        Patterns::of(&secrets.iter().map(|secret| SecretString::from(secret.as_str())).collect::<Vec<_>>())
    }

    /// Lines that look like Base64, with these bytes in all.
    fn lines(bytes: usize) -> String {
        let line = |number: usize| format!("{}\n", format!("{number:04x}").repeat(16));
        (0..bytes / 65).map(line).collect()
    }

    #[test]
    fn same_secret_is_looked_for_once() {
        let one = patterns(&["t0ken-of-mine-1234".to_owned()]);
        let many = patterns(&vec!["t0ken-of-mine-1234".to_owned(); 2000]);
        assert_eq!((one.texts.len(), one.bytes), (4, 18 + 24 + 23 + 23));
        assert_eq!((many.texts.len(), many.bytes), (one.texts.len(), one.bytes));
    }

    #[test]
    fn certificates_are_not_looked_for() {
        let certificate = format!("-----BEGIN CERTIFICATE-----\n{}-----END CERTIFICATE-----\n", lines(1500));
        assert_eq!(patterns(&[certificate.repeat(42)]).texts.len(), 0);
        let key = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIHh\n-----END PRIVATE KEY-----";
        let both = patterns(&[format!("{certificate}{key}\n{certificate}")]);
        let only = patterns(&[format!("\n{key}")]);
        assert!(!only.texts.is_empty() && only.texts == both.texts);
        // A block without an end is not known.
        assert!(!patterns(&["-----BEGIN CERTIFICATE-----\nMC4CAQAw".to_owned()]).texts.is_empty());
    }

    #[test]
    fn patterns_are_bounded() {
        let key = patterns(&[lines(6400)]);
        assert!(!key.are_too_many() && key.search().is_some());
        for large in [lines(64_000), "x".repeat(64_000), "k://u:pass@h,".repeat(1900)] {
            let large = patterns(&(0..100).map(|number| format!("{number}{large}")).collect::<Vec<_>>());
            assert!(large.bytes < MOST + 100, "{}", large.bytes);
            assert!(large.search().is_none());
        }
        assert!(patterns(&["x".repeat(64_000)]).texts.is_empty(), "nothing is made of it");
        let longest = patterns(&["x".repeat(9000)]).texts.iter().map(Vec::len).max();
        assert!(longest < Some(100), "{longest:?}");
    }
}
