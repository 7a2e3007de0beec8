//! The statements of operator calls: lists, counts, verbs, the audit.
//!
//! Notices are found by id, or in a queue slice by its index. A page begins after a position, never at an offset.

use crate::dialect::kind::{Kind, Ty};
use crate::dialect::row::{DUE, ENDED, record_columns};
use crate::dialect::statement::Statement;
use crate::settle::statements::HISTORY;
use crate::statements::statements;

statements! {
    OperateStatements:
    audit,
    audit_of,
    write_audit,
    list_ended_newest,
    list_ended_oldest,
    list_dead_newest,
    list_dead_oldest,
    list_live_newest,
    list_live_oldest,
    count_ended,
    count_dead,
    count_live,
    next_class,
    lock_live,
    lock_ended,
    hold_ended,
    revive,
    cancel,
    retime,
    retime_window,
    retry_groups,
    rewrite,
    ahead,
    living_nodes,
}

impl OperateStatements {
    pub(crate) fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let audit = |which: &str, limit: &str| {
            statement(format!(
                "SELECT {}, who, act, def_id, notice_id, detail FROM notify_audit{which} ORDER BY id DESC LIMIT {limit}",
                kind.epoch("time")
            ))
        };
        // A queue slice: `$2` is its definition, `$3` its status or class, `$4` and `$5` the first and the last time.
        let ended = |class: bool| match class {
            false => SliceStatements {
                from: format!("notify_msg_history m{}", kind.by_index("notify_msg_history_finished")),
                which: "m.status = $3".to_owned(),
                time: "m.finish_time",
                shown: "m.finish_time",
                reason: "substr(m.end_reason, 1, 500)",
            },
            true => SliceStatements {
                from: format!("notify_msg_history m{}", kind.by_index("notify_msg_history_dead")),
                which: format!("{} = $3", kind.dead_class()),
                time: "m.finish_time",
                shown: "m.finish_time",
                reason: "substr(m.end_reason, 1, 500)",
            },
        };
        let live = || SliceStatements {
            from: format!("notify_msg m{}", kind.by_slice()),
            which: "m.status = $3".to_owned(),
            time: "m.next_call_time",
            shown: DUE,
            reason: "NULL",
        };
        let ids = kind.batch("$2", &[("notice_id", Ty::Int), ("fence", Ty::Int), ("was", Ty::Int)]);
        let due = |at: &str| kind.later(&kind.epoch_time(at), &now);
        let lock = |table: &str, next: &str, ended: &str| {
            statement(format!(
                "SELECT {}, {ended} FROM {table} m WHERE m.id = $2{}",
                record_columns(kind, next),
                kind.lock_wait()
            ))
        };
        Self {
            audit: audit("", "$2"),
            audit_of: audit(" WHERE notice_id = $2", "$3"),
            write_audit: statement(format!(
                "INSERT INTO notify_audit (time, who, act, def_id, notice_id, detail) VALUES ({now}, $2, $3, $4, $5, $6)"
            )),
            list_ended_newest: statement(ended(false).newest(kind)),
            list_ended_oldest: statement(ended(false).oldest(kind)),
            list_dead_newest: statement(ended(true).newest(kind)),
            list_dead_oldest: statement(ended(true).oldest(kind)),
            list_live_newest: statement(live().newest(kind)),
            list_live_oldest: statement(live().oldest(kind)),
            count_ended: statement(ended(false).count(kind)),
            count_dead: statement(ended(true).count(kind)),
            count_live: statement(live().count(kind)),
            // The class after `$3`: one index search, however many dead letters there are. One definition at a time, because
            // MySQL searches a range only between constants.
            next_class: statement(format!(
                "SELECT {class} FROM notify_msg_history m{} WHERE m.def_id = $2 AND {class} > $3 ORDER BY {class} LIMIT 1",
                kind.by_index("notify_msg_history_dead"),
                class = kind.dead_class(),
            )),
            lock_live: lock("notify_msg", DUE, "NULL, NULL"),
            lock_ended: lock("notify_msg_history", ENDED, &format!("{}, m.end_reason", kind.epoch("m.finish_time"))),
            // The notices of a window that are unchanged. Locked ones are skipped, because another session purges or revives
            // them. So is an ended notice whose id a live notice has as well (a restored sequence).
            hold_ended: statement(format!(
                "SELECT m.id, CASE WHEN m.fence = 0 OR m.dedupe_until_ended THEN m.dedupe_key END {}",
                kind.batch_rows(
                    &ids,
                    "notify_msg_history",
                    "m.fence = b.fence AND m.status + 0 = b.was
                     AND NOT EXISTS (SELECT 1 FROM notify_msg o WHERE o.id = m.id)",
                    kind.lock(),
                )
            )),
            // Keeps the fence. A notice that was never claimed becomes "not sent".
            revive: statement(format!(
                "INSERT INTO notify_msg ({LIVE})
                 SELECT m.id, m.def_id, m.param, m.description, m.errors, CASE WHEN m.fence > 0 THEN 2 ELSE 0 END,
                        m.fence, 0, 0, m.worker, m.last_class, m.last_call_time, {}, m.create_time, m.dedupe_key,
                        m.dedupe_until_ended, m.ordering_key, m.trace_context {}",
                due("b.due"),
                kind.batch_rows(
                    &kind.batch("$2", &[("notice_id", Ty::Int), ("due", Ty::Int)]),
                    "notify_msg_history",
                    "true",
                    ""
                )
            )),
            cancel: statement(format!(
                "INSERT INTO notify_msg_history ({HISTORY})
                 SELECT m.id, m.def_id, m.param, m.description, m.errors, 6, m.fence, m.failures, m.crashes, m.worker,
                        m.last_class, m.last_call_time, NULL, m.create_time, m.dedupe_key, m.dedupe_until_ended,
                        m.ordering_key, m.trace_context, {now}, $3 {}",
                kind.listed_rows("$2", "notify_msg", "true", "")
            )),
            retime: statement(format!(
                "UPDATE notify_msg SET next_call_time = {}, blocked_since = NULL WHERE id = $2",
                due("$3")
            )),
            retime_window: statement(kind.batch_update(
                &kind.batch("$2", &[("notice_id", Ty::Int), ("due", Ty::Int)]),
                "notify_msg",
                &format!("next_call_time = {}, blocked_since = NULL", due("b.due")),
                "",
            )),
            // How long each notice waits after the start of its last attempt, in whole seconds, so that there are few groups.
            retry_groups: statement(format!(
                "SELECT failures, crashes, last_class, wait, due, count(*) FROM (
                     SELECT m.failures, m.crashes, m.last_class, {} AS wait,
                            CASE WHEN m.next_call_time <= {now} THEN 1 ELSE 0 END AS due
                     FROM notify_msg m{} WHERE m.def_id = $2 AND m.status = 2 LIMIT $3) AS waiting
                 GROUP BY failures, crashes, last_class, wait, due",
                kind.seconds_between("m.last_call_time", "m.next_call_time"),
                kind.by_slice()
            )),
            rewrite: statement(format!("UPDATE notify_msg SET param = {} WHERE id = $2", kind.to_json("$3"))),
            ahead: statement(kind.ahead()),
            living_nodes: statement(format!(
                "SELECT id, handlers, {} FROM notify_node WHERE {} ORDER BY id",
                kind.epoch("last_seen"),
                kind.was_seen("$2")
            )),
        }
    }
}

