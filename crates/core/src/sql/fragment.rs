//! What differs between the dialects, as pieces of SQL: one function a difference, and the reason beside it.
//!
//! The statements themselves are in [`super::statements`], each written once.

/// The database family that a statement is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// PostgreSQL 13 or newer.
    Postgres,
    /// MySQL 8 and MariaDB 10.6 or newer.
    MySql,
    /// SQLite 3.42 or newer.
    Sqlite,
}

use Kind::{MySql, Postgres, Sqlite};

/// The type of a column of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ty {
    Int,
    Text,
    /// A name or a key: compared byte by byte.
    Key,
}

/// How the rows of a batch are found in a table: an index, and what is searched in it.
const BY_ID: [&str; 2] = ["PRIMARY", "m.id = b.notice_id"];

impl Kind {
    /// The time that a statement goes by: the hand-turned clock in `$1`, else the database's.
    ///
    /// Postgres: `statement_timestamp()`, since `now()` is the start of the transaction (a delay would be counted
    /// from there) and `clock_timestamp()` is volatile, so no index could be searched with it.
    /// MySQL: `UTC_TIMESTAMP(6)`, since `CURRENT_TIMESTAMP` is in the session's time zone.
    pub(super) fn now(self) -> String {
        format!("coalesce({}, {})", self.epoch_time("$1"), self.database_now())
    }

