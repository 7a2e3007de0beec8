//! [`Settle`]: the outcome of an attempt with its decision, as a store persists it.

use std::collections::BTreeMap;

use super::{DecidedBy, Kept, NamedTarget, passed_on};
use crate::alarm::Alarm;
use crate::error_group::{error_group, message_to_group};
use crate::limit::BreakerInput;
use crate::notice::{Status, last_record};
use crate::transition::{Next, Transition};

/// An outcome to persist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    /// The notice.
    pub id: i64,
    /// Its definition.
    pub def_id: i64,
    /// Its ordering key: when the notice ends, the next one of the key may be claimed.
    pub ordering_key: Option<String>,
    /// The fence of the claim that it belongs to.
    pub fence: i64,
    /// The status that the notice must still have.
    pub from: Status,
    /// True if the notice must also still be overdue, because the outcome was decided by a caller without a claim.
    pub overdue: bool,
    /// The decision.
    pub transition: Transition,
    /// The new list of failed attempts.
    pub errors: Option<String>,
    /// The class of the last error.
    pub last_class: Option<String>,
    /// The new description.
    pub description: Option<String>,
    /// What the receiver answered, as [`crate::LastResponse::to_stored`] returns it. `None` leaves what is stored.
    pub response: Option<String>,
    /// Of a dead letter its group ([`Self::regroup`]).
    pub error_group: Option<i64>,
    /// The alarm that it raises, stored in the same transaction.
    pub alarm: Option<Box<Alarm>>,
    /// What the circuit breaker evaluates, if the definition has one.
    pub for_breaker: Option<Box<BreakerInput>>,
    /// The targets to which it is passed on. The store inserts for each a notice with the notice's parameter, description, trace
    /// context, keys and own limits, due at once, in the transaction that stores the outcome; none where a live notice of the target
    /// has its dedupe key: then the end reason says so ([`Settled::PassedOn`]). Where another transaction has just inserted one with that
    /// key, the outcome is [`Settled::Locked`].
    pub pass_to: Vec<NamedTarget>,
    /// The rows of targets by which it was decided. Where the store has others, in the transaction that would store the outcome, nothing is
    /// changed ([`Settled::Changed`]).
    pub decided_by: Option<Box<DecidedBy>>,
}

/// How outcomes are written together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// Successes without earlier failures, alarms, a description or a response.
    Bare {
        /// Whether they move to history.
        keep: bool,
    },
    /// Only the notices themselves change.
    NoticeOnly,
    /// Alerts or circuits change, too, notices of targets are inserted, or rows of targets are compared.
    Full,
}

impl Settle {
    /// Sets the group by the class, the last error and the end reason; of no other outcome than a dead letter is there one.
    pub fn regroup(&mut self) {
        self.error_group = match &self.transition.next {
            Next::Finish { status: Status::DeadLetter, reason, .. } => {
                let last = last_record(self.errors.as_deref());
                let message = message_to_group(last.as_ref(), reason.as_deref());
                Some(error_group(self.def_id, self.last_class.as_deref(), message))
            }
            _ => None,
        };
    }

    /// Returns its shape.
    pub fn shape(&self) -> Shape {
        if self.alarm.is_some() || self.for_breaker.is_some() || !self.pass_to.is_empty() || self.decided_by.is_some() {
            return Shape::Full;
        }
        let texts = [&self.errors, &self.last_class, &self.description, &self.response];
        let tells_nothing = texts.into_iter().all(Option::is_none);
        match &self.transition {
            Transition {
                next: Next::Finish { status: Status::Succeeded, reason: None, keep },
                failures: 0,
                crashes: 0,
            } if tells_nothing && self.from == Status::Sending && !self.overdue => Shape::Bare { keep: *keep },
            _ => Shape::NoticeOnly,
        }
    }

    /// Returns the end reason of a notice that was passed on while these targets kept earlier notices, if there are any.
    pub fn reason_with(&self, kept: &[Kept]) -> Option<String> {
        (!kept.is_empty()).then(|| passed_on(&self.pass_to, kept))
    }

