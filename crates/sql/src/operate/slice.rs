//! The SQL of a queue slice: its rows in the order of an index, a page of them, and their number.

use solid_notify_core::notice::{OwnLimits, Status, time_from_millis};
use solid_notify_core::store::{Listed, Position};

use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{columns, required};
use crate::record::DUE;

columns! {
    /// A line of a list. An unreadable time counts as 1970; the position keeps its text as the index has it.
    Line(kind: Kind, slice: &Slice):
    id = "m.id";
    def_id = "m.def_id";
    status = "m.status";
    fence = "m.fence";
    failures = "m.failures";
    crashes = "m.crashes";
    last_class = "m.last_class";
    description = "substr(m.description, 1, 200)";
    create_time = kind.epoch("m.create_time");
    time = kind.epoch(slice.shown);
    position = kind.time_text(slice.time);
    end_reason = slice.reason;
    ordering_key = "m.ordering_key";
    dedupe_key = "m.dedupe_key";
    tag = "m.tag";
    last_call_time = kind.epoch("m.last_call_time");
    max_tries = "m.max_tries";
    expires_at = kind.epoch("m.expires_at");
}

/// A queue slice: the notices of a definition and status, or class, in the order of an index. `$2` is its definition, `$3` its status,
/// `$4` and `$5` are the first and the last time.
pub(super) struct Slice {
    table: &'static str,
    by_index: String,
    /// True where ids find its notices: then no other column may be looked up in an index.
    by_id: bool,
    /// True where the index has the notices of one time in the order of their ids on each database. An application chooses when live
    /// notices are due, perhaps thousands at one time; few end at one time.
    has_ids: bool,
    /// The condition on its notices.
    which: String,
    time: &'static str,
    /// The displayed time.
    shown: &'static str,
    reason: &'static str,
}

impl Slice {
    /// Ended notices that meet a condition, by an index.
    pub(super) fn ended(kind: Kind, index: &str, which: &str) -> Self {
        Self {
            table: "notify_msg_history",
            by_index: kind.by_index(index),
            by_id: index == "PRIMARY",
            has_ids: false,
            which: which.to_owned(),
            time: "m.finish_time",
            shown: "m.finish_time",
            reason: "substr(m.end_reason, 1, 500)",
        }
    }

    /// Live notices that meet a condition, by an index.
    pub(super) fn live(kind: Kind, index: &str, which: &str) -> Self {
        Self {
            table: "notify_msg",
            by_index: kind.by_index(index),
            by_id: index == "PRIMARY",
            has_ids: index == "notify_msg_due",
            which: which.to_owned(),
            time: "m.next_call_time",
            shown: DUE,
            reason: "NULL",
        }
    }

    /// A page of at most `limit` notices: newest first before the position `$5` and `id`, or oldest first after `$4` and `id`.
    pub(super) fn page(&self, kind: Kind, newest_first: bool, id: &str, limit: &str) -> String {
        self.selected(kind, &Line::list(kind, self), newest_first, id, limit)
    }

    /// The ids of such a page.
    pub(super) fn page_of_ids(&self, kind: Kind, newest_first: bool, id: &str, limit: &str) -> String {
        self.selected(kind, "m.id AS notice_id", newest_first, id, limit)
    }

    fn selected(&self, kind: Kind, columns: &str, newest_first: bool, id: &str, limit: &str) -> String {
        let (time, from, until) = (self.time, kind.text_time("$4"), kind.text_time("$5"));
        let (sorted, beyond, place, end) = match newest_first {
            true => (" DESC", "<", &until, format!("{time} >= {from}")),
            false => ("", ">", &from, format!("{time} <= {until}")),
        };
        let rows = match self.has_ids {
            // Without the condition on the other end: SQLite would search by the weaker one.
            true => {
                let rows = format!("FROM {} WHERE {} AND {end}", self.from(), self.of_slice());
                kind.first_beyond(&rows, time, beyond, [place, id], limit)
            }
            false => {
                let behind = format!("({time} {beyond} {place} OR m.id {beyond} {id})");
                let rows = format!("FROM {} WHERE {} AND {behind}", self.from(), self.within(kind));
                kind.first_by(&rows, &format!("{time}{sorted}"), limit)
            }
        };
        let own_id = if self.has_ids { kind.indexed_id() } else { "m.id" };
        format!(
            "SELECT {columns}
             {rows}
             ORDER BY {time}{sorted}, {own_id}{sorted}
             LIMIT {limit}"
        )
    }

    /// The lines of the notices whose ids a query returns as `notice_id`.
    pub(super) fn lines_of(&self, kind: Kind, ids: &str, newest_first: bool) -> String {
        let (time, order) = (self.time, if newest_first { " DESC" } else { "" });
        format!(
            "SELECT {columns}
             {rows}
             ORDER BY {time}{order}, m.id{order}",
            columns = Line::list(kind, self),
            rows = kind.batch_rows(&format!("({ids}) AS b"), self.table, "true", "")
        )
    }

    /// A row for each of its notices, at most `limit`.
    pub(super) fn rows(&self, kind: Kind, limit: &str) -> String {
        format!("SELECT 1 AS one FROM {} WHERE {} LIMIT {limit}", self.from(), self.within(kind))
    }

    fn from(&self) -> String {
        format!("{} m{}", self.table, self.by_index)
    }

    fn of_slice(&self) -> String {
        let owner = if self.by_id { "m.def_id + 0" } else { "m.def_id" };
        format!("{owner} = $2 AND {}", self.which)
    }

    fn within(&self, kind: Kind) -> String {
        let time = if self.by_id { kind.time_without_index(self.time) } else { self.time.to_owned() };
        format!("{} AND {time} >= {} AND {time} <= {}", self.of_slice(), kind.text_time("$4"), kind.text_time("$5"))
    }
}

pub(super) fn read<DB: Dialect>(row: &DB::Row) -> sqlx::Result<Listed> {
    const AT: Line = Line::AT;
    let code = required::<DB>(row, AT.status)?;
    let status = Status::from_code(code).ok_or_else(|| sqlx::Error::Decode(format!("unknown status {code}").into()))?;
    let (id, def_id) = (required::<DB>(row, AT.id)?, required::<DB>(row, AT.def_id)?);
    let time = |column| Ok::<_, sqlx::Error>(time_from_millis(DB::int(row, column)?.unwrap_or(0)));
    let position = Position::new(DB::text(row, AT.position)?.unwrap_or_default(), id);
    let mut listed = Listed::new(id, def_id, status, time(AT.create_time)?, time(AT.time)?, position);
    listed.fence = required::<DB>(row, AT.fence)?;
    listed.failures = required::<DB>(row, AT.failures)?;
    listed.crashes = required::<DB>(row, AT.crashes)?;
    listed.last_class = DB::text(row, AT.last_class)?;
    listed.description = DB::text(row, AT.description)?;
    listed.end_reason = DB::text(row, AT.end_reason)?;
    listed.ordering_key = DB::text(row, AT.ordering_key)?;
    listed.dedupe_key = DB::text(row, AT.dedupe_key)?;
    listed.tag = DB::text(row, AT.tag)?;
    listed.last_call_time = DB::int(row, AT.last_call_time)?.map(time_from_millis);
    listed.own = OwnLimits::new(DB::int(row, AT.max_tries)?, DB::int(row, AT.expires_at)?.map(time_from_millis));
    Ok(listed.with_progress())
}
