//! The definitions that sweepers create if they are missing: normal rows, which operators can see, edit and disable.
//!
//! What their handlers do is left to the sweeper.

use crate::alert::{self, ALERT_DEFINITION};
use crate::definition::NotifyDef;

/// The name of the built-in definition that purges old rows, and of its handler.
pub const PURGE_DEFINITION: &str = "notify.purge";
/// The name of the built-in definition that reports the number of dead letters, and of its handler.
pub const DEAD_LETTERS_DEFINITION: &str = "notify.dead_letters";

/// Returns the built-in definitions; those for housekeeping only if `housekeeping` is set.
pub fn built_in(housekeeping: bool) -> Vec<NotifyDef> {
    let mut all = vec![alert::built_in()];
    if housekeeping {
        all.extend([purge(), dead_letters()]);
    }
    all
}

/// Returns whether a definition of this name is a built-in one.
pub fn is_built_in(name: &str) -> bool {
    [ALERT_DEFINITION, PURGE_DEFINITION, DEAD_LETTERS_DEFINITION].contains(&name)
}

/// Returns the built-in definition of this name.
pub(crate) fn row(name: &str) -> Option<NotifyDef> {
    match name {
        ALERT_DEFINITION => Some(alert::built_in()),
        PURGE_DEFINITION => Some(purge()),
        DEAD_LETTERS_DEFINITION => Some(dead_letters()),
        _ => None,
    }
}

fn purge() -> NotifyDef {
    NotifyDef::plain(PURGE_DEFINITION)
        .description("Housekeeping: deletes what is no longer kept. handler_config says how long dead letters, cancelled notices, keys of inboxes and the series are.")
        .schedule("0 0 3 * * *")
        // After a timeout the next attempt continues.
        .timeout("10m")
        .keep_history("1d")
        .handler_config(r#"{"dead_letters": "30d", "cancelled": "30d", "inbox": "30d", "series": "14d"}"#)
}

fn dead_letters() -> NotifyDef {
    NotifyDef::plain(DEAD_LETTERS_DEFINITION)
        .description("Housekeeping: tells how many dead letters there are, in the log and as a gauge.")
        .schedule("0 */5 * * * *")
        // A past number of dead letters is useless.
        .schedule_missed("none")
        .keep_history("1d")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_definition_is_valid_and_known_as_one() {
        for definition in built_in(true) {
            assert!(definition.policy().is_ok(), "{definition:?}");
            assert!(is_built_in(&definition.name));
            assert_eq!(
                NotifyDef::new(&definition.name),
                definition,
                "an application that changes one column keeps the others"
            );
        }
        assert_eq!(built_in(false).len(), 1);
        assert!(!is_built_in("notify.other"));
    }
}
