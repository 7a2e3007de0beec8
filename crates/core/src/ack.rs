//! Ack: the ack or nack that a receiver gives ([`Reply`]), and its result ([`AckResult`]).
//!
//! A notice whose delivery must be acked waits in [`Status::AwaitingAck`]. An ack or nack may arrive in any other state
//! as well; [`of_live`] and [`of_ended`] decide each of these races, without any input or output.

use crate::cipher::{NOT_KEPT, is_encrypted};
use crate::notice::{AttemptRecord, ClaimedNotice, ErrorClass, Status, append_attempt, millis_from_time};
use crate::store::verb::state;
use crate::store::{AuditEntry, Settle};
use crate::transition::{Next, Transition};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

/// An ack or nack of a notice.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reply {
    /// The notice.
    pub id: i64,
    /// The fence of the attempt that it refers to; `None`: the last one. An ack of an earlier attempt counts like any other, a
    /// nack of an earlier attempt changes nothing.
    pub fence: Option<i64>,
    /// When the notice was added, from a token; `None`: any notice with the id.
    pub added_at: Option<DateTime<Utc>>,
    /// The number of the store that has the notice, from a token; `None`: any store.
    pub store: Option<i64>,
    /// Ack or nack.
    pub kind: ReplyKind,
    /// The operator who gives it; `None`: its receiver.
    pub(crate) who: Option<String>,
}

/// Ack or nack.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyKind {
    /// The notice has arrived and was processed: it ends as succeeded.
    Ack,
    /// The notice cannot be processed, for this reason: the attempt fails.
    Nack(String),
}

impl Reply {
    /// Creates an ack.
    pub fn ack(id: i64) -> Self {
        Self { id, fence: None, added_at: None, store: None, kind: ReplyKind::Ack, who: None }
    }

    /// Creates a nack.
    pub fn nack(id: i64, reason: impl Into<String>) -> Self {
        Self { kind: ReplyKind::Nack(reason.into()), ..Self::ack(id) }
    }

    /// Restricts it to the attempt with this fence.
    #[must_use]
    pub fn to_fence(mut self, fence: i64) -> Self {
        self.fence = Some(fence);
        self
    }

    /// Returns the audit entry of an ack or nack that changed a notice, whose status was `was`: of an operator's each, of a
    /// receiver's only the ack of a dead letter.
    pub fn entry(&self, time: DateTime<Utc>, def_id: Option<i64>, was: Status) -> Option<AuditEntry> {
        let dead = was == Status::DeadLetter;
        let who = self.who.as_deref().or(dead.then_some("its receiver"))?;
        let mut detail = match dead {
            true => "a late ack made a success of the dead letter".to_owned(),
            false => format!("it was {}", state(was)),
        };
        let act = match &self.kind {
            ReplyKind::Ack => "ack",
            ReplyKind::Nack(reason) => {
                detail = format!("{detail}; reason: {reason}");
                "nack"
            }
        };
        let mut entry = AuditEntry::new(time, who, act);
        (entry.def_id, entry.notice_id, entry.detail) = (def_id, Some(self.id), Some(detail));
        Some(entry)
    }

    fn is_of_another(&self, created: DateTime<Utc>) -> bool {
        self.added_at.is_some_and(|added_at| millis_from_time(added_at) != millis_from_time(created))
    }

    /// Returns the result where the store with this number has no notice with the id. A token of another store says nothing about this one.
    pub fn of_missing(&self, own: Option<i64>) -> AckResult {
        match (self.store, own) {
            (Some(signed), Some(own)) if signed != own => AckResult::OtherNotice,
            _ => AckResult::Unknown,
        }
    }

    /// A genuine token of this store proves that the notice existed, so a missing one was purged.
    pub(crate) fn known(&self, result: AckResult) -> AckResult {
        if self.added_at.is_some() && result == AckResult::Unknown { AckResult::Purged } else { result }
    }
}

