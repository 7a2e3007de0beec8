//! [`Operator`]: an operator's handle of an outbox, with the operator's name for the audit.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::explain_context::{ExplainContext, Explained};
use super::explanation::Explanation;
use super::filter::Filter;
use super::listing::{ClassCount, Page, counts, definitions_of, merged, parts_of};
use crate::ack::{AckResult, Reply};
use crate::add::NewNotice;
use crate::cipher::is_encrypted;
use crate::definition::InForce;
use crate::error::Result;
use crate::notice::{NoticeRecord, Status, clean_text};
use crate::outbox::AnyOutbox;
use crate::store::Position;
use crate::store::Switch;
use crate::store::verb::{Verb, VerbResult};
use crate::store::{DefinitionCounts, NODE_RUNS, PauseScope, Paused, QueueSlice, SeenNode, Stores};

/// Reads notices and executes an operator's verbs. Created by [`AnyOutbox::operator`].
///
/// Each verb is one transaction together with its entry in `notify_audit`, so no change is missing there. A verb that meets a
/// notice in a state that does not allow it returns the reason ([`VerbResult`]) and changes nothing.
///
/// ```
/// use solid_notify_core::operate::AuditFilter;
/// use solid_notify_core::{Filter, VerbResult};
/// # async fn example(outbox: solid_notify_core::AnyOutbox, id: i64) -> Result<(), Box<dyn std::error::Error>> {
///
/// let alice = outbox.operator("alice");
/// println!("{}", alice.explain(id).await?); // the definition sync_to_omp is paused (enabled = false)
/// assert_eq!(alice.cancel(id, "the order was deleted").await?, VerbResult::Applied);
/// let page = alice.list(&Filter::cancelled(), None, 50).await?;
/// assert_eq!(page.notices[0].end_reason.as_deref(), Some("the order was deleted"));
/// assert_eq!(alice.retry(id).await?, VerbResult::Applied);
/// let timeline = alice.audit(&AuditFilter::all().notice(id), None, 10).await?.entries;
/// let acts: Vec<String> = timeline.into_iter().map(|entry| entry.act).collect();
/// assert_eq!(acts, ["retry", "cancel"]);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Operator {
    pub(super) outbox: AnyOutbox,
    pub(super) who: String,
}

/// The longest name of an operator in characters: what the narrowest column holds.
const WHO_LIMIT: usize = 200;
/// The longest reason in bytes.
pub(super) const REASON_LIMIT: usize = 2048;

impl AnyOutbox {
    /// Returns the handle for an operator: dead letters, retrying, cancelling, explaining, editing definitions. The audit
    /// stores at most 200 characters of `who`.
    pub fn operator(&self, who: &str) -> Operator {
        Operator::new(self.clone(), who)
    }
}

impl Operator {
    fn new(outbox: AnyOutbox, who: &str) -> Self {
        let who = who.replace('\0', "\u{FFFD}").chars().take(WHO_LIMIT).collect();
        Self { outbox, who }
    }

    pub(super) fn stores(&self) -> &Stores {
        self.outbox.engine().stores()
    }

