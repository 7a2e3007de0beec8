//! Verbs for many notices: counted before ([`Operator::preview`]), executed in small steps.

use std::collections::{HashMap, HashSet, VecDeque};

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::act_verb::ActVerb;
use super::filter::Filter;
use super::listing::{ClassCount, Counted, counts, definitions_of, merged, parts_of};
use super::operator::{Operator, cut};
use super::part::Part;
use crate::built_in::BULK_DEFINITION;
use crate::definition::NotifyDef;
use crate::error::{Error, Result};
use crate::limit::Rate;
use crate::notice::Status;
use crate::store::{ActFence, BulkStep, BulkStepDone, BulkVerb, Listed, Purged, QueueSlice, SliceOfStep, Target};

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
    /// How many notices were changed, or deleted by a purge.
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
pub(super) const STEP: usize = 500;
/// How many queue slices a step reads. Most of them may have no notice of its filter, and an act that only reads has to advance, too.
const MOST_SLICES: usize = 2_000;
/// How many ids a preview shows.
const FIRST: usize = 5;

impl Operator {
    /// Counts the notices that `filter` selects, by class, with the earliest and the latest time.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub async fn preview(&self, filter: &Filter) -> Result<Preview> {
        filter.check(&filter.statuses, "")?;
        let definitions = self.changeable(filter).await?;
        let by_class = counts(self.outbox.engine(), &definitions, filter).await?;
        let mut total = Counted::default();
        by_class.iter().for_each(|class| total.add(class.count));
        let end = async |newest_first: bool, limit: usize| {
            let parts = parts_of(&definitions, filter, newest_first);
            merged(self.outbox.engine(), parts, None, limit).await.map(|page| page.notices)
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
    /// step of 500 is its own transaction with an entry in the audit for each definition and state. If the call is interrupted, the notices changed so far
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
        ActVerb::Retry.check(filter)?;
        let started = self.outbox.engine().stores().send.now().await?;
        let mut filter = filter.clone();
        filter.until = Some(filter.until.map_or(started, |until| until.min(started)));
        let detail = format!("{filter}, at a rate of {rate}");
        let mut done = Bulk::default();
        let due = |n: u64, _: &Listed| Some(started + rate.offset(n));
        self.in_steps(self.parts(&filter, None).await?, &BulkVerb::Retry, &detail, &mut done, due).await?;
        Ok(done)
    }

    /// Deletes ended notices for good, the oldest first, for a reason that the audit has. Live notices are never deleted:
    /// [`Self::cancel_all`] ends them.
    ///
    /// It only deletes notices that had ended before the call began. Each step of 500 is its own transaction with an entry in the audit
    /// for each definition and state, which has their ids; another call continues. As `notify.purge` does, it logs a line at `warn` for each dead letter and each
    /// cancelled notice, without its parameter; for successes it logs a line for each step.
    ///
    /// ```
    /// use solid_notify_core::Filter;
    ///
    /// # async fn example(outbox: solid_notify_core::AnyOutbox) -> Result<(), Box<dyn std::error::Error>> {
    /// let of_order = Filter::ended().tag("order:42");
    /// let done = outbox.operator("alice").purge_all(&of_order, "the customer asked for it").await?;
    /// println!("{} notices are deleted", done.changed);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Self::list`]; [`crate::Error::Invalid`] for statuses of live notices. After an error of the store some steps may be done.
    pub async fn purge_all(&self, filter: &Filter, reason: &str) -> Result<Bulk> {
        ActVerb::Purge.check(filter)?;
        let started = self.outbox.engine().stores().send.now().await?;
        let mut filter = filter.clone();
        filter.until = Some(filter.until.map_or(started, |until| until.min(started)));
        let mut done = Bulk::default();
        let verb = BulkVerb::Purge { reason: cut(reason) };
        let due = |_: u64, _: &Listed| Some(started);
        self.in_steps(self.parts(&filter, None).await?, &verb, &filter.to_string(), &mut done, due).await?;
        done.last_due = None;
        Ok(done)
    }

    /// Cancels waiting notices (not sent, failed, awaiting their ack) that were added before the call began, as
    /// [`Self::cancel`] does. A notice that is being sent is not changed.
    ///
    /// Each step of 500 is its own transaction with an entry in the audit for each definition and state; another call continues.
    ///
    /// # Errors
    /// As [`Self::list`]; [`crate::Error::Invalid`] for statuses of ended notices and for being sent.
    pub async fn cancel_all(&self, filter: &Filter, reason: &str) -> Result<Bulk> {
        ActVerb::Cancel.check(filter)?;
        let started = self.outbox.engine().stores().send.now().await?;
        let mut done = Bulk::default();
        let verb = BulkVerb::Cancel { reason: cut(reason) };
        // Producers may add notices faster than this call cancels them.
        let known = |_: u64, notice: &Listed| (notice.create_time <= started).then_some(started);
        self.in_steps(self.parts(filter, None).await?, &verb, &filter.to_string(), &mut done, known).await?;
        done.last_due = None;
        Ok(done)
    }

    /// Returns the queue slices that a filter selects, in the order in which steps go through them: those of its definition, or of the one with
    /// this id, whatever its name is now.
    pub(super) async fn parts(&self, filter: &Filter, def_id: Option<i64>) -> Result<VecDeque<Part>> {
        let Some(id) = def_id else { return Ok(parts_of(&self.changeable(filter).await?, filter, false).into()) };
        let mut of_any_name = filter.clone();
        of_any_name.definition = None;
        let mut definitions = self.changeable(&of_any_name).await?;
        definitions.retain(|definition| definition.id == id);
        Ok(parts_of(&definitions, filter, false).into())
    }

