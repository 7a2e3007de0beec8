//! Lists and counts for people: lanes put together in the order of their times.

use std::fmt;

use super::filter::{Filter, Position};
use super::{Lane, Listed, Operate};
use crate::add::nearest_name;
use crate::definition::NotifyDef;
use crate::error::{Error, Result};
use crate::notice::Status;
use crate::outbox::Outbox;

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The notices: ended ones the latest first, live ones the soonest due first.
    pub notices: Vec<Listed>,
    /// What the next page begins behind; none: this was the last.
    pub next: Option<Position>,
}

/// How many, counted up to a bound, since counting a million takes long and nobody reads the digits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// How many were counted.
    pub count: u64,
    /// True where there are more.
    pub more: bool,
}

impl Counted {
    /// Each class of each definition is counted up to this.
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
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassCount {
    /// The id of the definition.
    pub def_id: i64,
    /// Its name.
    pub definition: String,
    /// The state.
    pub status: Status,
    /// The class of dead letters ([`super::NO_CLASS`]: without one).
    pub class: Option<String>,
    /// How many.
    pub count: Counted,
}

/// The longest page.
const LONGEST_PAGE: usize = 500;

/// The definitions that a filter is about.
pub(super) async fn definitions_of(outbox: &Outbox, filter: &Filter) -> Result<Vec<NotifyDef>> {
    let mut all = outbox.store().definitions().await?;
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

pub(super) fn lanes_of(definitions: &[NotifyDef], filter: &Filter, newest_first: bool) -> Vec<Lane> {
    let lane = |def_id: i64, status: Status| Lane {
        def_id,
        status,
        class: filter.class.clone(),
        from: filter.from,
        until: filter.until,
        after: None,
        newest_first,
    };
    definitions.iter().flat_map(|def| filter.statuses.iter().map(move |status| lane(def.id, *status))).collect()
}

/// A lane that is read bit by bit.
struct Reader {
    lane: Lane,
    /// What was read and not taken, the next one last.
    ahead: Vec<Listed>,
    ended: bool,
}

/// The first `limit` notices behind `after` of all lanes, each of which is read only as far as that takes.
pub(super) async fn merged(
    operate: &dyn Operate,
    lanes: Vec<Lane>,
    after: Option<&Position>,
    limit: usize,
) -> Result<Page> {
    let limit = limit.clamp(1, LONGEST_PAGE);
    // One more tells whether there is another page.
    let wanted = limit + 1;
    let share = if lanes.len() <= 1 { wanted } else { (wanted / lanes.len() + 2).min(wanted) };
    let newest_first = lanes.first().is_some_and(|lane| lane.newest_first);
    let reader = |mut lane: Lane| {
        lane.after = after.cloned();
        Reader { lane, ahead: Vec::new(), ended: false }
    };
    let mut readers: Vec<Reader> = lanes.into_iter().map(reader).collect();
    let mut notices: Vec<Listed> = Vec::new();
    while notices.len() < wanted {
        for reader in readers.iter_mut().filter(|reader| reader.ahead.is_empty() && !reader.ended) {
            reader.ahead = operate.list(&reader.lane, share).await?;
            reader.ended = reader.ahead.len() < share;
            if let Some(last) = reader.ahead.last() {
                reader.lane.after = Some(last.position.clone());
            }
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

/// How many there are, per definition and state; dead letters per class.
pub(super) async fn counts(
    operate: &dyn Operate,
    definitions: &[NotifyDef],
    filter: &Filter,
) -> Result<Vec<ClassCount>> {
    let mut lanes = lanes_of(definitions, filter, false);
    if filter.class.is_none() && filter.statuses.contains(&Status::DeadLetter) {
        let def_ids: Vec<i64> = definitions.iter().map(|def| def.id).collect();
        let classes = operate.classes(&def_ids).await?;
        let (dead, others): (Vec<Lane>, Vec<Lane>) =
            lanes.into_iter().partition(|lane| lane.status == Status::DeadLetter);
        let by_class = dead.into_iter().flat_map(|lane| {
            let own = classes.iter().filter(|(def_id, _)| *def_id == lane.def_id);
            own.map(|(_, class)| Lane { class: Some(class.clone()), ..lane.clone() }).collect::<Vec<_>>()
        });
        lanes = by_class.chain(others).collect();
    }
    let mut counts = Vec::new();
    for lane in lanes {
        let found = operate.count(&lane, Counted::BOUND + 1).await?;
        if found == 0 {
            continue;
        }
        let count = Counted { count: found.min(Counted::BOUND) as u64, more: found > Counted::BOUND };
        let definition = definitions.iter().find(|def| def.id == lane.def_id).map(|def| def.name.clone());
        counts.push(ClassCount {
            def_id: lane.def_id,
            definition: definition.unwrap_or_default(),
            status: lane.status,
            class: lane.class,
            count,
        });
    }
    Ok(counts)
}
