//! Lists and counts for people: several queue slices merged by time.

use std::fmt;

use serde::Serialize;

use super::filter::Filter;
use super::part::Part;
use crate::add::nearest_name;
use crate::definition::NotifyDef;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::notice::Status;
use crate::outbox::AnyOutbox;
use crate::store::Listed;
use crate::store::Position;

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Page {
    /// The notices: ended ones the latest first, live ones the soonest due first.
    pub notices: Vec<Listed>,
    /// Where the next page begins; `None`: this is the last page.
    pub next: Option<Position>,
}

/// A count up to a bound, because counting a million notices takes long and the exact number is rarely needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counted {
    /// The counted number.
    pub count: u64,
    /// True if there are more.
    pub more: bool,
}

impl Counted {
    /// The bound for each class of each definition.
    pub const BOUND: usize = 10_000;

    pub(super) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.more |= other.more;
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.count, if self.more { "+" } else { "" })
    }
}

/// How many notices of a definition and state there are, dead letters by class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ClassCount {
    /// The id of the definition.
    pub def_id: i64,
    /// Its name.
    pub definition: String,
    /// The state.
    pub status: Status,
    /// The class, for dead letters ([`super::NO_CLASS`]: without one); `None` where a filter selects a group.
    pub class: Option<String>,
    /// How many.
    pub count: Counted,
}

/// The longest page.
pub(super) const LONGEST_PAGE: usize = 500;

/// Returns the definitions that a filter selects, as they are in force: a target inherits the mask of its definition.
pub(super) async fn definitions_of(outbox: &AnyOutbox, filter: &Filter) -> Result<Vec<NotifyDef>> {
    let mut all: Vec<NotifyDef> = outbox.engine().in_force().await?.into_iter().map(|followed| followed.row).collect();
    if let Some(name) = &filter.definition {
        let names: Vec<String> = all.iter().map(|def| def.name.clone()).collect();
        all.retain(|def| def.name == *name);
        if all.is_empty() {
            let nearest = nearest_name(name, names.iter().map(String::as_str));
            return Err(Error::UnknownDefinition { name: name.clone(), nearest });
        }
    }
    Ok(all)
}

pub(super) fn parts_of(definitions: &[NotifyDef], filter: &Filter, newest_first: bool) -> Vec<Part> {
    let part = |def, status: &Status| Part::of(def, *status, filter, newest_first);
    definitions.iter().flat_map(|def| filter.statuses.iter().map(move |status| part(def, status))).collect()
}

/// Reads a queue slice in parts.
struct Reader {
    part: Part,
    /// The notices that were read and not yet returned, the next one last.
    ahead: Vec<Listed>,
}

/// Returns the first `limit` notices after `after` of all queue slices. Reads each only as far as necessary.
pub(super) async fn merged(engine: &Engine, parts: Vec<Part>, after: Option<Position>, limit: usize) -> Result<Page> {
    let limit = limit.clamp(1, LONGEST_PAGE);
    // One more notice shows whether there is another page.
    let wanted = limit + 1;
    let share = if parts.len() <= 1 { wanted } else { (wanted / parts.len() + 2).min(wanted) };
    let newest_first = parts.first().is_some_and(|part| part.slice.newest_first);
    let reader = |mut part: Part| {
        part.slice.after.clone_from(&after);
        Reader { part, ahead: Vec::new() }
    };
    let mut readers: Vec<Reader> = parts.into_iter().map(reader).collect();
    let mut notices: Vec<Listed> = Vec::new();
    while notices.len() < wanted {
        for reader in readers.iter_mut().filter(|reader| reader.ahead.is_empty()) {
            reader.ahead = reader.part.next(engine, share).await?;
            reader.ahead.reverse();
        }
        let heads = readers.iter_mut().filter(|reader| !reader.ahead.is_empty());
        let position = |reader: &Reader| reader.ahead.last().map(|notice| notice.position.clone());
        let next = if newest_first { heads.max_by_key(|it| position(it)) } else { heads.min_by_key(|it| position(it)) };
        match next.and_then(|reader| reader.ahead.pop()) {
            Some(notice) => notices.push(notice),
            None => break,
        }
    }
    let more = notices.len() > limit;
    notices.truncate(limit);
    let next = notices.last().filter(|_| more).map(|last| last.position.clone());
    Ok(Page { notices, next })
}

/// Counts notices per definition and state, dead letters per class.
pub(super) async fn counts(engine: &Engine, definitions: &[NotifyDef], filter: &Filter) -> Result<Vec<ClassCount>> {
    let mut parts = parts_of(definitions, filter, false);
    if filter.class.is_none() && filter.group.is_none() && filter.statuses.contains(&Status::DeadLetter) {
        let def_ids: Vec<i64> = definitions.iter().map(|def| def.id).collect();
        let classes = engine.stores().browse.classes(&def_ids).await?;
        let (dead, others): (Vec<Part>, Vec<Part>) =
            parts.into_iter().partition(|part| part.slice.status == Status::DeadLetter);
        let by_class = dead.into_iter().flat_map(|part| {
            let own = classes.iter().filter(|(def_id, _)| *def_id == part.slice.def_id);
            own.map(|(_, class)| part.of_class(class.clone())).collect::<Vec<_>>()
        });
        parts = by_class.chain(others).collect();
    }
    let mut counts = Vec::new();
    for part in parts {
        let (def_id, status, class) = (part.slice.def_id, part.slice.status, part.slice.class.clone());
        let definition = part.definition.clone();
        let found = part.count(engine, Counted::BOUND + 1).await?;
        if found == 0 {
            continue;
        }
        let count = Counted { count: found.min(Counted::BOUND) as u64, more: found > Counted::BOUND };
        counts.push(ClassCount { def_id, definition, status, class, count });
    }
    Ok(counts)
}
