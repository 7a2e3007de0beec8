//! What differs between the dialects, as pieces of SQL: one function for each difference, with the reason beside it. Differences that one
//! topic alone has stand with it: `add/statements.rs`, `operate/pieces.rs`.
//!
//! The statements themselves stand with their topics, each written once.

use solid_notify_core::notice::NEVER;

use Kind::{MySql, Postgres, Sqlite};

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

/// The type of a column of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ty {
    Int,
    Text,
    /// A name or a key: compared byte by byte.
    Key,
}

/// How rows of a batch are found in a table: the index, and the condition that it serves.
const BY_ID: [&str; 2] = ["PRIMARY", "m.id = b.notice_id"];

impl Kind {
    /// The current time of a statement: the hand-turned clock in `$1`, else the database's clock.
    ///
    /// Postgres: `statement_timestamp()`, because `now()` is the start of the transaction (a delay would count
    /// from there) and `clock_timestamp()` is volatile, so no index could be searched with it.
    /// MySQL: `UTC_TIMESTAMP(6)`, because `CURRENT_TIMESTAMP` is in the session's time zone.
    pub(crate) fn now(self) -> String {
        format!("coalesce({}, {})", self.epoch_time("$1"), self.database_now())
    }

    pub(crate) fn database_now(self) -> &'static str {
        match self {
            Postgres => "statement_timestamp()",
            MySql => "UTC_TIMESTAMP(6)",
            Sqlite => "strftime('%Y-%m-%d %H:%M:%f', 'now')",
        }
    }

    /// Milliseconds since 1970 as a stored time.
    pub(crate) fn epoch_time(self, ms: &str) -> String {
        match self {
            Postgres => format!("('epoch'::timestamptz + {ms}::bigint * interval '1 millisecond')"),
            MySql => format!("TIMESTAMPADD(MICROSECOND, {ms} * 1000, TIMESTAMP'1970-01-01 00:00:00')"),
            Sqlite => format!("strftime('%Y-%m-%d %H:%M:%f', {ms} / 1000.0, 'unixepoch')"),
        }
    }

    /// A stored time as milliseconds since 1970, so that no driver's time type is needed. It fails for no time that can be
    /// stored; a time that MySQL (`0000-00-00`) or SQLite (any text) cannot read is null.
    pub(crate) fn epoch(self, time: &str) -> String {
        match self {
            // An infinite time has no number: it becomes the year 1970 or NEVER. (`extract` computes slowly, with decimals.)
            Postgres => format!(
                "CASE WHEN isfinite({time}) THEN (date_part('epoch', {time}) * 1000)::bigint
                 WHEN {time} < 'epoch'::timestamptz THEN 0 WHEN {time} > 'epoch'::timestamptz THEN {NEVER} END"
            ),
            MySql => format!("TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', {time}) DIV 1000"),
            Sqlite => format!("CAST(round(unixepoch({time}, 'subsec') * 1000) AS integer)"),
        }
    }

    /// A stored time as [`crate::Dialect::moment`] reads it. On Postgres it is unchanged, because the server would have to
    /// compute a number for each row of a claim.
    pub(crate) fn moment(self, time: &str) -> String {
        if self == Postgres { time.to_owned() } else { self.epoch(time) }
    }

    /// As [`Self::epoch`], rounded down to milliseconds. On MySQL the division does that, and SQLite's times have no microseconds.
    pub(crate) fn epoch_down(self, time: &str) -> String {
        match self {
            Postgres => self.epoch(&format!("date_trunc('milliseconds', {time})")),
            MySql | Sqlite => self.epoch(time),
        }
    }

    /// `time` plus `ms` milliseconds.
    pub(crate) fn plus(self, time: &str, ms: &str) -> String {
        match self {
            Postgres => format!("({time} + {ms} * interval '1 millisecond')"),
            MySql => format!("TIMESTAMPADD(MICROSECOND, {ms} * 1000, {time})"),
            Sqlite => format!("strftime('%Y-%m-%d %H:%M:%f', {time}, printf('%+.3f seconds', ({ms}) / 1000.0))"),
        }
    }

    /// True where a row of `notify_node` was seen within so many milliseconds of now; the same as [`solid_notify_core::store::was_seen`].
    pub(crate) fn was_seen(self, within: &str) -> String {
        let now = self.now();
        let (since, until) = (self.plus(&now, &format!("-{within}")), self.plus(&now, within));
        format!("last_seen > {since} AND last_seen < {until}")
    }

    /// [`NEVER`] as a stored time.
    pub(crate) fn never(self) -> &'static str {
        match self {
            Postgres => "'infinity'::timestamptz",
            MySql => "TIMESTAMP'9999-12-31 00:00:00'",
            Sqlite => "'9999-12-31 00:00:00.000'",
        }
    }

    /// The later one of two times.
    pub(crate) fn later(self, one: &str, other: &str) -> String {
        let function = if self == Sqlite { "max" } else { "greatest" };
        format!("{function}({one}, {other})")
    }

    /// A parameter or column as the value of a JSON column. Postgres needs the cast; the others store JSON as text.
    pub(crate) fn to_json(self, value: &str) -> String {
        match self {
            Postgres => format!("{value}::json"),
            MySql | Sqlite => value.to_owned(),
        }
    }

    /// Locks the rows of `m` and skips rows that other sessions lock. SQLite has one writer, so it needs no row locks. Postgres
    /// and MySQL need `OF`, because rows of a function or of a JSON table cannot be locked. MariaDB does not know `OF` and skips
    /// the comment, which only MySQL reads.
    pub(crate) fn lock(self) -> &'static str {
        match self {
            Postgres => " FOR UPDATE OF m SKIP LOCKED",
            MySql => " FOR UPDATE /*!80000 OF m */ SKIP LOCKED",
            Sqlite => "",
        }
    }

    /// True where a writer locks the whole file and not rows. Then each conflict is a lock that another writer holds.
    pub(crate) fn locks_file(self) -> bool {
        self == Sqlite
    }

    /// Locks one row. Waits for other sessions.
    pub(crate) fn lock_wait(self) -> &'static str {
        match self {
            Postgres | MySql => " FOR UPDATE",
            Sqlite => "",
        }
    }

    /// Locks one row, or returns none where another session has locked it.
    pub(crate) fn lock_if_free(self) -> &'static str {
        match self {
            Postgres | MySql => " FOR UPDATE SKIP LOCKED",
            Sqlite => "",
        }
    }

    /// Locks one row, or fails with a conflict where another session has locked it.
    pub(crate) fn lock_now(self) -> &'static str {
        match self {
            Postgres | MySql => " FOR UPDATE NOWAIT",
            Sqlite => "",
        }
    }

    /// A condition that is always true and limits the statement's wait for locks to 20 ms. Then the statement fails with a
    /// conflict and has changed nothing. Not a session setting: behind a pooler other clients share it. `None`: not supported.
    pub(crate) fn wait_briefly(self) -> Option<&'static str> {
        (self == Postgres).then_some("(SELECT set_config('lock_timeout', '20ms', true)) IS NOT NULL")
    }

    /// A batch as a table: one parameter holds a JSON array of objects, so that the statement's text is constant.
    pub(crate) fn batch(self, parameter: &str, columns: &[(&str, Ty)]) -> String {
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
                        // The tables' collation; otherwise the comparison would follow the rules of neither side.
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

    /// A FROM and a WHERE: the rows `m` of a table that are in a batch and meet a condition, optionally locked.
    pub(crate) fn batch_rows(self, batch: &str, table: &str, condition: &str, lock: &str) -> String {
        self.rows_by(batch, table, BY_ID, condition, lock)
    }

    /// As [`Self::batch_rows`], by another index than the primary key's; `by` names it and the condition that it serves.
    ///
    /// On Postgres the planner reads the batch first, because it cannot flatten a subquery that has OFFSET or a lock.
    pub(crate) fn rows_by(self, batch: &str, table: &str, by: [&str; 2], condition: &str, lock: &str) -> String {
        let not_flat = if lock.is_empty() { " OFFSET 0" } else { lock };
        match self {
            Postgres => format!(
                "FROM {batch} CROSS JOIN LATERAL (SELECT m.* FROM {table} m WHERE {} AND {condition}{not_flat}) AS m",
                by[1]
            ),
            MySql | Sqlite => format!("FROM {} WHERE {condition}{lock}", self.join_by(batch, table, by)),
        }
    }

    /// The condition that a number is in a list, which is one parameter ([`crate::dialect::statement::Arg::Ids`]). On MySQL the list is in the
    /// text: with a JSON table an update reads its rows twice, and reading it was a seventh of the server's cost for a sweeper.
    pub(crate) fn listed(self, column: &str, parameter: &str) -> String {
        match self {
            Postgres => format!("{column} = ANY ({parameter}::text::bigint[])"),
            MySql => format!("{column} IN ({parameter})"),
            Sqlite => format!("{column} IN (SELECT value FROM json_each({parameter}))"),
        }
    }

    /// A FROM and a WHERE: the rows `m` of a table whose ids are listed and that meet a condition, optionally locked.
    pub(crate) fn listed_rows(self, ids: &str, table: &str, condition: &str, lock: &str) -> String {
        let listed = self.listed("m.id", ids);
        format!("FROM {table} AS m{} WHERE {listed} AND {condition}{lock}", self.by_index("PRIMARY"))
    }

    /// The condition that `id` is in the result of a query, written so that Postgres searches its index for each id.
    pub(crate) fn id_in(self, id: &str, query: &str) -> String {
        match self {
            Postgres => format!("{id} = ANY (ARRAY({query}))"),
            MySql | Sqlite => format!("{id} IN ({query})"),
        }
    }

    /// Joins `m` to a batch and reads the batch first. MySQL's optimizer must not choose the other order, nor scan a small table
    /// row by row: it would lock rows that are not in the batch, and wait for them.
    fn join_by(self, batch: &str, table: &str, [index, on]: [&str; 2]) -> String {
        format!("{batch} {} {table} m{} ON {on}", self.join_in_order(), self.by_index(index))
    }

    /// A join whose left side is read first, where the optimizer needs a hint.
    pub(crate) fn join_in_order(self) -> &'static str {
        match self {
            Postgres => "JOIN",
            MySql => "STRAIGHT_JOIN",
            Sqlite => "CROSS JOIN",
        }
    }

    /// Reads a table by one index. MySQL's optimizer must not choose: with the statistics of a table that fills and empties
    /// it would read a whole queue slice for one notice of a key, or the whole index of prepared statements.
    pub(crate) fn by_index(self, index: &str) -> String {
        if self == MySql { format!(" FORCE INDEX ({index})") } else { String::new() }
    }

    /// Reads notices by their queue slice.
    pub(crate) fn by_slice(self) -> String {
        self.by_index("notify_msg_due")
    }

    /// The order of the queue slice's index, for a look at one slice. MySQL needs all its columns: ordered by the time alone, it
    /// reads and sorts the whole slice where the statistics show a small table (42,819 entries for 2 slices of 100,000 notices).
    pub(crate) fn order_of_slice(self) -> &'static str {
        if self == MySql { "m.def_id, m.status, m.next_call_time" } else { "m.next_call_time" }
    }

    /// The sort order of the notices `o` of an ordering key.
    pub(crate) fn place(self) -> &'static str {
        match self {
            Postgres | Sqlite => "(CASE WHEN o.status IN (4, 5) THEN 0 ELSE o.id END)",
            MySql => "o.id",
        }
    }

    /// Updates the rows of `table` that are in a batch. `set` names the table's columns without an alias.
    pub(crate) fn batch_update(self, batch: &str, table: &str, set: &str, and: &str) -> String {
        match self {
            Postgres | Sqlite => {
                let ids = self.id_in("m.id", &format!("SELECT b.notice_id FROM {batch}"));
                format!("UPDATE {table} AS m SET {set} FROM {batch} WHERE m.id = b.notice_id AND {ids}{and}")
            }
            MySql => format!("UPDATE {} SET {set} WHERE true{and}", self.join_by(batch, table, BY_ID)),
        }
    }

    /// True where any session may insert rows that later statements refuse to change or to copy (`check_constraint_checks`, `sql_mode`).
    pub(crate) fn has_lax_sessions(self) -> bool {
        self == MySql
    }

    /// True where `UPDATE … RETURNING` exists, so that one statement claims. MySQL and MariaDB need two, in a transaction.
    pub(crate) fn update_returns(self) -> bool {
        self != MySql
    }

    /// True where an insert may read `notify_def` without locking it. InnoDB locks what an `INSERT … SELECT` reads, so
    /// an operator's edit would wait for every open business transaction.
    pub(crate) fn insert_reads_freely(self) -> bool {
        self != MySql
    }

    /// A query that returns 1 where the session sees the table `notify_schema`, else 0.
    pub(crate) fn has_bookkeeping(self) -> &'static str {
        match self {
            Postgres => "SELECT CASE WHEN to_regclass('notify_schema') IS NULL THEN 0 ELSE 1 END",
            MySql => {
                "SELECT count(*) FROM information_schema.tables WHERE table_schema = database() AND table_name = 'notify_schema'"
            }
            Sqlite => "SELECT count(*) FROM sqlite_master WHERE name = 'notify_schema'",
        }
    }

    /// Inserts a row unless a row with its key exists.
    pub(crate) fn insert_unless_there(self, into: &str) -> String {
        match self {
            Postgres | Sqlite => format!("INSERT {into} ON CONFLICT DO NOTHING"),
            MySql => format!("INSERT IGNORE {into}"),
        }
    }
}
