//! The scripts of the timed tasks and the keys that they work on.

use crate::connection::Script;

const SEQUENCE: &str = include_str!("sequence.lua");
const DUE_TIME: &str = include_str!("due_time.lua");
const SHARED: &str = include_str!("shared.lua");
const CHECK: &str = include_str!("check.lua");

pub(super) static ADD: Script = Script::new(&[include_str!("add.lua")]);
pub(super) static ADD_AS: Script = Script::new(&[DUE_TIME, SHARED, include_str!("add_as.lua")]);
pub(super) static REPLACE: Script = Script::new(&[DUE_TIME, SHARED, include_str!("replace.lua")]);
pub(super) static DUE: Script = Script::new(&[SHARED, include_str!("due.lua")]);
pub(super) static CLAIM: Script = Script::new(&[SEQUENCE, SHARED, CHECK, include_str!("claim.lua")]);
pub(super) static SETTLE: Script = Script::new(&[DUE_TIME, SHARED, include_str!("settle.lua")]);
pub(super) static CHANGE: Script = Script::new(&[DUE_TIME, SHARED, include_str!("change.lua")]);
pub(super) static LOOK: Script = Script::new(&[SHARED, CHECK, include_str!("look.lua")]);

/// The keys of a kind, in the order in which the scripts expect them. A cluster hashes only the part in braces, so they are in
/// one slot. A prefix has no colon, so the keys of two prefixes differ. After `{prefix:kind}`:
///
/// | key | type | what it holds |
/// |---|---|---|
/// | `due` | sorted set | ids of tasks by their due time, or by the end of their lease |
/// | `values` | hash | id to the value of each task, JSON |
/// | `claims` | hash | id to fence and tries (`fence:tries`) of each held task |
/// | `tries` | hash | id to the tries of tasks that are not held and were claimed before |
/// | `dead` | sorted set | ids of dead tasks by the time of their death |
/// | `reasons` | hash | id to the reason of each dead task |
/// | `aside` | hash | id to JSON (`reason`, `time`, `value`) of what cannot be used |
/// | `last_number` | string | the last number of an id or of a fence |
/// | `check` | hash | `cursor` and `next_time` of the check for entries without a score |
pub(super) fn keys(prefix: &str, kind: &str) -> [String; 9] {
    ["due", "values", "claims", "tries", "dead", "reasons", "aside", "last_number", "check"]
        .map(|name| key(prefix, kind, name))
}

/// The keys of [`ADD`].
pub(super) fn keys_to_add(prefix: &str, kind: &str) -> [String; 3] {
    ["due", "values", "last_number"].map(|name| key(prefix, kind, name))
}

fn key(prefix: &str, kind: &str, name: &str) -> String {
    format!("{{{prefix}:{kind}}}:{name}")
}
