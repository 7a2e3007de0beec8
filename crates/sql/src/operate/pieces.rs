//! What differs between the dialects in operator calls: times as text, the index of dead letters, ordering keys. Those
//! of several topics are in [`crate::dialect::kind`].

use crate::dialect::kind::Kind;
use crate::dialect::kind::Kind::{MySql, Postgres, Sqlite};

impl Kind {
    /// A stored time as a text that is exact and sorts like the time. It marks where a page of a list ends.
    pub(crate) fn time_text(self, time: &str) -> String {
        match self {
            // Independent of the session's `DateStyle`. An infinite time has no digits.
            Postgres => format!(
                "CASE WHEN isfinite({time}) THEN to_char({time} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') ELSE {time}::text END"
            ),
            MySql => format!("CAST({time} AS char(26))"),
            Sqlite => time.to_owned(),
        }
    }

    /// The text of [`Self::time_text`] as a time.
    pub(crate) fn text_time(self, text: &str) -> String {
        match self {
            Postgres => format!("({text}::timestamp AT TIME ZONE 'UTC')"),
            MySql => format!("CAST({text} AS datetime(6))"),
            Sqlite => text.to_owned(),
        }
    }

    /// A time in the form `2026-11-21 10:42:07.123`, padded to the digits of [`Self::time_text`].
    pub(crate) fn padded_time(self, text: &str) -> String {
        match self {
            Postgres | MySql => format!("{text}000"),
            Sqlite => text.to_owned(),
        }
    }