/// The columns of a live notice.
const LIVE: &str = "id, def_id, param, description, errors, status, fence, failures, crashes, worker, last_class, \
     last_call_time, next_call_time, create_time, dedupe_key, dedupe_until_ended, ordering_key, trace_context";

/// A queue slice: the notices of a definition and status, or class, in the order of an index.
struct SliceStatements {
    from: String,
    which: String,
    time: &'static str,
    /// The displayed time.
    shown: &'static str,
    reason: &'static str,
}

impl SliceStatements {
    /// At most `$7` notices before the position `$5`, `$6`, newest first.
    fn newest(&self, kind: Kind) -> String {
        self.list(kind, &format!("{} < {} OR m.id < $6", self.time, kind.text_time("$5")), " DESC")
    }

    /// At most `$7` notices after the position `$4`, `$6`, oldest first.
    fn oldest(&self, kind: Kind) -> String {
        self.list(kind, &format!("{} > {} OR m.id > $6", self.time, kind.text_time("$4")), "")
    }

    fn list(&self, kind: Kind, behind: &str, order: &str) -> String {
        let time = self.time;
        let rows = format!("FROM {} WHERE {} AND ({behind})", self.from, self.within(kind));
        format!(
            "SELECT m.id, m.def_id, m.status, m.fence, m.failures, m.crashes, m.last_class,
                    substr(m.description, 1, 200), {}, {}, {}, {}, m.ordering_key, m.dedupe_key, {}
             {} ORDER BY {time}{order}, m.id{order} LIMIT $7",
            kind.epoch("m.create_time"),
            kind.epoch(self.shown),
            kind.time_text(time),
            self.reason,
            kind.epoch("m.last_call_time"),
            kind.first_by(&rows, &format!("{time}{order}"), "$7"),
        )
    }

    /// The number of notices, at most `$6`.
    fn count(&self, kind: Kind) -> String {
        format!(
            "SELECT count(*) FROM (SELECT 1 AS one FROM {} WHERE {} LIMIT $6) AS counted",
            self.from,
            self.within(kind)
        )
    }

    fn within(&self, kind: Kind) -> String {
        format!(
            "m.def_id = $2 AND {} AND {time} >= {} AND {time} <= {}",
            self.which,
            kind.text_time("$4"),
            kind.text_time("$5"),
            time = self.time
        )
    }
}
