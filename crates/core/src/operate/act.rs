//! [`BulkAct`]: a bulk verb as a notice of [`crate::BULK_DEFINITION`]: its order, its progress, and its next steps.
//!
//! A step is that of the bulk verbs that run in the caller's process. The handler is in the sweeper.

use std::collections::VecDeque;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::act_verb::ActVerb;
use super::bulk::{Bulk, Order, STEP};
use super::filter::Filter;
use super::operator::Operator;
use super::part::Part;
use crate::error::{Error, FaultKind, Result, StoreError};
use crate::limit::Rate;
use crate::notice::Status;
use crate::outbox::AnyOutbox;
use crate::store::{ActFence, Authority, BulkVerb, Listed, Position};

/// A bulk act: what an operator asked for, and how far it is.
///
/// The order stands in the [`Authority`] of its notice, which no producer can write. The progress is the parameter of the notice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BulkAct {
    /// What was asked for.
    #[serde(flatten)]
    pub order: BulkOrder,
    /// The operator, for the audit.
    pub who: String,
    /// How far it is.
    #[serde(flatten)]
    pub done: BulkDone,
}

/// What an operator asked a bulk act for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BulkOrder {
    /// What it does.
    pub verb: ActVerb,
    /// Why, of a cancel or a purge.
    #[serde(default)]
    pub reason: Option<String>,
    /// The notices. Those that were added (a cancel) or had ended (the others) when the notice of the act was added.
    pub filter: Filter,
    /// The id of the definition of the filter, as its name was when the act began. Another definition may have the name later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub def_id: Option<i64>,
    /// How many notices it changes per period. It works at most [`BulkAct::AHEAD`] ahead.
    pub rate: Rate,
}

/// How far a bulk act is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct BulkDone {
    /// How many notices were changed. A process that dies between a step and its stored progress leaves this step uncounted; the audit
    /// has it.
    pub changed: u64,
    /// How many were not changed, because a live notice has their dedupe key.
    pub dedupe_key_taken: u64,
    /// How many had changed since they were read, or were locked.
    pub passed_over: u64,
    /// How many steps were executed.
    pub steps: u64,
    /// When the next notice may be changed or is due, by the rate.
    pub paced_until: Option<DateTime<Utc>>,
    /// Where the next step begins; `None`: at the beginning.
    pub cursor: Option<Cursor>,
}

/// How far a bulk act is: it goes through definitions by id, and through the statuses of each in the order of its filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cursor {
    /// The definition.
    pub def_id: i64,
    /// The status.
    pub status: Status,
    /// The last notice that it has seen.
    pub after: Option<Position>,
}

/// The claim under which an attempt executes a bulk act.
#[derive(Debug, Clone, Copy)]
pub struct ActClaim {
    /// The id of its notice.
    pub id: i64,
    /// The fence of the claim.
    pub fence: i64,
    /// When its notice was added.
    pub created: DateTime<Utc>,
    /// When its lease ends, if nothing extends it.
    pub lease_end: DateTime<Utc>,
}

/// What follows a step of a bulk act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterStep {
    /// The next step.
    Next,
    /// A wait, because of the rate.
    Wait(Duration),
    /// Nothing: all notices were seen.
    Ended,
    /// Nothing under this claim: the act was cancelled, or its lease was lost.
    Lost,
}

impl BulkAct {
    /// How far an act works ahead of its rate. A retry makes notices due within this time; a cancel and a purge change them earlier by it.
    pub const AHEAD: Duration = Duration::from_secs(10);

    /// Reads the act of a notice: its authority and its parameter. For the sweeper.
    ///
    /// # Errors
    /// [`Error::Invalid`] where an edit by hand made one of them unreadable.
    #[doc(hidden)]
    pub fn read(authority: &Authority, param: &str) -> Result<Self> {
        let wrong = |what: &'static str, error: &dyn std::fmt::Display| Error::Invalid {
            what,
            problem: format!("{error}; the chapter \"JSON\" of the book has its shape"),
        };
        let order = authority.detail.as_deref().unwrap_or_default();
        let order = serde_json::from_str(order).map_err(|error| wrong("the order of a bulk act", &error))?;
        let done = serde_json::from_str(param).map_err(|error| wrong("the parameter of a bulk act", &error))?;
        Ok(Self { order, who: authority.who.clone(), done })
    }

    /// Prepares the steps of an attempt. For the sweeper.
    ///
    /// # Errors
    /// [`Error::Invalid`] and [`Error::UnknownDefinition`] for a filter that cannot be executed; those of the store.
    #[doc(hidden)]
    pub async fn begin(self, outbox: &AnyOutbox, claim: ActClaim) -> Result<ActRun> {
        let order = &self.order;
        order.verb.check(&order.filter)?;
        let mut filter = order.filter.clone();
        if order.verb != ActVerb::Cancel {
            filter.until = Some(filter.until.map_or(claim.created, |until| until.min(claim.created)));
        }
        let operator = outbox.operator(&self.who);
        let mut parts = operator.parts(&filter, order.def_id).await?;
        if let Some(cursor) = &self.done.cursor {
            let place = |def_id: i64, status: Status| {
                (def_id, order.filter.statuses.iter().position(|one| *one == status).unwrap_or_default())
            };
            let reached = place(cursor.def_id, cursor.status);
            parts.retain(|part| place(part.slice.def_id, part.slice.status) >= reached);
            if let Some(first) = parts.front_mut()
                && place(first.slice.def_id, first.slice.status) == reached
            {
                first.slice.after.clone_from(&cursor.after);
            }
        }
        let detail = match order.verb {
            ActVerb::Retry => format!("bulk act {}: {filter}, at a rate of {}", claim.id, order.rate),
            _ => format!("bulk act {}: {filter}", claim.id),
        };
        let reason = order.reason.clone().unwrap_or_default();
        let verb = match order.verb {
            ActVerb::Retry => BulkVerb::Retry,
            ActVerb::Cancel => BulkVerb::Cancel { reason },
            ActVerb::Purge => BulkVerb::Purge { reason },
        };
        Ok(ActRun { act: self, claim, operator, parts, verb, detail })
    }
}

