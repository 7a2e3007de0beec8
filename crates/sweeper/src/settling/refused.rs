//! Outcomes that the database can never accept, for instance because of a text that it refuses. No other outcome waits for
//! them.

use solid_notify_core::transition::Next;
use solid_notify_core::{AlertReason, ErrorClass, Status, StoreError};

use super::pending::{Decided, Pending};
use crate::supervise::report;

/// The end reason of a notice whose outcome the database refuses with its own texts.
const SAFE_REASON: &str = "its outcome could not be stored; see the log of the node that sent it";

/// Halves a batch that the database can never accept. A single outcome is written with its texts in ASCII, and if the
/// database refuses that too, as a dead letter without any text of its own. Returns an outcome that the database refuses even in this form.
pub(super) fn split(mut decided: Vec<Decided>, error: &StoreError, pending: &mut Pending) -> Option<Decided> {
    if decided.len() > 1 {
        let half = decided.split_off(decided.len() / 2);
        pending.put_first(half);
        pending.put_first(decided);
        return None;
    }
    let mut culprit = decided.pop()?;
    let (id, fence) = (culprit.settle.id, culprit.settle.fence);
    report(|| tracing::error!(definition = %culprit.definition(), id, fence, %error, "the store refused an outcome"));
    if culprit.settle.reduce_to_ascii() {
        pending.put_first(vec![culprit]);
        return None;
    }
    let is_safe =
        matches!(&culprit.settle.transition.next, Next::Finish { reason: Some(reason), .. } if reason == SAFE_REASON);
    if is_safe && let Some(alarm) = culprit.settle.alarm.take() {
        report(|| tracing::error!(?alarm, "the store refused an alert; this log line is its only record"));
        pending.put_first(vec![culprit]);
        return None;
    }
    if is_safe {
        return Some(culprit);
    }
    let reason = Some(SAFE_REASON.to_owned());
    culprit.settle.transition.next = Next::Finish { status: Status::DeadLetter, reason, keep: true };
    culprit.settle.for_breaker = None;
    culprit.settle.errors = None;
    culprit.settle.description = None;
    culprit.settle.response = None;
    if let Some(alarm) = &mut culprit.settle.alarm {
        (alarm.reason, alarm.message) = (AlertReason::FinalFailure, SAFE_REASON.to_owned());
    }
    culprit.settle.last_class = Some(ErrorClass::Invalid.as_str().to_owned());
    culprit.settle.regroup();
    pending.put_first(vec![culprit]);
    None
}
