//! What became of an attempt, as a store persists it.

use std::time::Duration;

use crate::alert::AlertReason;
use crate::limit::Watched;
use crate::notice::Status;
use crate::transition::{Next, Transition};

/// An outcome to persist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    /// The notice.
    pub id: i64,
    /// The attempt whose outcome it is: the fence.
    pub attempt: i64,
    /// The status that the notice must still have.
    pub from: Status,
    /// True where the notice must also still be overdue: the outcome was decided by somebody who did not hold it.
    pub overdue: bool,
    /// What was decided.
    pub transition: Transition,
    /// The list of failed attempts as it shall be.
    pub errors: Option<String>,
    /// The kind of the last error.
    pub last_class: Option<String>,
    /// The description as it shall be.
    pub description: Option<String>,
    /// What a person is to be told of it: stored with it, or not at all.
    pub alarm: Option<Box<Alarm>>,
    /// Of an alert's follow-up: what it told.
    pub told: Option<Box<Told>>,
    /// What a circuit breaker is to see of it, where the definition has one.
    pub watched: Option<Box<Watched>>,
}

/// What outcomes have in common that are written together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// Successes that leave no more than that: nothing failed before, and there is nothing to tell.
    Bare {
        /// Whether they go to history.
        keep: bool,
    },
    /// Nothing but the notices themselves changes.
    Plain,
    /// Alerts or circuits, too.
    Watched,
}

impl Settle {
    /// Its shape.
    pub fn shape(&self) -> Shape {
        if self.alarm.is_some() || self.told.is_some() || self.watched.is_some() {
            return Shape::Watched;
        }
        let tells_nothing = self.errors.is_none() && self.last_class.is_none() && self.description.is_none();
        match &self.transition {
            Transition {
                next: Next::Finish { status: Status::Succeeded, reason: None, keep },
                failures: 0,
                crashes: 0,
            } if tells_nothing && self.from == Status::Sending && !self.overdue => Shape::Bare { keep: *keep },
            _ => Shape::Plain,
        }
    }
}

/// Something that a person is to be told. The store holds it against the cool-down that all nodes share
/// ([`crate::alert::cooldown`]) and adds notices of the built-in definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// The id of the built-in definition of alerts.
    pub alert_def: i64,
    /// The definition that it is about.
    pub def_id: i64,
    /// Its name.
    pub definition: String,
    /// What it is about.
    pub reason: AlertReason,
    /// The least time between two alerts of this definition and reason.
    pub cooldown: Duration,
    /// The notice that it happened to.
    pub notice_id: Option<i64>,
    /// The class of its error.
    pub class: Option<String>,
    /// The error and its causes.
    pub message: String,
    /// The node that noticed it.
    pub node: String,
}

/// What the follow-up of an alert has told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The id of the built-in definition of alerts.
    pub alert_def: i64,
    /// The definition that it is about.
    pub def_id: i64,
    /// What it is about.
    pub reason: AlertReason,
    /// How many alarms that were held back it told of.
    pub count: i64,
    /// When the last alarm had come that it knew of, in milliseconds since 1970.
    pub seen: i64,
    /// Whether it is over, unless another alarm has come since.
    pub closes: bool,
    /// Whether a person was told.
    pub notified: bool,
    /// After how long to look again, if nothing came meanwhile.
    pub next: Duration,
    /// The cool-down of the definition.
    pub cooldown: Duration,
}

/// What became of one outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It is stored, by this call or by an earlier one whose answer was lost.
    Done,
    /// The notice is no longer what the outcome was decided for; nothing was changed.
    LostLease,
    /// Somebody else ended the notice during this attempt: it was confirmed, cancelled, or settled by who held it. Nothing was
    /// changed.
    Ended,
    /// Somebody else locks the row just now: settle it again later.
    Locked,
}
