//! [`Alarm`]: a reason to alert a person, as decisions return it and stores keep it. What becomes of it is left to [`crate::alert`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A reason to alert a person. The store checks it against the cool-down that all nodes share ([`crate::alert::cooldown`]) and
/// adds notices of the built-in definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// The id of the built-in definition of alerts.
    pub alert_def: i64,
    /// The definition that it concerns.
    pub def_id: i64,
    /// Its name.
    pub definition: String,
    /// The reason.
    pub reason: AlertReason,
    /// The minimum time between two alerts of this definition and reason.
    pub cooldown: Duration,
    /// The notice that caused it.
    pub notice_id: Option<i64>,
    /// The description of that notice.
    pub description: Option<String>,
    /// The class of its error.
    pub class: Option<String>,
    /// The error and its causes.
    pub message: String,
    /// What the outcome that raised it did to the notice.
    pub cause: Cause,
    /// The node that raised it.
    pub node: String,
}

/// What an outcome that raises an alarm did to its notice. Nothing of it for a condition. Only the alert that is sent at once has
/// it: a digest is about many notices.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cause {
    /// Tries used, this one included.
    pub tries: Option<i64>,
    /// The tries that the notice has in all; `None`: no limit.
    pub max_tries: Option<i64>,
    /// Why it ended.
    pub end_reason: Option<String>,
    /// The producer's trace id.
    pub trace_id: Option<String>,
}

/// The kind of problem. Each definition and reason has its own cool-down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AlertReason {
    /// A notice finally failed: a dead letter.
    FinalFailure,
    /// An attempt failed.
    Failure,
    /// The same notice failed at least `alert_trigger_fail_times` times.
    RepeatedFailures,
    /// A delivery was not acked in time.
    AckOverdue,
    /// The oldest due notice is older than `backlog_alert_age`.
    Backlog,
    /// The row of the definition is invalid, and its notices wait.
    InvalidDefinition,
    /// No living node has the handler, and notices are due.
    NoHandler,
    /// There are `dead_alert_count` dead letters.
    DeadLetters,
    /// The clock of a node is far off.
    Clock,
    /// The circuit is open after `breaker_failures` failures in a row, and the definition's notices wait.
    CircuitOpen,
    /// Another session has locked a row for so long that notices, ticks or outcomes of the definition wait.
    Locked,
    /// The receiver wants no more notices, so the sweeper has paused the definition.
    Paused,
    /// A node cannot send, or not this definition: its calls are refused or hang, or an attempt cannot be cancelled.
    NotSending,
}

impl AlertReason {
    /// Returns the stored name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FinalFailure => "final_failure",
            Self::Failure => "failure",
            Self::RepeatedFailures => "repeated_failures",
            Self::AckOverdue => "ack_overdue",
            Self::Backlog => "backlog",
            Self::InvalidDefinition => "invalid_definition",
            Self::NoHandler => "no_handler",
            Self::DeadLetters => "dead_letters",
            Self::Clock => "clock",
            Self::CircuitOpen => "circuit_open",
            Self::Locked => "locked",
            Self::Paused => "paused",
            Self::NotSending => "not_sending",
        }
    }

    /// Returns true if it concerns the outcome of an attempt, so that a success shows that it is over.
    pub fn is_delivery(self) -> bool {
        matches!(self, Self::FinalFailure | Self::Failure | Self::RepeatedFailures | Self::AckOverdue)
    }

    /// All reasons.
    pub const ALL: [AlertReason; 13] = [
        Self::FinalFailure,
        Self::Failure,
        Self::RepeatedFailures,
        Self::AckOverdue,
        Self::Backlog,
        Self::InvalidDefinition,
        Self::NoHandler,
        Self::DeadLetters,
        Self::Clock,
        Self::CircuitOpen,
        Self::Locked,
        Self::Paused,
        Self::NotSending,
    ];

    /// Returns the reason with this stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }
}
