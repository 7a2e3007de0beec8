//! Ids, the names of all keys, and the cluster slot of each.
//!
//! The last five digits of a notice's id are its definition's id, so an id determines the slot. The notices of one definition
//! share a slot. Alerts share one with everything that belongs to no single definition. The keys of timed tasks are in
//! the crate `timed`. "What is stored" in `docs/src/redis.md` lists the fields.
//!
//! Keys of a definition, after `{prefix#7}` (a definition of alerts: `{prefix#}:90000`). A member is an id of 19 digits:
//!
//! | key | type | what it holds |
//! |---|---|---|
//! | `notice:<id>` | hash | a notice, live or ended |
//! | `status:<status>` | sorted set | members by status; live ones by `next_call_time`, ended ones by `finish_time` |
//! | `dead_letters:<class>` | sorted set | members of dead letters by their class, `-` for none |
//! | `tagged:<status>:<tag>` | sorted set | members of the notices with this tag, as in `status:<status>` |
//! | `dead_letter_classes` | set | all classes that dead letters ever had |
//! | `error_group:<group>` | sorted set | members of dead letters by their group, by `finish_time` |
//! | `error_groups` | set | the groups that have dead letters |
//! | `series_hours` | sorted set | the hours that have a series, by their begin |
//! | `series:<hour>` | hash | minute and node to its counters |
//! | `ready:<slice>` | sorted set | what can be claimed: `first_sends`, `retries`, `crash_looping`. Not what waits behind another notice of its ordering key |
//! | `ordering_keys` | sorted set | ordering key, a zero byte and the member of each live notice, sorted as text |
//! | `ordering_keys:under_way` | hash | ordering key to the member of the notice that is sent or waits for its ack |
//! | `dedupe_keys` | hash | dedupe key to the member of the notice that has it: until its first claim, or until it has ended |
//! | `limit` | string | JSON as the table `notify_limit` |
//! | `tick` | hash | `last_tick` and `tick_schedule` |
//! | `outgoing` | list | JSON of alarms that are not forwarded yet |
//! | `outgoing:<target>` | list | the same of notices for a target |
//! | `outgoing_to` | set | the targets that have such a list |
//! | `last_outgoing` | string | the number of the last one of these |
//! | `arrived` | hash | of a target: definition to the number up to which its notices have arrived |
//! | `audit` | stream | audit entries about the notices: time, and JSON |
//! | `aside` | hash | member without a notice to the reason |
//! | `dropped` | string | when the definition was purged; nothing but its audit is stored any more |
//!
//! Keys that belong to no single definition, after `{prefix#}`:
//!
//! | key | type | what it holds |
//! |---|---|---|
//! | `definitions` | set | ids of definitions |
//! | `definition:<id>` | hash | a definition, which people may edit |
//! | `versions:<id>` | list | JSON of its versions, the latest last |
//! | `last_notice` | string | the number of the last notice |
//! | `last_definition` | string | the number of the last definition |
//! | `last_alert_definition` | string | the number of the last definition of alerts |
//! | `nodes` | hash | node to its JSON |
//! | `counts` | hash | definition to the JSON of its counts |
//! | `alerts` | hash | definition and reason to the JSON of the alert |
//! | `due_alerts` | sorted set | definition and reason of each alert to look at again, by time |
//! | `arrived_alarms` | hash | definition to the number up to which its alarms have arrived |
//! | `store_id` | string | a random number of this store, which ack tokens contain |
//! | `switch` | string | JSON, present while everything is paused, or all retries (`scope`) |
//! | `audit` | stream | audit entries about everything else |
//! | `inbox` | hash | receiver, sender and each idempotency key that it has seen, with zero bytes between them, to a word for the call that marked it |
//! | `inbox_times` | sorted set | the same, by the time when it was first seen |

use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::Status;

/// The factor of a notice's number in its id, which leaves room for its definition's id.
const DEFINITIONS: i64 = 100_000;
/// Ids from here on are definitions of alerts. They are in the slot of the alerts' rows, so that a script can change both.
pub(super) const FIRST_ALERTS: i64 = 90_000;

/// The id that no definition has: numbers begin with 1.
pub(super) const NO_DEFINITION: i64 = 0;

/// The slices of `ready`.
pub(super) const FIRST_SENDS: &str = "first_sends";
pub(super) const RETRIES: &str = "retries";
pub(super) const CRASH_LOOPING: &str = "crash_looping";
/// Keys that belong to no single definition.
pub(super) const LAST_DEFINITION: &str = "last_definition";
pub(super) const LAST_ALERT_DEFINITION: &str = "last_alert_definition";

fn name_of(status: Status) -> &'static str {
    match status {
        Status::NotSent => "not_sent",
        Status::Succeeded => "succeeded",
        Status::Failed => "failed",
        Status::DeadLetter => "dead_letter",
        Status::AwaitingAck => "awaiting_ack",
        Status::Sending => "sending",
        Status::Cancelled => "cancelled",
    }
}

/// Returns what follows the prefix in the key of the notices of a status.
pub(super) fn status(status: Status) -> String {
    format!(":status:{}", name_of(status))
}

