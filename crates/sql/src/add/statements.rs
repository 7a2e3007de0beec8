//! The statements that add notices, and those that find the definition or a duplicate of a new notice.

use crate::dialect::kind::Kind::{MySql, Postgres, Sqlite};
use crate::dialect::kind::{Kind, Ty};
use crate::dialect::row::columns;
use crate::dialect::statement::{Statement, statements};

statements! {
    AddStatements:
    definition_names,
    definition_ids,
    insert,
    duplicates,
    lock_duplicates,
    keep_skipped_key,
    [
        definition_id,
        definition_id_now,
        insert_keyed,
        insert_many,
        insert_many_keyed,
        id_step,
    ]
}

columns! {
    /// A definition that was looked up by its name, and whether the transaction is open.
    pub(crate) Looked(tables: &str):
    id = "id";
    // MariaDB reports whether the server still has an open transaction, which the driver does not know after a raw ROLLBACK; MySQL
    // ignores the executable comment. The cast: coalesce makes a decimal of the variable, which is unsigned.
    is_open = "CAST(coalesce(/*M! @@in_transaction, */ 1) AS signed)";
    tables = tables;
    encrypts = "CASE WHEN encrypt_param THEN 1 ELSE 0 END";
}

columns! {
    /// One of several definitions that were looked up by their names.
    pub(crate) Named(tables: &str):
    id = "d.id";
    name = "d.name";
    tables = tables;
    encrypts = "CASE WHEN d.encrypt_param THEN 1 ELSE 0 END";
}

columns! {
    /// What an insert returns.
    pub(crate) Returned():
    id = "id";
    def_id = "def_id";
    dedupe_key = "dedupe_key";
}

columns! {
    /// A notice that has a dedupe key. (The fence is in no index, see [`Kind::lock_shared`].)
    pub(crate) Duplicate():
    id = "m.id";
    def_id = "m.def_id";
    dedupe_key = "m.dedupe_key";
    _fence = "m.fence";
}

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
    ("tag", Ty::Key),
    ("max_tries", Ty::Int),
    ("expires_at", Ty::Int),
    ("send_at", Ty::Int),
    ("delay", Ty::Int),
];

impl AddStatements {
    fn new(kind: Kind) -> Self {
        let statement = |text: String| Statement::new(kind, &text);
        let (now, tables, apart) = (kind.now(), kind.tables_at_hand(), !kind.insert_reads_freely());
        let (looked, named, returned) = (Looked::list(tables), Named::list(tables), Returned::list());
        // Where an insert may not read the definition, this statement does.
        let definition_id = |lock: &str| {
            apart.then(|| {
                statement(format!(
                    "SELECT {looked}
                     FROM notify_def
                     WHERE name = $2 AND delete_time IS NULL{lock}"
                ))
            })
        };
        // Never due before its insert, so that a look need not search before its mark.
        let send_time = |at: &str, delay: &str| {
            kind.later(&format!("coalesce({}, {})", kind.epoch_time(at), kind.plus(&now, delay)), &now)
        };
        let unless_duplicate = kind.unless_duplicate();
        // `$2` is the definition: its name, or on MySQL its id, which was read in the database `$15`. `$14` is the definition for which the
        // parameter is encrypted: where a definition stores only encrypted ones, no other is inserted.
        let insert = |unless: &str| {
            let (param, send_time) = (kind.to_json("$3"), send_time("$12", "$13"));
            let expires_at = kind.epoch_time("$11");
            statement(match kind {
                // The insert itself checks that the definition exists.
                Postgres | Sqlite => format!(
                    "INSERT INTO notify_msg (
                         def_id, param, description, trace_context, ordering_key, dedupe_key, dedupe_until_ended, tag,
                         max_tries, expires_at, create_time, next_call_time
                     )
                     SELECT d.id, {param}, $4, $5, $6, $7, ($8 = 1), $9, $10, {expires_at}, {now}, {send_time}
                     FROM notify_def d
                     WHERE d.name = $2 AND d.delete_time IS NULL AND (NOT d.encrypt_param OR d.id = $14){unless}
                     RETURNING {returned}"
                ),
                // InnoDB locks what an `INSERT … SELECT` reads, and such an insert stores 0 instead of a null that the column
                // refuses, unless the session is strict. A null fails the insert where the database is another one: MySQL runs a
                // prepared statement in the database in which it was prepared, even after a `USE`.
                MySql => format!(
                    "INSERT INTO notify_msg (
                         def_id, param, description, trace_context, ordering_key, dedupe_key, dedupe_until_ended, tag,
                         max_tries, expires_at, create_time, next_call_time
                     )
                     VALUES (IF(database() = $15, $2, NULL), {param}, $4, $5, $6, $7, ($8 = 1), $9, $10, {expires_at}, {now},
                             {send_time})"
                ),
            })
        };
        // Ids are given in the order of the batch. (`WHERE true`: otherwise SQLite reads ON as a join's.) MySQL would not return
        // the ids: see `lists.rs`.
        let insert_many = |unless: &str| {
            let (param, send_time) = (kind.to_json("b.param"), send_time("b.send_at", "b.delay"));
            let expires_at = kind.epoch_time("b.expires_at");
            let batch = kind.batch("$2", NEW);
            kind.update_returns().then(|| {
                statement(format!(
                    "INSERT INTO notify_msg (
                         def_id, param, description, trace_context, ordering_key, dedupe_key, dedupe_until_ended, tag,
                         max_tries, expires_at, create_time, next_call_time
                     )
                     SELECT b.owner, {param}, b.description, b.trace_context, b.ordering_key, b.dedupe_key,
                            (b.until_ended = 1), b.tag, b.max_tries, {expires_at}, {now}, {send_time}
                     FROM {batch}
                     WHERE true
                     ORDER BY b.place{unless}
                     RETURNING {returned}"
                ))
            })
        };
        let duplicates = |lock: &str| {
            statement(format!(
                "SELECT {duplicate}
                 FROM {keys} {join} notify_msg m ON m.def_id = b.owner AND {has_key}{lock}",
                duplicate = Duplicate::list(),
                keys = kind.batch("$2", &[("owner", Ty::Int), ("own_key", Ty::Key)]),
                join = kind.join_in_order(),
                has_key = kind.has_key("b.own_key")
            ))
        };
        Self {
            definition_id: definition_id(""),
            // The caller's snapshot may be older than the definition; a locking read sees committed rows.
            definition_id_now: definition_id(" LOCK IN SHARE MODE"),
            definition_names: statement(
                "SELECT name FROM notify_def WHERE delete_time IS NULL ORDER BY name LIMIT 1000".into(),
            ),
            definition_ids: statement(format!(
                "SELECT {named}
                 FROM notify_def d
                 JOIN {} ON d.name = b.own_key
                 WHERE d.delete_time IS NULL",
                kind.batch("$2", &[("own_key", Ty::Key)])
            )),
            insert: insert(""),
            // Apart from `insert`, because a statement with a conflict clause inserts more slowly. Where there is no such clause, a
            // duplicate is looked for first.
            insert_keyed: kind.insert_reads_freely().then(|| insert(&unless_duplicate)),
            insert_many: insert_many(""),
            insert_many_keyed: insert_many(&unless_duplicate),
            duplicates: duplicates(""),
            lock_duplicates: duplicates(kind.lock_shared()),
            // An operator's retry of a skipped notice takes the key.
            keep_skipped_key: statement(
                "UPDATE notify_msg_history SET dedupe_key = $3, dedupe_until_ended = ($4 = 1) WHERE id = $2".into(),
            ),
            id_step: kind.id_step().map(|text| statement(text.into())),
        }
    }
}

