//! An operator's verbs on a notice and their effect: [`decide`] and [`errors_of_retry`] are pure, stores apply what they return.
//!
//! | | not sent, failed | being sent | awaiting | dead letter, cancelled | succeeded |
//! |---|---|---|---|---|---|
//! | retry | due now; one more try for a failed one on its last | no | no | live again, due now | no |
//! | edit | new parameter | no | no | live again with it, due now | no |
//! | reschedule | due then | no | no | no | no |
//! | cancel | ends | ends, unless ordered and its lease holds | ends | no | no |

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::notice::{LATEST_TIME, NoticeRecord, Status, rfc3339, time_from_millis};

/// An operator's verb on a notice.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verb {
    /// Sends it (again) now.
    Retry,
    /// As `Retry`. So many tries of a failed one no longer count, because it was on its last try.
    RetryBeyondLast {
        /// How many.
        tries: i64,
    },
    /// Ends it as cancelled, for this reason.
    Cancel {
        /// Why, for people.
        reason: String,
    },
    /// Replaces its parameter.
    Edit {
        /// The parameter, JSON, checked.
        param: String,
    },
    /// Makes it due at another time.
    Reschedule {
        /// When; a past time means at once.
        at: DateTime<Utc>,
    },
}

impl Verb {
    /// Returns its name in the audit.
    pub fn act(&self) -> &'static str {
        match self {
            Self::Retry | Self::RetryBeyondLast { .. } => "retry",
            Self::Cancel { .. } => "cancel",
            Self::Edit { .. } => "edit",
            Self::Reschedule { .. } => "reschedule",
        }
    }
}

impl std::fmt::Debug for Verb {
    /// Omits the parameter, which may contain data that must not be logged.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.act())
    }
}

/// Result of a verb. None of them is an error, because a notice changes while an operator looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(tag = "result", content = "detail", rename_all = "snake_case")]
pub enum VerbResult {
    /// Applied, and written to the audit.
    Applied,
    /// Cancelled, and written to the audit, but an attempt is running that may still deliver it. Its outcome is not stored.
    CancelledDuringAttempt,
    /// There is no such notice: it never existed, its transaction was rolled back, or it was purged.
    NotFound,
    /// It has succeeded.
    AlreadySucceeded,
    /// It has ended with this status, and the verb is for live notices.
    AlreadyEnded(Status),
    /// It is being sent. Try again when the attempt has ended.
    BeingSent,
    /// It was delivered and waits for its ack.
    AwaitingAck,
    /// It cannot become live again, because this live notice of its definition has its dedupe key.
    DedupeKeyTaken(i64),
}

impl VerbResult {
    /// Returns true if something was changed.
    pub fn is_applied(self) -> bool {
        matches!(self, Self::Applied | Self::CancelledDuringAttempt)
    }
}

impl std::fmt::Display for VerbResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Applied => f.write_str("applied"),
            Self::CancelledDuringAttempt => {
                f.write_str("cancelled; a running attempt may still deliver it, but its outcome is not stored")
            }
            Self::NotFound => f.write_str("there is no such notice"),
            Self::AlreadySucceeded => f.write_str("it has been delivered"),
            Self::AlreadyEnded(Status::DeadLetter) => f.write_str("it is a dead letter; retry it instead"),
            Self::AlreadyEnded(_) => f.write_str("it was cancelled"),
            Self::BeingSent => f.write_str("it is being sent just now; try again when the attempt has ended"),
            Self::AwaitingAck => f.write_str("it was delivered and waits for its ack"),
            Self::DedupeKeyTaken(id) => write!(f, "the live notice {id} has its dedupe key"),
        }
    }
}

/// The change that a store makes for a verb.
#[derive(Clone, PartialEq, Eq)]
pub enum Change {
    /// Moves it from history to the live notices, due now. It keeps id, fence (which never decreases), errors and keys;
    /// failures and crashes become zero.
    Revive {
        /// Its new parameter, if that changes.
        param: Option<String>,
    },
    /// Makes it due at this time, or now if that has passed.
    Retime {
        /// When.
        at: DateTime<Utc>,
    },
    /// Makes it due now, with these counts.
    Recount {
        /// Its failures.
        failures: i64,
        /// Its crashes.
        crashes: i64,
    },
    /// Replaces its parameter.
    Rewrite {
        /// The parameter.
        param: String,
    },
    /// Moves it to history as cancelled.
    End {
        /// Why.
        reason: String,
        /// True if a worker is sending it.
        under_way: bool,
    },
    /// Changes nothing, because it is due already.
    Nothing,
}