/// Result of an ack or nack. A race is a value and no error: an ack may arrive late, twice, or for a notice that is being sent
/// again.
///
/// The isolation level of the caller's own transaction still applies. Under REPEATABLE READ or SERIALIZABLE, Postgres fails
/// with 40001 if another transaction has changed the notice meanwhile; retry the transaction. On MySQL a notice that is newer
/// than the snapshot of the transaction is [`Self::Unknown`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum AckResult {
    /// Ack: the notice has ended as succeeded, whether it was awaiting its ack, being sent, waiting for a retry or not
    /// yet sent. Nack: the attempt has failed, and the notice is retried or given up as after any failure.
    Applied,
    /// Ack of a dead letter: it is now a success, and the audit records that.
    DeadLetterAcked,
    /// The notice had already succeeded. Nothing was changed.
    AlreadySucceeded,
    /// Nack of an attempt that had already failed, or was never made. Nothing was changed.
    NotAwaitingAck,
    /// The notice had been cancelled. Nothing was changed.
    Cancelled,
    /// There is no such notice: it never existed, was purged, or succeeded without history.
    Unknown,
    /// The token is genuine, so the notice existed. It has ended and its row was deleted.
    Purged,
    /// The token is of another notice: the one with this id was added at another time, or the token is of another store. Nothing was
    /// changed.
    OtherNotice,
}

impl AckResult {
    /// Returns the name used in plain SQL: `applied`, `dead_letter_acked` …
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::DeadLetterAcked => "dead_letter_acked",
            Self::AlreadySucceeded => "already_succeeded",
            Self::NotAwaitingAck => "not_awaiting_ack",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
            Self::Purged => "purged",
            Self::OtherNotice => "other_notice",
        }
    }
}

/// The end reason of a notice that was acked.
pub const ACKED: &str = "acked";
/// The end reason of a notice that was acked after it had become a dead letter.
pub const ACKED_LATE: &str = "acked after it had been given up";

/// Effect of an ack or nack on a live notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfLive {
    /// The notice ends with this outcome.
    End(Box<Settle>),
    /// The attempt has failed, with this list of attempts. The notice becomes overdue at once, and a sweeper settles it by its
    /// definition. A worker that is still sending it loses by the fence.
    Fail(String),
    /// No effect.
    Nothing(AckResult),
}

/// Decides the effect of an ack or nack on a live notice.
pub fn of_live(reply: &Reply, live: &ClaimedNotice) -> OfLive {
    if reply.is_of_another(live.create_time) {
        return OfLive::Nothing(AckResult::OtherNotice);
    }
    let fence = reply.fence.unwrap_or(live.fence);
    if fence > live.fence {
        return OfLive::Nothing(AckResult::Unknown);
    }
    match &reply.kind {
        ReplyKind::Ack => {
            let next = Next::Finish { status: Status::Succeeded, reason: Some(ACKED.to_owned()), keep: true };
            OfLive::End(Box::new(Settle {
                id: live.id,
                def_id: live.def_id,
                ordering_key: live.ordering_key.clone(),
                fence: live.fence,
                from: live.status,
                overdue: false,
                transition: Transition { next, failures: live.failures, crashes: live.crashes },
                errors: live.errors.clone(),
                last_class: None,
                description: live.description.clone(),
                response: None,
                error_group: None,
                alarm: None,
                for_breaker: None,
                pass_to: Vec::new(),
                decided_by: None,
            }))
        }
        ReplyKind::Nack(reason)
            if fence == live.fence && matches!(live.status, Status::Sending | Status::AwaitingAck) =>
        {
            if live.refused().is_some() {
                // An earlier nack of the same attempt.
                return OfLive::Nothing(AckResult::NotAwaitingAck);
            }
            let message = match &reply.who {
                // A receiver may quote what it got.
                None if is_encrypted(&live.param) => format!("its receiver refused it; {NOT_KEPT}"),
                None => format!("its receiver refused it: {reason}"),
                Some(who) => format!("{who} nacked it: {reason}"),
            };
            let record = AttemptRecord::new(live, Duration::ZERO, ErrorClass::Unacked, &message);
            OfLive::Fail(append_attempt(live.errors.as_deref(), record))
        }
        ReplyKind::Nack(_) => OfLive::Nothing(AckResult::NotAwaitingAck),
    }
}

/// Decides the effect on a notice that has ended and was added at `created`; `None`: it becomes a success.
pub fn of_ended(reply: &Reply, status: Status, fence: i64, created: DateTime<Utc>) -> Option<AckResult> {
    if reply.is_of_another(created) {
        return Some(AckResult::OtherNotice);
    }
    if reply.fence.is_some_and(|replied| replied > fence) {
        return Some(AckResult::Unknown);
    }
    match (status, &reply.kind) {
        (Status::DeadLetter, ReplyKind::Ack) => None,
        (Status::DeadLetter, ReplyKind::Nack(_)) => Some(AckResult::NotAwaitingAck),
        (Status::Cancelled, _) => Some(AckResult::Cancelled),
        _ => Some(AckResult::AlreadySucceeded),
    }
}
