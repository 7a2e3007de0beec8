//! [`Filter`]: which notices to list or change.

use std::fmt;

use chrono::{DateTime, Utc};

use crate::error::{Error, Result};
pub use crate::error_group::NO_CLASS;
use crate::notice::Status;
use crate::notice::rfc3339;

/// Selects notices by state, and optionally by definition, time and, for dead letters, class.
///
/// The time of an ended notice is when it ended; that of a live one is when it is due next.
///
/// ```
/// # use std::time::Duration;
/// # use chrono::{DateTime, Utc};
/// use solid_notify_core::operate::Filter;
///
/// let yesterday = Utc::now() - Duration::from_secs(86_400);
/// let filter = Filter::dead_letters().definition("sync_to_omp").class("timeout").from(yesterday);
/// assert!(filter.to_string().starts_with("dead letters of sync_to_omp, class timeout, from 2"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    pub(super) statuses: Vec<Status>,
    pub(super) definition: Option<String>,
    pub(super) class: Option<String>,
    pub(super) group: Option<i64>,
    pub(super) from: Option<DateTime<Utc>>,
    pub(super) until: Option<DateTime<Utc>>,
}

impl Filter {
    fn of(statuses: &[Status]) -> Self {
        Self { statuses: statuses.to_vec(), definition: None, class: None, group: None, from: None, until: None }
    }

    /// Selects dead letters.
    pub fn dead_letters() -> Self {
        Self::of(&[Status::DeadLetter])
    }

    /// Selects notices that were cancelled, by an operator or by a handler that skipped them, or that were added as skipped.
    pub fn cancelled() -> Self {
        Self::of(&[Status::Cancelled])
    }

    /// Selects ended notices.
    pub fn ended() -> Self {
        Self::of(&[Status::Succeeded, Status::DeadLetter, Status::Cancelled])
    }

    /// Selects live notices.
    pub fn live() -> Self {
        Self::of(&Status::LIVE)
    }

    /// Selects live notices that are not being sent.
    pub fn waiting() -> Self {
        Self::of(&[Status::NotSent, Status::Failed, Status::AwaitingAck])
    }

    /// Selects notices of this state.
    pub fn status(status: Status) -> Self {
        Self::of(&[status])
    }

    /// Only of the definition with this name.
    #[must_use]
    pub fn definition(mut self, name: impl Into<String>) -> Self {
        self.definition = Some(name.into());
        self
    }

    /// Only of this class ([`NO_CLASS`]: without one). For dead letters only, because no index contains the class of other
    /// notices.
    #[must_use]
    pub fn class(mut self, class: impl Into<String>) -> Self {
        self.class = Some(class.into());
        self
    }

    /// Only of this group, as [`super::Operator::groups`] returns it; a group has one definition and one class. For dead letters only.
    #[must_use]
    pub fn group(mut self, group: i64) -> Self {
        self.group = Some(group);
        self
    }

    /// Only from this time on.
    #[must_use]
    pub fn from(mut self, time: DateTime<Utc>) -> Self {
        self.from = Some(time);
        self
    }

    /// Only up to this time.
    #[must_use]
    pub fn until(mut self, time: DateTime<Utc>) -> Self {
        self.until = Some(time);
        self
    }

    /// Rejects filters that no index serves, and statuses outside `allowed`.
    pub(super) fn check(&self, allowed: &[Status], otherwise: &str) -> Result<()> {
        let wrong = |problem: String| Err(Error::Invalid { what: "filter", problem });
        if self.class.is_some() && self.statuses != [Status::DeadLetter] {
            return wrong(
                "only dead letters can be filtered by class, because no index has the class of others".to_owned(),
            );
        }
        if self.group.is_some() && (self.statuses != [Status::DeadLetter] || self.class.is_some()) {
            return wrong("a group is one of dead letters, and has one class: filter by the group alone".to_owned());
        }
        match self.statuses.iter().find(|status| !allowed.contains(status)) {
            Some(status) => wrong(format!("{}: {otherwise}", name_of(*status))),
            None => Ok(()),
        }
    }
}

pub(super) fn name_of(status: Status) -> &'static str {
    match status {
        Status::NotSent => "not sent",
        Status::Succeeded => "succeeded",
        Status::Failed => "failed",
        Status::DeadLetter => "dead letters",
        Status::AwaitingAck => "awaiting ack",
        Status::Sending => "being sent",
        Status::Cancelled => "cancelled",
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.statuses.iter().map(|status| name_of(*status)).collect();
        f.write_str(&names.join(", "))?;
        match &self.definition {
            Some(name) => write!(f, " of {name}")?,
            None => f.write_str(" of all definitions")?,
        }
        if let Some(class) = &self.class {
            write!(f, ", class {class}")?;
        }
        if let Some(group) = &self.group {
            write!(f, ", group {group}")?;
        }
        for (word, time) in [("from", self.from), ("until", self.until)] {
            if let Some(time) = time {
                write!(f, ", {word} {}", rfc3339(time))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_known_of_dead_letters_only() {
        assert!(Filter::dead_letters().class("timeout").check(&[Status::DeadLetter], "").is_ok());
        assert!(Filter::cancelled().class("timeout").check(&[Status::Cancelled], "").is_err());
        assert!(Filter::dead_letters().group(-7).check(&[Status::DeadLetter], "").is_ok());
        assert!(Filter::ended().group(-7).check(&Filter::ended().statuses, "").is_err());
        assert!(Filter::dead_letters().group(-7).class("timeout").check(&[Status::DeadLetter], "").is_err());
        assert_eq!(Filter::dead_letters().group(-7).to_string(), "dead letters of all definitions, group -7");
        let error = Filter::live().check(&[Status::DeadLetter], "they have not ended").unwrap_err().to_string();
        assert!(error.contains("not sent: they have not ended"), "{error}");
    }
}
