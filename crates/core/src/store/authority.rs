//! [`Authority`]: what lets a notice of a built-in definition act.
//!
//! The notices of built-in definitions are work of the library: bulk acts of operators, housekeeping, alerts. A producer could insert one of
//! them by plain SQL, in the name of any operator. So each one that the library adds has a row of authority, written in the same transaction,
//! in a table that producers cannot write. A sweeper calls the handler only if there is one.

use serde::{Deserialize, Serialize};

use crate::built_in::is_built_in;

/// Who let a notice of a built-in definition act, and what it may do.
///
/// It belongs to the id of its notice. So it cannot be copied to another one, and stays in force as long as the notice can be retried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authority {
    /// The operator; [`Self::LIBRARY`] for what no person has asked for.
    pub who: String,
    /// What it may do: `alert`, `tick`, or the verb of a bulk act.
    pub act: String,
    /// What exactly, as JSON: the order of a bulk act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Authority {
    /// The name that stands for an operator in what the library does by itself.
    pub const LIBRARY: &str = "solid-notify";

    /// Returns the authority of an alert.
    pub fn of_alert() -> Self {
        Self { who: Self::LIBRARY.to_owned(), act: "alert".to_owned(), detail: None }
    }

    /// Returns the authority of the ticks of a timetable; `None`: the definition of this name is not built in, and needs none.
    pub fn of_tick(definition: &str) -> Option<Self> {
        let tick = || Self { who: Self::LIBRARY.to_owned(), act: "tick".to_owned(), detail: None };
        is_built_in(definition).then(tick)
    }
}
