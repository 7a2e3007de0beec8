//! The statements that insert notices. All others are in [`super::statements`].

use super::fragment::{Kind, Ty};
use super::run::Statement;

pub(super) struct InsertStatements {
    /// A notice of which nothing is said but its parameter, due at once by the database's clock: `$1` is its definition,
    /// `$2` its parameter. Most are so, and half of what an insert costs is setting up its expressions.
    pub(super) plain: Statement,
    /// The same where the definition's id is known: `$1`. It inserts nothing where no transaction is seen to be open.
    pub(super) known: Statement,
    /// Any notice without a dedupe key: `$2` is its definition.
    pub(super) one: Statement,
    /// One with a dedupe key: a statement that may meet a conflict inserts more slowly.
    pub(super) keyed: Statement,
    pub(super) many: Statement,
    pub(super) many_keyed: Statement,
}

/// What an insert gives.
pub(super) const NEW_COLUMNS: &str =
    "def_id, param, description, trace_context, ordering_key, dedupe_key, create_time, next_call_time";

/// A notice to be inserted, in a batch. `owner` is its definition, `place` its place in the batch.
const NEW: &[(&str, Ty)] = &[
    ("place", Ty::Int),
    ("owner", Ty::Int),
    ("param", Ty::Text),
    ("description", Ty::Text),
    ("trace_context", Ty::Text),
    ("ordering_key", Ty::Key),
    ("dedupe_key", Ty::Key),
    ("send_at", Ty::Int),
    ("delay", Ty::Int),
];

pub(super) fn insert_statements(kind: Kind) -> InsertStatements {
    let now = kind.now();
    let statement = |text: String| Statement::new(kind, &text);
    let returning = if kind.update_returns() { " RETURNING id, def_id, dedupe_key" } else { "" };
    // The insert itself checks that the definition exists, where that costs no lock; else the argument is its id.
    let definition = |argument: &str| {
        if kind.insert_reads_freely() {
            ("d.id".to_owned(), format!("FROM notify_def d WHERE d.name = {argument} AND d.delete_time IS NULL"))
        } else {
            (argument.to_owned(), String::new())
        }
    };
    let insert = |def_id: &str, values: [&str; 7], rest: &str| {
        let [param, description, trace_context, ordering_key, dedupe_key, at, delay] = values;
        // Nothing is due before it was added: a look need not go back for it.
        let send_time = kind.later(&format!("coalesce({}, {})", kind.epoch_time(at), kind.plus(&now, delay)), &now);
        statement(format!(
            "INSERT INTO notify_msg ({NEW_COLUMNS})
             SELECT {def_id}, {}, {description}, {trace_context}, {ordering_key}, {dedupe_key}, {now}, {send_time}
             {rest}{returning}",
            kind.to_json(param)
        ))
    };
    let insert_one = |unless: &str| {
        let (def_id, from) = definition("$2");
        insert(&def_id, ["$3", "$4", "$5", "$6", "$7", "$8", "$9"], &format!("{from}{unless}"))
    };
    let insert_many = |unless: &str| {
        // MySQL would not return the ids, so `add_many.rs` writes the values into the statement.
        if !kind.update_returns() {
            return statement(String::new());
        }
        let values =
            ["b.param", "b.description", "b.trace_context", "b.ordering_key", "b.dedupe_key", "b.send_at", "b.delay"];
        // Ids are given in the order of the batch. (`WHERE true`: SQLite would take ON for that of a join.)
        let from = format!("FROM {} WHERE true ORDER BY b.place{unless}", kind.batch("$2", NEW));
        insert("b.owner", values, &from)
    };
    let unless_duplicate = match kind.insert_reads_freely() {
        true => " ON CONFLICT (def_id, dedupe_key) WHERE dedupe_key IS NOT NULL DO NOTHING",
        false => "",
    };
    let (def_id, from) = definition("$1");
    InsertStatements {
        plain: statement(format!(
            "INSERT INTO notify_msg (def_id, param) SELECT {def_id}, {} {from}{returning}",
            kind.to_json("$2")
        )),
        known: statement(kind.insert_known("INSERT INTO notify_msg (def_id, param)")),
        one: insert_one(""),
        keyed: insert_one(unless_duplicate),
        many: insert_many(""),
        many_keyed: insert_many(unless_duplicate),
    }
}

impl Kind {
    /// True where the driver does not tell the id that an insert gave.
    pub(super) fn insert_returns_its_id(self) -> bool {
        self == Self::Postgres
    }

    /// Inserts a definition's id and a parameter, where a transaction is seen to be open.
    ///
    /// On Postgres `$3` says so, or the transaction's id: there is one once something was written. MariaDB knows whether there
    /// is a transaction (without autocommit another one may have begun by itself); where it cannot tell, a null fails what
    /// would be committed by itself. MySQL ignores that comment: its commit finds out. `INSERT … SELECT … WHERE` would hold a
    /// lock on the ids. On SQLite a COMMIT without a transaction fails by itself.
    pub(super) fn insert_known(self, insert_into: &str) -> String {
        match self {
            Self::Postgres => format!(
                "{insert_into} SELECT $1, $2::json WHERE $3 OR pg_current_xact_id_if_assigned() IS NOT NULL RETURNING id"
            ),
            Self::MySql => {
                format!("{insert_into} VALUES (/*M! IF(@@in_transaction AND @@autocommit, */ $1 /*M! , NULL) */, $2)")
            }
            Self::Sqlite => format!("{insert_into} VALUES ($1, $2)"),
        }
    }

    /// Whether that insert succeeds only in an open transaction, so that a COMMIT behind it commits or fails.
    pub(super) fn sees_open(self) -> &'static str {
        match self {
            Self::Postgres => "SELECT 1",
            Self::MySql => "SELECT CAST(/*M! 1 + */ 0 AS signed)",
            Self::Sqlite => "SELECT 0",
        }
    }

    /// True where the driver looks whether a transaction has begun, so that nobody else need.
    pub(super) fn begin_is_seen(self) -> bool {
        self == Self::Postgres
    }

    /// The distance of two consecutive ids, which a Galera cluster makes the number of its nodes.
    pub(super) fn id_step(self) -> &'static str {
        match self {
            Self::MySql => "SELECT CAST(@@auto_increment_increment AS signed)",
            Self::Postgres | Self::Sqlite => "SELECT 1",
        }
    }
}
