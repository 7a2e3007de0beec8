//! What an operator can do to a notice, and what it comes to: [`decide`] is pure, stores carry it out.
//!
//! | | not sent, failed | being sent | awaiting | dead letter, cancelled | succeeded |
//! |---|---|---|---|---|---|
//! | retry | due now | no | no | live again, due now | no |
//! | edit | new parameter | no | no | live again with it, due now | no |
//! | reschedule | due then | no | no | no | no |
//! | cancel | ends | ends, unless ordered and its lease holds | ends | no | no |

use std::time::SystemTime;

use crate::notice::{NoticeRecord, Status};

/// What an operator wants of a notice.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verb {
    /// To be sent (again) now.
    Retry,
    /// Not to be sent any more, for this reason.
    Cancel {
        /// Why, for people.
        reason: String,
    },
    /// To be sent with this parameter instead.
    Edit {
        /// The parameter, JSON, checked.
        param: String,
    },
    /// To be sent at another time.
    Reschedule {
        /// When; a time that is over means at once.
        at: SystemTime,
    },
}

impl Verb {
    /// The name that the audit has for it.
    pub fn act(&self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Cancel { .. } => "cancel",
            Self::Edit { .. } => "edit",
            Self::Reschedule { .. } => "reschedule",
        }
    }
}

impl std::fmt::Debug for Verb {
    /// Without the parameter, which may hold what must not stand in a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.act())
    }
}

/// What came of a verb. None of them is an error: a notice goes on while people look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// It is done, and written to the audit.
    Done,
    /// It is cancelled, and written to the audit, but an attempt at it is under way: that one may still deliver it. Its outcome
    /// is not stored.
    CancelledDuringAttempt,
    /// There is no such notice: it never existed, its transaction was rolled back, or it was purged.
    NotFound,
    /// It was delivered.
    AlreadySucceeded,
    /// It has ended in this way, and the verb is for live notices.
    AlreadyEnded(Status),
    /// It is being sent just now; the attempt's outcome decides. Try again later.
    BeingSent,
    /// It was delivered and waits for its confirmation.
    AwaitingConfirmation,
    /// It cannot come back to life, because this live notice of its definition has its dedupe key.
    DedupeKeyTaken(i64),
}

impl Answer {
    /// True where something was changed.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Done | Self::CancelledDuringAttempt)
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::CancelledDuringAttempt => {
                f.write_str("cancelled; an attempt is under way and may still deliver it, and nothing follows")
            }
            Self::NotFound => f.write_str("there is no such notice"),
            Self::AlreadySucceeded => f.write_str("it has been delivered"),
            Self::AlreadyEnded(Status::DeadLetter) => f.write_str("it is a dead letter; retry it instead"),
            Self::AlreadyEnded(_) => f.write_str("it was cancelled"),
            Self::BeingSent => f.write_str("it is being sent just now; try again when the attempt has ended"),
            Self::AwaitingConfirmation => f.write_str("it was delivered and waits for its confirmation"),
            Self::DedupeKeyTaken(id) => write!(f, "the live notice {id} has its dedupe key"),
        }
    }
}

/// What a store has to do for a verb.
#[derive(Clone, PartialEq, Eq)]
pub enum Change {
    /// Moves it from history back to the live ones, due now: the same id, attempt (the fence never goes back), errors and
    /// keys; no failures, no crashes.
    Revive {
        /// Its parameter from now on, where that changes.
        param: Option<String>,
    },
    /// Makes it due at this time, or now where that is over.
    Retime {
        /// When.
        at: SystemTime,
    },
    /// Gives it another parameter.
    Rewrite {
        /// The parameter.
        param: String,
    },
    /// Moves it to history as cancelled.
    End {
        /// Why.
        reason: String,
        /// True where somebody is sending it.
        under_way: bool,
    },
    /// It is due already.
    Nothing,
}

impl Change {
    /// The answer once it is carried out.
    pub fn answer(&self) -> Answer {
        match self {
            Self::End { under_way: true, .. } => Answer::CancelledDuringAttempt,
            _ => Answer::Done,
        }
    }
}

