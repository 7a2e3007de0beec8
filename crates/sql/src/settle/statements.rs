//! The parts of the statements that settle, and those that settle in one statement. All others are in [`crate::statements`].

use crate::dialect::kind::{Kind, Ty};

/// The new state of a settled notice. The names differ from the table's, so that assignments need no alias.
pub(crate) const SETTLED: &[(&str, Ty)] = &[
    ("notice_id", Ty::Int),
    ("new_status", Ty::Int),
    ("after_ms", Ty::Int),
    ("new_failures", Ty::Int),
    ("new_crashes", Ty::Int),
    ("new_errors", Ty::Text),
    ("new_class", Ty::Text),
    ("new_description", Ty::Text),
    ("reason", Ty::Text),
];

pub(crate) const HISTORY: &str = "id, def_id, param, description, errors, status, fence, failures, crashes, worker, last_class, \
     last_call_time, next_call_time, create_time, dedupe_key, dedupe_until_ended, ordering_key, trace_context, \
     finish_time, end_reason";

/// Copies notices to history. `of` maps a batch column to an expression.
pub(crate) fn archived(kind: Kind, of: &dyn Fn(&str) -> String) -> String {
    format!(
        "INSERT INTO notify_msg_history ({HISTORY})
         SELECT m.id, m.def_id, m.param, {}, {}, {}, m.fence, {}, {}, m.worker, {}, m.last_call_time, NULL, m.create_time,
                m.dedupe_key, m.dedupe_until_ended, m.ordering_key, m.trace_context, {}, {}",
        of("new_description"),
        kind.to_json(&of("new_errors")),
        of("new_status"),
        of("new_failures"),
        of("new_crashes"),
        of("new_class"),
        kind.now(),
        of("reason"),
    )
}

pub(crate) fn rescheduled(kind: Kind) -> String {
    format!(
        "status = b.new_status, failures = b.new_failures, crashes = b.new_crashes, errors = {},
         last_class = b.new_class, description = b.new_description,
         next_call_time = CASE WHEN b.after_ms IS NULL THEN {} ELSE {} END",
        kind.to_json("b.new_errors"),
        kind.never(),
        kind.plus(&kind.now(), "b.after_ms")
    )
}

/// The fence: nothing is written where the fence or the status has changed, or where an overdue notice is no longer overdue.
pub(crate) fn fence(kind: Kind) -> String {
    let now = kind.now();
    format!("m.fence = b.fence AND m.status + 0 = b.was AND (b.overdue = 0 OR m.next_call_time <= {now})")
}

/// All steps of a settle in one statement. Only Postgres can change several tables in one: `held` locks and reads the notices,
/// and the other parts change only those. `held` has all columns of notice and batch, because Postgres knows no sizes of
/// the two results and would join them by comparing row with row.
pub(crate) fn settle_at_once(kind: Kind) -> Option<String> {
    if !kind.settles_at_once() {
        return None;
    }
    let fences = [("fence", Ty::Int), ("was", Ty::Int), ("overdue", Ty::Int), ("ends", Ty::Int), ("keep", Ty::Int)];
    let batch = kind.batch("$2", &[SETTLED, &fences[..]].concat());
    let columns = SETTLED.iter().map(|(name, _)| format!(", b.{name}")).collect::<String>();
    Some(format!(
        "WITH held AS MATERIALIZED (SELECT m.*, b.was, b.ends, b.keep{columns} {}),
         gone AS (DELETE FROM notify_msg AS m WHERE {}),
         kept AS ({} FROM held m WHERE m.ends = 1 AND m.keep = 1),
         moved AS (UPDATE notify_msg AS m SET {} FROM held b WHERE m.id = b.notice_id AND b.ends = 0 AND {})
         SELECT notice_id, fence, was FROM held",
        kind.batch_rows(&batch, "notify_msg", &fence(kind), kind.lock()),
        kind.id_in("m.id", "SELECT notice_id FROM held WHERE ends = 1"),
        archived(kind, &|column| format!("m.{column}")),
        rescheduled(kind),
        kind.id_in("m.id", "SELECT notice_id FROM held WHERE ends = 0")
    ))
}

/// The new state of a success that needs no record beyond its row, for [`archived`].
pub(crate) fn bare(column: &str) -> String {
    let value = match column {
        "new_status" => "1",
        "new_failures" | "new_crashes" => "0",
        _ => "NULL",
    };
    value.to_owned()
}

/// Ends successes that change no other column ([`solid_notify_core::store::Shape::Bare`]), given as two arrays of Postgres: ids in `$2`,
/// attempts in `$3`. Returns those that it did not find. Locking the rows first and reading JSON would double its duration.
///
/// It waits for rows that another session locks, but only for a moment. Then it fails and has changed nothing.
pub(crate) fn settle_bare(kind: Kind, keep: bool) -> Option<String> {
    let wait_briefly = kind.wait_briefly()?;
    let listed = kind.listed("m.id", "$2");
    let keys = "unnest($2::text::bigint[], $3::text::bigint[])";
    let (columns, kept) = match keep {
        true => ("m.*", format!(", kept AS ({} FROM gone m)", archived(kind, &bare))),
        false => ("m.id, m.fence", String::new()),
    };
    // Without `IS TRUE` it becomes a join that may compare each row with each key, because Postgres does not know their number.
    Some(format!(
        "WITH gone AS (
             DELETE FROM notify_msg AS m WHERE {listed} AND m.status + 0 = 5
                 AND ((m.id, m.fence) IN (SELECT * FROM {keys})) IS TRUE
                 AND {wait_briefly}
             RETURNING {columns}){kept}
         SELECT b.notice_id, b.fence FROM {keys} AS b(notice_id, fence)
         WHERE (SELECT count(*) FROM gone) < cardinality($2::text::bigint[])
             AND NOT EXISTS (SELECT 1 FROM gone WHERE gone.id = b.notice_id AND gone.fence = b.fence)"
    ))
}

impl Kind {
    /// True where one statement can change several tables, so that a settle is one round trip.
    fn settles_at_once(self) -> bool {
        self == Self::Postgres
    }
}
