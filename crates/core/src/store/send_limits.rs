//! [`SendLimits`]: what stops sending beside the definitions themselves: the switch that pauses everything, and the state of the
//! limits over all nodes.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::limit::LimitRow;
use crate::notice::rfc3339;

/// Result of [`super::DefinitionStore::send_limits`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendLimits {
    /// The pause, if everything is paused.
    pub paused: Option<Paused>,
    /// The rows of `notify_limit`, by definition.
    pub limits: BTreeMap<i64, LimitRow>,
}

/// The pause of everything, from the row of `notify_switch`. A pause by plain SQL may lack operator, time and reason.
/// Exhaustive, because stores construct it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Paused {
    /// The operator.
    pub who: Option<String>,
    /// Since when.
    pub since: Option<DateTime<Utc>>,
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

/// The new state of the switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Switch {
    /// Nothing is claimed, for this reason.
    Pause {
        /// Why, for people.
        reason: String,
    },
    /// Sending goes on.
    Resume,
}

impl Switch {
    /// Returns true for [`Self::Pause`].
    pub fn pauses(&self) -> bool {
        matches!(self, Self::Pause { .. })
    }

    /// Returns why it is paused.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Pause { reason } => Some(reason),
            Self::Resume => None,
        }
    }

    /// Returns its name in the audit.
    pub fn act(&self) -> &'static str {
        match self {
            Self::Pause { .. } => "pause_all",
            Self::Resume => "resume_all",
        }
    }
}
