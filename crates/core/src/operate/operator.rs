//! [`Operator`]: an outbox in the hands of a person, whose name goes to the audit.

use std::time::SystemTime;

use serde::Serialize;

use super::brakes::Switch;
use super::explain::{Explanation, Surroundings};
use super::filter::{Filter, Position};
use super::listing::{ClassCount, Page, counts, definitions_of, lanes_of, merged};
use super::verb::{Answer, Verb};
use super::{AuditEntry, DefinitionCounts, Lane, Operate};
use crate::error::Result;
use crate::notice::{NoticeRecord, Status, clean_text};
use crate::outbox::Outbox;
use crate::param;

/// Looks at notices and does an operator's verbs; made by [`Outbox::operator`].
///
/// Each verb is one transaction with its entry in `notify_audit`: none is done that nobody knows of. A verb that meets a
/// notice in another state than it needs answers so ([`Answer`]) and changes nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # #[cfg(feature = "sqlite")] {
/// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
/// # let notify = solid_notify_core::Notify::new(pool);
/// # notify.migrate().await?;
/// # notify.define(solid_notify_core::NotifyDef::new("sync_to_omp").enabled(false)).await?;
/// # let mut tx = notify.begin().await?;
/// # let id = solid_notify_core::add_notice(&mut tx, "sync_to_omp", 7).await?.id();
/// # tx.commit().await?;
/// use solid_notify_core::operate::{Answer, Filter};
///
/// let alice = notify.operator("alice");
/// println!("{}", alice.explain(id).await?); // the definition sync_to_omp is switched off (enabled = false)
/// assert_eq!(alice.cancel(id, "the order was deleted").await?, Answer::Done);
/// let page = alice.list(&Filter::cancelled(), None, 50).await?;
/// assert_eq!(page.notices[0].end_reason.as_deref(), Some("the order was deleted"));
/// assert_eq!(alice.retry(id).await?, Answer::Done);
/// let acts: Vec<String> = alice.audit_of(id, 10).await?.into_iter().map(|entry| entry.act).collect();
/// assert_eq!(acts, ["retry", "cancel"]);
/// # }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Operator {
    pub(super) outbox: Outbox,
    pub(super) who: String,
}

/// The longest name of a person in characters: what the narrowest column holds.
const WHO_LIMIT: usize = 200;
/// The longest reason in bytes.
const REASON_LIMIT: usize = 2048;

impl Operator {
    pub(crate) fn new(outbox: Outbox, who: &str) -> Self {
        let who = who.replace('\0', "\u{FFFD}").chars().take(WHO_LIMIT).collect();
        Self { outbox, who }
    }

    pub(super) fn operate(&self) -> &dyn Operate {
        &**self.outbox.operate()
    }

