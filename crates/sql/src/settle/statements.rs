//! The statements that settle, one for each step: lock (`hold`), copy to history (`archive`), delete (`remove`), set the next time
//! (`reschedule`).

use crate::dialect::kind::{Kind, Ty};
use crate::dialect::statement::{Statement, statements};
use crate::fence;
use crate::settle::row::Judged;

statements! {
    SettleStatements:
    hold,
    evict,
    archive,
    remove,
    reschedule,
    verify,
}

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
    ("new_response", Ty::Text),
    ("new_group", Ty::Int),
    ("reason", Ty::Text),
];

pub(crate) const HISTORY: &str = "id, def_id, param, description, errors, status, fence, failures, crashes, worker, last_class, \
     last_call_time, next_call_time, create_time, dedupe_key, dedupe_until_ended, ordering_key, trace_context, max_tries, \
     expires_at, response, finish_time, end_reason";

impl SettleStatements {
    fn new(kind: Kind) -> Self {
        let statement = |text: String| Statement::new(kind, &text);
        let settled = kind.batch("$2", SETTLED);
        let keys =
            kind.batch("$2", &[("notice_id", Ty::Int), ("fence", Ty::Int), ("was", Ty::Int), ("overdue", Ty::Int)]);
        Self {
            // The rows `b` of the batch and their notices `m`, as far as their fence holds and no other session locks them.
            hold: statement(format!(
                "SELECT m.id, m.fence, b.was
                 {held}",
                held = kind.batch_rows(&keys, "notify_msg", &still_settles(kind), kind.lock())
            )),
            // Ids that were given twice (a restored sequence, a TRUNCATE on MySQL): the live notice keeps its id.
            evict: statement(kind.listed_delete("$2", "notify_msg_history")),
            archive: statement(format!(
                "{copied}
                 {settled}",
                copied = archived(kind, "b"),
                settled = kind.batch_rows(&settled, "notify_msg", "true", "")
            )),
            remove: statement(kind.listed_delete("$2", "notify_msg")),
            reschedule: statement(kind.batch_update(&settled, "notify_msg", &rescheduled(kind), "")),
            verify: statement(format!(
                "SELECT {columns} {live}
                 UNION ALL
                 SELECT {columns} {ended}",
                columns = Judged::list(),
                live = kind.listed_rows("$2", "notify_msg", "true", ""),
                ended = kind.listed_rows("$2", "notify_msg_history", "true", "")
            )),
        }
    }
}

/// Copies notices `m` to history. `of` has their new state.
pub(crate) fn archived(kind: Kind, of: &str) -> String {
    let now = kind.now();
    let new_errors = kind.to_json(&format!("{of}.new_errors"));
    let new_response = kind.to_json(&format!("{of}.new_response"));
    format!(
        "INSERT INTO notify_msg_history ({HISTORY}, error_group)
                 SELECT m.id, m.def_id, m.param, {of}.new_description, {new_errors}, {of}.new_status, m.fence,
                        {of}.new_failures, {of}.new_crashes, m.worker, {of}.new_class, m.last_call_time, NULL,
                        m.create_time, m.dedupe_key, m.dedupe_until_ended, m.ordering_key, m.trace_context,
                        m.max_tries, m.expires_at, coalesce({new_response}, m.response), {now}, {of}.reason, {of}.new_group"
    )
}

/// What a settle changes where the notice stays live. `b` has its new state.
pub(crate) fn rescheduled(kind: Kind) -> String {
    let (never, next) = (kind.never(), kind.plus(&kind.now(), "b.after_ms"));
    let (new_errors, new_response) = (kind.to_json("b.new_errors"), kind.to_json("b.new_response"));
    format!(
        "status = b.new_status, failures = b.new_failures, crashes = b.new_crashes, errors = {new_errors},
                 last_class = b.new_class, description = b.new_description,
                 response = coalesce({new_response}, m.response),
                 next_call_time = CASE WHEN b.after_ms IS NULL THEN {never} ELSE {next} END"
    )
}

/// The condition that an outcome `b` is still the one for its notice `m`: the fence holds, and an overdue notice is still overdue.
pub(crate) fn still_settles(kind: Kind) -> String {
    let (fence, now) = (fence::holds("b.was"), kind.now());
    format!("{fence} AND (b.overdue = 0 OR m.next_call_time <= {now})")
}
