//! Starting bulk acts that sweepers execute, and looking at them.

use std::time::Duration;

use serde::Serialize;

use super::act::{BulkAct, BulkDone, BulkOrder, written};
use super::act_verb::ActVerb;
use super::filter::Filter;
use super::operator::{Operator, cut};
use crate::built_in::BULK_DEFINITION;
use crate::definition::NotifyDef;
use crate::error::{Error, Result};
use crate::limit::Rate;
use crate::notice::Status;
use crate::outbox::Defined;

/// How often [`BulkHandle::wait`] looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How many acts [`Operator::bulks`] returns, of live and of ended ones each.
const MOST_ACTS: usize = 100;

/// A bulk act that sweepers execute. Returned by [`Operator::start_retry_all`] and its like, and by [`Operator::bulk`].
#[derive(Debug, Clone)]
pub struct BulkHandle {
    operator: Operator,
    id: i64,
}

/// How far a bulk act is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BulkProgress {
    /// The id of its notice.
    pub id: i64,
    /// The state of its notice: it waits (not sent, failed), works (sending), is complete (succeeded), was stopped (cancelled), or gave up
    /// (dead letter).
    pub status: Status,
    /// Why it was stopped or gave up.
    pub end_reason: Option<String>,
    /// The act; `None` if it has no authority, or is unreadable after an edit by hand.
    pub act: Option<BulkAct>,
}

impl Operator {
    /// Starts a bulk act that retries notices as [`Self::retry_all`] does. Sweepers execute it, also after this process has ended.
    ///
    /// The act is a notice of the built-in definition [`crate::BULK_DEFINITION`]. [`Self::cancel`] with its id stops it after its current step,
    /// and [`Self::retry`] continues it where it was. The entries of its steps in the audit have the name of this operator and begin with
    /// `bulk act` and its id.
    ///
    /// ```
    /// use solid_notify_core::Filter;
    ///
    /// # async fn example(outbox: solid_notify_core::AnyOutbox) -> Result<(), Box<dyn std::error::Error>> {
    /// let alice = outbox.operator("alice");
    /// let filter = Filter::dead_letters().definition("sync_to_omp").class("timeout");
    /// let started = alice.start_retry_all(&filter, "100/1m".parse()?).await?;
    /// if let Some(progress) = started.progress().await? {
    ///     println!("{:?}: {:?}", progress.status, progress.act.map(|act| act.done.changed));
    /// }
    /// alice.cancel(started.id(), "the target is down again").await?;
    /// alice.retry(started.id()).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Self::retry_all`].
    pub async fn start_retry_all(&self, filter: &Filter, rate: Rate) -> Result<BulkHandle> {
        self.start(ActVerb::Retry, None, filter, rate).await
    }

    /// Starts a bulk act that cancels notices as [`Self::cancel_all`] does, at this rate.
    ///
    /// # Errors
    /// As [`Self::cancel_all`].
    pub async fn start_cancel_all(&self, filter: &Filter, reason: &str, rate: Rate) -> Result<BulkHandle> {
        self.start(ActVerb::Cancel, Some(cut(reason)), filter, rate).await
    }

    /// Starts a bulk act that deletes notices as [`Self::purge_all`] does, at this rate.
    ///
    /// # Errors
    /// As [`Self::purge_all`].
    pub async fn start_purge_all(&self, filter: &Filter, reason: &str, rate: Rate) -> Result<BulkHandle> {
        self.start(ActVerb::Purge, Some(cut(reason)), filter, rate).await
    }

    async fn start(&self, verb: ActVerb, reason: Option<String>, filter: &Filter, rate: Rate) -> Result<BulkHandle> {
        verb.check(filter)?;
        let parts = self.parts(filter, None).await?;
        let def_id = filter.definition.as_ref().and_then(|_| parts.front()).map(|part| part.slice.def_id);
        let authority = BulkOrder { verb, reason, filter: filter.clone(), def_id, rate }.authority(&self.who)?;
        let def_id = self.bulk_definition().await?;
        let id = self.stores().operate.add(def_id, &written(&BulkDone::default())?, &authority).await?;
        self.outbox.wake();
        Ok(self.bulk(id))
    }

    /// Returns the id of the definition of bulk acts, which it creates if it is missing.
    async fn bulk_definition(&self) -> Result<i64> {
        let rows = self.stores().definitions.definitions().await?;
        if let Some(row) = rows.iter().find(|row| row.name == BULK_DEFINITION && row.delete_time.is_none()) {
            return Ok(row.id);
        }
        Ok(match self.outbox.define_if_missing(NotifyDef::new(BULK_DEFINITION)).await? {
            Defined::Created(row) | Defined::Same(row) | Defined::Kept { row, .. } | Defined::Replaced { row, .. } => {
                row.id
            }
        })
    }

    /// Returns the handle of a bulk act by the id of its notice.
    pub fn bulk(&self, id: i64) -> BulkHandle {
        BulkHandle { operator: self.clone(), id }
    }

    /// Returns the bulk acts of all operators: live ones, then the latest 100 that have ended.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn bulks(&self) -> Result<Vec<BulkProgress>> {
        let mut acts = Vec::new();
        for filter in [Filter::live(), Filter::ended()] {
            let page = match self.list(&filter.definition(BULK_DEFINITION), None, MOST_ACTS).await {
                Err(Error::UnknownDefinition { .. }) => return Ok(acts),
                page => page?,
            };
            for notice in page.notices {
                acts.extend(self.bulk(notice.id).progress().await?);
            }
        }
        Ok(acts)
    }
}

impl BulkHandle {
    /// Returns the id of its notice.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Returns how far it is; `None` if there is no such notice (any more).
    ///
    /// # Errors
    /// Those of the store.
    pub async fn progress(&self) -> Result<Option<BulkProgress>> {
        let Some(notice) = self.operator.show(self.id).await? else { return Ok(None) };
        let authority = self.operator.stores().send.authority(self.id).await?;
        let act = authority.and_then(|authority| BulkAct::read(&authority, &notice.param).ok());
        Ok(Some(BulkProgress { id: notice.id, status: notice.status, end_reason: notice.end_reason, act }))
    }

    /// Waits until it has ended, and returns how; `None` as [`Self::progress`].
    ///
    /// # Errors
    /// Those of the store.
    pub async fn wait(&self) -> Result<Option<BulkProgress>> {
        loop {
            match self.progress().await? {
                Some(progress) if !progress.status.is_final() => tokio::time::sleep(LOOK_EVERY).await,
                ended => return Ok(ended),
            }
        }
    }
}