/// What `verb` does to `notice`, or why it does nothing. Whether a dedupe key is taken is for the store to see.
///
/// A notice that is being sent is left alone, since its attempt's outcome decides what it becomes. Cancelling one is the
/// exception, lest one that fails at once whenever it is tried could never be met at rest; but not where its ordering key would
/// let the next one go beside it.
pub fn decide(notice: &NoticeRecord, verb: &Verb, now: SystemTime) -> Result<Change, Answer> {
    use Status::{AwaitingConfirm, Cancelled, DeadLetter, Failed, NotSent, Sending, Succeeded};
    match (notice.status, verb) {
        (Succeeded, _) => Err(Answer::AlreadySucceeded),
        (DeadLetter | Cancelled, Verb::Retry) => Ok(Change::Revive { param: None }),
        (DeadLetter | Cancelled, Verb::Edit { param }) => Ok(Change::Revive { param: Some(param.clone()) }),
        (ended @ (DeadLetter | Cancelled), _) => Err(Answer::AlreadyEnded(ended)),
        (Sending, Verb::Cancel { reason }) => {
            let holds = notice.next_call_time.is_some_and(|end| end > now);
            if holds && notice.ordering_key.is_some() {
                return Err(Answer::BeingSent);
            }
            Ok(Change::End { reason: reason.clone(), under_way: holds })
        }
        (_, Verb::Cancel { reason }) => Ok(Change::End { reason: reason.clone(), under_way: false }),
        (Sending, _) => Err(Answer::BeingSent),
        (AwaitingConfirm, _) => Err(Answer::AwaitingConfirmation),
        // One that is due keeps its place among the others that are.
        (NotSent | Failed, Verb::Retry) if notice.next_call_time.is_some_and(|due| due <= now) => Ok(Change::Nothing),
        (NotSent | Failed, Verb::Retry) => Ok(Change::Retime { at: now }),
        (NotSent | Failed, Verb::Edit { param }) => Ok(Change::Rewrite { param: param.clone() }),
        (NotSent | Failed, Verb::Reschedule { at }) => Ok(Change::Retime { at: *at }),
    }
}

/// What the audit says of a verb: how the notice stood before, and what was asked for.
///
/// Of parameters it has the size and the SHA-256 of their bytes, not the text: the audit is kept for ever and read by many, and
/// what they carry may be neither's business. The hash tells whether it is one that somebody still has.
pub fn detail(notice: &NoticeRecord, verb: &Verb) -> String {
    let was = match notice.status {
        Status::NotSent => "not sent",
        Status::Succeeded => "succeeded",
        Status::Failed => "failed",
        Status::DeadLetter => "a dead letter",
        Status::AwaitingConfirm => "awaiting its confirmation",
        Status::Sending => "being sent",
        Status::Cancelled => "cancelled",
    };
    let class = notice.last_class.as_deref().map(|class| format!(" of class {class}")).unwrap_or_default();
    let asked = match verb {
        Verb::Retry => String::new(),
        Verb::Cancel { reason } => format!("; reason: {reason}"),
        Verb::Edit { param } => format!("; parameter of {} replaced by {}", digest(&notice.param), digest(param)),
        Verb::Reschedule { at } => format!("; due at {}", rfc3339(*at)),
    };
    let (attempt, tries) = (notice.attempt, notice.failures.saturating_add(notice.crashes));
    format!("it was {was}{class}, attempt {attempt}, {tries} tries used{asked}")
}

fn digest(param: &str) -> String {
    use sha2::Digest;
    format!("{} bytes, SHA-256 {}", param.len(), hex::encode(sha2::Sha256::digest(param)))
}

/// A time for people, RFC 3339 in UTC. Beyond the year 9999, which nobody waits for, it is that year's end.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let last = crate::notice::time_from_millis(253_402_300_799_999);
    humantime::format_rfc3339_millis(time.clamp(SystemTime::UNIX_EPOCH, last)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    const NOW: SystemTime = UNIX_EPOCH;

    fn notice(status: Status) -> NoticeRecord {
        let mut notice = NoticeRecord::new(7, 1, status, "\"secret\"".to_owned(), NOW);
        notice.next_call_time = Some(NOW + Duration::from_secs(1));
        notice
    }

    #[test]
    fn what_is_being_sent_can_only_be_cancelled_and_not_where_the_next_of_its_key_would_go_beside_it() {
        let mut sending = notice(Status::Sending);
        let cancel = Verb::Cancel { reason: "r".to_owned() };
        for verb in [Verb::Retry, Verb::Edit { param: "1".to_owned() }, Verb::Reschedule { at: NOW }] {
            assert_eq!(decide(&sending, &verb, NOW).err(), Some(Answer::BeingSent));
        }
        let answer = decide(&sending, &cancel, NOW).ok().map(|change| change.answer());
        assert_eq!(answer, Some(Answer::CancelledDuringAttempt));
        sending.ordering_key = Some("key".to_owned());
        assert_eq!(decide(&sending, &cancel, NOW).err(), Some(Answer::BeingSent));
        let expired = decide(&sending, &cancel, NOW + Duration::from_secs(1)).ok().map(|change| change.answer());
        assert_eq!(expired, Some(Answer::Done));
    }

    #[test]
    fn what_is_due_keeps_its_place() {
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
