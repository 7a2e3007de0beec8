//! The outcomes of a batch as the statements of a settle read them, and the fences that they return.

use std::collections::HashSet;

use serde::Serialize;
use solid_notify_core::definition::FOREVER;
use solid_notify_core::notice::duration_millis;
use solid_notify_core::store::Settle;
use solid_notify_core::transition::Next;

use crate::dialect::Dialect;
use crate::dialect::row::required;

/// The fence of an outcome, as the statement `hold` reads it.
#[derive(Serialize)]
pub(crate) struct Key {
    notice_id: i64,
    fence: i64,
    was: i64,
    overdue: i64,
}

impl Key {
    pub(crate) fn new(settle: &Settle) -> Self {
        let (was, overdue) = (settle.from.code(), i64::from(settle.overdue));
        Self { notice_id: settle.id, fence: settle.fence, was, overdue }
    }
}

/// The new state of a notice, as the statements `settle`, `archive` and `reschedule` read it. Missing values are null.
#[derive(Serialize)]
pub(crate) struct Row<'a> {
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
    reason: Option<&'a str>,
}

impl<'a> Row<'a> {
    pub(crate) fn new(settle: &'a Settle) -> Self {
        let Key { notice_id, fence, was, overdue } = Key::new(settle);
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
            reason,
        }
    }
}

/// The notice, the attempt and the status that an outcome was decided for. A batch may have the outcomes of two attempts at the
/// same notice, or the outcome of an attempt and the failure that its nack causes.
pub(crate) type Fence = (i64, i64, i64);

pub(crate) fn fence_of(settle: &Settle) -> Fence {
    (settle.id, settle.fence, settle.from.code())
}

/// Reads the fences that a statement of a settle returns.
pub(crate) fn fences<DB: Dialect>(rows: &[DB::Row]) -> sqlx::Result<HashSet<Fence>> {
    rows.iter().map(|row| Ok((required::<DB>(row, 0)?, required::<DB>(row, 1)?, required::<DB>(row, 2)?))).collect()
}
