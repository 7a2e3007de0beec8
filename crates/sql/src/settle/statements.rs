//! The statements that settle, one for each step: lock (`lock`), insert the notices of targets ([`super::pass_on`]), copy to history
//! (`archive`), delete (`remove`), set the next time (`reschedule`).
//!
//! On every database the batch is read first, and its notices by their ids: PostgreSQL does not flatten a subquery that has a lock or
//! OFFSET, and MySQL must neither choose another order nor scan a small table, where it would wait for rows of other sessions.

use crate::dialect::kind::Kind::{self, MySql, Postgres, Sqlite};
use crate::dialect::kind::Ty;
use crate::dialect::statement::{Statement, statements};
use crate::fence::{self, OfClaim};
use crate::settle::row::Judged;

statements! {
    SettleStatements:
    lock,
    evict,
    dead_with_ids,
    last_id,
    renumber,
    archive,
    remove,
    reschedule,
    verify,
    has_ended,
}

/// The new state of a settled notice. The names differ from the table's, so that assignments need no alias.
const SETTLED: &[(&str, Ty)] = &[
    ("notice_id", Ty::Int),
    ("new_status", Ty::Int),
    ("after_ms", Ty::Int),
    ("new_failures", Ty::Int),
    ("new_crashes", Ty::Int),
    ("new_errors", Ty::Text),
    ("new_class", Ty::Text),
    ("new_description", Ty::Text),
    ("new_response", Ty::Text),
    ("new_group", Ty::Int),
    ("reason", Ty::Text),
];

/// The columns of history, in the order in which a copy selects them.
pub(crate) const HISTORY: &str = "id, def_id, param, description, errors, status, fence, failures, crashes, worker, last_class, \
     last_call_time, next_call_time, create_time, dedupe_key, dedupe_until_ended, ordering_key, trace_context, tag, max_tries, \
     expires_at, response, parent_id, finish_time, end_reason";

impl SettleStatements {
    fn new(kind: Kind) -> Self {
        let statement = |text: String| Statement::new(kind, &text);
        let (now, never, lock) = (kind.now(), kind.never(), kind.lock());
        let still_settles = still_settles(kind);
        let (new_errors, new_response) = (kind.to_json("b.new_errors"), kind.to_json("b.new_response"));
        let claims =
            kind.batch("$2", &[("notice_id", Ty::Int), ("fence", Ty::Int), ("was", Ty::Int), ("overdue", Ty::Int)]);
        let settled = kind.batch("$2", SETTLED);
        // What a settle changes where the notice stays live.
        let changes = format!(
            "status = b.new_status, failures = b.new_failures, crashes = b.new_crashes, errors = {new_errors},
             last_class = b.new_class, description = b.new_description,
             response = coalesce({new_response}, m.response),
             next_call_time = CASE WHEN b.after_ms IS NULL THEN {never} ELSE {next} END",
            next = kind.plus(&now, "b.after_ms")
        );
        // Locked by `lock` before.
        let notices = kind.notices_of_batch();
        Self {
            // The rows `b` of the batch and their notices `m`, as far as their fence holds and no other session locks them.
            lock: statement(match kind {
                Postgres => format!(
                    "SELECT {columns}
                     FROM {claims}
                     CROSS JOIN LATERAL (
                         SELECT m.*
                         FROM notify_msg m
                         WHERE m.id = b.notice_id AND {still_settles}{lock}
                     ) AS m",
                    columns = OfClaim::list("m.id", "m.fence", "b.was")
                ),
                MySql | Sqlite => format!(
                    "SELECT {columns}
                     FROM {claims}
                     {notices}
                     WHERE {still_settles}{lock}",
                    columns = OfClaim::list("m.id", "m.fence", "b.was")
                ),
            }),
            // A look first: a DELETE that finds nothing would lock the gap on MySQL, until the transaction of the application ends.
            has_ended: statement("SELECT 1 FROM notify_msg_history WHERE id = $2".into()),
            // Ids that were given twice (a restored sequence, a TRUNCATE on MySQL): the live notice keeps its id.
            evict: statement(deleted(kind, "notify_msg_history")),
            dead_with_ids: statement(format!(
                "SELECT m.id, m.def_id FROM notify_msg_history AS m{} WHERE {} AND m.status + 0 = 3",
                kind.by_index("PRIMARY"),
                kind.listed("m.id", "$2")
            )),
            last_id: statement(
                "SELECT coalesce(max(id), 0) FROM notify_msg_history UNION ALL SELECT coalesce(max(id), 0) FROM notify_msg"
                    .into(),
            ),
            renumber: statement("UPDATE notify_msg_history SET id = $3 WHERE id = $2".into()),
            archive: statement(format!(
                "INSERT INTO notify_msg_history ({HISTORY}, error_group)
                 SELECT m.id, m.def_id, m.param, b.new_description, {new_errors}, b.new_status, m.fence,
                        b.new_failures, b.new_crashes, m.worker, b.new_class, m.last_call_time, NULL,
                        m.create_time, m.dedupe_key, m.dedupe_until_ended, m.ordering_key, m.trace_context, m.tag,
                        m.max_tries, m.expires_at, coalesce({new_response}, m.response), m.parent_id, {now}, b.reason, b.new_group
                 FROM {settled}
                 {notices}"
            )),
            remove: statement(deleted(kind, "notify_msg")),
            reschedule: statement(match kind {
                Postgres => format!(
                    "UPDATE notify_msg AS m
                     SET {changes}
                     FROM {settled}
                     WHERE m.id = b.notice_id AND m.id = ANY (ARRAY(SELECT b.notice_id FROM {settled}))"
                ),
                MySql => format!(
                    "UPDATE {settled}
                     {notices}
                     SET {changes}"
                ),
                Sqlite => format!(
                    "UPDATE notify_msg AS m
                     SET {changes}
                     FROM {settled}
                     WHERE m.id = b.notice_id AND m.id IN (SELECT b.notice_id FROM {settled})"
                ),
            }),
            verify: statement(format!(
                "SELECT {columns}
                 FROM notify_msg AS m{by_id}
                 WHERE {listed}
                 UNION ALL
                 SELECT {ended}
                 FROM notify_msg_history AS m{by_id}
                 WHERE {listed}",
                columns = Judged::list("NULL"),
                ended = Judged::list("m.end_reason"),
                by_id = kind.by_index("PRIMARY"),
                listed = kind.listed("m.id", "$2")
            )),
        }
    }
}

