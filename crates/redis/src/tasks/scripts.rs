//! The scripts of the timed tasks and the keys that they work on.

use crate::connection::{Script, script};

pub(super) static ADD: Script = script!("add.lua");
pub(super) static REPLACE: Script = script!("shared.lua", "replace.lua");
pub(super) static DUE: Script = script!("shared.lua", "due.lua");
pub(super) static CLAIM: Script = script!("shared.lua", "claim.lua");
pub(super) static SETTLE: Script = script!("shared.lua", "settle.lua");
pub(super) static CHANGE: Script = script!("shared.lua", "change.lua");
pub(super) static LOOK: Script = script!("shared.lua", "look.lua");

/// The keys of a kind, in the order in which the scripts expect them. What stands in braces is all that a cluster hashes, so they
/// are in one slot; the prefix has no colon, so two prefixes never meet.
pub(super) fn keys(prefix: &str, kind: &str) -> [String; 9] {
    ["due", "lease", "values", "held", "tries", "dead", "why", "aside", "seq"].map(|name| key(prefix, kind, name))
}

/// Those of [`ADD`].
pub(super) fn keys_to_add(prefix: &str, kind: &str) -> [String; 3] {
    ["due", "values", "seq"].map(|name| key(prefix, kind, name))
}

fn key(prefix: &str, kind: &str, name: &str) -> String {
    format!("{{{prefix}:{kind}}}:{name}")
}