    /// Returns the definitions that a filter selects whose notices bulk verbs change: not that of bulk acts, by id.
    async fn changeable(&self, filter: &Filter) -> Result<Vec<NotifyDef>> {
        if filter.definition.as_deref() == Some(BULK_DEFINITION) {
            let problem =
                "bulk verbs do not change bulk acts; `cancel(id, reason)` stops one, `retry(id)` continues it"
                    .to_owned();
            return Err(Error::Invalid { what: "filter", problem });
        }
        let mut definitions = definitions_of(&self.outbox, filter).await?;
        definitions.retain(|definition| definition.handler_name() != BULK_DEFINITION);
        definitions.sort_by_key(|definition| definition.id);
        Ok(definitions)
    }

    /// Goes through queue slices once, each from its oldest to its newest notice. The position only increases, so the loop ends
    /// even if notices do not change. `due` returns the new due time of a notice, given how many it has selected before; `None`
    /// skips the notice.
    pub(super) async fn in_steps(
        &self,
        mut parts: VecDeque<Part>,
        verb: &BulkVerb,
        filter: &str,
        done: &mut Bulk,
        due: impl Fn(u64, &Listed) -> Option<DateTime<Utc>>,
    ) -> Result<()> {
        while !parts.is_empty() {
            self.step(&mut parts, STEP, Order { verb, filter, act: None }, done, &due).await?;
        }
        Ok(())
    }

    /// Executes the verb for the next notices of these queue slices, at most `limit`, in one transaction. Removes the slices that it has read
    /// to their ends.
    pub(super) async fn step(
        &self,
        parts: &mut VecDeque<Part>,
        limit: usize,
        Order { verb, filter, act }: Order<'_>,
        done: &mut Bulk,
        due: impl Fn(u64, &Listed) -> Option<DateTime<Utc>>,
    ) -> Result<StepEnd> {
        // Notices that are not changed keep their place in the spread, so that no two steps overlap.
        let first = done.changed + done.dedupe_key_taken + done.passed_over;
        let (mut place, mut left, mut end) = (first, limit, StepEnd::default());
        let (mut slices, mut names) = (Vec::new(), HashMap::new());
        for _ in 0..MOST_SLICES {
            let Some(part) = parts.front_mut().filter(|_| left > 0) else { break };
            let before = part.read();
            let seen = part.page(self.outbox.engine(), left).await?;
            left -= (part.read() - before).min(left);
            let mut notices = Vec::with_capacity(seen.len());
            for notice in &seen {
                if let Some(due) = due(place, notice) {
                    notices.push(Target { id: notice.id, fence: notice.fence, due });
                    place += 1;
                }
            }
            let (def_id, status) = (part.slice.def_id, part.slice.status);
            if !notices.is_empty() {
                names.entry(def_id).or_insert_with(|| part.definition.clone());
                slices.push(SliceOfStep { def_id, status, notices });
            }
            end.reached = Some(part.slice.clone());
            if !part.is_ended() {
                break;
            }
            parts.pop_front();
        }
        if slices.is_empty() {
            return Ok(end);
        }
        let (verb, who, filter) = (verb.clone(), self.who.clone(), filter.to_owned());
        let step = BulkStep { slices, verb, who, filter, act };
        let step_done = self.stores().operate.change_step(&step).await?;
        if step_done.is_late {
            return Ok(StepEnd { is_late: true, ..end });
        }
        log_purged(&step, &names, &step_done);
        let (changed, taken) = (step_done.changed.len() as u64, step_done.dedupe_key_taken.len() as u64);
        done.changed += changed;
        done.dedupe_key_taken += taken;
        done.passed_over += (place - first).saturating_sub(changed + taken);
        let changed_ids: HashSet<i64> = step_done.changed.iter().copied().collect();
        let notices = step.slices.iter().flat_map(|slice| &slice.notices);
        let moved = notices.filter(|target| changed_ids.contains(&target.id));
        done.last_due = done.last_due.max(moved.map(|target| target.due).max());
        if changed > 0 && !matches!(step.verb, BulkVerb::Purge { .. }) {
            self.outbox.wake();
        }
        Ok(end)
    }
}

/// Where a step ended.
#[derive(Default)]
pub(super) struct StepEnd {
    /// The claim of its act was lost.
    pub(super) is_late: bool,
    /// The last queue slice that it has read, and how far.
    pub(super) reached: Option<QueueSlice>,
}

/// What a step does with its notices, and for whom.
pub(super) struct Order<'a> {
    pub(super) verb: &'a BulkVerb,
    /// The filter, for the audit.
    pub(super) filter: &'a str,
    /// The claim of the act that it belongs to.
    pub(super) act: Option<ActFence>,
}

/// Logs what a step deleted: nothing else remains of it, except its ids in the audit.
fn log_purged(step: &BulkStep, names: &HashMap<i64, String>, done: &BulkStepDone) {
    let purged: HashMap<i64, &Purged> = done.purged.iter().map(|row| (row.id, row)).collect();
    for slice in step.slices.iter().filter(|_| !purged.is_empty()) {
        let definition = names.get(&slice.def_id).map(String::as_str).unwrap_or_default();
        let rows = slice.notices.iter().filter_map(|notice| purged.get(&notice.id));
        let what = match slice.status {
            Status::DeadLetter => "dead letter",
            Status::Cancelled => "cancelled notice",
            _ => {
                let count = rows.count();
                tracing::warn!(definition, count, "purged successes for an operator");
                continue;
            }
        };
        rows.for_each(|row| row.log(definition, what));
    }
}
