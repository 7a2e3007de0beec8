//! The parts of the statements that settle, and those that do it at once. All others are in [`super::statements`].

use super::fragment::{Kind, Ty};

/// What a settled notice is to become. The names differ from the table's, so that assignments can name those bare.
pub(super) const SETTLED: &[(&str, Ty)] = &[
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

pub(super) const HISTORY: &str = "id, def_id, param, description, errors, status, attempt, failures, crashes, worker, last_class, \
     last_call_time, next_call_time, create_time, dedupe_key, ordering_key, trace_context, finish_time, end_reason";

/// `b`: what has the columns of the batch.
pub(super) fn archived(kind: Kind, b: &str) -> String {
    format!(
        "INSERT INTO notify_msg_history ({HISTORY})
         SELECT m.id, m.def_id, m.param, {b}.new_description, {}, {b}.new_status, m.attempt, {b}.new_failures,
                {b}.new_crashes, m.worker, {b}.new_class, m.last_call_time, NULL, m.create_time, m.dedupe_key,
                m.ordering_key, m.trace_context, {}, {b}.reason",
        kind.to_json(&format!("{b}.new_errors")),
        kind.now()
    )
}

pub(super) fn rescheduled(kind: Kind) -> String {
    format!(
        "status = b.new_status, failures = b.new_failures, crashes = b.new_crashes, errors = {},
         last_class = b.new_class, description = b.new_description,
         next_call_time = CASE WHEN b.after_ms IS NULL THEN {} ELSE {} END",
        kind.to_json("b.new_errors"),
        kind.endless(),
        kind.plus(&kind.now(), "b.after_ms")
    )
}

/// The fence: who does not find its attempt, in the status it left it in, changes nothing.
pub(super) fn fence(kind: Kind) -> String {
    let now = kind.now();
    format!("m.attempt = b.attempt AND m.status + 0 = b.was AND (b.overdue = 0 OR m.next_call_time <= {now})")
}

/// All steps of a settle in one round trip. Only Postgres has statements that change several tables: what is held is locked
/// and read first, and the others change just that. `held` has all the columns of both, since two results joined would be
/// compared row by row: nothing is known of their sizes.
pub(super) fn settle_at_once(kind: Kind) -> String {
    let fences = [("attempt", Ty::Int), ("was", Ty::Int), ("overdue", Ty::Int), ("ends", Ty::Int), ("keep", Ty::Int)];
    let batch = kind.batch("$2", &[SETTLED, &fences[..]].concat());
    let columns = SETTLED.iter().map(|(name, _)| format!(", b.{name}")).collect::<String>();
    held(
        kind,
        &format!("m.*, b.was, b.ends, b.keep{columns}"),
        &batch,
        &format!(
            "gone AS (DELETE FROM notify_msg AS m WHERE {}),
             kept AS ({} FROM held m WHERE m.ends = 1 AND m.keep = 1),
             moved AS (UPDATE notify_msg AS m SET {} FROM held b WHERE m.id = b.notice_id AND b.ends = 0 AND {})",
            kind.id_in("m.id", "SELECT notice_id FROM held WHERE ends = 1"),
            archived(kind, "m"),
            rescheduled(kind),
            kind.id_in("m.id", "SELECT notice_id FROM held WHERE ends = 0")
        ),
    )
}

/// The same of notices of which nothing is kept: their outcomes need not be carried.
pub(super) fn settle_gone(kind: Kind, keys: &str) -> String {
    let gone = kind.id_in("m.id", "SELECT notice_id FROM held");
    held(
        kind,
        "m.id AS notice_id, m.attempt, b.was",
        keys,
        &format!("gone AS (DELETE FROM notify_msg AS m WHERE {gone})"),
    )
}

fn held(kind: Kind, columns: &str, batch: &str, steps: &str) -> String {
    if !kind.settles_at_once() {
        return String::new();
    }
    let rows = kind.batch_rows(batch, "notify_msg", &fence(kind), kind.lock());
    format!("WITH held AS MATERIALIZED (SELECT {columns} {rows}), {steps} SELECT notice_id, attempt, was FROM held")
}