impl Change {
    /// Returns the result once the change is applied.
    pub fn result(&self) -> VerbResult {
        match self {
            Self::End { under_way: true, .. } => VerbResult::CancelledDuringAttempt,
            _ => VerbResult::Applied,
        }
    }
}

/// Decides what `verb` does to `notice`, or why it changes nothing. The store checks whether a dedupe key is taken.
///
/// A notice that is being sent is not changed, because the outcome of its attempt decides. Cancelling is the exception:
/// otherwise a notice that fails at once in each attempt might never be found in another state. A notice with an ordering key
/// is not cancelled while its lease lasts, because the next notice of the key would be sent at the same time.
pub fn decide(notice: &NoticeRecord, verb: &Verb, now: DateTime<Utc>) -> Result<Change, VerbResult> {
    use Status::{AwaitingAck, Cancelled, DeadLetter, Failed, NotSent, Sending, Succeeded};
    match (notice.status, verb) {
        (Succeeded, _) => Err(VerbResult::AlreadySucceeded),
        (Failed, Verb::RetryBeyondLast { tries }) => {
            let failures = notice.failures.saturating_sub(*tries).max(0);
            let crashes = notice.crashes.saturating_sub(*tries - (notice.failures - failures)).max(0);
            Ok(Change::Recount { failures, crashes })
        }
        (_, Verb::RetryBeyondLast { .. }) => decide(notice, &Verb::Retry, now),
        (DeadLetter | Cancelled, Verb::Retry) => Ok(Change::Revive { param: None }),
        (DeadLetter | Cancelled, Verb::Edit { param }) => Ok(Change::Revive { param: Some(param.clone()) }),
        (ended @ (DeadLetter | Cancelled), _) => Err(VerbResult::AlreadyEnded(ended)),
        (Sending, Verb::Cancel { reason }) => {
            let holds = notice.next_call_time.is_some_and(|end| end > now);
            if holds && notice.ordering_key.is_some() {
                return Err(VerbResult::BeingSent);
            }
            Ok(Change::End { reason: reason.clone(), under_way: holds })
        }
        (_, Verb::Cancel { reason }) => Ok(Change::End { reason: reason.clone(), under_way: false }),
        (Sending, _) => Err(VerbResult::BeingSent),
        (AwaitingAck, _) => Err(VerbResult::AwaitingAck),
        // A due notice keeps its place among the other due ones.
        (NotSent | Failed, Verb::Retry) if notice.next_call_time.is_some_and(|due| due <= now) => Ok(Change::Nothing),
        (NotSent | Failed, Verb::Retry) => Ok(Change::Retime { at: now }),
        (NotSent | Failed, Verb::Edit { param }) => Ok(Change::Rewrite { param: param.clone() }),
        (NotSent | Failed, Verb::Reschedule { at }) => {
            Ok(Change::Retime { at: (*at).clamp(DateTime::UNIX_EPOCH, time_from_millis(LATEST_TIME)) })
        }
    }
}

/// Returns the list of errors that the store writes with an applied `verb`, if it changes: of a failed notice that is retried, the last
/// attempt is marked. Its message may be stored by a broker that drops copies, and a person asks for another delivery
/// ([`crate::message_id`]). A reschedule only moves the delivery that is due anyway.
pub fn errors_of_retry(notice: &NoticeRecord, verb: &Verb) -> Option<String> {
    if notice.status != Status::Failed || !matches!(verb, Verb::Retry | Verb::RetryBeyondLast { .. }) {
        return None;
    }
    let mut errors = notice.errors.clone();
    errors.last_mut().filter(|last| !last.retried)?.retried = true;
    serde_json::to_string(&errors).ok()
}

