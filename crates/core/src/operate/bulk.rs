//! Verbs for many notices: looked at before ([`Operator::preview`]), done in small windows.

use std::time::SystemTime;

use super::filter::Filter;
use super::listing::{ClassCount, Counted, counts, definitions_of, lanes_of, merged};
use super::operator::{Operator, cancel};
use super::verb::Verb;
use super::{Lane, Listed, Rate, Target, Window};
use crate::error::Result;
use crate::notice::Status;

/// What a bulk verb would meet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preview {
    /// How many in all.
    pub total: Counted,
    /// How many per definition and state, dead letters by class.
    pub by_class: Vec<ClassCount>,
    /// The earliest time among them.
    pub oldest: Option<SystemTime>,
    /// The latest time among them.
    pub newest: Option<SystemTime>,
    /// The ids of the first few, those with the earliest times.
    pub first: Vec<i64>,
}

/// What a bulk verb did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bulk {
    /// How many notices were changed.
    pub changed: u64,
    /// How many stay as they are, because a live notice has their dedupe key.
    pub dedupe_key_taken: u64,
    /// How many were no longer as they had just been seen, or locked by somebody else: retried, purged or sent meanwhile.
    pub passed_over: u64,
    /// When the last of the changed ones is due, where they are due again.
    pub last_due: Option<SystemTime>,
}

/// The notices of one transaction: few, so that nobody waits for it.
const WINDOW: usize = 500;
/// How many ids a preview shows.
const FIRST: usize = 5;

impl Operator {
    /// What there is of `filter`: how many, of which classes, from when to when.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub async fn preview(&self, filter: &Filter) -> Result<Preview> {
        filter.check(&filter.statuses, "")?;
        let definitions = definitions_of(&self.outbox, filter).await?;
        let by_class = counts(self.operate(), &definitions, filter).await?;
        let mut total = Counted::default();
        by_class.iter().for_each(|class| total.add(class.count));
        let end = async |newest_first: bool, limit: usize| {
            let lanes = lanes_of(&definitions, filter, newest_first);
            merged(self.operate(), lanes, None, limit).await.map(|page| page.notices)
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
    /// It takes what had ended before the call began, so nothing that fails again is taken twice. Each window of 500 is a
    /// transaction of its own with one entry in the audit: where the call is cut short, what was moved is moved and due at
    /// its time, and calling again goes on with the rest (whose rate is counted from then). Who retries the same at the
    /// same moment shares the work: each notice is retried once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # #[cfg(feature = "sqlite")] {
    /// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    /// # let notify = solid_notify_core::Notify::new(pool);
    /// # notify.migrate().await?;
    /// # notify.define(solid_notify_core::NotifyDef::new("sync_to_omp")).await?;
    /// use solid_notify_core::operate::Filter;
    ///
    /// let filter = Filter::dead_letters().definition("sync_to_omp").class("timeout");
    /// let alice = notify.operator("alice");
    /// println!("{} notices, {:?}", alice.preview(&filter).await?.total, alice.preview(&filter).await?.by_class);
    /// let done = alice.retry_all(&filter, "100/1m".parse()?).await?;
    /// println!("{} are sent again, the last at {:?}", done.changed, done.last_due);
    /// # }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Self::list`]; [`crate::Error::Invalid`] for what has not ended or was delivered. After an error of the store some
    /// windows may be done.
    pub async fn retry_all(&self, filter: &Filter, rate: Rate) -> Result<Bulk> {
        filter.check(
            &[Status::DeadLetter, Status::Cancelled],
            "only dead letters and cancelled notices are retried in bulk",
        )?;
        let started = self.operate().nodes(std::time::Duration::ZERO).await?.now;
        let mut filter = filter.clone();
        filter.until = Some(filter.until.map_or(started, |until| until.min(started)));
        let told = format!("{filter}, at a rate of {rate}");
        let mut done = Bulk::default();
        for lane in self.lanes(&filter).await? {
            let due = |n: u64, _: &Listed| Some(started + rate.offset(n));
            self.windows(lane, &Verb::Retry, &told, &mut done, due).await?;
        }
        Ok(done)
    }

    /// Cancels notices that wait (not sent, failed, awaiting their confirmation), as [`Self::cancel`] does, those of them that
    /// had been added before the call began. What is just being sent is left alone.
    ///
    /// Each window of 500 is a transaction of its own with one entry in the audit; calling again goes on.
    ///
    /// # Errors
    /// As [`Self::list`]; [`crate::Error::Invalid`] for what has ended or is being sent.
    pub async fn cancel_all(&self, filter: &Filter, reason: &str) -> Result<Bulk> {
        filter.check(
            &[Status::NotSent, Status::Failed, Status::AwaitingConfirm],
            "only notices that wait are cancelled in bulk (`Filter::waiting()`)",
        )?;
        let started = self.operate().nodes(std::time::Duration::ZERO).await?.now;
        let mut done = Bulk::default();
        for lane in self.lanes(filter).await? {
            // Others may add faster than we cancel.
            let known = |_: u64, notice: &Listed| (notice.create_time <= started).then_some(started);
            self.windows(lane, &cancel(reason), &filter.to_string(), &mut done, known).await?;
        }
        done.last_due = None;
        Ok(done)
    }

    async fn lanes(&self, filter: &Filter) -> Result<Vec<Lane>> {
        Ok(lanes_of(&definitions_of(&self.outbox, filter).await?, filter, false))
    }

    /// Goes through a lane once, from its oldest to its newest: the position only goes up, so whatever stays as it is, there
    /// is an end. `due` is when a notice is due, the `n`th of those that it names; none: it is left alone.
    pub(super) async fn windows(
        &self,
        mut lane: Lane,
        verb: &Verb,
        filter: &str,
        done: &mut Bulk,
        due: impl Fn(u64, &Listed) -> Option<SystemTime>,
    ) -> Result<()> {
        loop {
            let seen = self.operate().list(&lane, WINDOW).await?;
            let Some(last) = seen.last() else { return Ok(()) };
            lane.after = Some(last.position.clone());
            let full = seen.len() == WINDOW;
            // What stays as it is keeps its place in the spread, so that no two windows overlap.
            let mut place = done.changed + done.dedupe_key_taken + done.passed_over;
            let mut notices = Vec::with_capacity(seen.len());
            for notice in &seen {
                if let Some(due) = due(place, notice) {
                    notices.push(Target { id: notice.id, attempt: notice.attempt, due });
                    place += 1;
                }
            }
            if !notices.is_empty() {
                let asked = notices.len() as u64;
                let window = Window {
                    def_id: lane.def_id,
                    status: lane.status,
                    notices,
                    verb: verb.clone(),
                    who: self.who.clone(),
                    filter: filter.to_owned(),
                };
                let window_done = self.operate().change_window(&window).await?;
                let (changed, taken) = (window_done.changed.len() as u64, window_done.dedupe_key_taken.len() as u64);
                done.changed += changed;
                done.dedupe_key_taken += taken;
                done.passed_over += asked.saturating_sub(changed + taken);
                let moved = window.notices.iter().filter(|target| window_done.changed.contains(&target.id));
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
