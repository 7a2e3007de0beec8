//! Verbs for many notices: counted before ([`Operator::preview`]), executed in small steps.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::filter::Filter;
use super::listing::{ClassCount, Counted, counts, definitions_of, merged, slices_of};
use super::operator::{Operator, cancel};
use crate::error::Result;
use crate::limit::Rate;
use crate::notice::Status;
use crate::store::verb::Verb;
use crate::store::{BulkStep, Listed, QueueSlice, Target};

/// The notices that a bulk verb would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Preview {
    /// How many in all.
    pub total: Counted,
    /// How many per definition and state, dead letters by class.
    pub by_class: Vec<ClassCount>,
    /// The earliest time among them.
    pub oldest: Option<DateTime<Utc>>,
    /// The latest time among them.
    pub newest: Option<DateTime<Utc>>,
    /// The ids of the first few, those with the earliest times.
    pub first: Vec<i64>,
}

/// Result of a bulk verb.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Bulk {
    /// How many notices were changed.
    pub changed: u64,
    /// How many were not changed, because a live notice has their dedupe key.
    pub dedupe_key_taken: u64,
    /// How many were skipped, because they had changed (retried, purged or sent) since they were read, or another transaction
    /// had locked them.
    pub passed_over: u64,
    /// When the last of the changed notices is due, if they are due again.
    pub last_due: Option<DateTime<Utc>>,
}

/// The number of notices per transaction: few, so that other transactions wait only briefly for its locks.
const STEP: usize = 500;
/// How many ids a preview shows.
const FIRST: usize = 5;

