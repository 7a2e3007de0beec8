//! The statements that insert notices. All others are in [`crate::statements`].

use crate::dialect::kind::{Kind, Ty};
use crate::dialect::statement::Statement;

pub(crate) struct InsertStatements {
    /// A notice with only a parameter, due at once by the database's clock. `$1` is its definition, `$2` its parameter. Most
    /// notices are of this kind, and half of the cost of an insert is the setup of its expressions.
    pub(crate) plain: Statement,
    /// As `plain`, where the definition's id is known: `$1`. It inserts nothing where the server sees no open transaction, or
    /// where the tables are not those in which the id was read.
    pub(crate) known: Statement,
    /// Any notice without a dedupe key: `$2` is its definition.
    pub(crate) one: Statement,
    /// A notice with a dedupe key. Apart from `one`, because a statement with a conflict clause inserts more slowly.
    pub(crate) keyed: Statement,
    /// Many notices, and many of which some have a dedupe key. MySQL would not return the ids, so there `add_many.rs` writes the
    /// values into the text.
    pub(crate) many: Option<Statement>,
    pub(crate) many_keyed: Option<Statement>,
}

/// The columns that an insert sets.
pub(crate) const NEW_COLUMNS: &str = "def_id, param, description, trace_context, ordering_key, dedupe_key, dedupe_until_ended, create_time, next_call_time";

/// A notice to insert, as a row of a batch. `owner` is its definition, `place` its position in the batch.
const NEW: &[(&str, Ty)] = &[
    ("place", Ty::Int),
    ("owner", Ty::Int),
    ("param", Ty::Text),
    ("description", Ty::Text),
    ("trace_context", Ty::Text),
    ("ordering_key", Ty::Key),
    ("dedupe_key", Ty::Key),
    ("until_ended", Ty::Int),
    ("send_at", Ty::Int),
    ("delay", Ty::Int),
];

pub(crate) fn insert_statements(kind: Kind) -> InsertStatements {
    let now = kind.now();
    let statement = |text: String| Statement::new(kind, &text);
    let returning = if kind.update_returns() { " RETURNING id, def_id, dedupe_key" } else { "" };
    // Where it costs no lock, the insert itself checks that the definition exists; else the argument is the definition's id.
    let definition = |argument: &str, tables: &str| {
        if kind.insert_reads_freely() {
            ("d.id".to_owned(), format!("FROM notify_def d WHERE d.name = {argument} AND d.delete_time IS NULL"))
        } else {
            (kind.id_of_these_tables(argument, tables), String::new())
        }
    };
    let insert = |def_id: &str, values: [&str; 8], rest: &str| {
        let [param, description, trace_context, ordering_key, dedupe_key, until_ended, at, delay] = values;
        // Never due before its insert, so that a look need not search before its mark.
        let send_time = kind.later(&format!("coalesce({}, {})", kind.epoch_time(at), kind.plus(&now, delay)), &now);
        statement(format!(
            "INSERT INTO notify_msg ({NEW_COLUMNS}) {} {returning}",
            kind.one_row(
                &format!(
                    "{def_id}, {}, {description}, {trace_context}, {ordering_key}, {dedupe_key}, ({until_ended} = 1), {now}, {send_time}",
                    kind.to_json(param)
                ),
                rest
            )
        ))
    };
    let insert_one = |unless: &str| {
        let (def_id, from) = definition("$2", "$11");
        insert(&def_id, ["$3", "$4", "$5", "$6", "$7", "$8", "$9", "$10"], &format!("{from}{unless}"))
    };
    let insert_many = |unless: &str| {
        if !kind.update_returns() {
            return None;
        }
        let values = [
            "b.param",
            "b.description",
            "b.trace_context",
            "b.ordering_key",
            "b.dedupe_key",
            "b.until_ended",
            "b.send_at",
            "b.delay",
        ];
        // Ids are given in the order of the batch. (`WHERE true`: otherwise SQLite reads ON as a join's.)
        let from = format!("FROM {} WHERE true ORDER BY b.place{unless}", kind.batch("$2", NEW));
        Some(insert("b.owner", values, &from))
    };
    let unless_duplicate = match kind.insert_reads_freely() {
        true => format!(
            " ON CONFLICT (def_id, dedupe_key) WHERE dedupe_key IS NOT NULL AND {} DO NOTHING",
            kind.keeps_its_key("")
        ),
        false => String::new(),
    };
    let (def_id, from) = definition("$1", "$3");
    InsertStatements {
        plain: statement(format!(
            "INSERT INTO notify_msg (def_id, param) {}{returning}",
            kind.one_row(&format!("{def_id}, {}", kind.to_json("$2")), &from)
        )),
        known: statement(kind.insert_known("INSERT INTO notify_msg (def_id, param)")),
        one: insert_one(""),
        keyed: insert_one(&unless_duplicate),
        many: insert_many(""),
        many_keyed: insert_many(&unless_duplicate),
    }
}