    /// A text of [`Self::time_text`] that no stored time exceeds, not even [`solid_notify_core::notice::NEVER`].
    pub(crate) fn last_time(self) -> &'static str {
        match self {
            Postgres => "infinity",
            MySql | Sqlite => "9999-12-31 23:59:59.999999",
        }
    }

    /// Whole seconds between two stored times. A division of whole numbers drops the fraction, except on MySQL, which needs DIV.
    pub(crate) fn seconds_between(self, from: &str, to: &str) -> String {
        let divided = if self == MySql { "DIV" } else { "/" };
        format!("(({}) - ({})) {divided} 1000", self.epoch(to), self.epoch(from))
    }

    /// As [`Self::seconds_between`], rounded up.
    pub(crate) fn seconds_between_up(self, from: &str, to: &str) -> String {
        let divided = if self == MySql { "DIV" } else { "/" };
        format!("(({}) - ({}) + 999) {divided} 1000", self.epoch(to), self.epoch(from))
    }

    /// The class of a dead letter, as its index has it. MySQL and SQLite have a column for it: MySQL has no partial index, and
    /// SQLite would prefer a worse index over one on an expression.
    pub(crate) fn dead_class(self) -> &'static str {
        match self {
            Postgres => "(CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END)",
            MySql | Sqlite => "m.dead_class",
        }
    }

    /// The first rows `m` of a queue slice, and all rows of the same time as the last one, so that ids can sort them.
    ///
    /// On MySQL and SQLite each index entry ends with the id, and nothing needs sorting. On Postgres the id would make the indexes
    /// of history larger, and with old statistics the whole queue slice would be sorted for one page.
    pub(crate) fn first_by(self, rows: &str, order: &str, limit: &str) -> String {
        match self {
            Postgres => {
                format!("FROM (SELECT m.* {rows} ORDER BY {order} FETCH FIRST ({limit}) ROWS WITH TIES) AS m")
            }
            MySql | Sqlite => rows.to_owned(),
        }
    }

    /// The first rows `m` beyond a time and id, in the order of an index on both.
    pub(crate) fn first_beyond(self, rows: &str, time: &str, beyond: &str, place: [&str; 2], limit: &str) -> String {
        let [at, id] = place;
        match self {
            Postgres => format!("{rows} AND ({time}, {}) {beyond} ({at}, {id})", self.indexed_id()),
            // MySQL searches no index for a pair, but finds the two ranges.
            MySql => format!("{rows} AND ({time} {beyond} {at} OR {time} = {at} AND m.id {beyond} {id})"),
            // SQLite searches for a pair by its first value alone. It merges two searches in the order of the index.
            Sqlite => {
                let (sorted, column) = (if beyond == "<" { " DESC" } else { "" }, time.trim_start_matches("m."));
                format!(
                    "FROM (SELECT m.* {rows} AND {time} = {at} AND m.id {beyond} {id}
                           UNION ALL
                           SELECT m.* {rows} AND {time} {beyond} {at}
                           ORDER BY {column}{sorted}, id{sorted} LIMIT {limit}) AS m"
                )
            }
        }
    }

    /// The id as the index of due notices has it.
    pub(crate) fn indexed_id(self) -> &'static str {
        if self == Postgres { "m.id + 0" } else { "m.id" }
    }

    /// The rows of several parts of a statement, of which only one runs. SQLite takes no parentheses around a part.
    pub(crate) fn one_of(self, parts: impl Iterator<Item = String>) -> String {
        let part = |text: String| match self {
            Postgres | MySql => format!("({text})"),
            Sqlite => format!("SELECT * FROM ({text})"),
        };
        parts.map(part).collect::<Vec<_>>().join("\n             UNION ALL\n             ")
    }

    /// The message of the last failed attempt of `m`, as in the views. MySQL refuses a path with a negative index.
    pub(crate) fn last_error(self) -> &'static str {
        match self {
            Postgres => "(m.errors -> -1 ->> 'message')",
            MySql => {
                "CASE WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, \
                 CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message'))) END"
            }
            Sqlite => "CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END",
        }
    }

    /// A time that no index has. With the statistics of an empty table, Postgres would search any index for it; MySQL gets the
    /// index by name, and SQLite prefers the ids.
    pub(crate) fn time_without_index(self, time: &str) -> String {
        if self == Postgres { format!("({time} + interval '0')") } else { time.to_owned() }
    }

    /// A JSON column as its text.
    pub(crate) fn json_text(self, column: &'static str) -> String {
        if self == Postgres { format!("{column}::text") } else { column.to_owned() }
    }

    /// The condition that a text contains another one, byte by byte.
    pub(crate) fn contains(self, text: &str, part: &str) -> String {
        match self {
            Postgres => format!("strpos({text}, {part}) > 0"),
            MySql => format!("locate(CAST({part} AS binary), CAST({text} AS binary)) > 0"),
            Sqlite => format!("instr({text}, {part}) > 0"),
        }
    }

    /// The notice in front of the one with the id `$4`, of the definition `$2` and the ordering key `$3`.
    pub(crate) fn ahead(self) -> String {
        let first = |by: &str, which: &str| {
            format!("SELECT o.id FROM notify_msg o{by} WHERE o.def_id = $2 AND {which} LIMIT 1")
        };
        let place = self.place();
        let before = first(
            &self.by_index("notify_msg_order"),
            &format!("o.ordering_key = $3 AND {place} < $4 AND o.id <> $4 ORDER BY {place}"),
        );
        match self {
            Postgres | Sqlite => before,
            MySql => {
                let under_way = first(&self.by_index("notify_msg_under_way"), "o.under_way = $3 AND o.id <> $4");
                format!("({under_way}) UNION ALL ({before})")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use solid_notify_core::notice::rfc3339;
    use solid_notify_core::notice::{LATEST_TIME, NEVER, time_from_millis};

    #[test]
    fn times_of_callers_are_before_never_and_never_is_within_every_list() {
        for kind in [MySql, Sqlite] {
            let text = |ms| kind.padded_time(&rfc3339(time_from_millis(ms)).replace('T', " ").replace('Z', ""));
            assert!(text(LATEST_TIME) < text(NEVER) && text(NEVER).as_str() < kind.last_time());
            let literal = kind.never().trim_start_matches("TIMESTAMP").trim_matches('\'');
            assert!(text(NEVER).starts_with(literal), "{literal} is not {}", text(NEVER));
        }
        assert_eq!((Postgres.never(), Postgres.last_time()), ("'infinity'::timestamptz", "infinity"));
    }
}