    /// Returns why this outcome was not written: another session locks the row, an earlier try stored it and its reply got lost,
    /// or the lease was lost. An overdue outcome that is stored already counts as lost: another node, or a later look of this one,
    /// may have judged the notice the same, and both would count the failure. `stored`: the notice as it is now; `None`: it is
    /// neither live nor in history.
    pub fn judge(&self, stored: Option<&StoredState>) -> Settled {
        let next = &self.transition.next;
        let Some(stored) = stored else {
            // It ended without history, as intended, or another worker ended it.
            let vanishes = matches!(next, Next::Finish { status: Status::Succeeded, keep: false, .. });
            return if vanishes { Settled::Stored } else { Settled::LostLease };
        };
        let counters = (self.transition.failures, self.transition.crashes);
        if stored.fence != self.fence {
            Settled::LostLease
        } else if !self.overdue && stored.status == Some(next.status()) && (stored.failures, stored.crashes) == counters
        {
            self.stored_already(stored.reason.as_deref())
        } else if let Some(ended) = stored.status.filter(|status| status.is_final()) {
            Settled::Ended(ended)
        } else if stored.status == Some(self.from) && !self.overdue {
            Settled::Locked
        } else {
            Settled::LostLease
        }
    }

    /// Returns the result of an earlier try that has stored this outcome with this end reason.
    pub fn stored_already(&self, stored: Option<&str>) -> Settled {
        let decided = match &self.transition.next {
            Next::Finish { reason, .. } => reason.as_deref(),
            Next::Wait { .. } => None,
        };
        match stored.filter(|stored| !self.pass_to.is_empty() && decided != Some(stored)) {
            Some(stored) => Settled::PassedOn(stored.to_owned()),
            None => Settled::Stored,
        }
    }

    /// Replaces each character of its texts that is not ASCII by `?`, for a database that cannot store the character. Returns
    /// true if there was one.
    pub fn reduce_to_ascii(&mut self) -> bool {
        let reason = match &mut self.transition.next {
            Next::Finish { reason, .. } => reason.as_mut(),
            Next::Wait { .. } => None,
        };
        let of_alarm = self.alarm.iter_mut().flat_map(|alarm| {
            let Alarm { message, description, cause, .. } = &mut **alarm;
            [Some(message), description.as_mut(), cause.end_reason.as_mut()]
        });
        let texts = [self.errors.as_mut(), self.description.as_mut(), self.response.as_mut(), reason];
        let mut reduced = false;
        let names = self.pass_to.iter_mut().map(|target| &mut target.name);
        for text in texts.into_iter().chain(of_alarm).flatten().chain(names).filter(|text| !text.is_ascii()) {
            *text = text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect();
            reduced = true;
        }
        reduced
    }
}

/// Groups the outcomes of one batch by the definition whose breaker evaluates them, each with its notice, in their order.
pub fn breaker_inputs<'a>(settled: impl Iterator<Item = &'a Settle>) -> BTreeMap<i64, Vec<(i64, &'a BreakerInput)>> {
    let mut by_definition: BTreeMap<i64, Vec<(i64, &BreakerInput)>> = BTreeMap::new();
    for settle in settled {
        if let Some(watched) = settle.for_breaker.as_deref() {
            by_definition.entry(watched.def_id).or_default().push((settle.id, watched));
        }
    }
    by_definition
}

/// The stored state of a notice whose outcome was not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredState {
    /// The fence of its last claim.
    pub fence: i64,
    /// Its status; `None` if an edit by hand made it unreadable.
    pub status: Option<Status>,
    /// Its failed attempts.
    pub failures: i64,
    /// Its crashes.
    pub crashes: i64,
    /// Why it has ended.
    pub reason: Option<String>,
}

/// Result of settling one outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// It is stored, by this call or, unless it is overdue, by an earlier one whose response was lost.
    Stored,
    /// It is stored, and the notice passed on, with this end reason instead of the decided one: some targets kept an earlier notice of its
    /// dedupe key.
    PassedOn(String),
    /// The notice has changed since the outcome was decided. Nothing was changed.
    LostLease,
    /// The notice ended otherwise during this attempt, with this status: it was acked, cancelled, settled by the worker with the
    /// claim, or made a dead letter after its lease. Nothing was changed.
    Ended(Status),
    /// The rows of targets by which it was decided have changed. Nothing was changed: decide by the present ones.
    Changed,
    /// Another transaction has locked the row, or holds the dedupe key that a target would get: settle it again later.
    Locked,
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