impl Kind {
    /// True while the notice `of` (an alias with its dot) keeps its dedupe key: until its first claim, or until it has ended. The
    /// attempt is never reset, so a key that was freed by a claim does not come back with a retry, where another notice could
    /// have it by then.
    pub(crate) fn keeps_its_key(self, of: &str) -> String {
        format!("({of}fence = 0 OR {of}dedupe_until_ended)")
    }

    /// The condition that `m` has a dedupe key. MySQL has no partial indexes: there the indexed column is null without the key.
    pub(crate) fn has_key(self, key: &str) -> String {
        match self {
            Self::Postgres | Self::Sqlite => format!("m.dedupe_key = {key} AND {}", self.keeps_its_key("m.")),
            Self::MySql => format!("m.unique_key = {key}"),
        }
    }

    /// Locks the rows of `m` with a shared lock, so that no claim takes them, and waits for a claim in progress. (On MySQL the
    /// statement must read a column that is in no index, else the row itself is not locked.)
    pub(crate) fn lock_shared(self) -> &'static str {
        match self {
            Self::Postgres => " FOR SHARE OF m",
            Self::MySql => " /*M! LOCK IN SHARE MODE */ /*!80000 FOR SHARE OF m */",
            Self::Sqlite => "",
        }
    }

    /// True where the driver does not report the id of an insert.
    pub(crate) fn insert_returns_its_id(self) -> bool {
        self == Self::Postgres
    }

    /// One row to insert. On MySQL it is VALUES, because `INSERT … SELECT` there stores 0 instead of a null that the column
    /// refuses, unless the session is strict.
    fn one_row(self, values: &str, from: &str) -> String {
        match self {
            Self::MySql => format!("VALUES ({values})"),
            Self::Postgres | Self::Sqlite => format!("SELECT {values} {from}"),
        }
    }

    /// The definition's id if the statement runs in the database in which the id was read (`tables`), else null, which fails the
    /// insert. MySQL runs a prepared statement in the database in which it was prepared, even after a `USE`.
    fn id_of_these_tables(self, id: &str, tables: &str) -> String {
        format!("IF({} = {tables}, {id}, NULL)", self.tables_at_hand())
    }

    /// A value that identifies the tables that the session sees.
    pub(crate) fn tables_at_hand(self) -> &'static str {
        match self {
            // A constant of the plan; Postgres plans again after a change of the search path.
            Self::Postgres => "'notify_msg'::regclass::oid::text",
            Self::MySql => "database()",
            Self::Sqlite => "''",
        }
    }

    /// Inserts a definition's id and a parameter, where a transaction is open and the tables are those in which the id was
    /// read (`$4`): an application may choose a tenant's schema by `SET LOCAL search_path` or `USE`.
    ///
    /// On Postgres, `$3` or the transaction's id shows that it is open; the id exists once something was written. MariaDB reports
    /// an open transaction (without autocommit it may be another one, which began by itself). Where it sees none, a null fails an
    /// insert that would commit by itself. MySQL ignores that comment; there the commit detects it. `INSERT … SELECT … WHERE`
    /// would keep a lock on the ids. On SQLite a COMMIT without a transaction fails by itself.
    pub(crate) fn insert_known(self, insert_into: &str) -> String {
        match self {
            Self::Postgres => format!(
                "{insert_into} SELECT $1, $2::json WHERE ($3 OR pg_current_xact_id_if_assigned() IS NOT NULL) AND {} = $4 RETURNING id",
                self.tables_at_hand()
            ),
            Self::MySql => {
                format!(
                    "{insert_into} VALUES (IF(database() = $4 /*M! AND @@in_transaction AND @@autocommit */, $1, NULL), $2)"
                )
            }
            Self::Sqlite => format!("{insert_into} VALUES ($1, $2)"),
        }
    }

    /// 1 where that insert succeeds only in an open transaction, so that a COMMIT after it commits or fails.
    pub(crate) fn sees_open(self) -> &'static str {
        match self {
            Self::Postgres => "SELECT 1",
            Self::MySql => "SELECT CAST(/*M! 1 + */ 0 AS signed)",
            Self::Sqlite => "SELECT 0",
        }
    }

    /// True where the driver checks that a transaction has begun.
    pub(crate) fn begin_is_seen(self) -> bool {
        self == Self::Postgres
    }

    /// The distance between consecutive ids. On a Galera cluster it is the number of nodes.
    pub(crate) fn id_step(self) -> &'static str {
        match self {
            Self::MySql => "SELECT CAST(@@auto_increment_increment AS signed)",
            Self::Postgres | Self::Sqlite => "SELECT 1",
        }
    }
}
