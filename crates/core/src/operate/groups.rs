//! [`ErrorGroup`]: dead letters with the same definition, class and message.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::filter::{Filter, NO_CLASS};
use super::listing::{definitions_of, parts_of};
use super::operator::Operator;
use crate::definition::{MASKED, NotifyDef};
use crate::error::{Error, Result};
use crate::error_group::{group_message, message_to_group};
use crate::notice::{Status, last_record};
use crate::store::StoredGroup;

/// The most groups that one call returns, and that it reads of one definition.
const MOST: usize = 500;

/// Dead letters of one definition and class whose last errors have the same message, except for numbers, ids and quoted text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ErrorGroup {
    /// The number of the group, for [`Filter::group`]; in JSON a text, because it has up to 64 bits.
    #[serde(serialize_with = "crate::json::text")]
    pub group: i64,
    /// The id of the definition.
    pub def_id: i64,
    /// Its name.
    pub definition: String,
    /// The class ([`NO_CLASS`]: without one).
    pub class: String,
    /// The message, as [`group_message`] returns it.
    pub message: String,
    /// The number of dead letters.
    pub count: u64,
    /// When the first of them ended.
    pub first: DateTime<Utc>,
    /// When the last of them ended.
    pub last: DateTime<Utc>,
    /// The id of one of them.
    pub example: i64,
}

impl Operator {
    /// Returns the groups of the dead letters that `filter` selects, the largest first, at most 500. It reads an index entry of
    /// each of these dead letters.
    ///
    /// ```
    /// use solid_notify_core::operate::{Filter, Rate};
    ///
    /// # async fn example(outbox: solid_notify_core::AnyOutbox) -> Result<(), Box<dyn std::error::Error>> {
    /// let alice = outbox.operator("alice");
    /// for group in alice.groups(&Filter::dead_letters().definition("sync_to_omp")).await? {
    ///     println!("{} times {}: {}", group.count, group.class, group.message);
    ///     if group.message.starts_with("HTTP status") {
    ///         alice.retry_all(&Filter::dead_letters().group(group.group), Rate::AT_ONCE).await?;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Self::list`]; [`Error::Invalid`] for other statuses than dead letter, and for a filter by more than definition and time.
    pub async fn groups(&self, filter: &Filter) -> Result<Vec<ErrorGroup>> {
        filter.check(&[Status::DeadLetter], "only dead letters have groups")?;
        if filter.class.is_some() || filter.group.is_some() || !filter.only.selects_all() {
            let problem = "groups are selected by definition and time; each has its class".to_owned();
            return Err(Error::Invalid { what: "filter", problem });
        }
        let definitions = definitions_of(&self.outbox, filter).await?;
        let mut found = Vec::new();
        for slice in parts_of(&definitions, filter, false).into_iter().map(|part| part.slice) {
            let Some(row) = definitions.iter().find(|row| row.id == slice.def_id) else { continue };
            found.extend(self.stores().browse.groups(&slice, MOST).await?.into_iter().map(|stored| (row, stored)));
        }
        found.sort_by_key(|(row, stored)| (std::cmp::Reverse(stored.count), row.id, stored.group));
        found.truncate(MOST);
        let mut groups = Vec::with_capacity(found.len());
        for (row, stored) in found {
            groups.push(self.shown(row, stored).await?);
        }
        Ok(groups)
    }

    /// Returns a group as people see it: where the definition has a mask, by the mask as it is now.
    async fn shown(&self, row: &NotifyDef, stored: StoredGroup) -> Result<ErrorGroup> {
        let masked = match &row.mask {
            // By the row that is already read: the definitions are not read once more for each group.
            Some(_) => match self.outbox.find(stored.example).await? {
                Some(record) => Some(self.outbox.engine().for_people(record, Some(row)).await),
                None => None,
            },
            None => None,
        };
        let message = match &masked {
            Some(record) => message_to_group(record.errors.last(), record.end_reason.as_deref()).to_owned(),
            // The example was purged meanwhile.
            None if row.mask.is_some() => MASKED.to_owned(),
            None => {
                let last = last_record(stored.errors.as_deref());
                message_to_group(last.as_ref(), stored.end_reason.as_deref()).to_owned()
            }
        };
        Ok(ErrorGroup {
            group: stored.group,
            def_id: row.id,
            definition: row.name.clone(),
            class: stored.class.filter(|class| !class.is_empty()).unwrap_or_else(|| NO_CLASS.to_owned()),
            message: group_message(&message),
            count: stored.count,
            first: stored.first,
            last: stored.last,
            example: stored.example,
        })
    }
}