/// An attempt of a bulk act.
pub struct ActRun {
    act: BulkAct,
    claim: ActClaim,
    operator: Operator,
    /// The queue slices that are left.
    parts: VecDeque<Part>,
    verb: BulkVerb,
    detail: String,
}

impl std::fmt::Debug for ActRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActRun").field("claim", &self.claim).finish_non_exhaustive()
    }
}

impl ActRun {
    /// Executes the next step, and stores the progress.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn step(&mut self) -> Result<AfterStep> {
        if self.parts.is_empty() {
            return Ok(AfterStep::Ended);
        }
        let (done, rate) = (&mut self.act.done, self.act.order.rate);
        let now = self.operator.stores().send.now().await?;
        let first = done.paced_until.map_or(now, |at| at.max(now));
        let wait = (first - now).to_std().unwrap_or_default();
        let created = self.claim.created;
        // A step is a full one, or, at a slow rate, one for nearly all of the time that it may work ahead: else there would soon be one for each
        // few notices. The small rest is for an attempt that begins late.
        let whole = rate.offset(STEP as u64).min(BulkAct::AHEAD * 99 / 100);
        let Some(lead) = BulkAct::AHEAD.checked_sub(wait).filter(|lead| *lead >= whole) else {
            // Until half of that time is left, so that an attempt has several steps, or until the step is a full one.
            return Ok(AfterStep::Wait(wait.saturating_sub((BulkAct::AHEAD / 2).min(BulkAct::AHEAD - whole))));
        };
        let due = |n: u64, notice: &Listed| (notice.create_time <= created).then(|| first + rate.offset(n));
        let mut step = Bulk::default();
        let ActClaim { id, fence, lease_end, .. } = self.claim;
        let act_fence = Some(ActFence { id, fence, lease_end });
        let order = Order { verb: &self.verb, filter: &self.detail, act: act_fence };
        let end = self.operator.step(&mut self.parts, rate.within(lead).min(STEP), order, &mut step, due).await?;
        if end.is_late {
            return Ok(AfterStep::Lost);
        }
        done.changed += step.changed;
        done.dedupe_key_taken += step.dedupe_key_taken;
        done.passed_over += step.passed_over;
        let selected = step.changed + step.dedupe_key_taken + step.passed_over;
        if selected == 0 && self.parts.is_empty() {
            return Ok(AfterStep::Ended);
        }
        done.steps += 1;
        if rate != Rate::AT_ONCE && selected > 0 {
            done.paced_until = Some(first + rate.offset(selected));
        }
        done.cursor =
            end.reached.map(|slice| Cursor { def_id: slice.def_id, status: slice.status, after: slice.after });
        let param = written(&self.act.done)?;
        Ok(match self.operator.stores().operate.note_progress(id, fence, &param).await? {
            false => AfterStep::Lost,
            true if self.parts.is_empty() => AfterStep::Ended,
            true => AfterStep::Next,
        })
    }
}

impl BulkOrder {
    /// Returns it as the authority of its notice.
    pub(super) fn authority(&self, who: &str) -> Result<Authority> {
        let act = self.verb.name().to_owned();
        Ok(Authority { who: who.to_owned(), act, detail: Some(written(self)?) })
    }
}

/// Returns a part of an act as it is stored.
pub(super) fn written(part: &impl Serialize) -> Result<String> {
    let failed = |error| Error::from(StoreError::new("writing a bulk act", FaultKind::Permanent, error));
    serde_json::to_string(part).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_act_survives_being_written_down_and_may_be_short() {
        let filter =
            Filter::dead_letters().definition("sync").class("busy").ids([7]).text("a").from(DateTime::UNIX_EPOCH);
        let rate: Rate = "100/1m".parse().unwrap();
        let order = BulkOrder { verb: ActVerb::Retry, reason: None, filter, def_id: Some(1), rate };
        let after = Some(Position::new("2026-11-21 10:42:07.123456", 7));
        let cursor = Some(Cursor { def_id: 1, status: Status::DeadLetter, after });
        let done = BulkDone { changed: 3, cursor, ..BulkDone::default() };
        let authority = order.authority("alice").unwrap();
        let act = BulkAct::read(&authority, &written(&done).unwrap()).unwrap();
        assert_eq!(act, BulkAct { order, who: "alice".to_owned(), done });
        let short = r#"{"verb":"purge","filter":{"statuses":["dead_letter"]},"rate":"at once"}"#;
        let with = |order: &str| Authority { detail: Some(order.to_owned()), ..authority.clone() };
        assert_eq!(BulkAct::read(&with(short), "{}").unwrap().order.rate, Rate::AT_ONCE);
        let error = |authority: &Authority, param: &str| BulkAct::read(authority, param).unwrap_err().to_string();
        assert!(error(&with(&short.replace("at once", "often")), "{}").contains("expected a number"));
        assert!(error(&Authority { detail: None, ..authority.clone() }, "{}").contains("order of a bulk act"));
        assert!(
            error(&authority, r#"{"verb":"purge"}"#).contains("parameter of a bulk act"),
            "no order in a parameter"
        );
    }
}
