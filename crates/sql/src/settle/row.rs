//! The outcomes of a batch as the statements of a settle read them, and the stored state that they are compared with.

use serde::Serialize;
use solid_notify_core::definition::FOREVER;
use solid_notify_core::notice::{Status, duration_millis};
use solid_notify_core::store::{Settle, StoredState};
use solid_notify_core::transition::Next;

use crate::dialect::Dialect;
use crate::dialect::row::{columns, required};

/// Which claim an outcome is of, as the statement `lock` reads it.
#[derive(Serialize)]
pub(crate) struct Fenced {
    notice_id: i64,
    fence: i64,
    was: i64,
    overdue: i64,
}

impl Fenced {
    pub(crate) fn new(settle: &Settle) -> Self {
        let (was, overdue) = (settle.from.code(), i64::from(settle.overdue));
        Self { notice_id: settle.id, fence: settle.fence, was, overdue }
    }
}

/// The new state of a notice, as the statements of this folder and of `shortcuts/settle_at_once.rs` read it. The latter alone compares
/// `fence`, `was` and `overdue`, and reads `ends` and `keep`. Missing values are null.
#[derive(Serialize)]
pub(crate) struct NewState<'a> {
    notice_id: i64,
    fence: i64,
    was: i64,
    overdue: i64,
    ends: i64,
    keep: i64,
    new_status: i64,
    /// Null: it waits without end.
    after_ms: Option<i64>,
    new_failures: i64,
    new_crashes: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_errors: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_class: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_response: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_group: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl<'a> NewState<'a> {
    /// Returns the state with this end reason instead of the decided one.
    pub(crate) fn because(self, reason: Option<&'a String>) -> Self {
        Self { reason: reason.map(String::as_str).or(self.reason), ..self }
    }

    pub(crate) fn new(settle: &'a Settle) -> Self {
        let Fenced { notice_id, fence, was, overdue } = Fenced::new(settle);
        let (status, after_ms, reason, ends, keep) = match &settle.transition.next {
            Next::Wait { status, after } => (status, (*after != FOREVER).then(|| duration_millis(*after)), None, 0, 0),
            Next::Finish { status, reason, keep } => (status, Some(0), reason.as_deref(), 1, i64::from(*keep)),
        };
        Self {
            notice_id,
            fence,
            was,
            overdue,
            ends,
            keep,
            new_status: status.code(),
            after_ms,
            new_failures: settle.transition.failures,
            new_crashes: settle.transition.crashes,
            new_errors: settle.errors.as_deref(),
            new_class: settle.last_class.as_deref(),
            new_description: settle.description.as_deref(),
            new_response: settle.response.as_deref(),
            new_group: settle.error_group,
            reason,
        }
    }
}

/// A notice that is passed on to a target, as the statement `pass_on` reads it.
#[derive(Serialize)]
pub(crate) struct ToTarget {
    pub(crate) place: usize,
    pub(crate) notice_id: i64,
    pub(crate) target: i64,
}

columns! {
    /// What an outcome that was not written is compared with.
    pub(crate) Judged(reason: &str):
    id = "m.id";
    fence = "m.fence";
    status = "m.status";
    failures = "m.failures";
    crashes = "m.crashes";
    reason = reason;
}

/// Reads the id of a notice whose outcome was not written, and its stored state.
pub(crate) fn read_stored<DB: Dialect>(row: &DB::Row) -> sqlx::Result<(i64, StoredState)> {
    const AT: Judged = Judged::AT;
    let state = StoredState {
        fence: required::<DB>(row, AT.fence)?,
        status: Status::from_code(required::<DB>(row, AT.status)?),
        failures: required::<DB>(row, AT.failures)?,
        crashes: required::<DB>(row, AT.crashes)?,
        reason: DB::text(row, AT.reason)?,
    };
    Ok((required::<DB>(row, AT.id)?, state))
}
