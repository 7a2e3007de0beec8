//! A definition (`notify_def` row) as people write it, and [`Policy`], its parsed form.
//!
//! A row keeps the text of every column, also of an invalid one, so that an operator can see and repair it. How rows are stored
//! is left to the stores.

mod check;
mod columns;
mod family;
#[cfg(feature = "toml")]
mod from_toml;
mod handler_config;
mod in_force;
mod list;
mod mask;
#[cfg(test)]
mod mask_tests;
mod masking;
mod older;
mod policy;
#[cfg(test)]
mod policy_tests;
mod rules;
#[cfg(test)]
mod rules_tests;
pub(crate) mod schedule;
#[cfg(test)]
mod schedule_tests;
mod set_column;
mod spelled;
mod target;
mod ticks;
#[cfg(test)]
mod ticks_tests;
#[cfg(feature = "toml")]
mod to_toml;
mod version;
mod window;
#[cfg(test)]
mod window_tests;

pub use crate::path::{Budget, Unjudged, quickly};
pub use crate::retry::duration::FOREVER;
pub use crate::secret::{
    ExposeSecret, SecretError, SecretRef, SecretRule, SecretRules, SecretString, WrongSecretPattern,
};
pub(crate) use columns::as_changes;
pub use columns::{ColumnValue, Difference, NotifyDef};
pub(crate) use family::{Edits, with_row};
pub use handler_config::read_config;
pub(crate) use in_force::inheriting;
pub use in_force::{InForce, in_force};
pub use list::Definitions;
pub use mask::{MASKED, Mask};
pub use masking::Masking;
pub use policy::{AlertTrigger, KeepHistory, Policy};
pub use rules::{RetryRules, Rule};
pub use schedule::{MISSED_AFTER, MissedTicks, Schedule, Step, TICKS_AT_ONCE};
pub use target::TargetFilter;
pub(crate) use version::for_people;
pub(crate) use version::{APPLICATION, CREATED, PAUSED};
pub use version::{BY_HAND, DefVersion, StoredVersion, by_hand, unseen};
pub use window::SendWindow;

use std::fmt;

use serde::Serialize;

/// A column of a definition whose value cannot work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// The column.
    pub column: &'static str,
    /// The value found there.
    pub value: String,
    /// What would be right.
    pub expected: String,
}

impl Problem {
    pub(crate) fn new(column: &'static str, value: impl fmt::Display, expected: impl fmt::Display) -> Self {
        Self { column, value: value.to_string(), expected: expected.to_string() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?}: expected {}", self.column, self.value, self.expected)
    }
}

/// A problem of a file of definitions (`Definitions::from_toml`), with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FileProblem {
    /// The line, from 1.
    pub line: usize,
    /// The column of the text, in characters from 1.
    pub column: usize,
    /// The name of the definition; `None` outside of any, and for a mistake in the syntax.
    pub definition: Option<String>,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: ", self.line, self.column)?;
        if let Some(name) = &self.definition {
            write!(f, "definition {name:?}: ")?;
        }
        f.write_str(&self.problem)
    }
}

/// Returns whether the text why a node does not send notices of a definition begins with the column that it is about, and is not about `handler_config`.
pub fn names_its_column(problem: &str) -> bool {
    ["encrypt_param", "target_filter: "].iter().any(|column| problem.starts_with(column))
}

/// Returns the name that a deleted definition gets. It is unique by the id, so that the original name becomes free.
pub fn deleted_name(seen: &NotifyDef) -> String {
    let suffix = format!(" (deleted {})", seen.id);
    let room = 200 - suffix.chars().count();
    seen.name.chars().take(room).chain(suffix.chars()).collect()
}

/// Returns the handler that a definition keeps when it is deleted: that of its name. A target inherits its handler.
pub fn deleted_handler(seen: &NotifyDef) -> Option<&str> {
    seen.handler.as_deref().or_else(|| seen.target_of.is_none().then_some(&seen.name))
}