    /// Ends a live notice as cancelled. If it is being sent, its attempt goes on and may still deliver it; the outcome is not
    /// stored. If it is being sent and has an ordering key, it is not cancelled before its lease ends, because the next notice
    /// of the key would be sent at the same time.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn cancel(&self, id: i64, reason: &str) -> Result<VerbResult> {
        self.change(id, &Verb::Cancel { reason: cut(reason) }).await
    }

    /// Replaces the parameter of a notice; the new one is checked as when adding, but may be larger. A dead letter or a
    /// cancelled notice is retried with it; a waiting one keeps its time. It is encrypted if the definition has `encrypt_param`, or if the
    /// old one is.
    ///
    /// # Errors
    /// [`crate::Error::InvalidNotice`] for a parameter that could not be added; [`crate::Error::Encryption`] without a cipher; those of the
    /// store.
    pub async fn edit(&self, id: i64, param: impl Serialize) -> Result<VerbResult> {
        let mut notice = NewNotice::new(id.to_string(), param)?.param_limit(usize::MAX);
        notice.check()?;
        let Some(stored) = self.stores().browse.find(id).await? else { return Ok(VerbResult::NotFound) };
        let definitions = self.stores().definitions.definitions().await?;
        let definition = definitions.iter().find(|def| def.id == stored.def_id);
        if let Some(definition) = definition {
            notice.name.clone_from(&definition.name);
        }
        let encrypts = definition.is_some_and(|definition| definition.encrypt_param);
        let param = if encrypts || is_encrypted(&stored.param) {
            notice.encrypted(stored.def_id, self.outbox.engine().param_cipher())?.param
        } else {
            notice.param
        };
        self.change(id, &Verb::Edit { param }).await
    }

    /// Makes a waiting notice due at another time; a past time means at once.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn reschedule(&self, id: i64, at: DateTime<Utc>) -> Result<VerbResult> {
        self.change(id, &Verb::Reschedule { at }).await
    }

    /// Acks a notice, as [`AnyOutbox::ack`] does, in this operator's name: for a delivery that a person has verified.
    ///
    /// # Errors
    /// Those of the store. A race is no error: see [`AckResult`].
    pub async fn ack(&self, id: i64) -> Result<AckResult> {
        self.reply(Reply::ack(id)).await
    }

    /// Nacks the last delivery of a notice, as [`AnyOutbox::nack`] does, in this operator's name: the attempt fails with this reason,
    /// and is retried as its definition says.
    ///
    /// # Errors
    /// As [`Self::ack`].
    pub async fn nack(&self, id: i64, reason: &str) -> Result<AckResult> {
        self.reply(Reply::nack(id, cut(reason))).await
    }

    async fn reply(&self, mut reply: Reply) -> Result<AckResult> {
        reply.who = Some(self.who.clone());
        self.outbox.apply_ack(&reply).await
    }

    pub(super) async fn change(&self, id: i64, verb: &Verb) -> Result<VerbResult> {
        let result = self.stores().operate.change(id, verb, &self.who).await?;
        if result.is_applied() {
            self.outbox.wake();
        }
        Ok(result)
    }

    /// Returns one notice with its last attempts, live or ended, as people see it: without the values that the column `mask` of its
    /// definition hides. [`AnyOutbox::find`] returns the whole parameter.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn show(&self, id: i64) -> Result<Option<NoticeRecord>> {
        Ok(self.seen(id).await?.map(|(notice, _)| notice))
    }

    /// Returns a notice as people see it, and its definition. Everything that an operator sees of a record begins here.
    async fn seen(&self, id: i64) -> Result<Option<(NoticeRecord, Option<Explained>)>> {
        let Some(notice) = self.outbox.find(id).await? else { return Ok(None) };
        let definitions = self.outbox.engine().in_force().await?;
        let has_targets = has_targets(&definitions, notice.def_id);
        let definition = definitions.into_iter().find(|def| def.row.id == notice.def_id);
        let row = definition.as_ref().map(|definition| &definition.row);
        let shown = self.outbox.engine().for_people(notice, row).await;
        Ok(Some((shown, definition.map(|followed| Explained { followed, has_targets }))))
    }

    /// Returns a page of notices, at most 500: ended ones the latest first, live ones the soonest due first. `after` is the
    /// [`Page::next`] of the page before. Notices that are added or end meanwhile are neither shifted nor repeated. (A live
    /// notice whose time changes meanwhile may be listed twice, or not at all.)
    ///
    /// # Errors
    /// [`crate::Error::UnknownDefinition`], [`crate::Error::Invalid`] for a filter that no index serves or that has a bad value; those of
    /// the store.
    pub async fn list(&self, filter: &Filter, after: Option<Position>, limit: usize) -> Result<Page> {
        filter.check(&filter.statuses, "")?;
        let newest_first = filter.statuses.iter().all(|status| status.is_final());
        let definitions = definitions_of(&self.outbox, filter).await?;
        let mut page = merged(self.outbox.engine(), parts_of(&definitions, filter, newest_first), after, limit).await?;
        for notice in &mut page.notices {
            let definition = definitions.iter().find(|definition| definition.id == notice.def_id);
            notice.definition = definition.map(|definition| definition.name.clone()).unwrap_or_default();
        }
        Ok(page)
    }

    /// Counts notices per definition and state, dead letters per class; each up to [`super::Counted::BOUND`]. Empty groups are
    /// left out.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub async fn counts(&self, filter: &Filter) -> Result<Vec<ClassCount>> {
        filter.check(&filter.statuses, "")?;
        let definitions = definitions_of(&self.outbox, filter).await?;
        counts(self.outbox.engine(), &definitions, filter).await
    }

    /// Pauses all definitions, on every node within 5 s: notices are accepted, none is claimed and none is counted as failed.
    /// Running attempts end and are settled. Expired leases and overdue acks wait as well, as in a definition that is
    /// paused. Returns false if everything was paused already: operator, time and reason of that pause stay.
    /// It replaces a pause of retries.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn pause_all(&self, reason: &str) -> Result<bool> {
        self.switch(&Switch::Pause { scope: PauseScope::Everything, reason: cut(reason) }).await
    }

    /// Pauses the retries of all definitions, on every node within 5 s. First attempts go on. A notice in [`Status::Failed`] waits and
    /// uses no try, also one that an operator retried: its time stays, and it is sent after [`Self::resume_all`]. Attempts that run
    /// are settled; expired leases, overdue acks and nacks are judged, and what they make a retry waits as well.
    ///
    /// It replaces a pause of everything: then first attempts go on again. Returns false if retries were paused already: operator,
    /// time and reason of that pause stay.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn pause_retries(&self, reason: &str) -> Result<bool> {
        self.switch(&Switch::Pause { scope: PauseScope::Retries, reason: cut(reason) }).await
    }

    /// Ends the pause, of everything or of retries. Returns false if nothing was paused.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn resume_all(&self) -> Result<bool> {
        self.switch(&Switch::Resume).await
    }

    /// Returns what is paused, by which operator, since when and why; `None`: nothing.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn paused(&self) -> Result<Option<Paused>> {
        Ok(self.stores().definitions.send_limits().await?.paused)
    }

    async fn switch(&self, switch: &Switch) -> Result<bool> {
        let turned = self.stores().operate.switch(switch, &self.who).await?;
        self.outbox.engine().edited();
        Ok(turned)
    }

    /// Returns the counts of each definition as last taken by one of the nodes, about every half minute. They are exact for
    /// that moment, and reading them costs the same however many notices there are.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn snapshot(&self) -> Result<Vec<DefinitionCounts>> {
        Ok(self.stores().browse.counts().await?)
    }

    /// Returns why a notice is not sent yet, or how it ended, and its tag.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn explain(&self, id: i64) -> Result<Explanation> {
        let Some((notice, definition)) = self.seen(id).await? else { return Ok(Explanation::not_found()) };
        let ahead = match notice.ordering_key {
            Some(_) if !notice.status.is_final() => self.stores().browse.ahead(&notice).await?,
            _ => None,
        };
        let now = self.outbox.engine().stores().send.now().await?;
        let nodes = self.nodes().await?;
        let send_limits = self.stores().definitions.send_limits().await?;
        let sending = match definition.as_ref().and_then(|def| def.followed.row.max_concurrency_total) {
            Some(most) if most > 0 && !notice.status.is_final() => {
                let slice = QueueSlice::of(notice.def_id, Status::Sending);
                self.stores().browse.count(&slice, usize::try_from(most).unwrap_or(usize::MAX)).await?
            }
            _ => 0,
        };
        Ok(Explanation::of(&notice, &ExplainContext { now, definition, ahead, nodes, send_limits, sending }))
    }

    /// Returns the sweepers that run, by the id of their node. One that ended without a shutdown is listed for two beats, ten
    /// seconds, after its last one.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn nodes(&self) -> Result<Vec<SeenNode>> {
        Ok(self.stores().browse.nodes(NODE_RUNS).await?)
    }
}

/// Returns a reason as it is stored.
pub(super) fn cut(reason: &str) -> String {
    clean_text(reason, REASON_LIMIT)
}

/// Returns whether the notices of a definition are passed on to targets.
fn has_targets(definitions: &[InForce], def_id: i64) -> bool {
    definitions.iter().any(|target| target.parent() == Some(def_id))
}
