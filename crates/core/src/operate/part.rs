//! [`Part`]: a queue slice as people may read it. A search for a text must not show what a mask hides, which stores do not know.

use super::filter::Filter;
use crate::definition::NotifyDef;
use crate::engine::Engine;
use crate::error::Result;
use crate::notice::Status;
use crate::store::{Listed, QueueSlice};

/// A queue slice, which is read once from its beginning to its end.
pub(super) struct Part {
    pub(super) slice: QueueSlice,
    /// The name of its definition.
    pub(super) definition: String,
    /// The row of its definition, if a found text may be one that the row masks.
    masked: Option<NotifyDef>,
    /// How many notices were read.
    read: usize,
    ended: bool,
}

/// How many notices are read at once to count those whose found text is not masked.
const AT_ONCE: usize = 500;

impl Part {
    /// Returns a whole queue slice.
    pub(super) fn whole(row: &NotifyDef, status: Status) -> Self {
        let slice = QueueSlice::of(row.id, status);
        Self { slice, definition: row.name.clone(), masked: None, read: 0, ended: false }
    }

    /// Returns what a filter selects of a queue slice.
    pub(super) fn of(row: &NotifyDef, status: Status, filter: &Filter, newest_first: bool) -> Self {
        let mut part = Self::whole(row, status);
        let Filter { class, group, from, until, only, .. } = filter;
        part.slice = QueueSlice {
            class: class.clone(),
            group: *group,
            from: *from,
            until: *until,
            only: only.clone(),
            newest_first,
            ..part.slice
        };
        if let Some(search) = part.slice.only.text.as_mut().filter(|_| row.parsed_mask().is_some()) {
            search.in_param = false;
            part.masked = Some(row.clone());
        }
        part
    }

    /// Returns the same notices, of this class only.
    pub(super) fn of_class(&self, class: String) -> Self {
        let slice = QueueSlice { class: Some(class), ..self.slice.clone() };
        Self { slice, definition: self.definition.clone(), masked: self.masked.clone(), read: 0, ended: false }
    }

    /// Returns true if the last notice was returned.
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Returns how many notices were read, also those that people may not find.
    pub(super) fn read(&self) -> usize {
        self.read
    }

    /// Returns the next notices.
    pub(super) async fn next(&mut self, engine: &Engine, limit: usize) -> Result<Vec<Listed>> {
        let mut shown = Vec::new();
        while !self.ended && shown.is_empty() {
            shown = self.page(engine, limit).await?;
        }
        Ok(shown)
    }

    /// Reads the next `limit` notices, and returns those that people may find, perhaps none.
    pub(super) async fn page(&mut self, engine: &Engine, limit: usize) -> Result<Vec<Listed>> {
        let page = engine.stores().browse.list(&self.slice, limit).await?;
        self.ended = page.len() < limit;
        self.read += page.len();
        if let Some(last) = page.last() {
            self.slice.after = Some(last.position.clone());
        }
        let mut shown = Vec::new();
        for notice in page {
            if self.shows(engine, notice.id).await? {
                shown.push(notice);
            }
        }
        Ok(shown)
    }

    /// Returns true if people see the text that is searched for in the notice.
    async fn shows(&self, engine: &Engine, id: i64) -> Result<bool> {
        let (Some(row), Some(search)) = (&self.masked, &self.slice.only.text) else { return Ok(true) };
        let Some(notice) = engine.stores().browse.find(id).await? else { return Ok(false) };
        Ok(search.is_in(&engine.for_people(notice, Some(row)).await))
    }

    /// Counts the notices up to `most`.
    pub(super) async fn count(mut self, engine: &Engine, most: usize) -> Result<usize> {
        if self.masked.is_none() {
            return Ok(engine.stores().browse.count(&self.slice, most).await?);
        }
        let mut count = 0;
        while !self.ended && count < most {
            count += self.next(engine, AT_ONCE).await?.len();
        }
        Ok(count.min(most))
    }
}
