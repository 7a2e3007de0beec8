//! Confirmation: what the receiver of a notice answers ([`Confirmation`]), and what that makes of it ([`Confirmed`]).
//!
//! A notice whose delivery must be confirmed waits in [`Status::AwaitingConfirm`]. Answers may come at any other moment as well;
//! [`of_live`] and [`of_ended`] decide each of these races, without any input or output.

use crate::add::NoticeConnection;
use crate::error::Result;
use crate::notice::{AttemptRecord, Claimed, ErrorClass, Status, append_attempt};
use crate::operate::AuditEntry;
use crate::store::Settle;
use crate::transition::{Next, Transition};
use std::time::{Duration, SystemTime};

/// Confirms a notice inside the caller's transaction: it counts if and only if that commits. `notify.ack(id)` does it by itself.
///
/// # Errors
/// [`crate::Error::TransactionLost`] and what the database said. A race is no error: see [`Confirmed`].
pub async fn ack_notice<C: NoticeConnection>(connection: &mut C, id: i64) -> Result<Confirmed> {
    connection.confirm(&Confirmation::ack(id)).await
}

/// Refuses a delivery inside the caller's transaction: the attempt counts as failed, for this reason.
///
/// # Errors
/// As [`ack_notice`].
pub async fn nack_notice<C: NoticeConnection>(
    connection: &mut C,
    id: i64,
    reason: impl Into<String>,
) -> Result<Confirmed> {
    connection.confirm(&Confirmation::nack(id, reason)).await
}

/// What a receiver says of a notice.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Confirmation {
    /// The notice.
    pub id: i64,
    /// The attempt that it is the answer to; none: whichever is the last. An acknowledgement of an earlier attempt counts like
    /// any other, a refusal of one changes nothing.
    pub attempt: Option<i64>,
    /// What is said.
    pub verdict: Verdict,
}

/// What a receiver can say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It has arrived and was processed: the notice ends as succeeded.
    Ack,
    /// It cannot be processed, for this reason: the attempt has failed.
    Nack(String),
}

impl Confirmation {
    /// The notice has arrived.
    pub fn ack(id: i64) -> Self {
        Self { id, attempt: None, verdict: Verdict::Ack }
    }

    /// The notice is refused.
    pub fn nack(id: i64, reason: impl Into<String>) -> Self {
        Self { id, attempt: None, verdict: Verdict::Nack(reason.into()) }
    }

    /// The same as an answer to this attempt.
    #[must_use]
    pub fn to_attempt(mut self, attempt: i64) -> Self {
        self.attempt = Some(attempt);
        self
    }

    /// Gives it through `connection`, in its transaction.
    ///
    /// # Errors
    /// As [`ack_notice`].
    pub async fn give<C: NoticeConnection>(&self, connection: &mut C) -> Result<Confirmed> {
        connection.confirm(self).await
    }
}

/// What an answer did. A race is a value and no error: answers come late, twice, or to what is being sent again.
///
/// What the isolation level of the caller's own transaction asks for remains: under REPEATABLE READ or SERIALIZABLE, Postgres
/// answers 40001 where somebody has changed the notice meanwhile, and the transaction is to be run again. A notice that is newer
/// than the snapshot of the transaction is [`Self::Unknown`] to it on MySQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Confirmed {
    /// An acknowledgement: the notice has ended as succeeded, whether it was awaiting this, being sent, waiting for a resend or
    /// not sent at all. A refusal: the attempt has failed, and is retried or given up like any.
    Done,
    /// The notice had been given up. Its dead letter is a success now, and the audit says so.
    DeadLetterConfirmed,
    /// The notice has already succeeded. Nothing was changed.
    AlreadySucceeded,
    /// A refusal of an attempt that has failed already, or that was never made. Nothing was changed.
    NotAwaiting,
    /// The notice was cancelled. Nothing was changed.
    Cancelled,
    /// There is no such notice: it never existed, was purged, or succeeded without history.
    Unknown,
    /// The token is genuine, so there was such a notice; it has ended, and nothing is kept of it.
    Purged,
}

impl Confirmed {
    /// The name that plain SQL gives it: `done`, `dead_letter_confirmed` …
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::DeadLetterConfirmed => "dead_letter_confirmed",
            Self::AlreadySucceeded => "already_succeeded",
            Self::NotAwaiting => "not_awaiting",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
            Self::Purged => "purged",
        }
    }
}

/// Why a notice ended that was confirmed.
pub const CONFIRMED: &str = "confirmed";
/// Why a notice ended that was confirmed after it had been given up.
pub const CONFIRMED_LATE: &str = "confirmed after it had been given up";

/// What an answer makes of a live notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfLive {
    /// It ends so.
    End(Box<Settle>),
    /// Its attempt has failed, with this list of attempts: it is overdue at once, whatever it was, and a sweeper judges it by
    /// its definition. Whoever is still sending it loses by the fence.
    Fail(String),
    /// Nothing.
    Nothing(Confirmed),
}

/// Decides what `answer` makes of a live notice.
pub fn of_live(answer: &Confirmation, live: &Claimed) -> OfLive {
    let attempt = answer.attempt.unwrap_or(live.attempt);
    if attempt > live.attempt {
        return OfLive::Nothing(Confirmed::Unknown);
    }
    match &answer.verdict {
        Verdict::Ack => {
            let next = Next::Finish { status: Status::Succeeded, reason: Some(CONFIRMED.to_owned()), keep: true };
            OfLive::End(Box::new(Settle {
                id: live.id,
                attempt: live.attempt,
                from: live.status,
                overdue: false,
                transition: Transition { next, failures: live.failures, crashes: live.crashes },
                errors: live.errors.clone(),
                last_class: None,
                description: live.description.clone(),
                alarm: None,
                told: None,
                watched: None,
            }))
        }
        Verdict::Nack(reason)
            if attempt == live.attempt && matches!(live.status, Status::Sending | Status::AwaitingConfirm) =>
        {
            if live.refused().is_some() {
                // By an earlier refusal of the same attempt.
                return OfLive::Nothing(Confirmed::NotAwaiting);
            }
            let message = format!("its receiver refused it: {reason}");
            let record = AttemptRecord::new(live, Duration::ZERO, ErrorClass::Unconfirmed, &message);
            OfLive::Fail(append_attempt(live.errors.as_deref(), record))
        }
        Verdict::Nack(_) => OfLive::Nothing(Confirmed::NotAwaiting),
    }
}

/// Decides what `answer` makes of a notice that has ended; `None`: it becomes a success.
pub fn of_ended(answer: &Confirmation, status: Status, attempt: i64) -> Option<Confirmed> {
    if answer.attempt.is_some_and(|answered| answered > attempt) {
        return Some(Confirmed::Unknown);
    }
    match (status, &answer.verdict) {
        (Status::DeadLetter, Verdict::Ack) => None,
        (Status::DeadLetter, Verdict::Nack(_)) => Some(Confirmed::NotAwaiting),
        (Status::Cancelled, _) => Some(Confirmed::Cancelled),
        _ => Some(Confirmed::AlreadySucceeded),
    }
}

/// What the audit says of a dead letter that was confirmed.
pub fn late_entry(time: SystemTime, def_id: Option<i64>, id: i64) -> AuditEntry {
    let mut entry = AuditEntry::new(time, "its receiver", "confirm");
    (entry.def_id, entry.notice_id) = (def_id, Some(id));
    entry.detail = Some("a late confirmation made a success of the dead letter".to_owned());
    entry
}