/// Returns what follows the prefix in the key of the notices of a status that have this tag.
pub(super) fn tagged(status: Status, tag: &str) -> String {
    format!(":tagged:{}:{tag}", name_of(status))
}

/// Returns what follows the prefix in the key of the dead letters of a class.
pub(super) fn dead_letters(class: &str) -> String {
    format!(":dead_letters:{class}")
}

/// Returns what follows the prefix in the key of the dead letters of a group.
pub(super) fn error_group(group: i64) -> String {
    format!(":error_group:{group}")
}

/// Returns the id of the notice with this number.
pub(crate) fn notice_id(number: i64, def_id: i64) -> i64 {
    number * DEFINITIONS + def_id
}

/// Returns the number of a notice.
pub(super) fn number_of(id: i64) -> i64 {
    id.div_euclid(DEFINITIONS)
}

/// Returns the definition of a notice.
pub(crate) fn def_of(id: i64) -> i64 {
    id.rem_euclid(DEFINITIONS)
}

/// Returns the id of the definition with this number of its kind.
pub(super) fn def_id(number: i64, is_alerts: bool) -> Result<i64, StoreError> {
    let (id, end) = if is_alerts { (FIRST_ALERTS + number - 1, DEFINITIONS) } else { (number, FIRST_ALERTS) };
    if id < end {
        return Ok(id);
    }
    let problem = format!("cannot number another definition: {} were created, the most that ids allow", number - 1);
    Err(StoreError::new("creating a definition", FaultKind::Permanent, problem))
}

/// True for a definition of alerts.
pub(super) fn is_alerts(def_id: i64) -> bool {
    def_id >= FIRST_ALERTS
}

/// An id as a member of sorted sets, which sort members of the same score as text.
pub(crate) fn member(id: i64) -> String {
    format!("{id:019}")
}

/// The keys of a store.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// The prefix of the keys that belong to no single definition.
    pub(super) fn common(&self) -> String {
        format!("{{{}#}}", self.prefix)
    }

    /// Prefixes of the keys of no definition, in many slots, for a check of each master.
    pub(super) fn probe(&self, number: u32) -> String {
        match number {
            0 => self.of(NO_DEFINITION),
            _ => format!("{{{}#{NO_DEFINITION}:{number}}}", self.prefix),
        }
    }

    /// The prefix of the keys of a definition.
    pub(super) fn of(&self, def_id: i64) -> String {
        match is_alerts(def_id) {
            true => format!("{}:{def_id}", self.common()),
            false => format!("{{{}#{def_id}}}", self.prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn id_contains_its_definition() {
        let id = notice_id(12, def_id(3, false).unwrap());
        assert_eq!((id, def_of(id), member(id).as_str()), (1_200_003, 3, "0000000000001200003"));
        assert!(is_alerts(def_of(notice_id(7, def_id(1, true).unwrap()))));
    }

    #[test]
    fn definitions_beyond_the_last_id_are_refused() {
        assert!(def_id(89_999, false).is_ok() && def_id(90_000, false).is_err());
        assert!(def_id(10_000, true).is_ok() && def_id(10_001, true).is_err());
    }

    #[test]
    fn keys_of_the_scripts_are_listed_and_have_one_name() {
        let list = include_str!("keys.rs");
        let keys = include_str!("lua/keys.lua");
        let scripts = [
            keys,
            include_str!("lua/shared.lua"),
            include_str!("lua/claim.lua"),
            include_str!("lua/settle.lua"),
            include_str!("lua/change.lua"),
            include_str!("lua/insert.lua"),
            include_str!("lua/look.lua"),
            include_str!("lua/alert.lua"),
            include_str!("lua/definition.lua"),
            include_str!("lua/meta.lua"),
        ];
        let ways = ["key('", "prefix .. ':", "common .. ':"];
        let after = ways.iter().flat_map(|way| scripts.iter().flat_map(|script| script.split(*way).skip(1)));
        let names: BTreeSet<&str> = after.filter_map(|rest| rest.split(['\'', ':']).next()).collect();
        assert!(names.len() > 20, "{names:?}");
        // `*` is the pattern that finds all keys of a definition.
        for name in names.into_iter().filter(|name| !name.is_empty() && *name != "*") {
            assert!(list.lines().any(|line| line.starts_with(&format!("//! | `{name}"))), "{name}");
        }
        for code in 0..=6 {
            let name = status(Status::from_code(code).unwrap());
            let name = name.trim_start_matches(":status:");
            assert!(keys.contains(&format!("['{code}'] = '{name}'")), "{name}");
        }
        for slice in [FIRST_SENDS, RETRIES, CRASH_LOOPING] {
            assert!(keys.contains(&format!("key('ready:{slice}')")), "{slice}");
        }
    }

    #[test]
    fn alerts_share_the_slot_of_what_is_common() {
        let keys = Keys::new("p");
        assert_eq!((keys.common().as_str(), keys.of(7).as_str()), ("{p#}", "{p#7}"));
        assert_eq!(keys.of(90_000), "{p#}:90000");
        assert_eq!((keys.probe(0).as_str(), keys.probe(7).as_str()), ("{p#0}", "{p#0:7}"));
    }
}