impl Kind {
    /// True while the notice `of` (an alias with its dot) keeps its dedupe key: until its first claim, or until it has ended. The
    /// fence is never reset, so a key that was freed by a claim does not come back with a retry, where another notice could
    /// have it by then.
    pub(crate) fn keeps_its_key(self, of: &str) -> String {
        format!("({of}fence = 0 OR {of}dedupe_until_ended)")
    }

    /// Inserts rows of `notify_msg`, except those whose dedupe key a live notice of their definition has.
    pub(crate) fn insert_unless_duplicate(self, into: &str) -> String {
        match self {
            Self::Postgres | Self::Sqlite => format!("INSERT {into}{}", self.unless_duplicate()),
            // No error but that of a duplicate is possible: the values are those of a stored row.
            Self::MySql => format!("INSERT IGNORE {into}"),
        }
    }

    /// The clause of an insert that leaves out duplicates of a dedupe key, and nothing else.
    fn unless_duplicate(self) -> String {
        let keeps_its_key = self.keeps_its_key("");
        format!(" ON CONFLICT (def_id, dedupe_key) WHERE dedupe_key IS NOT NULL AND {keeps_its_key} DO NOTHING")
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

    /// A value that identifies the tables that the session sees.
    pub(crate) fn tables_at_hand(self) -> &'static str {
        match self {
            // A constant of the plan; Postgres plans again after a change of the search path.
            Self::Postgres => "'notify_msg'::regclass::oid::text",
            Self::MySql => "database()",
            Self::Sqlite => "''",
        }
    }

    /// 1 where an insert by a known id (`shortcuts/insert_known.rs`) succeeds only in an open transaction, so that a COMMIT after it commits or
    /// fails.
    pub(crate) fn insert_sees_open(self) -> &'static str {
        match self {
            Self::Postgres => "1",
            Self::MySql => "CAST(/*M! 1 + */ 0 AS signed)",
            Self::Sqlite => "0",
        }
    }

    /// True where a transaction of the outbox may have a snapshot. On SQLite it has the lock of the file, so nothing is newer.
    pub(crate) fn has_snapshots(self) -> bool {
        self != Self::Sqlite
    }

    /// Selects 1 in a transaction that does not see what is committed after its begin.
    pub(crate) fn isolation(self) -> Option<&'static str> {
        (self == Self::Postgres).then_some(
            "SELECT CASE WHEN current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN 1 ELSE 0 END::bigint",
        )
    }

    /// True where the driver checks that a transaction has begun.
    pub(crate) fn begin_is_seen(self) -> bool {
        self == Self::Postgres
    }

    /// The distance between consecutive ids, where an insert returns only the first one. On a Galera cluster it is the number of
    /// nodes.
    pub(crate) fn id_step(self) -> Option<&'static str> {
        (self == Self::MySql).then_some("SELECT CAST(@@auto_increment_increment AS signed)")
    }
}
