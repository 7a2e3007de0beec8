//! [`Brakes`]: what holds sending back besides the definitions themselves: the one switch that pauses everything, and how the
//! definitions stand that have a limit over all nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

use super::verb::rfc3339;
use crate::limit::LimitRow;

/// The answer of [`super::Operate::brakes`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Brakes {
    /// Whether everything is paused.
    pub paused: Option<Paused>,
    /// The rows of `notify_limit`, by definition.
    pub limits: BTreeMap<i64, LimitRow>,
}

/// Everything is paused, by the row of `notify_switch`. Whoever paused it by plain SQL may have left out who, when and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paused {
    /// Who paused it.
    pub who: Option<String>,
    /// Since when.
    pub since: Option<SystemTime>,
    /// Why.
    pub reason: Option<String>,
}

impl fmt::Display for Paused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("everything is paused")?;
        if let Some(since) = self.since {
            write!(f, " since {}", rfc3339(since))?;
        }
        if let Some(who) = &self.who {
            write!(f, " by {who}")?;
        }
        self.reason.as_ref().map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

/// How the switch is to stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Switch {
    /// Nothing is claimed any more, for this reason.
    Pause {
        /// Why, for people.
        reason: String,
    },
    /// Sending goes on.
    Resume,
}

impl Switch {
    /// True for [`Self::Pause`].
    pub fn pauses(&self) -> bool {
        matches!(self, Self::Pause { .. })
    }

    /// Why it is paused.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Pause { reason } => Some(reason),
            Self::Resume => None,
        }
    }

    /// The name that the audit has for it.
    pub fn act(&self) -> &'static str {
        match self {
            Self::Pause { .. } => "pause_all",
            Self::Resume => "resume_all",
        }
    }
}
