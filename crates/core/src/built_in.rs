//! The definitions that sweepers create if they are missing: normal rows, which operators can see, edit and disable.
//!
//! What their handlers do is left to the sweeper.

use crate::alert::{self, ALERT_DEFINITION};
use crate::definition::NotifyDef;
use crate::error::{Error, Result};

/// The name of the built-in definition that purges old rows, and of its handler.
pub const PURGE_DEFINITION: &str = "notify.purge";
/// The name of the built-in definition that reports the number of dead letters, and of its handler.
pub const DEAD_LETTERS_DEFINITION: &str = "notify.dead_letters";

/// The name of the built-in definition whose notices are bulk acts of operators, and of its handler. The first act of a store creates
/// the row ([`crate::Operator::start_retry_all`]).
pub const BULK_DEFINITION: &str = "notify.bulk";

/// Returns the built-in definitions that sweepers create; those for housekeeping only if `housekeeping` is set.
pub fn built_in(housekeeping: bool) -> Vec<NotifyDef> {
    let mut all = vec![alert::built_in()];
    if housekeeping {
        all.extend([purge(), dead_letters()]);
    }
    all
}

/// Returns whether a definition of this name is a built-in one.
pub fn is_built_in(name: &str) -> bool {
    [ALERT_DEFINITION, PURGE_DEFINITION, DEAD_LETTERS_DEFINITION, BULK_DEFINITION].contains(&name)
}

/// Returns why no application adds a notice of this definition: it is built in, and its notices are work of the library.
pub(crate) fn problem_of_built_in(name: &str) -> Option<String> {
    is_built_in(name).then(|| "the definition is built in, so only solid-notify itself adds its notices".to_owned())
}

/// Refuses a rename by which a definition would become a built-in one, or cease to be one.
pub(crate) fn check_rename(from: &str, to: &str) -> Result<()> {
    if from == to || !(is_built_in(from) || is_built_in(to)) {
        return Ok(());
    }
    let built_in = if is_built_in(from) { from } else { to };
    let problem = format!("the name {built_in:?} belongs to a definition that is built in; give this one another name");
    Err(Error::Invalid { what: "renaming a definition", problem })
}

/// Returns the built-in definition of this name.
pub(crate) fn row(name: &str) -> Option<NotifyDef> {
    match name {
        ALERT_DEFINITION => Some(alert::built_in()),
        PURGE_DEFINITION => Some(purge()),
        DEAD_LETTERS_DEFINITION => Some(dead_letters()),
        BULK_DEFINITION => Some(bulk()),
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

fn bulk() -> NotifyDef {
    NotifyDef::plain(BULK_DEFINITION)
        .description(
            "Bulk acts of operators: the parameter of a notice has the progress of an act. `solid-notify bulk show` has the filter, too.",
        )
        // An act may run for days and meet some faults of its store. A dead letter that is retried continues at its cursor.
        .retry_interval("[1s,5s,30s,1m]")
        .max_retry_times(20)
        // An attempt ends after some seconds, so that an act whose process died is rescued soon.
        .timeout("1m")
        .max_concurrency(4)
        .keep_history("90d")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_definition_is_valid_and_known_as_one() {
        for definition in built_in(true).into_iter().chain([bulk()]) {
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