    pub(super) fn database_now(self) -> &'static str {
        match self {
            Postgres => "statement_timestamp()",
            MySql => "UTC_TIMESTAMP(6)",
            Sqlite => "strftime('%Y-%m-%d %H:%M:%f', 'now')",
        }
    }

    /// Milliseconds since 1970 as a stored time.
    pub(super) fn epoch_time(self, ms: &str) -> String {
        match self {
            Postgres => format!("('epoch'::timestamptz + {ms}::bigint * interval '1 millisecond')"),
            MySql => format!("TIMESTAMPADD(MICROSECOND, {ms} * 1000, TIMESTAMP'1970-01-01 00:00:00')"),
            Sqlite => format!("strftime('%Y-%m-%d %H:%M:%f', {ms} / 1000.0, 'unixepoch')"),
        }
    }

    /// A stored time as milliseconds since 1970, so that no driver's time type is needed. Fails for no time that
    /// people can store; one that MySQL (`0000-00-00`) or SQLite (any text) cannot read is null.
    pub(super) fn epoch(self, time: &str) -> String {
        match self {
            // An infinite time has no number: it becomes the year 1970 or 9999. (`extract` computes with decimals, slowly.)
            Postgres => format!(
                "CASE WHEN isfinite({time}) THEN (date_part('epoch', {time}) * 1000)::bigint
                 WHEN {time} < 'epoch'::timestamptz THEN 0 WHEN {time} > 'epoch'::timestamptz THEN 253402214400000 END"
            ),
            MySql => format!("TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', {time}) DIV 1000"),
            Sqlite => format!("CAST(round(unixepoch({time}, 'subsec') * 1000) AS integer)"),
        }
    }

    /// A stored time as [`super::Dialect::moment`] reads it. On Postgres as it is: a number would have to be computed for each row of a
    /// claim.
    pub(super) fn moment(self, time: &str) -> String {
        if self == Postgres { time.to_owned() } else { self.epoch(time) }
    }

    /// As [`Self::epoch`], a begun millisecond left out.
    pub(super) fn epoch_down(self, time: &str) -> String {
        self.epoch(&self.whole_millis(time, ""))
    }

    /// As [`Self::epoch`], a begun millisecond counted as one.
    pub(super) fn epoch_up(self, time: &str) -> String {
        self.epoch(&self.whole_millis(time, "999"))
    }

    /// `time` and some microseconds more, cut to milliseconds. SQLite's times have no more.
    fn whole_millis(self, time: &str, more: &str) -> String {
        match (self, more) {
            (Postgres, "") => format!("date_trunc('milliseconds', {time})"),
            (Postgres, _) => format!("date_trunc('milliseconds', {time} + interval '{more} microseconds')"),
            // The division of `epoch` cuts.
            (MySql, "") | (Sqlite, _) => time.to_owned(),
            (MySql, _) => format!("({time} + INTERVAL {more} MICROSECOND)"),
        }
    }

    /// `time` and `ms` milliseconds more.
    pub(super) fn plus(self, time: &str, ms: &str) -> String {
        match self {
            Postgres => format!("({time} + {ms} * interval '1 millisecond')"),
            MySql => format!("TIMESTAMPADD(MICROSECOND, {ms} * 1000, {time})"),
            Sqlite => format!("strftime('%Y-%m-%d %H:%M:%f', {time}, printf('%+.3f seconds', ({ms}) / 1000.0))"),
        }
    }

    /// The time of what is waited for without end; see [`super::read::ENDLESS`].
    pub(super) fn endless(self) -> &'static str {
        match self {
            Postgres => "'infinity'::timestamptz",
            MySql => "TIMESTAMP'9999-12-31 00:00:00'",
            Sqlite => "'9999-12-31 00:00:00.000'",
        }
    }

    /// The later one of two times.
    pub(super) fn later(self, one: &str, other: &str) -> String {
        let function = if self == Sqlite { "max" } else { "greatest" };
        format!("{function}({one}, {other})")
    }

    /// A parameter or column that goes into a JSON column. Postgres needs the cast; the others keep JSON as text.
    pub(super) fn to_json(self, value: &str) -> String {
        match self {
            Postgres => format!("{value}::json"),
            MySql | Sqlite => value.to_owned(),
        }
    }

    /// Locks the rows of `m` and passes over those that others lock. SQLite has one writer: nothing to lock.
    /// MariaDB does not know `OF`; Postgres needs it, since a function's rows cannot be locked.
    pub(super) fn lock(self) -> &'static str {
        match self {
            Postgres => " FOR UPDATE OF m SKIP LOCKED",
            MySql => " FOR UPDATE SKIP LOCKED",
            Sqlite => "",
        }
    }

    /// Locks one row and waits for it.
    pub(super) fn lock_wait(self) -> &'static str {
        match self {
            Postgres | MySql => " FOR UPDATE",
            Sqlite => "",
        }
    }

    /// Locks one row, or fails where somebody else has it: a conflict, which passes.
    pub(super) fn lock_now(self) -> &'static str {
        match self {
            Postgres | MySql => " FOR UPDATE NOWAIT",
            Sqlite => "",
        }
    }

    /// A condition that is true, and keeps the statement from waiting long for locks: then it fails, a conflict, and has done
    /// nothing. Not a setting of the session, which others share behind a pooler. None where there is no such thing.
    pub(super) fn wait_briefly(self) -> Option<&'static str> {
        (self == Postgres).then_some("(SELECT set_config('lock_timeout', '20ms', true)) IS NOT NULL")
    }

    /// A batch as a table: one JSON array of objects in one parameter, so that the statement's text is constant.
    pub(super) fn batch(self, parameter: &str, columns: &[(&str, Ty)]) -> String {
        let each = |write: &dyn Fn(&str, Ty) -> String| {
            let columns: Vec<String> = columns.iter().map(|(name, ty)| write(name, *ty)).collect();
            columns.join(", ")
        };
        match self {
            Postgres => {
                let columns = each(&|name, ty| format!("{name} {}", if ty == Ty::Int { "bigint" } else { "text" }));
                format!("json_to_recordset({parameter}::json) AS b({columns})")
            }
            MySql => {
                let columns = each(&|name, ty| {
                    let ty = match ty {
                        Ty::Int => "bigint",
                        Ty::Text => "longtext CHARACTER SET utf8mb4",
                        // As in the tables; else the two would be compared by neither's rules.
                        Ty::Key => {
                            "varchar(200) CHARACTER SET utf8mb4 COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */"
                        }
                    };
                    format!("{name} {ty} PATH '$.{name}'")
                });
                format!("JSON_TABLE({parameter}, '$[*]' COLUMNS ({columns})) AS b")
            }
            Sqlite => {
                let columns = each(&|name, _| format!("value ->> '{name}' AS {name}"));
                format!("(SELECT {columns} FROM json_each({parameter})) AS b")
            }
        }
    }

    /// A FROM and a WHERE: the rows `m` of a table that are in a batch and fulfil a condition, perhaps locked.
    pub(super) fn batch_rows(self, batch: &str, table: &str, condition: &str, lock: &str) -> String {
        self.rows_by(batch, table, BY_ID, condition, lock)
    }

    /// The same by another index than the primary key's, and what is searched in it for each of the batch.
    ///
    /// On Postgres a subquery that cannot be flattened keeps the planner from any other order than the batch first.
    pub(super) fn rows_by(self, batch: &str, table: &str, by: [&str; 2], condition: &str, lock: &str) -> String {
        let fence = if lock.is_empty() { " OFFSET 0" } else { lock };
        match self {
            Postgres => format!(
                "FROM {batch} CROSS JOIN LATERAL (SELECT m.* FROM {table} m WHERE {} AND {condition}{fence}) AS m",
                by[1]
            ),
            MySql | Sqlite => format!("FROM {} WHERE {condition}{lock}", self.join_by(batch, table, by)),
        }
    }

    /// That a number is one of a list, which is one parameter ([`super::run::Arg::Ids`]). On MySQL it stands in the text: a JSON table
    /// makes an update go over its rows twice, and reading it was a seventh of what a sweeper cost the server.
    pub(super) fn listed(self, column: &str, parameter: &str) -> String {
        match self {
            Postgres => format!("{column} = ANY ({parameter}::text::bigint[])"),
            MySql => format!("{column} IN ({parameter})"),
            Sqlite => format!("{column} IN (SELECT value FROM json_each({parameter}))"),
        }
    }

    /// A FROM and a WHERE: the rows `m` of a table whose ids are listed and that fulfil a condition, perhaps locked.
    pub(super) fn listed_rows(self, ids: &str, table: &str, condition: &str, lock: &str) -> String {
        let listed = self.listed("m.id", ids);
        format!("FROM {table} AS m{} WHERE {listed} AND {condition}{lock}", self.by_index("PRIMARY"))
    }

    /// That `id` is one of those that a query gives, so that Postgres searches its index for each.
    pub(super) fn id_in(self, id: &str, query: &str) -> String {
        match self {
            Postgres => format!("{id} = ANY (ARRAY({query}))"),
            MySql | Sqlite => format!("{id} IN ({query})"),
        }
    }

    /// Joins `m` to a batch, the batch first. MySQL's optimizer must not choose the other order, nor may it walk a small table
    /// row by row: it would lock, and wait for, rows that are not in the batch.
    fn join_by(self, batch: &str, table: &str, [index, on]: [&str; 2]) -> String {
        format!("{batch} {} {table} m{} ON {on}", self.join_in_order(), self.by_index(index))
    }

    /// A join whose left side is read first, where the optimizer needs to be told.
    pub(super) fn join_in_order(self) -> &'static str {
        match self {
            Postgres => "JOIN",
            MySql => "STRAIGHT_JOIN",
            Sqlite => "CROSS JOIN",
        }
    }

    /// True where no notice of `m`'s ordering key stands before it and none is under way. Two who claim at the same moment
    /// may both find that; a unique index lets one of them.
    ///
    /// On Postgres and SQLite it is one index over the place that a notice has in its key: 0 for the one under way, else its
    /// id. MySQL allows no generated column of an id, so there it is one index for the order and one for what is under way.
    pub(super) fn its_turn(self) -> String {
        let none = |by: &str, which: &str| {
            format!(
                "NOT EXISTS (SELECT 1 FROM notify_msg o{} WHERE o.def_id = m.def_id AND o.ordering_key = m.ordering_key AND {which})",
                self.by_index(by)
            )
        };
        let free = match self {
            Postgres | Sqlite => none("", &format!("{} < m.id", self.place())),
            MySql => {
                let before = none("notify_msg_order", "o.id < m.id");
                format!("{before} AND {}", none("notify_msg_under_way", "o.under_way = m.ordering_key"))
            }
        };
        format!("(m.ordering_key IS NULL OR {free})")
    }

    /// Reads a table by one index. MySQL's optimizer must not choose: with the statistics of a table that fills and empties
    /// it comes to read a whole lane for one notice of a key, or the whole index of prepared statements.
    pub(super) fn by_index(self, index: &str) -> String {
        if self == MySql { format!(" FORCE INDEX ({index})") } else { String::new() }
    }

    /// Reads notices by their lane.
    pub(super) fn by_lane(self) -> String {
        self.by_index("notify_msg_due")
    }

    /// Begins to look for due notices at a mark (`marks.rs`; null: at the start). Only on Postgres does a look step over what
    /// is gone but not cleared away, as long as a transaction is open anywhere.
    #[allow(clippy::wrong_self_convention)] // It is SQL from a mark on, not something made from one.
    pub(super) fn from_mark(self, mark: &str) -> String {
        match self {
            Postgres => format!(" AND m.next_call_time >= coalesce({}, '-infinity')", self.epoch_time(mark)),
            MySql | Sqlite => String::new(),
        }
    }

    /// Joins the definitions to their marks.
    pub(super) fn join_marks(self, batch: &str) -> String {
        let columns = ["owner", "from_0", "from_2", "from_5", "from_4"].map(|name| (name, Ty::Int));
        match self {
            Postgres => format!(" LEFT JOIN {} ON b.owner = d.id", self.batch(batch, &columns)),
            MySql | Sqlite => String::new(),
        }
    }

    /// By what the notices `o` of an ordering key are sorted.
    pub(super) fn place(self) -> &'static str {
        match self {
            Postgres | Sqlite => "(CASE WHEN o.status IN (4, 5) THEN 0 ELSE o.id END)",
            MySql => "o.id",
        }
    }

    /// Updates the rows of `table` that are in a batch. Assignments name the table's columns bare.
    pub(super) fn batch_update(self, batch: &str, table: &str, set: &str, and: &str) -> String {
        match self {
            Postgres | Sqlite => {
                let ids = self.id_in("m.id", &format!("SELECT b.notice_id FROM {batch}"));
                format!("UPDATE {table} AS m SET {set} FROM {batch} WHERE m.id = b.notice_id AND {ids}{and}")
            }
            MySql => format!("UPDATE {} SET {set} WHERE true{and}", self.join_by(batch, table, BY_ID)),
        }
    }

    /// Deletes the rows of `table` whose ids are listed. On MySQL a join: MariaDB heeds no index that a DELETE from one table
    /// names, and goes over the whole of a small one, where it waits for the rows of others.
    pub(super) fn listed_delete(self, ids: &str, table: &str, and: &str) -> String {
        match self {
            Postgres | Sqlite => format!("DELETE {}", self.listed_rows(ids, table, &format!("true{and}"), "")),
            MySql => {
                let ids = format!("JSON_TABLE('[{ids}]', '$[*]' COLUMNS (notice_id bigint PATH '$')) AS b");
                format!("DELETE m FROM {} WHERE true{and}", self.join_by(&ids, table, BY_ID))
            }
        }
    }

    /// True where `UPDATE … RETURNING` exists, so that a claim is one statement; MySQL and MariaDB need a transaction
    /// of two.
    pub(super) fn update_returns(self) -> bool {
        self != MySql
    }

    /// True where one statement can change several tables, so that a settle is one round trip.
    pub(super) fn settles_at_once(self) -> bool {
        self == Postgres
    }

    /// True where an insert may read `notify_def` without locking it. InnoDB locks what an `INSERT … SELECT` reads, so
    /// that an operator's edit would wait for every open business transaction.
    pub(super) fn insert_reads_freely(self) -> bool {
        self != MySql
    }

    /// Inserts a row unless there is one of its key.
    pub(super) fn insert_unless_there(self, into: &str) -> String {
        match self {
            Postgres | Sqlite => format!("INSERT {into} ON CONFLICT DO NOTHING"),
            MySql => format!("INSERT IGNORE {into}"),
        }
    }
}