    /// Sends a notice again. A dead letter or a cancelled notice becomes live: the same id and errors, all tries again, due
    /// now. Its attempts are counted on, so that a late outcome of an old one cannot touch it. One that waits for its
    /// time is due now.
    ///
    /// One with an ordering key takes its old place, which is that of its id: before all that wait behind it, however many of
    /// them were sent meanwhile. One with a dedupe key stays where it is while a live notice has the key; a transaction that
    /// has just added the key is waited for.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn retry(&self, id: i64) -> Result<Answer> {
        self.change(id, &Verb::Retry).await
    }

    /// Ends a live notice as cancelled. One that is being sent is ended in the table, but its attempt is under way and may still
    /// deliver it; what that comes to is not stored. With an ordering key it is left alone as long as its lease holds, since the
    /// next of its key would be sent beside it.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn cancel(&self, id: i64, reason: &str) -> Result<Answer> {
        self.change(id, &cancel(reason)).await
    }

    /// Gives a notice another parameter, which is checked as when adding. A dead letter or a cancelled notice is retried with it;
    /// one that waits keeps its time.
    ///
    /// # Errors
    /// [`crate::Error::InvalidNotice`] for a parameter that could not be added; those of the store.
    pub async fn edit(&self, id: i64, param: impl Serialize) -> Result<Answer> {
        let name = format!("number {id}");
        let param = param::to_json(&name, &param)?;
        param::check(&name, &param, self.outbox.param_limit())?;
        self.change(id, &Verb::Edit { param }).await
    }

    /// Makes a notice that waits due at another time; one that is over means at once.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn reschedule(&self, id: i64, at: SystemTime) -> Result<Answer> {
        self.change(id, &Verb::Reschedule { at }).await
    }

    async fn change(&self, id: i64, verb: &Verb) -> Result<Answer> {
        let answer = self.operate().change(id, verb, &self.who).await?;
        if answer.is_done() {
            self.outbox.wake();
        }
        Ok(answer)
    }

    /// One notice with its last attempts, live or ended.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn show(&self, id: i64) -> Result<Option<NoticeRecord>> {
        self.outbox.find(id).await
    }

    /// A page of notices, at most 500: ended ones the latest first, live ones the soonest due first. `after` is the
    /// [`Page::next`] of the page before; what is added or ends meanwhile neither shifts nor repeats anything. (A live notice that
    /// is given another time meanwhile may come twice, or not at all.)
    ///
    /// # Errors
    /// [`crate::Error::UnknownDefinition`], [`crate::Error::Invalid`] for a filter that no index serves; those of the store.
    pub async fn list(&self, filter: &Filter, after: Option<&Position>, limit: usize) -> Result<Page> {
        filter.check(&filter.statuses, "")?;
        let newest_first = filter.statuses.iter().all(|status| status.is_final());
        let definitions = definitions_of(&self.outbox, filter).await?;
        merged(self.operate(), lanes_of(&definitions, filter, newest_first), after, limit).await
    }

    /// How many notices there are, per definition and state, dead letters per class; each counted up to
    /// [`super::Counted::BOUND`]. What there is none of is left out.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub async fn counts(&self, filter: &Filter) -> Result<Vec<ClassCount>> {
        filter.check(&filter.statuses, "")?;
        let definitions = definitions_of(&self.outbox, filter).await?;
        counts(self.operate(), &definitions, filter).await
    }

    /// Pauses everything, on every node within 5 s: notices are accepted, nothing is claimed and nothing is counted; what is being
    /// sent ends and is settled. Leases that expire and confirmations that are overdue wait as well, as in a definition that is
    /// not enabled. False where everything was paused already: who, since when and why stay as they were.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn pause_all(&self, reason: &str) -> Result<bool> {
        self.switch(&Switch::Pause { reason: clean_text(reason, REASON_LIMIT) }).await
    }

    /// Sending goes on. False where nothing was paused.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn resume_all(&self) -> Result<bool> {
        self.switch(&Switch::Resume).await
    }

    async fn switch(&self, switch: &Switch) -> Result<bool> {
        let turned = self.operate().switch(switch, &self.who).await?;
        self.outbox.wake();
        Ok(turned)
    }

    /// The counts of each definition as one of the nodes last took them, about every half minute: exact for that moment,
    /// and read at no cost however many notices there are.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn snapshot(&self) -> Result<Vec<DefinitionCounts>> {
        Ok(self.operate().counts().await?)
    }

    /// Why a notice is not sent yet, or how it ended.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn explain(&self, id: i64) -> Result<Explanation> {
        let Some(notice) = self.outbox.find(id).await? else { return Ok(Explanation::NotFound) };
        let definitions = self.outbox.store().definitions().await?;
        let definition = definitions.into_iter().find(|def| def.id == notice.def_id);
        let ahead = match notice.ordering_key {
            Some(_) if !notice.status.is_final() => self.operate().ahead(&notice).await?,
            _ => None,
        };
        let nodes = self.operate().nodes(Surroundings::ALIVE).await?;
        let brakes = self.operate().brakes().await?;
        let sending = match definition.as_ref().and_then(|def| def.max_concurrency_total) {
            Some(most) if most > 0 && !notice.status.is_final() => {
                let lane = Lane::of(notice.def_id, Status::Sending);
                self.operate().count(&lane, usize::try_from(most).unwrap_or(usize::MAX)).await?
            }
            _ => 0,
        };
        Ok(Explanation::of(&notice, &Surroundings { definition, ahead, nodes, brakes, sending }))
    }

    /// What people did, the latest first.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn audit(&self, limit: usize) -> Result<Vec<AuditEntry>> {
        Ok(self.operate().audit(limit).await?)
    }

    /// What people did to this notice alone, the latest first; bulk changes are told of by window, without each id.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn audit_of(&self, notice_id: i64, limit: usize) -> Result<Vec<AuditEntry>> {
        Ok(self.operate().audit_of(notice_id, limit).await?)
    }
}

pub(super) fn cancel(reason: &str) -> Verb {
    Verb::Cancel { reason: clean_text(reason, REASON_LIMIT) }
}
