//! [`Script`]: a Lua script, and the Lua source that scripts of several crates share.

use std::sync::OnceLock;

/// A Lua script: these texts after the common start. It never changes, so each server compiles it once.
pub struct Script {
    parts: &'static [&'static str],
    source: OnceLock<ScriptSource>,
}

/// The two forms in which servers get a script: its hash, or the whole text.
pub(crate) struct ScriptSource {
    pub(crate) hash: String,
    pub(crate) text: String,
}

/// The start of every script.
const START: &str = include_str!("start.lua");

/// The protocol of a claim (lease, fence, quarantine), which the scripts of notices and of timed tasks share.
pub const CLAIMING: &str = include_str!("claiming.lua");

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Script").finish_non_exhaustive()
    }
}

impl Script {
    /// Creates a script of these texts.
    pub const fn new(parts: &'static [&'static str]) -> Self {
        Self { parts, source: OnceLock::new() }
    }

    pub(crate) fn source(&self) -> &ScriptSource {
        self.source.get_or_init(|| {
            let text = START.to_owned() + &self.parts.concat();
            ScriptSource { hash: redis::Script::new(&text).get_hash().to_owned(), text }
        })
    }
}
