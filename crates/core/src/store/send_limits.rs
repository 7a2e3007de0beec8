//! [`SendLimits`]: what stops sending beside the definitions themselves: the switch, which pauses everything or all retries, and the
//! state of the limits over all nodes.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::limit::LimitRow;
use crate::notice::rfc3339;

/// Result of [`super::DefinitionStore::send_limits`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendLimits {
    /// The pause, if the switch pauses something.
    pub paused: Option<Paused>,
    /// The rows of `notify_limit`, by definition.
    pub limits: BTreeMap<i64, LimitRow>,
}

/// What the switch pauses, in all definitions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PauseScope {
    /// Nothing is claimed.
    #[default]
    Everything,
    /// First attempts go on. Notices whose first attempt is over wait ([`Status::Failed`](crate::Status::Failed)).
    Retries,
}

impl PauseScope {
    /// Returns its name, as JSON and stores have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::Retries => "retries",
        }
    }

    /// Returns the scope of a stored name. An unknown one pauses everything.
    pub fn of_name(name: Option<&str>) -> Self {
        if name == Some(Self::Retries.as_str()) { Self::Retries } else { Self::Everything }
    }
}

/// The pause of everything or of all retries, from the row of `notify_switch`. A pause by plain SQL may lack operator, time and reason.
/// Exhaustive, because stores construct it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Paused {
    /// What is paused.
    pub scope: PauseScope,
    /// The operator.
    pub who: Option<String>,
    /// Since when.
    pub since: Option<DateTime<Utc>>,
    /// Why.
    pub reason: Option<String>,
}

impl fmt::Display for Paused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.scope {
            PauseScope::Everything => "everything is paused",
            PauseScope::Retries => "retries are paused",
        })?;
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
    /// Nothing of the scope is claimed, for this reason.
    Pause {
        /// What is paused.
        scope: PauseScope,
        /// Why, for people.
        reason: String,
    },
    /// Sending goes on.
    Resume,
}

impl Switch {
    /// Returns what is paused; `None`: nothing.
    pub fn scope(&self) -> Option<PauseScope> {
        match self {
            Self::Pause { scope, .. } => Some(*scope),
            Self::Resume => None,
        }
    }

    /// Returns why it is paused.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Pause { reason, .. } => Some(reason),
            Self::Resume => None,
        }
    }

    /// Returns its name in the audit.
    pub fn act(&self) -> &'static str {
        match self {
            Self::Pause { scope: PauseScope::Everything, .. } => "pause_all",
            Self::Pause { scope: PauseScope::Retries, .. } => "pause_retries",
            Self::Resume => "resume_all",
        }
    }
}
