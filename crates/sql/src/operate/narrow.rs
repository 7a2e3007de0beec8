//! Queue slices that are narrowed by ids, a tag, keys or a text ([`solid_notify_core::store::Only`]).
//!
//! A statement has a part for each way to find the ids of such notices, each with its index, and runs only the part that `$7` names. So there is one
//! statement for each table and direction, however many conditions are combined: a part checks all of them, and those that
//! were not given are null.

use solid_notify_core::store::QueueSlice;

use crate::dialect::kind::Kind;
use crate::dialect::statement::{Arg, Statement, statements};
use crate::operate::slice::Slice;

statements! {
    NarrowStatements:
    list_narrow_ended_newest,
    list_narrow_ended_oldest,
    list_narrow_live_newest,
    list_narrow_live_oldest,
    count_narrow_ended,
    count_narrow_live,
}

/// How the notices are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// All notices of the queue slice are read.
    Slice = 1,
    Class,
    Ids,
    Tag,
    OrderingKey,
    DedupeKey,
    Group,
}

impl NarrowStatements {
    fn new(kind: Kind) -> Self {
        let (ended, live) = (ended(kind), live(kind));
        let (of_ended, of_live) = (Slice::ended(kind, "PRIMARY", "true"), Slice::live(kind, "PRIMARY", "true"));
        let page = |of: &Slice, slices: &[Slice], newest_first| {
            let parts = slices.iter().map(|slice| slice.page_of_ids(kind, newest_first, "$16", "$6"));
            Statement::new(kind, &of.lines_of(kind, &kind.one_of(parts), newest_first))
        };
        let count = |slices: &[Slice]| {
            let parts = slices.iter().map(|slice| slice.rows(kind, "$6"));
            Statement::new(kind, &format!("SELECT count(*) FROM ({}) AS counted", kind.one_of(parts)))
        };
        Self {
            list_narrow_ended_newest: page(&of_ended, &ended, true),
            list_narrow_ended_oldest: page(&of_ended, &ended, false),
            list_narrow_live_newest: page(&of_live, &live, true),
            list_narrow_live_oldest: page(&of_live, &live, false),
            count_narrow_ended: count(&ended),
            count_narrow_live: count(&live),
        }
    }

    /// Returns the statement that lists a page of a queue slice.
    pub(super) fn list(&self, slice: &QueueSlice) -> &Statement {
        match (slice.status.is_final(), slice.newest_first) {
            (true, true) => &self.list_narrow_ended_newest,
            (true, false) => &self.list_narrow_ended_oldest,
            (false, true) => &self.list_narrow_live_newest,
            (false, false) => &self.list_narrow_live_oldest,
        }
    }

    /// Returns the statement that counts the notices of a queue slice.
    pub(super) fn count(&self, slice: &QueueSlice) -> &Statement {
        if slice.status.is_final() { &self.count_narrow_ended } else { &self.count_narrow_live }
    }
}

/// The conditions that apply in each way, where they are given.
const CONDITIONS: &str =
    "($9 IS NULL OR m.tag = $9) AND ($10 IS NULL OR m.ordering_key = $10) AND ($11 IS NULL OR m.dedupe_key = $11)";

/// The ways to ended notices. Of those that do not need the status for their index, `+ 0` keeps it from another one.
fn ended(kind: Kind) -> Vec<Slice> {
    let class = kind.dead_class();
    let error = kind.contains(kind.last_error(), "$13");
    let param = kind.contains(&kind.json_text("m.param"), "$13");
    let all = format!(
        "{CONDITIONS} AND ($12 IS NULL OR {class} = $12) AND ($15 IS NULL OR m.error_group = $15) AND ($13 IS NULL OR {error} OR ($14 = 1 AND {param}))"
    );
    let part = |way: Way, index: &str, found: &str| {
        Slice::ended(kind, index, &format!("$7 = {} AND {found} AND {all}", way as i64))
    };
    vec![
        part(Way::Slice, "notify_msg_history_finished", "m.status = $3"),
        part(Way::Class, "notify_msg_history_dead", &format!("m.status + 0 = $3 AND {class} = $12")),
        part(Way::Ids, "PRIMARY", &format!("m.status + 0 = $3 AND {}", kind.listed("m.id", "$8"))),
        part(Way::Tag, "notify_msg_history_tag", "m.status = $3 AND m.tag = $9"),
        part(Way::OrderingKey, "notify_msg_history_order", "m.status = $3 AND m.ordering_key = $10"),
        part(Way::Group, "notify_msg_history_group", "m.status + 0 = $3 AND m.error_group = $15"),
        part(Way::DedupeKey, "notify_msg_history_dedupe", "m.status = $3 AND m.dedupe_key = $11"),
    ]
}

/// The ways to live notices. A dedupe key that is no longer unique is in no index, because each claim of a notice with a key would have
/// to write an entry; live notices are few. They have no class to filter by, and no text.
fn live(kind: Kind) -> Vec<Slice> {
    let part = |way: Way, index: &str, found: &str| {
        Slice::live(kind, index, &format!("$7 = {} AND {found} AND {CONDITIONS}", way as i64))
    };
    vec![
        part(Way::Slice, "notify_msg_due", "m.status = $3"),
        part(Way::Ids, "PRIMARY", &format!("m.status + 0 = $3 AND {}", kind.listed("m.id", "$8"))),
        part(Way::Tag, "notify_msg_tag", "m.status + 0 = $3 AND m.tag = $9"),
        part(Way::OrderingKey, "notify_msg_order", "m.status + 0 = $3 AND m.ordering_key = $10"),
    ]
}

/// Chooses the way that reads the fewest notices.
fn way(slice: &QueueSlice) -> Way {
    let only = &slice.only;
    if only.ids.is_some() {
        Way::Ids
    } else if only.tag.is_some() {
        Way::Tag
    } else if only.ordering_key.is_some() {
        Way::OrderingKey
    } else if only.dedupe_key.is_some() && slice.status.is_final() {
        Way::DedupeKey
    } else if slice.group.is_some() {
        Way::Group
    } else if slice.class.is_some() {
        Way::Class
    } else {
        Way::Slice
    }
}

/// Returns the arguments of these statements; `bounds` are the first time, the last time, and the limit.
pub(super) fn args<'a>(now: Arg<'a>, slice: &'a QueueSlice, bounds: [Arg<'a>; 3], id: i64) -> [Arg<'a>; 16] {
    let only = &slice.only;
    let [from, until, limit] = bounds;
    [
        now,
        slice.def_id.into(),
        slice.status.code().into(),
        from,
        until,
        limit,
        (way(slice) as i64).into(),
        Arg::Ids(only.ids.as_deref().unwrap_or_default()),
        Arg::Text(only.tag.as_deref()),
        Arg::Text(only.ordering_key.as_deref()),
        Arg::Text(only.dedupe_key.as_deref()),
        Arg::Text(slice.class.as_deref()),
        Arg::Text(only.text.as_ref().map(|search| search.text.as_str())),
        Arg::Int(Some(i64::from(only.text.as_ref().is_some_and(|search| search.in_param)))),
        Arg::Int(slice.group),
        id.into(),
    ]
}
