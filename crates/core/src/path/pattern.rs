//! [`Pattern`]: a compiled regular expression of `match` or `search`, with what it costs.
//!
//! The engine takes time in proportion to its size and to the text, whatever the expression is. So both are bounded and counted.

use regex::{Regex, RegexBuilder};

use super::budget::Unjudged;

/// The longest pattern, in bytes.
const LONGEST: usize = 2000;

/// The sizes in bytes up to which a pattern is compiled, each with the steps that it then costs per byte of a text. The first that suffices counts.
/// The slowest patterns that were found take 75 ns for such a step, usual ones less than 1 ns.
const SIZES: [(usize, u64); 5] = [(2 << 10, 2), (8 << 10, 8), (32 << 10, 32), (128 << 10, 128), (512 << 10, 512)];

/// The memory in which the engine keeps states that it has seen, for each pattern and thread: so many times the size of the pattern, within bounds.
const STATES_OF_SIZE: usize = 8;
const STATES: (usize, usize) = (64 << 10, 1 << 20);

#[derive(Debug, Clone)]
pub(super) struct Pattern {
    regex: Regex,
    /// Steps for each byte of a text.
    pub(super) per_byte: u64,
    /// The size in bytes that it fits in.
    pub(super) size: usize,
}

/// Why a pattern is not compiled.
#[derive(Debug)]
pub(super) enum Refused {
    NoRegex(String),
    Unjudged(Unjudged),
}

impl From<Unjudged> for Refused {
    fn from(unjudged: Unjudged) -> Self {
        Self::Unjudged(unjudged)
    }
}

impl Pattern {
    /// Compiles a pattern, which must match a text as a `whole` or be found in it. `spend` takes the steps of that.
    pub(super) fn compiled(
        pattern: &str,
        whole: bool,
        spend: &mut dyn FnMut(u64) -> Result<(), Unjudged>,
    ) -> Result<Self, Refused> {
        if pattern.len() > LONGEST {
            return Err(Unjudged::PatternTooLong { bytes: pattern.len(), limit: LONGEST, at: 0 }.into());
        }
        // By itself first: in a group, `a)(b` would be a regular expression.
        let regex = compiled(pattern, spend)?;
        match whole {
            false => Ok(regex),
            true => compiled(&format!(r"\A(?:{pattern})\z"), spend),
        }
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

fn compiled(pattern: &str, spend: &mut dyn FnMut(u64) -> Result<(), Unjudged>) -> Result<Pattern, Refused> {
    for (size, per_byte) in SIZES {
        spend(size as u64 / 4)?;
        // A dot matches neither a carriage return nor a line feed.
        let mut builder = RegexBuilder::new(pattern);
        let states = (size * STATES_OF_SIZE).clamp(STATES.0, STATES.1);
        match builder.crlf(true).size_limit(size).dfa_size_limit(states).build() {
            Ok(regex) => return Ok(Pattern { regex, per_byte, size }),
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(error) => return Err(Refused::NoRegex(error.to_string())),
        }
    }
    Err(Unjudged::PatternTooLarge { limit: SIZES[SIZES.len() - 1].0, at: 0 }.into())
}
