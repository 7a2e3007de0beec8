//! The definitions that sweepers make where there are none: rows like any other, which operators see, edit and disable.
//!
//! What their handlers do is left to the sweeper.

use crate::alert::{self, ALERT_DEFINITION};
use crate::definition::NotifyDef;

/// The name of the built-in definition that purges what is no longer kept, and of its handler.
pub const PURGE_DEFINITION: &str = "notify.purge";
/// The name of the built-in definition that tells how many dead letters there are, and of its handler.
pub const DEAD_LETTERS_DEFINITION: &str = "notify.dead_letters";

/// The built-in definitions, those of the housekeeping only where it is wanted.
pub fn built_in(housekeeping: bool) -> Vec<NotifyDef> {
    let mut all = vec![alert::built_in()];
    if housekeeping {
        all.extend([purge(), dead_letters()]);
    }
    all
}

/// Whether a definition of this name is a built-in one.
pub fn is_built_in(name: &str) -> bool {
    [ALERT_DEFINITION, PURGE_DEFINITION, DEAD_LETTERS_DEFINITION].contains(&name)
}

fn purge() -> NotifyDef {
    NotifyDef::new(PURGE_DEFINITION)
        .description("Housekeeping: deletes what is no longer kept. handler_config says how long dead letters and cancelled notices are.")
        .schedule("0 0 3 * * *")
        // It goes on where it was cut off.
        .timeout("10m")
        .keep_history("1d")
        .handler_config(r#"{"dead_letters": "30d", "cancelled": "30d"}"#)
}

fn dead_letters() -> NotifyDef {
    NotifyDef::new(DEAD_LETTERS_DEFINITION)
        .description("Housekeeping: tells how many dead letters there are, in the log and as a gauge.")
        .schedule("0 */5 * * * *")
        // How many there were is of no use.
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
        }
        assert_eq!(built_in(false).len(), 1);
        assert!(!is_built_in("notify.other"));
    }
}