impl Operator {
    /// Counts the notices that `filter` selects, by class, with the earliest and the latest time.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub async fn preview(&self, filter: &Filter) -> Result<Preview> {
        filter.check(&filter.statuses, "")?;
        let definitions = definitions_of(&self.outbox, filter).await?;
        let by_class = counts(&*self.stores().browse, &definitions, filter).await?;
        let mut total = Counted::default();
        by_class.iter().for_each(|class| total.add(class.count));
        let end = async |newest_first: bool, limit: usize| {
            let slices = slices_of(&definitions, filter, newest_first);
            merged(&*self.stores().browse, slices, None, limit).await.map(|page| page.notices)
        };
        let (first, last) = (end(false, FIRST).await?, end(true, 1).await?);
        Ok(Preview {
            total,
            by_class,
            oldest: first.first().map(|notice| notice.time),
            newest: last.first().map(|notice| notice.time),
            first: first.iter().map(|notice| notice.id).collect(),
        })
    }

    /// Retries dead letters or cancelled notices, the oldest first, as [`Self::retry`] does: the first is due now, the others
    /// one after the other at this rate.
    ///
    /// It only retries notices that had ended before the call began, so a notice that fails again is not retried twice. Each
    /// step of 500 is its own transaction with one entry in the audit. If the call is interrupted, the notices changed so far
    /// stay due at their times, and another call continues with the rest (with a rate counted from then). Two calls with the
    /// same filter at the same time share the work: each notice is retried once.
    ///
    /// ```
    /// use solid_notify_core::operate::Filter;
    ///
    /// # async fn example(outbox: solid_notify_core::AnyOutbox) -> Result<(), Box<dyn std::error::Error>> {
    /// let filter = Filter::dead_letters().definition("sync_to_omp").class("timeout");
    /// let alice = outbox.operator("alice");
    /// println!("{} notices, {:?}", alice.preview(&filter).await?.total, alice.preview(&filter).await?.by_class);
    /// let done = alice.retry_all(&filter, "100/1m".parse()?).await?;
    /// println!("{} are sent again, the last at {:?}", done.changed, done.last_due);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Self::list`]; [`crate::Error::Invalid`] for statuses other than dead letter and cancelled. After an error of the
    /// store some steps may be done.
    pub async fn retry_all(&self, filter: &Filter, rate: Rate) -> Result<Bulk> {
        filter.check(
            &[Status::DeadLetter, Status::Cancelled],
            "only dead letters and cancelled notices are retried in bulk",
        )?;
        let started = self.outbox.engine().stores().send.now().await?;
        let mut filter = filter.clone();
        filter.until = Some(filter.until.map_or(started, |until| until.min(started)));
        let detail = format!("{filter}, at a rate of {rate}");
        let mut done = Bulk::default();
        for slice in self.slices(&filter).await? {
            let due = |n: u64, _: &Listed| Some(started + rate.offset(n));
            self.in_steps(slice, &Verb::Retry, &detail, &mut done, due).await?;
        }
        Ok(done)
    }

    /// Cancels waiting notices (not sent, failed, awaiting their ack) that were added before the call began, as
    /// [`Self::cancel`] does. A notice that is being sent is not changed.
    ///
    /// Each step of 500 is its own transaction with one entry in the audit; another call continues.
    ///
    /// # Errors
    /// As [`Self::list`]; [`crate::Error::Invalid`] for statuses of ended notices and for being sent.
    pub async fn cancel_all(&self, filter: &Filter, reason: &str) -> Result<Bulk> {
        filter.check(
            &[Status::NotSent, Status::Failed, Status::AwaitingAck],
            "only notices that wait are cancelled in bulk (`Filter::waiting()`)",
        )?;
        let started = self.outbox.engine().stores().send.now().await?;
        let mut done = Bulk::default();
        for slice in self.slices(filter).await? {
            // Producers may add notices faster than this call cancels them.
            let known = |_: u64, notice: &Listed| (notice.create_time <= started).then_some(started);
            self.in_steps(slice, &cancel(reason), &filter.to_string(), &mut done, known).await?;
        }
        done.last_due = None;
        Ok(done)
    }

    async fn slices(&self, filter: &Filter) -> Result<Vec<QueueSlice>> {
        Ok(slices_of(&definitions_of(&self.outbox, filter).await?, filter, false))
    }

    /// Goes through a queue slice once, from its oldest to its newest notice. The position only increases, so the loop ends
    /// even if notices do not change. `due` returns the new due time of a notice, given how many it has selected before; `None`
    /// skips the notice.
    pub(super) async fn in_steps(
        &self,
        mut slice: QueueSlice,
        verb: &Verb,
        filter: &str,
        done: &mut Bulk,
        due: impl Fn(u64, &Listed) -> Option<DateTime<Utc>>,
    ) -> Result<()> {
        loop {
            let seen = self.stores().browse.list(&slice, STEP).await?;
            let Some(last) = seen.last() else { return Ok(()) };
            slice.after = Some(last.position.clone());
            let full = seen.len() == STEP;
            // Notices that are not changed keep their place in the spread, so that no two steps overlap.
            let mut place = done.changed + done.dedupe_key_taken + done.passed_over;
            let mut notices = Vec::with_capacity(seen.len());
            for notice in &seen {
                if let Some(due) = due(place, notice) {
                    notices.push(Target { id: notice.id, fence: notice.fence, due });
                    place += 1;
                }
            }
            if !notices.is_empty() {
                let asked = notices.len() as u64;
                let step = BulkStep {
                    def_id: slice.def_id,
                    status: slice.status,
                    notices,
                    verb: verb.clone(),
                    who: self.who.clone(),
                    filter: filter.to_owned(),
                };
                let step_done = self.stores().operate.change_step(&step).await?;
                let (changed, taken) = (step_done.changed.len() as u64, step_done.dedupe_key_taken.len() as u64);
                done.changed += changed;
                done.dedupe_key_taken += taken;
                done.passed_over += asked.saturating_sub(changed + taken);
                let moved = step.notices.iter().filter(|target| step_done.changed.contains(&target.id));
                done.last_due = done.last_due.max(moved.map(|target| target.due).max());
                if changed > 0 {
                    self.outbox.wake();
                }
            }
            if !full {
                return Ok(());
            }
        }
    }
}
