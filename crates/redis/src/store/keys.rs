//! Ids, and the cluster slot of what they name.
//!
//! The last five digits of a notice's id are its definition's id, so an id determines the slot. The notices of one definition
//! share a slot. Alerts share one with everything that belongs to no single definition.

use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;

/// The factor of a notice's number in its id, which leaves room for its definition's id.
const DEFINITIONS: i64 = 100_000;
/// Ids from here on are definitions of alerts. They are in the slot of the alerts' rows, so that a script can change both.
const ALERTS: i64 = 90_000;

/// Returns the id of the notice with this number.
pub(crate) fn notice_id(number: i64, def_id: i64) -> i64 {
    number * DEFINITIONS + def_id
}

/// Returns the definition of a notice.
pub(crate) fn def_of(id: i64) -> i64 {
    id.rem_euclid(DEFINITIONS)
}

/// Returns the id of the definition with this number of its kind.
pub(super) fn def_id(number: i64, is_alerts: bool) -> Result<i64, StoreError> {
    let (id, end) = if is_alerts { (ALERTS + number - 1, DEFINITIONS) } else { (number, ALERTS) };
    if id < end {
        return Ok(id);
    }
    let problem = format!("cannot number another definition: {} were created, the most that ids allow", number - 1);
    Err(StoreError::new("creating a definition", FaultKind::Permanent, problem))
}

/// True for a definition of alerts.
pub(super) fn is_alerts(def_id: i64) -> bool {
    def_id >= ALERTS
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
    use super::*;

    #[test]
    fn an_id_tells_its_definition() {
        let id = notice_id(12, def_id(3, false).unwrap());
        assert_eq!((id, def_of(id), member(id).as_str()), (1_200_003, 3, "0000000000001200003"));
        assert!(is_alerts(def_of(notice_id(7, def_id(1, true).unwrap()))));
    }

    #[test]
    fn there_is_an_end_to_definitions() {
        assert!(def_id(89_999, false).is_ok() && def_id(90_000, false).is_err());
        assert!(def_id(10_000, true).is_ok() && def_id(10_001, true).is_err());
    }

    #[test]
    fn alerts_share_the_slot_of_what_is_common() {
        let keys = Keys::new("p");
        assert_eq!((keys.common().as_str(), keys.of(7).as_str()), ("{p#}", "{p#7}"));
        assert_eq!(keys.of(90_000), "{p#}:90000");
    }
}