impl Kind {
    /// Joins the notices `t` that have the dedupe keys which the targets `b.target` of the notices `m` would get. On MySQL, whose transaction
    /// reads rows as they were at its begin, it also locks them, and fails where another transaction holds one.
    pub(crate) fn holders_of_keys(self) -> String {
        let has_key = format!("t.def_id = b.target AND t.dedupe_key = m.dedupe_key AND {}", self.keeps_its_key("t."));
        match self {
            Postgres => format!("CROSS JOIN LATERAL (SELECT t.* FROM notify_msg t WHERE {has_key} OFFSET 0) AS t"),
            MySql => "STRAIGHT_JOIN notify_msg t FORCE INDEX (notify_msg_dedupe) ON t.def_id = b.target AND t.unique_key = m.dedupe_key
                      /*M! LOCK IN SHARE MODE NOWAIT */ /*!80000 FOR SHARE OF t NOWAIT */"
                .into(),
            Sqlite => format!("CROSS JOIN notify_msg t ON {has_key}"),
        }
    }

    /// True where an insert waits so long for a dedupe key of another transaction that the key has to be asked for before.
    pub(crate) fn asks_for_keys(self) -> bool {
        self == MySql
    }

    /// Joins the notices `m` of a batch `b`, the batch first.
    pub(crate) fn notices_of_batch(self) -> &'static str {
        match self {
            Postgres => "CROSS JOIN LATERAL (SELECT m.* FROM notify_msg m WHERE m.id = b.notice_id OFFSET 0) AS m",
            MySql => "STRAIGHT_JOIN notify_msg m FORCE INDEX (PRIMARY) ON m.id = b.notice_id",
            Sqlite => "CROSS JOIN notify_msg m ON m.id = b.notice_id",
        }
    }
}

/// Deletes the rows whose ids are listed. On MySQL it is a join: MariaDB ignores an index hint in a DELETE from one table, scans the
/// whole of a small table, and waits there for rows of other sessions.
fn deleted(kind: Kind, table: &str) -> String {
    match kind {
        Postgres => format!("DELETE FROM {table} AS m WHERE m.id = ANY ($2::text::bigint[])"),
        MySql => format!(
            "DELETE m
             FROM JSON_TABLE('[$2]', '$[*]' COLUMNS (notice_id bigint PATH '$')) AS b
             STRAIGHT_JOIN {table} m FORCE INDEX (PRIMARY) ON m.id = b.notice_id"
        ),
        Sqlite => format!("DELETE FROM {table} AS m WHERE m.id IN (SELECT value FROM json_each($2))"),
    }
}

/// The condition that an outcome `b` is still the one for its notice `m`: the fence holds, and an overdue notice is still overdue.
pub(crate) fn still_settles(kind: Kind) -> String {
    let (fence, now) = (fence::holds("b.was"), kind.now());
    format!("{fence} AND (b.overdue = 0 OR m.next_call_time <= {now})")
}