/// Returns the audit detail of a verb: the state of the notice before, and the request.
///
/// Of parameters it contains the size and the SHA-256 of their bytes, not the text: the audit is never purged and has many
/// readers, and a parameter may be confidential. The hash shows whether a known parameter is the same.
pub fn detail(notice: &NoticeRecord, verb: &Verb) -> String {
    let was = state(notice.status);
    let class = notice.last_class.as_deref().map(|class| format!(" of class {class}")).unwrap_or_default();
    let asked = match verb {
        Verb::Retry => String::new(),
        Verb::RetryBeyondLast { .. } => "; it was on its last try, and has one more".to_owned(),
        Verb::Cancel { reason } => format!("; reason: {reason}"),
        Verb::Edit { param } => format!("; parameter of {} replaced by {}", digest(&notice.param), digest(param)),
        Verb::Reschedule { at } => format!("; due at {}", rfc3339(*at)),
    };
    let tries = notice.failures.saturating_add(notice.crashes);
    format!("it was {was}{class}, fence {}, tries used: {tries}{asked}", notice.fence)
}

/// Returns what a notice of this status is, for the audit.
pub(crate) fn state(status: Status) -> &'static str {
    match status {
        Status::NotSent => "not sent",
        Status::Succeeded => "succeeded",
        Status::Failed => "failed",
        Status::DeadLetter => "a dead letter",
        Status::AwaitingAck => "awaiting its ack",
        Status::Sending => "being sent",
        Status::Cancelled => "cancelled",
    }
}

fn digest(param: &str) -> String {
    use sha2::Digest;
    format!("{} bytes, SHA-256 {}", param.len(), hex::encode(sha2::Sha256::digest(param)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;

    fn notice(status: Status) -> NoticeRecord {
        let mut notice = NoticeRecord::new(7, 1, status, "\"secret\"".to_owned(), NOW);
        notice.next_call_time = Some(NOW + Duration::from_secs(1));
        notice
    }

    #[test]
    fn a_claimed_notice_can_be_cancelled_only_without_an_ordering_key() {
        let mut sending = notice(Status::Sending);
        let cancel = Verb::Cancel { reason: "r".to_owned() };
        for verb in [Verb::Retry, Verb::Edit { param: "1".to_owned() }, Verb::Reschedule { at: NOW }] {
            assert_eq!(decide(&sending, &verb, NOW).err(), Some(VerbResult::BeingSent));
        }
        let result = decide(&sending, &cancel, NOW).ok().map(|change| change.result());
        assert_eq!(result, Some(VerbResult::CancelledDuringAttempt));
        sending.ordering_key = Some("key".to_owned());
        assert_eq!(decide(&sending, &cancel, NOW).err(), Some(VerbResult::BeingSent));
        let expired = decide(&sending, &cancel, NOW + Duration::from_secs(1)).ok().map(|change| change.result());
        assert_eq!(expired, Some(VerbResult::Applied));
    }

    #[test]
    fn retry_beyond_the_last_try_takes_failures_back_before_crashes() {
        let mut failed = notice(Status::Failed);
        for (failures, crashes, tries, left) in
            [(4, 0, 1, (3, 0)), (1, 3, 1, (0, 3)), (1, 3, 2, (0, 2)), (0, 2, 9, (0, 0))]
        {
            (failed.failures, failed.crashes) = (failures, crashes);
            let change = decide(&failed, &Verb::RetryBeyondLast { tries }, NOW);
            assert!(
                change == Ok(Change::Recount { failures: left.0, crashes: left.1 }),
                "{failures} {crashes} {tries}"
            );
        }
        let dead = notice(Status::DeadLetter);
        assert!(decide(&dead, &Verb::RetryBeyondLast { tries: 1 }, NOW) == Ok(Change::Revive { param: None }));
    }

    #[test]
    fn a_due_notice_keeps_its_place() {
        let mut failed = notice(Status::Failed);
        assert!(decide(&failed, &Verb::Retry, NOW) == Ok(Change::Retime { at: NOW }));
        failed.next_call_time = Some(NOW);
        assert!(decide(&failed, &Verb::Retry, NOW) == Ok(Change::Nothing));
    }

    #[test]
    fn the_audit_has_the_size_and_the_hash_of_a_parameter_and_not_its_text() {
        let verb = Verb::Edit { param: "\"hidden\"".to_owned() };
        let text = format!("{} {verb:?}", detail(&notice(Status::Failed), &verb));
        assert!(!text.contains("secret") && !text.contains("hidden"), "{text}");
        assert!(text.contains("8 bytes, SHA-256 "), "{text}");
    }
}
