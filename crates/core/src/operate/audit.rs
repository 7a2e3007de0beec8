//! [`Operator::audit`]: who did what, page by page.

use chrono::{DateTime, Utc};

use super::definitions::DefRef;
use super::listing::LONGEST_PAGE;
use super::operator::Operator;
use crate::error::Result;
use crate::store::{AuditEntry, AuditQuery, Position};

/// Selects entries of the audit; all conditions apply together. An index finds those of a definition, a notice, an operator, an
/// act, and a time.
///
/// ```
/// # async fn example(outbox: solid_notify_core::AnyOutbox, id: i64) -> Result<(), Box<dyn std::error::Error>> {
/// use solid_notify_core::operate::AuditFilter;
///
/// let auditor = outbox.operator("auditor");
/// let retries = AuditFilter::all().definition("sync_to_omp").act("retry");
/// let mut page = auditor.audit(&retries, None, 100).await?;
/// while let Some(next) = page.next {
///     page = auditor.audit(&retries, Some(next), 100).await?;
/// }
/// // All that people did to one notice, also by bulk verbs.
/// let timeline = auditor.audit(&AuditFilter::all().notice(id), None, 100).await?;
/// # drop(timeline);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    definition: Option<DefRef>,
    /// Everything else; the id of the definition and the position are set when it is asked.
    query: AuditQuery,
}

impl AuditFilter {
    /// Selects all entries.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only about this definition, or its notices. By its id, also if its row is gone.
    #[must_use]
    pub fn definition(mut self, definition: impl Into<DefRef>) -> Self {
        self.definition = Some(definition.into());
        self
    }

    /// Only about this notice, also in a step of a bulk verb.
    #[must_use]
    pub fn notice(mut self, id: i64) -> Self {
        self.query.notice_id = Some(id);
        self
    }

    /// Only by this operator.
    #[must_use]
    pub fn who(mut self, who: impl Into<String>) -> Self {
        self.query.who = Some(who.into());
        self
    }

    /// Only of this act ([`AuditEntry::act`]).
    #[must_use]
    pub fn act(mut self, act: impl Into<String>) -> Self {
        self.query.act = Some(act.into());
        self
    }

    /// Only from this time on.
    #[must_use]
    pub fn from(mut self, time: DateTime<Utc>) -> Self {
        self.query.from = Some(time);
        self
    }

    /// Only up to this time.
    #[must_use]
    pub fn until(mut self, time: DateTime<Utc>) -> Self {
        self.query.until = Some(time);
        self
    }
}

/// A page of the audit.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct AuditPage {
    /// The entries, the latest first.
    pub entries: Vec<AuditEntry>,
    /// Where the next page begins; `None`: this is the last page.
    pub next: Option<Position>,
}

impl Operator {
    /// Returns a page of the audit, at most 500 entries, the latest first. `after` is the [`AuditPage::next`] of the page before.
    ///
    /// # Errors
    /// [`crate::Error::UnknownDefinition`]; those of the store.
    pub async fn audit(&self, filter: &AuditFilter, after: Option<Position>, limit: usize) -> Result<AuditPage> {
        let def_id = match &filter.definition {
            Some(DefRef::Id(id)) => Some(*id),
            Some(name) => Some(self.definition(name.clone()).await?.id),
            None => None,
        };
        let query = AuditQuery { def_id, after, ..filter.query.clone() };
        let limit = limit.clamp(1, LONGEST_PAGE);
        // One more entry shows whether there is another page.
        let mut found = self.stores().browse.audit(&query, limit + 1).await?;
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|(position, _)| position.clone());
        Ok(AuditPage { entries: found.into_iter().map(|(_, entry)| entry).collect(), next })
    }
}
