//! [`Filter`]: which notices to list or change; [`Position`]: where a page ended.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};

use crate::error::{Error, Result};
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
    pub(super) from: Option<DateTime<Utc>>,
    pub(super) until: Option<DateTime<Utc>>,
}

/// The class name that stands for dead letters without a class.
pub const NO_CLASS: &str = "-";

impl Filter {
    fn of(statuses: &[Status]) -> Self {
        Self { statuses: statuses.to_vec(), definition: None, class: None, from: None, until: None }
    }

    /// Selects dead letters.
    pub fn dead_letters() -> Self {
        Self::of(&[Status::DeadLetter])
    }

    /// Selects notices that were cancelled, by an operator or by a handler that skipped them.
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
        for (word, time) in [("from", self.from), ("until", self.until)] {
            if let Some(time) = time {
                write!(f, ", {word} {}", rfc3339(time))?;
            }
        }
        Ok(())
    }
}

/// The position of a notice in a list, after which the next page begins. Notices added or removed meanwhile do not invalidate
/// it. Its text form can be used in a URL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The notice's time in the store's exact format, which sorts as text.
    time: String,
    /// The notice's id, which sorts notices of the same time.
    id: i64,
}

impl Position {
    /// Creates a position; only stores need it.
    pub fn new(time: impl Into<String>, id: i64) -> Self {
        Self { time: time.into(), id }
    }

    /// Returns the time in the store's format.
    pub fn time(&self) -> &str {
        &self.time
    }

    /// Returns the id.
    pub fn id(&self) -> i64 {
        self.id
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.id, self.time.replace(' ', "T"))
    }
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong =
            || Error::Invalid { what: "position", problem: format!("{text:?}: expected one that a page ended with") };
        let (id, time) = text.split_once('_').ok_or_else(wrong)?;
        let plausible = time == "infinity" || time.bytes().all(|byte| byte.is_ascii_digit() || b"-:.T".contains(&byte));
        if !plausible || time.is_empty() || time.len() > 40 {
            return Err(wrong());
        }
        let id = id.parse().map_err(|_| wrong())?;
        Ok(Self { time: time.replace('T', " "), id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_being_written_down() {
        for time in ["2026-11-21 10:42:07.123456", "infinity", "00000001763721727123456789"] {
            let position = Position::new(time, -7);
            assert_eq!(position.to_string().parse::<Position>().ok(), Some(position));
        }
        for wrong in ["", "7", "x_2026", "7_", "7_now()", "7_2026'"] {
            assert!(wrong.parse::<Position>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_class_is_known_of_dead_letters_only() {
        assert!(Filter::dead_letters().class("timeout").check(&[Status::DeadLetter], "").is_ok());
        assert!(Filter::cancelled().class("timeout").check(&[Status::Cancelled], "").is_err());
        let error = Filter::live().check(&[Status::DeadLetter], "they have not ended").unwrap_err().to_string();
        assert!(error.contains("not sent: they have not ended"), "{error}");
    }
}
